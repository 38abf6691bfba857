# The FlashAttention workbook. `make help` lists what you can do.
#
#   IMPL=problems|solutions   whose code: yours (the default) or the answer key
#   BACKEND=cpu|cuda          where kernels run; cuda where there are nvcc and a GPU
#   ARCH=80                   compute capability to compile for (cuda; the GPU's own by default)
#   SEED=7  CASE=B=1,Nq=5,D=16  other inputs; one case alone      V=1  show the commands      DEBUG=1  compile for gdb
#
# Everything built lies in build/BACKEND/IMPL. `make new-problem` adds a problem; nothing here changes.

# What only says what to work on goes to the programs by the environment: as it was typed, read neither by make nor by a shell.
GIVEN := SUBMISSION SUBMISSIONS AGAIN ROSTER DUE OUT DEST UPTO ZIP NAME FROM CASES SEED CASE JOBS TRY SOURCE SHAPES PART P GAP LEVEL YES N W sinks mask BR BC BLOCK UNSAFE SANITIZE RACE SPEED TERM STEPS TEXT WRONG RESUME TRAIN WITH_VARIANTS LIMIT ONLY PREFIX DESTDIR EDITION RANKS PARALLEL D HEADS CAUSAL RUNS PASS
COMMANDED := $(foreach v,$(GIVEN),$(if $(filter command,$(origin $v)),$v))
define as_typed
override $(1) := $$(value $(1))
export $(1)
endef
$(foreach v,$(GIVEN),$(if $(filter undefined,$(origin $v)),,$(eval $(call as_typed,$v))))

