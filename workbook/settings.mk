# settings.mk - what the Makefile knows before it builds anything: what was given, what this machine has, whose code.

# What only says what to work on goes to the programs by the environment: as it was typed, read neither by make nor by
# a shell.
GIVEN := SUBMISSION SUBMISSIONS AGAIN OUT DEST UPTO ZIP NAME FROM CASES SEED CASE TEST JOBS \
  PART P GAP LEVEL YES N W sinks mask BR BC BLOCK UNSAFE SANITIZE TERM STEPS TEXT WRONG RESUME TRAIN \
  WITH_VARIANTS LIMIT ONLY PEERS LARGEST PREFIX DESTDIR RANKS PARALLEL D HEADS CAUSAL RUNS PASS STAGE \
  DRAW ALL LARGE KEYS COMMENTS GUESS SAY COVERAGE REPLACE ROSTER
COMMANDED := $(foreach v,$(GIVEN),$(if $(filter command,$(origin $v)),$v))
define as_typed
override $(1) := $$(value $(1))
export $(1)
endef
$(foreach v,$(GIVEN),$(if $(filter undefined,$(origin $v)),,$(eval $(call as_typed,$v))))
# Those of $(1) that were typed, as words of a shell: "N=4096" "D=128".
given = $(foreach v,$(filter $(1),$(COMMANDED)),"$v=$$$v")

IMPL ?= problems
# Where a program lies, looked up without starting one.
in_path = $(firstword $(wildcard $(addsuffix /$(1),$(subst :, ,$(PATH)))))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(call in_path,nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
NVCC := $(if $(CUDA_HOME),$(CUDA_HOME)/bin/nvcc)

ifndef WB_BUILDING
CORES := $(shell $(or $(notdir $(call in_path,nproc)),getconf _NPROCESSORS_ONLN))
endif

# What this machine has is asked once (loop/probe.sh), and noted in build/tools.mk; again when a compiler or a GPU comes
# or goes, or what is asked changes, or the workbook's history.
ASKED := $(foreach p,$(CC) $(CXX) pkg-config nvidia-smi,$(p)=$(call in_path,$(p))) $(PKG_CONFIG_PATH) \
  $(wildcard /dev/nvidia[0-9]* /dev/dxg) $(words $(file <workbook/loop/probe.sh) $(file <CHANGELOG.md))
-include build/tools.mk
ifneq ($(strip $(PROBED)),$(strip $(ASKED)))
$(shell CC='$(CC)' CXX='$(CXX)' sh workbook/loop/probe.sh '$(subst $$,$$$$,$(ASKED))')
-include build/tools.mk
endif
BACKEND ?= $(if $(and $(NVCC),$(HAVE_GPU)),cuda,cpu)
PYTHON ?= python3
MARCH ?= native
# As many as there are cores for this: an allocation's, not the machine's.
JOBS ?= $(or $(SLURM_CPUS_PER_TASK),$(CORES),2)

.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
Q := $(if $(V),,@)
comma := ,
say = $(if $(V),,$(info $()  $(1)	$(2)))

ifeq ($(filter $(BACKEND),cpu cuda),)
$(error BACKEND=$(BACKEND): choose cpu or cuda)
endif
ifeq ($(BACKEND)$(if $(NVCC),,-no),cuda-no)
$(error BACKEND=cuda needs the CUDA Toolkit, and there is no nvcc in PATH or /usr/local/cuda/bin. See \
  problems/with-a-gpu.md; without one use BACKEND=cpu)
endif

# A copy for a class has no reference solutions (class_copy.sh): what is made of them says so.
ifeq ($(wildcard solutions/[0-9]*),)
OF_KEYS := demo lib install uninstall torch wheel duel record tables check check-all class-test \
  everything variants diff-% new-problem
KEYLESS := $(filter $(OF_KEYS),$(MAKECMDGOALS)) $(if $(filter solutions,$(IMPL)),IMPL=solutions) $(if $(WRONG),WRONG=)
ifneq ($(strip $(KEYLESS)),)
$(error make $(strip $(KEYLESS)) needs the reference solutions, and this copy of the workbook has none. make help \
  lists what works here)
endif
endif

B := build/$(BACKEND)
# A problem's number is the key: problems/03/flash_forward.cu is $(call source,problems,03).
NUMBERS := $(sort $(notdir $(wildcard problems/[0-9][0-9])))
name = $(patsubst tests/$(1)_%.c,%,$(wildcard tests/$(1)_*.c))
source = $(firstword $(wildcard $(addprefix $(1)/$(2)/$(call name,$(2)),.cu .c)))
# Problems that want several processes have a program that starts them.
ring_of = $(patsubst 17,ring,$(patsubst 18,ring_backward,$(1)))
RINGS := $(foreach n,$(filter 17 18,$(NUMBERS)),$(call ring_of,$n))

# Whose 11 and 12 reference/gpt_oss.py calls.
OF_GPT_OSS := $(if $(filter solutions,$(IMPL)),$B/lib/libworkbook.so,$B/problems/gpt_oss.so)

# What make format is about.
SOURCES := '*.c' '*.h' '*.cu' '*.cuh' '*.cpp'
FORMATTED = $(shell git ls-files $(SOURCES) 2>/dev/null || find . -path ./build -prune -o -type f -print | \
  grep -E '[.](c|h|cu|cuh|cpp)$$')

export BACKEND MAKE JOBS
# Python's, where the system has none (nccl/nccl.cu).
ifneq ($(PYTHON_NCCL),)
export WB_NCCL ?= $(PYTHON_NCCL)
endif

# One make builds here at a time (loop/alone.sh): the rooms' rules are for that one alone. The others start it for what
# they want to have built, and go on without it: no script holds up another make. Where no -j was typed it takes all
# cores.
BUILD = $(if $(WB_BUILDING),,workbook/loop/alone.sh )$(MAKE) --no-print-directory $(if $(V),,-s) $(if \
  $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j"$$JOBS")
BUILT := $(filter build/% everything hostile own variants judges check-machinery train-test train-layers \
  train-ranks suites library-workers wb,$(MAKECMDGOALS))
ifndef WB_BUILDING
$(BUILT): together ;
together: FORCE
	@+$(BUILD) $(BUILT)
build/tools.mk: ;
build/%: FORCE
	@+$(BUILD) $@
# wb is compiled where it is older than its source: a hint waits for nobody's build.
ifeq ($(filter $B/wb,$(BUILT)),)
$B/wb: $(wildcard workbook/wb/*.[ch] workbook/score/*.[ch] workbook/judge/spent.[ch] workbook/problems.[ch])
	@$(if $(wildcard $@),,echo "compiling wb$(comma) the program behind these commands$(comma) once: two dozen files" >&2)
	@+$(BUILD) $@
endif
endif