IMPL ?= problems
# Where a program lies, looked up without starting one.
in_path = $(firstword $(wildcard $(addsuffix /$(1),$(subst :, ,$(PATH)))))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(call in_path,nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
NVCC := $(if $(CUDA_HOME),$(CUDA_HOME)/bin/nvcc)

# What this machine has is asked once, and noted in build/tools.mk; again when a compiler or a GPU comes or goes, or PROBE changes.
# The oracle uses OpenMP where there is one (clang has it in a package of its own), and takes longer where there is none.
# A GPU that does not answer may answer later: then nothing is noted for good.
# CLANG, GCC: its version, if it is that compiler (clang takes itself for an old gcc).
PROBE := t=$$(mktemp -d) && echo "int main(void){return 0;}" >$$t/t.c && mkdir -p build && { \
  echo "OPENBLAS_CFLAGS := $$(pkg-config --cflags openblas)"; \
  echo "OPENBLAS_LIBS := $$(pkg-config --libs openblas || echo -lopenblas)"; \
  echo "OPENMP := $$($(CC) -fopenmp $$t/t.c -o $$t/t && $(CXX) -x c++ -fopenmp $$t/t.c -o $$t/t && echo -fopenmp || echo -Wno-unknown-pragmas)"; \
  echo "PYTHON_NCCL := $$(ldconfig -p | grep -q libnccl.so.2 || ls $$(python3 -c "import nvidia.nccl as n; print(*n.__path__)")/lib/libnccl.so.2)"; \
  echo "CLANG := $$($(CXX) -dM -E -x c++ /dev/null | sed -n "s/.*__clang_major__ //p")"; \
  echo "GCC := $$($(CXX) -dM -E -x c++ /dev/null | sed -n "s/.*__GNUC__ //p")"; \
  if nvidia-smi -L >$$t/gpu; then echo HAVE_GPU := yes; echo "CAPABILITY := $$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | xargs)"; elif command -v nvidia-smi >$$t/gpu; then echo PROBED :=; fi; \
  } >build/tools.$$$$ 2>$$t/log
ASKED := $(foreach p,$(CC) $(CXX) pkg-config nvidia-smi,$(p)=$(call in_path,$(p))) $(PKG_CONFIG_PATH) $(wildcard /dev/nvidia[0-9]* /dev/dxg) $(strip $(PROBE))
-include build/tools.mk
ifneq ($(strip $(PROBED)),$(strip $(ASKED)))
$(shell $(PROBE); { echo 'PROBED := $(subst $$,$$$$,$(ASKED))'; cat build/tools.$$$$; } >$$t/tools; \
  mv $$t/tools build/tools.$$$$ && mv build/tools.$$$$ build/tools.mk; rm -rf $$t)
-include build/tools.mk
endif
BACKEND ?= $(if $(and $(NVCC),$(HAVE_GPU)),cuda,cpu)
PYTHON ?= python3
MARCH ?= native
# As many as there are cores for this: an allocation's, not the machine's.
JOBS ?= $(or $(WB_JOBS),$(SLURM_CPUS_PER_TASK),$(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN || echo 2))

.DEFAULT_GOAL := help
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
$(error BACKEND=cuda needs the CUDA Toolkit, and there is no nvcc in PATH or /usr/local/cuda/bin. See README.md, "With a GPU"; without one use BACKEND=cpu)
endif

# A copy for a class has no answer keys (class_copy.sh): what is made of them says so.
ifeq ($(wildcard solutions/[0-9]*),)
OF_KEYS := demo lib install uninstall torch duel record tables check check-all mutants naming class-test everything variants tune-% diff-% new-problem
KEYLESS := $(filter $(OF_KEYS),$(MAKECMDGOALS)) $(if $(filter solutions,$(IMPL)),IMPL=solutions) $(if $(WRONG),WRONG=)
$(if $(strip $(KEYLESS)),$(error make $(strip $(KEYLESS)) needs the answer keys, and this copy of the workbook has none. What is yours: make help))
endif

B := build/$(BACKEND)
# A problem's number is the key: problems/03/flash_forward.cu is $(call source,problems,03).
NUMBERS := $(sort $(notdir $(wildcard problems/[0-9][0-9])))
name = $(patsubst tests/$(1)_%.c,%,$(wildcard tests/$(1)_*.c))
source = $(firstword $(wildcard $(addprefix $(1)/$(2)/$(call name,$(2)),.cu .c)))

# One make builds here at a time (loop/alone.sh): what follows, up to the targets, is for that one alone. The others start it for what they want
# to have built, and go on without it: no script holds up another make.
BUILD = $(if $(WB_BUILDING),,workbook/loop/alone.sh )$(MAKE) --no-print-directory $(if $(V),,-s)
BUILT := $(filter build/% everything hostile own variants wrong broken judges honest honest-checked check-machinery train-test train-layers train-ranks,$(MAKECMDGOALS))
ifndef WB_BUILDING
$(BUILT): together ;
together: FORCE
	@+$(BUILD) $(BUILT)
build/tools.mk: ;
build/%: FORCE
	@+$(BUILD) $@
else

# ---------------------------------------------------------------------------------------------------------------- tools

# Of a loop that stays as it is in spite of a #pragma clang warns.
WARNINGS := -Wall -Wextra -Wshadow $(if $(CLANG),-Wno-pass-failed) $(if $(WERROR),-Werror)
CFLAGS ?= $(if $(DEBUG),-O0,-O3) -g
C := $(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) -march=$(MARCH) -fno-math-errno -ffp-contract=fast $(OPENMP) -fPIC -MMD -MP -Iworkbook -I. $(OPENBLAS_CFLAGS)
CXXFLAGS ?= $(if $(DEBUG),-O0,-O2) -g -gdwarf-4
# Kernels are compiled far more often than they are run for long: these flags take a third of the time of -O2 -g, and the code a fifth more.
# Lines are all that is wanted of debug information. -g1 stands behind -gdwarf-4, which would ask for all of it: a check build would take half as long again.
KERNELFLAGS ?= -gdwarf-4 $(if $(DEBUG),-O0 -g,-Og -g1)
# C++17, with the one word of C++20 that cudacpu/launch.h needs, where the compiler has it and how.
DIALECT := -std=c++$(if $(CLANG),$(if $(filter $(CLANG),3 4 5 6 7 8 9 10 11 12 13 14 15 16),20 -Wno-deprecated,17),17 -fconcepts)
CPU := $(CXX) $(DIALECT) -D__CUDACPU__ $(WARNINGS) -Wno-unknown-pragmas -fno-strict-aliasing -fPIC -MMD -MP -Iworkbook/cpu/include -Iworkbook -I. -Itests
# g++ from 15 on copies a float4 in two halves: a misaligned one has to announce itself (cpu/faults.cpp).
KERNEL := $(CPU) $(if $(filter-out 4 5 6 7 8 9 10 11 12 13 14,$(GCC)),-fsanitize=alignment)

ifeq ($(BACKEND),cuda)
# -arch=native would be sm_90 on a Hopper GPU, without what hopper.cuh needs.
ARCH ?= $(if $(HAVE_GPU),$(if $(filter 9.0,$(CAPABILITY)),90a,native))
ifeq ($(ARCH),)
$(error BACKEND=cuda without a GPU on this machine: say what to compile for, for example ARCH=80 (A100) or ARCH=90a (H100, H200))
endif
GENCODE := $(if $(filter native,$(ARCH)),-arch=native,-gencode=arch=compute_$(ARCH),code=sm_$(ARCH))
CU := $(NVCC) -std=c++17 -O3 -lineinfo $(GENCODE) -Xcompiler -Wall$(comma)-Wextra$(comma)-Wshadow$(comma)-fPIC$(if $(WERROR),$(comma)-Werror -Werror all-warnings) -MMD -MP -Iworkbook -I. -Itests
# NCCL's header is NVIDIA's where there is one; the library is looked for when 17 runs (nccl/nccl.cu).
CU += -Xcompiler -idirafter,workbook/nccl
$B/machinery/nccl/nccl.o: CU += -DWB_CUDA_HOME=$(CUDA_HOME)
DEVICE_LIBS := -L$(CUDA_HOME)/lib64 -lcudart -lcublas -ldl -Wl,-rpath,$(CUDA_HOME)/lib64
MEMORY := -DWB_BACKEND_CUDA -I$(CUDA_HOME)/include
LAYER :=
else
LAYER := $(patsubst workbook/cpu/%.cpp,$B/layer/%.o,$(wildcard workbook/cpu/*.cpp))
DEVICE_LIBS := -ldl
# What worker, machinery and layer keep from a function that they call: see JUDGED.
HIDDEN := -fvisibility=hidden
endif
LINK = $(CXX) $(OPENMP) -pthread -Wl,--as-needed
LIBS := $(OPENBLAS_LIBS) $(DEVICE_LIBS) -lm

# Objects are made anew when the flags change.
FLAGS := $(strip $(C) $(HIDDEN) $(KERNEL) $(CXXFLAGS) $(KERNELFLAGS) $(CU) $(LIBS))
-include $B/flags.mk
build/tools.mk $B/flags.mk: ;
ifneq ($(BUILT_WITH),$(FLAGS))
$(shell mkdir -p $B && echo 'BUILT_WITH := $(FLAGS)' >$B/flags.$$$$ && mv $B/flags.$$$$ $B/flags.mk)
endif

# ------------------------------------------------------------------------------------------------------- one source file

define compile_c
$(call say,CC,$<)
$Q$(C) $(1) -c $< -o $@
endef
ifeq ($(BACKEND),cuda)
define compile_cu
$(call say,NVCC,$<)
$Q$(CU) -c $< -o $@
endef
else
define compile_cu
$(call say,CXX,$<)
$Qawk -v object=$@ -v makes=$(@:.o=.cu.d) -f workbook/cpu/cuda_to_cpp.awk $< > $(@:.o=.cpp) && $(KERNEL) $(KERNELFLAGS) -I$(dir $<) -c $(@:.o=.cpp) -o $@
endef
endif

$B/machinery/%.o: workbook/%.c $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c,$(HIDDEN) $(if $(filter workbook/memory.c,$<),$(MEMORY)))
$B/machinery/%.o: KERNELFLAGS += $(HIDDEN)
$B/machinery/%.o: workbook/%.cu $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $(@D)
	$(compile_cu)
$B/reference/%.o: reference/%.c $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c)
$B/reference/%.o: reference/%.cu $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $(@D)
	$(compile_cu)
$B/layer/%.o: workbook/cpu/%.cpp $B/flags.mk
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$Q$(CPU) $(CXXFLAGS) $(HIDDEN) -c $< -o $@
# What judges at length is the oracle, so suites need no more than -O1.
$B/tests/%.o: tests/%.c $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c,$(if $(DEBUG),,-O1))
$B/tests/%.o: tests/%.cu $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $(@D)
	$(compile_cu)

# --------------------------------------------------------------------------------------------------- one implementation
# What judges: the oracle, and what starts workers.
CASE_OF := $(addprefix $B/machinery/,$(addprefix case/,case.o pages.o shards.o quantise.o case_mask.o named_mask.o block_mask.o))
JUDGE := $(addprefix $B/machinery/,judge/expect.o judge/session.o judge/spent.o judge/worker_run.o exchange.o validate.o) $(CASE_OF) $B/reference/oracle.o
# What writes the record of a test program's run.
RECORD := $(addprefix $B/machinery/,judge/record.o judge/sockets.o score/results.o)
MACHINERY := $(CASE_OF) $(addprefix $B/machinery/,exchange.o problems.o validate.o device.o memory.o attention.o attention_backward.o rank.o $(if $(filter cuda,$(BACKEND)),nccl/nccl.o)) $(LAYER)

# A worker is two objects, and neither can name what the other keeps to itself. Of the function's nothing is called but the function, so that its
# own recvmsg or mprotect is its own. Of the judge's (worker, machinery, layer) it can name what workbook.h and cpu/include declare: all else is
# compiled as hidden, and here becomes local. How many bytes of variables it has that outlive functions is noted as wb_statics (memory.h).
JUDGED := $(and $(filter cpu,$(BACKEND)),$(call in_path,objcopy))
its_own = $(LD) -r --force-group-allocation $(1) -o $(2) && objcopy $(foreach f,$(3) $(3)_workspace,--keep-global-symbol=$f) $(2) &&
statics_of = -Xlinker --defsym=wb_statics=wb_statics_from+$$$$(size $(1) | awk 'END { print $$$$2 + $$$$3 }')

# An object is as old as the moment its source was read: a save while the compiler works is not overlooked. A worker appears whole.
# $(1): folder below $B, $(2): number, $(3): source
define implementation
$B/$(1)/$(2).o: $(3) $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $$(@D)
	@: >$$(@:.o=.began)
	$$(if $$(filter %.cu,$$<),$$(compile_cu),$$(call compile_c))
	@touch -c -r $$(@:.o=.began) $$@ $$(@:.o=.cpp)
$B/$(1)/$(2)_worker: $B/$(1)/$(2).o $(if $(JUDGED),$B/machinery/judge_$(2).o,$B/machinery/worker_$(2).o $(MACHINERY))
	$Q$(if $(JUDGED),$$(call its_own,$$<,$$@.o,$(call name,$(2)))) $$(LINK) $(if $(JUDGED),$$@.o $$(filter-out $$<,$$^),$$^) $(if $(JUDGED)$(filter cuda,$(BACKEND)),$(call statics_of,$$<)) $(LIBS) -o $$@.new && mv -f $$@.new $$@
$B/$(1)/$(2).so: $B/$(1)/$(2).o
	$Q$$(LINK) -shared $$^ -o $$@
endef
define suite
$B/machinery/worker_$(1).o: workbook/worker.c $B/flags.mk
	@mkdir -p $$(@D)
	$Q$(C) -DWB_NAME=$(call name,$(1)) -c $$< -o $$@
$B/machinery/judge_$(1).o: $B/machinery/worker_$(1).o $(MACHINERY)
	$Q$(LD) -r --force-group-allocation $$^ -o $$@ && objcopy --localize-hidden $(if $(DEBUG),,--strip-debug) $$@
$B/tests/$(1)_test: $B/tests/$(1)_$(call name,$(1)).o $B/tests/harness.o $(RECORD) $(JUDGE) $(addprefix $B/machinery/,mask/picture.o problems.o)
	$Q$$(LINK) $$^ -lcriterion -ldl -lm -o $$@
endef
$(foreach n,$(NUMBERS),$(eval $(call suite,$n)))
$(foreach i,problems solutions,$(foreach n,$(NUMBERS),$(if $(call source,$i,$n),$(eval $(call implementation,$i,$n,$(call source,$i,$n))))))

# The machinery's own suites: tests/NAME.c, about workbook/*/NAME.c if there is one; of what has kernels tests/NAME.cu.
OWN := $(filter-out harness library library_forms library_pairs,$(basename $(notdir $(filter-out $(wildcard tests/[0-9][0-9]_*.c),$(wildcard tests/*.c tests/*.cu)))))
define own_suite
$B/tests/$(1)_test: $B/tests/$(1).o $(filter-out $(RECORD) $(MACHINERY),$(patsubst workbook/%,$B/machinery/%.o,$(basename $(wildcard $(foreach e,c cu,workbook/$(1).$e workbook/*/$(1).$e))))) $(RECORD) $(MACHINERY) $B/reference/oracle.o
	$Q$$(LINK) $$^ -lcriterion $(LIBS) -o $$@
endef
$(foreach t,$(OWN),$(eval $(call own_suite,$t)))

# The key of a problem with one edit of a list (workbook/loop/edit.awk); one that stays the same is not compiled again.
# $(1): folder below $B, % in it stands for the entry's name; $(2): number, $(3): the list, $(4): what the name begins with
EDIT := workbook/loop/edit.awk
define edited_source
$(1)/edited: $(2) $(3) $(EDIT)
	@mkdir -p $$(@D)
	@awk -v list=$(3) -v entry=$(4)$$* -f $(EDIT) $$< >$$@.new
	@cmp -s $$@.new $$(@D)/$(notdir $(2)) || cp $$@.new $$(@D)/$(notdir $(2))
	@mv $$@.new $$@
$(1)/$(notdir $(2)): $(1)/edited ;
endef
edited = $(call edited_source,$B/$(1),$(call source,solutions,$(2)),$(3),$(4))$(newline)$(call implementation,$(1),$(2),$B/$(1)/$(notdir $(call source,solutions,$(2))))
define newline


endef
names_in = $(if $(wildcard $(1)),$(shell awk -v list=$(1) -v tell=names -f $(EDIT)))

# Mistakes planted in keys, for mistakes/measure.sh.
$(foreach n,$(if $(wildcard tests/mistakes/planted.diff),$(NUMBERS)),$(eval $(call edited,mistakes/$n_%,$n,tests/mistakes/planted.diff,$n_)))

# Keys by other hands, written from the lessons alone, for tests/prove/honest.sh: tests/honest/NN_name.cu.
HONEST := $(basename $(notdir $(wildcard tests/honest/*.c tests/honest/*.cu)))
honest: $(foreach h,$(HONEST),$B/honest/$h/$(firstword $(subst _, ,$h))_worker)
$(foreach m,$(wildcard tests/honest/*.c tests/honest/*.cu),$(eval $(call implementation,honest/$(basename $(notdir $m)),$(firstword $(subst _, ,$(notdir $m))),$m)))

# Names the mistake in a function that failed its suite: WB_WORKER=... build/cpu/diagnose 03.
$B/diagnose: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/diagnose/*.c)) $(JUDGE) $(addprefix $B/machinery/,problems.o score/gaps.o score/grades.o score/standing.o score/results.o)
	$Q$(LINK) $^ -lmd -lm -o $@

# Other ways to solve a problem, under the same suite: solutions/NN/variants/NAME.cu.
VARIANTS := $(patsubst solutions/%.cu,%,$(wildcard solutions/[0-9][0-9]/variants/*.cu))
variants: $(foreach v,$(VARIANTS),$B/variants/$v/$(firstword $(subst /, ,$v))_worker $B/variants/$v/$(firstword $(subst /, ,$v)).so)
$(foreach v,$(VARIANTS),$(eval $(call implementation,variants/$v,$(firstword $(subst /, ,$v)),solutions/$v.cu)))

# Edited copies of a source, made by tune.sh: build/BACKEND/tune/NN/NAME/source.cu.
$(foreach t,$(wildcard $B/tune/*/*/*.cu),$(eval $(call implementation,$(patsubst $B/%/,%,$(dir $t)),$(word 4,$(subst /, ,$t)),$t)))

# Code that cheats or dies, for the harness's own test; and code that no worker can be made of.
$(foreach l,hostile refused,$(eval $(call edited_source,$B/$l/%,tests/hostile/hostile.c,tests/hostile/$l.diff)$(newline)$(call implementation,$l/%,01,$B/$l/%/hostile.c)))
$(eval $(call edited_source,$B/hostile_ring/%,tests/hostile/ring.cu,tests/hostile/ring.diff)$(newline)$(call implementation,hostile_ring/%,17,$B/hostile_ring/%/ring.cu))
$B/hostile_ring/%.o: KERNELFLAGS = -O0
hostile: $B/hostile/crash/01.so $B/hostile/endless/01.so $B/hostile/exit_zero/01.so
	@$(MAKE) --no-print-directory $(patsubst %,$B/hostile/%/01_worker,$(call names_in,tests/hostile/hostile.diff)) $(patsubst %,$B/hostile_ring/%/17_worker,$(call names_in,tests/hostile/ring.diff))

# Baselines are waited for, and nobody steps through them.
$B/reference/%.o: KERNELFLAGS = -O3 -march=$(MARCH)
$B/bench: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/bench/bench*.c)) $(addprefix $B/machinery/,bench/roofline.o bench/timer.o quantise_fp8.o) $B/reference/naive_cpu.o $B/reference/naive_gpu.o $B/reference/naive_decode.o $B/reference/oracle.o $(MACHINERY)
	$(call say,LINK,$@)
	$Q$(LINK) -rdynamic $^ $(LIBS) -o $@

# 17 and 18 on this machine or several, a process a rank (start/ring.cu). On GPUs wb_attention is the library's, where there is one.
define ring_program
$B/$(1)/$(3): $B/$(1)/$(2).o $(addprefix $B/machinery/start/,$(3).o start.o) $(if $(ring_library),$(filter-out %/attention.o,$(MACHINERY)) $B/lib/libworkbook.so,$(MACHINERY))
	$Q$$(LINK) $$(filter %.o,$$^) $(if $(ring_library),-L$B/lib -lworkbook -Wl$(comma)-rpath$(comma)$(CURDIR)/$B/lib) $(LIBS) -o $$@
endef
ring_library = $(and $(filter cuda,$(BACKEND)),$(wildcard solutions/[0-9]*))
ring_of = $(patsubst 17,ring,$(patsubst 18,ring_backward,$(1)))
$(foreach n,17 18,$(foreach i,problems solutions wrong/$n/% $(addprefix variants/,$(filter $n/%,$(VARIANTS))),$(eval $(call ring_program,$i,$n,$(call ring_of,$n)))))
$(foreach r,ring ring_backward,$(eval $(call ring_program,reference,naive_ring,$r)))

# How far off a cache of int8 is, and e4m3, and bf16: make errors, make errors-16.
$B/errors $B/errors_fp8: $B/%: $B/machinery/bench/%.o $B/machinery/bench/bench_host.o $B/reference/oracle.o $(MACHINERY)
	$Q$(LINK) -rdynamic $^ $(LIBS) -o $@

# Points and what to do next: one program.
SCORE := $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/score/*.c)) $B/machinery/problems.o
$B/score: $(SCORE)
	$(call say,LINK,$@)
	$Q$(LINK) $^ -lcjson -lmd -lm -o $@

# Runs a suite and prints what it says: build/cpu/suite build/cpu/tests/03_test build/cpu/problems/03_worker cpu. What calls it wants to see points, too.
$B/suite: $(addprefix $B/machinery/,loop/suite.o loop/run_suite.o judge/spent.o score/results.o score/safe_text.o) | $B/score
	$Q$(LINK) $^ -o $@

$B/mask: $(addprefix $B/machinery/,mask/mask.o mask/picture.o problems.o validate.o) $(CASE_OF) $B/reference/oracle.o
	$Q$(LINK) $^ -lm -o $@

$B/timeline: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/timeline/*.c))
	$Q$(LINK) $^ -lm -o $@

# What starts a submission, and which system calls it may make.
$B/confine $B/take: $B/%: workbook/class/%.c $B/flags.mk
	$Q$(C) $< -o $@
# What runs a command for so many seconds of its own.
$B/within: workbook/class/within.c $B/machinery/judge/spent.o
	$Q$(C) $^ -o $@
$B/filter: workbook/class/filter.c $B/flags.mk
	$Q$(C) $< -lseccomp -o $@
$B/%.filter: $B/filter
	$Q$< $* >$@

# Wrong solutions: each edit of solutions/NN/wrong.diff must be rejected by the suite.
define wrong_solutions
$(call edited,wrong/$(1)/%,$(1),solutions/$(1)/wrong.diff)
$B/wrong/$(1)/%/caught: $B/suite $B/tests/$(1)_test $B/wrong/$(1)/%/$(1)_worker tests/prove/caught.sh
	@tests/prove/caught.sh $$(wordlist 1,3,$$^) $(BACKEND) $$@
endef
$(foreach n,$(NUMBERS),$(if $(wildcard solutions/$n/wrong.diff),$(eval $(call wrong_solutions,$n))))
wrong_names = $(foreach n,$(NUMBERS),$(addprefix $n/,$(call names_in,solutions/$n/wrong.diff)))
# There are hundreds, and each runs for a moment: compiled in a third of the time, they are wrong in the same way. Without what debuggers want of
# the layer they are linked in half the time.
$B/wrong/%.o $B/mistakes/%.o: KERNELFLAGS = -O0
$B/wrong/%_worker $B/mistakes/%_worker: LINK += -Wl,--strip-debug

# The library: every key under its function's name, but those whose kernel solutions/library.c chooses; these under the names that stand there.
# Of each the function alone is seen by the others (and, of a kernel with a workspace, NAME_in and NAME_workspace): 03 and 05 both have a forward_kernel<64, 32, 64, 4, 2> with the same parameters, and a linker
# that is not told keeps one of the two.
# What is read of library.c are words: {"function", and "solutions/NN/...cu", of a row, and NN_FORM: of a form with a workspace.
CHOICES := $(filter {"% "solutions/% $(NUMBERS:%=%_%:),$(file <solutions/library.c))
CHOSEN := $(sort $(foreach s,$(patsubst "solutions/%.cu"$(comma),%,$(filter "%,$(CHOICES))),$(if \
  $(findstring /variants/,$s),$(subst /variants/,/,$s),$(if $(filter {"$(notdir $s)"$(comma),$(CHOICES)),$(dir $s)key))))
chosen = $(notdir $(filter $(1)/%,$(CHOSEN)))
library_symbol = --redefine-sym $(1)=$(2) --keep-global-symbol=$(1) --keep-global-symbol=$(2)
define library_kernel
$B/lib/$(1)$(2:%=_%).o: $B/$(if $(filter-out key,$(2)),variants/$(1)/variants/$(2),solutions)/$(1).o
	@mkdir -p $$(@D)
	$Q$(LD) -r --force-group-allocation $$< -o $$@ && objcopy $(foreach f,$(addprefix $(call name,$(1)),_in _workspace _add _add_in _add_workspace /),$(call library_symbol,$(f:/=),$(f:/=)$(2:%=_%))) $$@
endef
LIBRARY_KEYS := $(foreach n,$(NUMBERS),$(if $(call source,solutions,$n),$(or $(addprefix $n/,$(call chosen,$n)),$n/)))
$(foreach k,$(LIBRARY_KEYS),$(eval $(call library_kernel,$(firstword $(subst /, ,$k)),$(word 2,$(subst /, ,$k)))))
LIBRARY := $B/lib/library.o $B/machinery/attention_backward.o $(foreach k,$(LIBRARY_KEYS),$B/lib/$(firstword $(subst /, ,$k))$(addprefix _,$(word 2,$(subst /, ,$k))).o)
$B/lib/library.o: solutions/library.c VERSION $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c,-DWB_VERSION='"$(file <VERSION)"')
$B/lib/libworkbook.so $B/lib/libworkbook_all.so: $(LIBRARY)
# It exports what workbook.h declares, calls its own functions whatever the program's are called, and stays loaded: the layer's signal handlers do.
# libworkbook_all.so exports each kernel under its name, for make duel and, on the cpu backend, for the bench, whose layer has to be its own.
SONAME = libworkbook.so.$(firstword $(subst ., ,$(file <VERSION)))
$B/lib/libworkbook.so: $B/lib/workbook.map
$B/lib/libworkbook.so: LINK += -Wl,--version-script=$B/lib/workbook.map,-soname,$(SONAME),-Bsymbolic-functions,-z,nodelete
$B/lib/workbook.map: workbook/workbook.h solutions/declared.awk $B/flags.mk
	@mkdir -p $(@D)
	$Q$(CC) -E $< | awk -v as=map -f solutions/declared.awk >$@
# Yours, for reference/gpt_oss.py.
$B/problems/gpt_oss.so: $B/problems/11.o $B/problems/12.o
$B/lib/libworkbook.so $B/lib/libworkbook_all.so $B/problems/gpt_oss.so: $(addprefix $B/machinery/,problems.o validate.o device.o quantise_fp8.o $(if $(filter cuda,$(BACKEND)),nccl/nccl.o) $(addprefix case/,block_mask.o named_mask.o quantise.o)) $(LAYER)
	$(call say,LINK,$@)
	$Q$(LINK) -shared $(filter %.o,$^) $(OPENBLAS_LIBS) $(if $(CUDA_HOME),$(if $(filter cuda,$(BACKEND)),-L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt)) -lm -o $@
	$(if $(filter %/libworkbook.so,$@),@ln -sf libworkbook.so $(@D)/$(SONAME))
# What it chooses, for the suites of these functions; and its forms with a workspace, NN_FORM_worker (tests/library_forms.c).
LIBRARY_FORMS := $(patsubst %:,%,$(filter %:,$(CHOICES)))
LIBRARY_WORKERS := $(sort $(foreach c,$(CHOSEN),$B/lib/$(patsubst %/,%,$(dir $c))_worker) $(LIBRARY_FORMS:%=$B/lib/%_worker))
# All have the same kernels, and find them beside them.
$B/lib/libkernels.so: $(filter-out %/01.o,$(LIBRARY))
	$Q$(LINK) -shared -Xlinker -soname -Xlinker libkernels.so $^ -o $@
define library_worker
$B/lib/$(1)_worker: $B/machinery/worker_$(firstword $(subst _, ,$(1))).o $(if $(findstring _,$(1)),$B/lib/form_$(lastword $(subst _, ,$(1))).o) $B/lib/libkernels.so $(MACHINERY)
	$Q$$(LINK) $(if $(findstring _,$(1)),-Xlinker --wrap=$(call name,$(firstword $(subst _, ,$(1))))) $$^ $(LIBS) -Xlinker -rpath -Xlinker '$$$$ORIGIN' -o $$@
endef
$(foreach w,$(LIBRARY_WORKERS:$B/lib/%_worker=%),$(eval $(call library_worker,$w)))
$B/lib/form_%.o: tests/library_forms.c $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c,-DFORM=$*)

# What the scripts ask for.
library-workers:
	@echo $(LIBRARY_WORKERS)
wrong: $B/suite $(NUMBERS:%=$B/tests/%_test)
	@$(MAKE) --no-print-directory $(foreach w,$(wrong_names),$B/wrong/$w/$(firstword $(subst /, ,$w))_worker)
caught:
	@$(MAKE) --no-print-directory $(wrong_names:%=$B/wrong/%/caught)
judges: $B/score $B/suite $(foreach k,confine take within worker.filter tools.filter,$B/$k) $(if $(wildcard workbook/diagnose/diagnose.c),$B/diagnose) $(foreach n,$(NUMBERS),$B/tests/$n_test $B/machinery/worker_$n.o $(if $(JUDGED),$B/machinery/judge_$n.o)) $(MACHINERY) check-machinery
own: $B/suite $(foreach t,$(OWN),$B/tests/$t_test)
everything: $B/within $B/bench $B/errors $B/errors_fp8 $B/diagnose $B/score $B/suite $B/mask $B/timeline hostile own $(foreach n,$(NUMBERS),$B/tests/$n_test $(foreach i,problems solutions,$B/$i/$n_worker $B/$i/$n.so)) lib $B/lib/libworkbook_all.so $(LIBRARY_WORKERS) variants

-include train/train.mk
-include $(wildcard $(addsuffix *.d,$B/*/ $B/*/*/ $B/*/*/*/ $B/*/*/*/*/))
endif

# --------------------------------------------------------------------------------------------------------------- targets

export BACKEND
# Python's, where the system has none (nccl/nccl.cu).
ifneq ($(PYTHON_NCCL),)
export WB_NCCL ?= $(PYTHON_NCCL)
endif
export WB_CASE := $(CASE)
export WB_SEED := $(SEED)
export WB_JOBS := $(JOBS)
export WB_CASES := $(CASES)
FORCE:
.PHONY: FORCE help demo test bench record plot plot-roofline mutants skeletons check report lib bundle compile-gpu setup clean format check-format variants wrong library-workers

help:  ## this list
	@awk -v backend=$(BACKEND) -v impl=$(IMPL) -v refused="$(OF_KEYS)" -f workbook/loop/help.awk Makefile workbook/sanitize/sanitize.mk
demo: setup  ## see it work: install what is missing, run every answer key against its naive baseline, draw the charts
	@+$(BUILD) -j"$$WB_JOBS" $B/bench $(foreach n,$(NUMBERS),$B/solutions/$n.so) $(foreach n,$(filter 17 18,$(NUMBERS)),$B/solutions/$(call ring_of,$n))
	@MAKE="$(MAKE)" workbook/bench/demo.sh $(BACKEND) $(NUMBERS)

test-%: $B/suite FORCE  ## test-03: the tests of one problem
	@MAKE="$(MAKE)" workbook/loop/test.sh $(BACKEND) $(IMPL) $*
test: $B/suite  ## the tests of all problems; fails if one that was started fails
	@MAKE="$(MAKE)" workbook/loop/test.sh $(BACKEND) $(IMPL) $(NUMBERS)
run-%: FORCE  ## run-03 CASE=B=1,Hq=2,Nq=256,D=64: call the function once, print what comes out
	@+$(BUILD) -s $B/$(IMPL)/$*_worker
	@$B/$(IMPL)/$*_worker $${WB_CASE:+--case "$$WB_CASE"}
ring:  ## RANKS=4 [N=4096 D=128 HEADS=8/2 CAUSAL=0 PASS=backward]: attention over a ring of ranks (17, 18), checked; a process each, on GPUs one each, and timed
	@case "$(if $(filter PASS,$(COMMANDED)),$$PASS,forward)" in forward | backward) ;; *) echo "make ring: PASS=$$PASS: there are forward and backward" >&2; exit 2 ;; esac
	@+$(BUILD) -s -j"$$WB_JOBS" $B/$(IMPL)/$(ring_program_name)
	@$B/$(IMPL)/$(ring_program_name) RANKS="$${RANKS:-2}" $(foreach v,$(filter N D HEADS CAUSAL RUNS,$(COMMANDED)),"$v=$$$v")
ring_program_name = ring$(if $(filter PASS,$(COMMANDED)),$(if $(filter backward,$(PASS)),_backward))
.PHONY: ring
tune-%: FORCE  ## tune-07 TRY=FILE: other tile sizes, timed side by side as edited copies of a source (workbook/bench/tune.sh)
	@MAKE="$(MAKE)" workbook/bench/tune.sh $(BACKEND) "$${SOURCE:-$(call source,$(IMPL),$*)}" $* "$${TRY:-solutions/$*/tiles.txt}" $$SHAPES
bench-%: FORCE  ## bench-03: time and memory against the naive baseline and the answer key (WITH_VARIANTS=1: and its variants)
	@MAKE="$(MAKE)" workbook/bench/bench.sh $(BACKEND) $(IMPL) $*
bench:  ## the same for all problems
	@MAKE="$(MAKE)" workbook/bench/bench.sh $(BACKEND) $(IMPL) $(NUMBERS)
race-%: $B/score FORCE  ## race-03: yours beside the key as a ratio, in build/race.tsv: time on a GPU, else bytes, barriers, products and exponentials as the layer counts them
	@MAKE="$(MAKE)" workbook/bench/race.sh $(BACKEND) $(IMPL) $*
errors:  ## how far attention over a cache of int8 (14) and of bf16 (13) is from the truth, against its length; make plot-14 draws it
	@+$(BUILD) -j"$$WB_JOBS" $B/errors $B/$(IMPL)/13.so $B/$(IMPL)/14.so
	@mkdir -p $B/results
	@$B/errors bf16=$B/$(IMPL)/13.so int8=$B/$(IMPL)/14.so >$B/results/14_flash_decode_int8_errors.tsv
errors-%: FORCE  ## errors-16: the same of attention in e4m3 (16), in one level and in two, and in bf16 (10); make plot-16 draws it
	@[ $* = 16 ] || { echo "make errors-$*: there is errors-16, and errors of 13 and 14" >&2; exit 2; }
	@+$(BUILD) -j"$$WB_JOBS" $B/errors_fp8 $B/$(IMPL)/10.so $B/$(IMPL)/16.so
	@mkdir -p $B/results
	@$B/errors_fp8 bf16=$B/$(IMPL)/10.so e4m3=$B/$(IMPL)/16.so >$B/results/16_flash_fp8_errors.tsv
.PHONY: errors
record:  ## all that is recorded of the keys on a GPU, into plots/data/<gpu> and build/record (PART=suites, bench, peers, example, torch, gpt_oss, duel, sanitize)
	@MAKE="$(MAKE)" workbook/bench/record.sh $(BACKEND) build/record $$PART
mask-%: $B/mask FORCE  ## mask-06 N=32 W=12 BR=8 BC=8, mask-15 mask=tree/7: which query sees which key, and the tiles that are visited; build/plots has it as SVG
	@mkdir -p build/plots
	@$B/mask $* $(foreach v,$(filter N W sinks mask BR BC,$(COMMANDED)),"$v=$$$v") --svg build/plots/mask_$*.svg
timeline-%: FORCE  ## timeline-10 CASE=...: what each part of a Hopper block does over time (BLOCK=n); timeline-17, -18: what each rank computes and sends (AS=n: at that length); build/plots has it as SVG
	@MAKE="$(MAKE)" workbook/timeline/timeline.sh $(IMPL) $*
plot-%: FORCE  ## plot-03: charts of the last bench-03 in build/plots (TERM=dumb: in the terminal)
	@plots/plot.sh $* $(BACKEND)
plot-roofline:
	@plots/plot.sh roofline $(BACKEND)
plot:  ## all charts, and plot-roofline: which roof bounds each problem on a GPU, and how near it comes
	@for n in $(NUMBERS) roofline $(if $(wildcard plots/data/*/gpt_oss.tsv),gpt_oss) $(if $(wildcard plots/data/*/duel_seed*.tsv),duel); do plots/plot.sh $$n $(BACKEND) || exit 1; done

progress: $B/score  ## where each problem stands: state, points, next step; runs nothing
	@$< progress
next: $B/score  ## the one thing to do now; P=03 in that problem
	@$< next
hint-%: $B/score FORCE  ## hint-03 GAP=tail LEVEL=2: 1 a question, 2 the idea, 3 nearly the answer; without GAP, of the first gap untouched
	@$< hint $*
watch: $B/score  ## watch P=03: the tests of a problem again at every save, until Ctrl-C
	@MAKE="$(MAKE)" exec workbook/loop/watch.sh $(NUMBERS)
reset-%: FORCE  ## reset-03: put the shipped skeleton back; your file is kept beside it
	@workbook/loop/reset.sh $*
blank-%: FORCE  ## blank-03: the contract alone instead of the file with gaps; yours is kept, and reset-03 goes back
	@workbook/loop/reset.sh $* blank
diff-%: $B/score FORCE  ## diff-03: yours against the answer key; asks first (YES=1: does not)
	@workbook/loop/diff.sh $*
.PHONY: progress next watch
compile_commands.json: FORCE  ## for editors with clangd: how each file is compiled; kernels are understood without the CUDA Toolkit
	@workbook/loop/compile_commands.sh $(OPENMP) $(OPENBLAS_CFLAGS) >$@
report:  ## one page of scores, failures, charts and masks, to keep or hand in: build/report.html, or OUT=FILE; runs no tests
	@MAKE="$(MAKE)" workbook/score/report.sh $(BACKEND) $(IMPL) $(if $(filter OUT,$(COMMANDED)),"$$OUT")

book:  ## the lessons as a book that opens from the disk, build/book/html (EDITION=instructors: and the wrong solutions; EDITION=pdf); wants Python 3.11, once a network
	@workbook/book/book.sh $(PYTHON)
.PHONY: book

train:  ## train a language model with your kernels of 07 and 09: IMPL=naive|solutions WRONG=name STEPS= SEED= TEXT=file RESUME=1 RANKS=2 PARALLEL=context
	@MAKE="$(MAKE)" train/train.sh $(BACKEND) $(IMPL)
.PHONY: train

check:  ## prove the workbook: keys pass, skeletons earn nothing, wrong solutions are caught (FAST=1: all but these)
	@MAKE="$(MAKE)" tests/prove/check.sh $(BACKEND) $(NUMBERS)
grade:  ## SUBMISSION=folder-or-archive [OUT=dir] [SANITIZE=1] [RACE=1]: grade one submission in a sandbox (workbook/class/grade.sh)
	@MAKE="$(MAKE)" workbook/class/grade_base.sh build/grades/base
	@MAKE="$(MAKE)" workbook/class/grade.sh $${UNSAFE:+--unsafe} --base build/grades/base -- "$$SUBMISSION" "$${OUT:-build/grades/reports/one}"
grade-all:  ## SUBMISSIONS=dir [JOBS=n] [OUT=dir] [AGAIN=name] [ROSTER=file [DUE=time]] [SEED=n] [CASES=file] [SANITIZE=1] [RACE=1]: grade a class, each in a sandbox; build/grades/grades.csv
	@MAKE="$(MAKE)" WB_GRADERS="$$WB_JOBS" workbook/class/grade_all.sh $${UNSAFE:+--unsafe} "$$SUBMISSIONS" $${OUT:+"$$OUT"}
similar:  ## [P=03] [OUT=dir]: of a graded class the pairs whose work is most alike, to be read, not judged (workbook/class/similar.py)
	@$(PYTHON) workbook/class/similar.py "$${OUT:-build/grades}" $${P:+"$$P"}
class-copy:  ## DEST=dir [UPTO=12]: the workbook for a class: no answer keys, no history, no problem after that one
	@workbook/class/class_copy.sh "$$DEST"
gradescope: $B/score  ## [ZIP=file] [CASES=file] [SEED=n] [SANITIZE=1]: an autograder to upload to Gradescope, build/gradescope.zip
	@workbook/class/gradescope.sh "$${ZIP:-build/gradescope.zip}"
class-test: $B/suite  ## a simulated class, attacks included, must get the grades it deserves; some minutes
	@MAKE="$(MAKE)" tests/class/run.sh
.PHONY: grade grade-all similar class-copy gradescope class-test judges

mutants:  ## each wrong solution must be rejected by its suite
	@+$(BUILD) -k -j"$$WB_JOBS" wrong
	@WB_BUILDING=yes $(MAKE) --no-print-directory -k -j"$$WB_JOBS" caught
lib: $B/lib/libworkbook.so  ## the answer keys, or what is faster (solutions/library.c), as one shared library behind workbook/workbook.h
install: lib  ## PREFIX=/usr/local [DESTDIR=dir]: the library with its header, for programs, pkg-config and CMake; make uninstall PREFIX= takes them away
	@solutions/install.sh $(BACKEND)
uninstall:
	@solutions/install.sh --remove
.PHONY: install uninstall
gpt-oss: $(if $(filter solutions,$(IMPL)),$B/lib/libworkbook.so,$B/problems/gpt_oss.so)  ## your 11 and 12 as the attention of gpt-oss (reference/gpt_oss.py): wants PyTorch and transformers; draws the losses
	@mkdir -p $B/results
	@$(PYTHON) reference/gpt_oss.py $< >$B/results/gpt_oss.tsv
	@plots/plot.sh gpt_oss $(BACKEND)
torch: lib  ## the library's attention in PyTorch (reference/flash_workbook): as an operator, and how right it is; on a GPU times; wants PyTorch, pytest
	@mkdir -p $B/results
	@$(PYTHON) reference/torch_attention.py $B/lib/libworkbook.so >$B/results/torch_attention.tsv; status=$$?; \
	  cut -f 1-4,6 $B/results/torch_attention.tsv | grep -v '	ok$$'; exit $$status
	@WB_LIBRARY=$B/lib/libworkbook.so $(PYTHON) -m pytest -q -p no:cacheprovider reference/torch_test.py reference/flash_attn_test.py reference/ways_in_test.py reference/ring_test.py
duel: $B/lib/libworkbook_all.so  ## shapes drawn by chance, the library beside FlashAttention-4, cuDNN and others (reference/duel.py): SEED= LIMIT=seconds ONLY=kind; wants PyTorch and a GPU
	@mkdir -p $B/results
	@table=$B/results/duel_seed$${SEED:-1}.tsv; \
	  $(PYTHON) reference/duel.py $< >"$$table"; status=$$?; awk -f plots/duel.awk -v worst=10 "$$table"; exit $$status
.PHONY: gpt-oss torch duel
bundle: $B/score  ## programs and libraries for a GPU machine without Criterion, OpenBLAS, gnuplot: make bundle BACKEND=cuda ARCH=90a
	@MAKE="$(MAKE)" workbook/bench/bundle.sh $(BACKEND) $(NUMBERS)
compile-gpu:  ## compile everything for sm_75, sm_80, sm_90a and the newest GPU that nvcc knows; needs no GPU
	@MAKE="$(MAKE)" workbook/bench/compile_gpu.sh
tables:  ## fill the tables of plots/h200.md and lessons with what is recorded in plots/data/h200 (plots/tables.awk)
	@plots/tables.sh
.PHONY: tables
new-problem:  ## N=20 NAME=flash_copy FROM=03: a new problem, as a working copy of another (workbook/README.md)
	@workbook/loop/new_problem.sh "$$N" "$$NAME" "$$FROM"
.PHONY: new-problem
setup:  ## install what is missing (setup.sh)
	@./setup.sh
format:  ## clang-format all C, C++ and CUDA files in place
	clang-format -i $(FORMATTED)
check-format:
	@clang-format --dry-run -Werror $(FORMATTED)
clean:  ## remove build/
	rm -rf build

FORMATTED = $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' 2>/dev/null || \
  find . -path ./build -prune -o -name '*.[ch]' -print -o -name '*.cu' -print -o -name '*.cuh' -print -o -name '*.cpp' -print)


-include workbook/sanitize/sanitize.mk
