# The FlashAttention workbook. `make help` lists what you can do.
#
#   IMPL=problems|solutions   whose code: yours (the default) or the answer key
#   BACKEND=cpu|cuda          where kernels run; cuda where there are nvcc and a GPU
#   ARCH=80                   compute capability to compile for (cuda; the GPU's own by default)
#   SEED=7  CASE=B=1,Nq=5,D=16  other inputs; one case alone      V=1  show the commands      DEBUG=1  compile for gdb
#
# Everything built lies in build/BACKEND/IMPL. To add a problem NN: problems/NN/, solutions/NN/, tests/NN_name.c,
# plots/NN_name.gp, and a prototype in workbook/workbook.h; nothing here changes.

IMPL ?= problems
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
NVCC := $(if $(CUDA_HOME),$(CUDA_HOME)/bin/nvcc)
HAVE_GPU := $(shell nvidia-smi -L >/dev/null 2>&1 && echo yes)
BACKEND ?= $(if $(and $(NVCC),$(HAVE_GPU)),cuda,cpu)
PYTHON ?= python3
MARCH ?= native
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

.DEFAULT_GOAL := help
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-8s %s\n' $(1) $(2) >&2)

ifeq ($(filter $(BACKEND),cpu cuda),)
$(error BACKEND=$(BACKEND): choose cpu or cuda)
endif
ifeq ($(BACKEND)$(if $(NVCC),,-no),cuda-no)
$(error BACKEND=cuda needs the CUDA Toolkit, and there is no nvcc in PATH or /usr/local/cuda/bin. See README.md, "With a GPU"; without one use BACKEND=cpu)
endif

# A copy for a class has no answer keys (class_copy.sh): what is made of them says so.
ifeq ($(wildcard solutions/[0-9]*),)
KEYLESS := $(filter demo lib check check-all mutants class-test everything variants tune-%,$(MAKECMDGOALS)) $(if $(filter solutions,$(IMPL)),IMPL=solutions)
$(if $(strip $(KEYLESS)),$(error make $(strip $(KEYLESS)) needs the answer keys, and this copy of the workbook has none. What is yours: make help))
endif

# ---------------------------------------------------------------------------------------------------------------- tools

B := build/$(BACKEND)
WARNINGS := -Wall -Wextra $(if $(WERROR),-Werror)
OPENBLAS_CFLAGS := $(shell pkg-config --cflags openblas 2>/dev/null)
OPENBLAS_LIBS := $(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas)
# The oracle uses OpenMP where there is one (clang has it in a package of its own), and takes longer where there is none.
OPENMP := $(shell mkdir -p build; echo 'int main(void){return 0;}' > build/openmp.c; $(CC) -fopenmp build/openmp.c -o build/openmp 2>/dev/null && $(CXX) -x c++ -fopenmp build/openmp.c -o build/openmp 2>/dev/null && echo -fopenmp || echo -Wno-unknown-pragmas; rm -f build/openmp*)
CFLAGS ?= $(if $(DEBUG),-O0,-O3) -g
C := $(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) -march=$(MARCH) -fno-math-errno -ffp-contract=fast $(OPENMP) -fPIC -MMD -MP -Iworkbook $(OPENBLAS_CFLAGS)
CXXFLAGS ?= $(if $(DEBUG),-O0,-O2) -g -gdwarf-4
CPU := $(CXX) -std=c++17 -D__CUDACPU__ $(WARNINGS) -Wno-unknown-pragmas $(CXXFLAGS) -fno-strict-aliasing -fPIC -MMD -MP -Iworkbook/cpu/include -Iworkbook -Itests

ifeq ($(BACKEND),cuda)
ARCH ?= $(if $(HAVE_GPU),native)
ifeq ($(ARCH),)
$(error BACKEND=cuda without a GPU on this machine: say what to compile for, for example ARCH=80 (A100) or ARCH=90a (H100, H200))
endif
GENCODE := $(if $(filter native,$(ARCH)),-arch=native,-gencode=arch=compute_$(ARCH),code=sm_$(ARCH))
comma := ,
CU := $(NVCC) -std=c++17 -O3 -lineinfo $(GENCODE) -Xcompiler -Wall$(comma)-Wextra$(comma)-fPIC$(if $(WERROR),$(comma)-Werror -Werror all-warnings) -MMD -MP -Iworkbook -Itests
DEVICE_LIBS := -L$(CUDA_HOME)/lib64 -lcudart -lcublas -ldl -Wl,-rpath,$(CUDA_HOME)/lib64
MEMORY := -DWB_BACKEND_CUDA -I$(CUDA_HOME)/include
LAYER :=
else
LAYER := $(patsubst workbook/cpu/%.cpp,$B/layer/%.o,$(wildcard workbook/cpu/*.cpp))
DEVICE_LIBS := -ldl
endif
LINK := $(CXX) $(OPENMP) -pthread -Wl,--as-needed
LIBS := $(OPENBLAS_LIBS) $(DEVICE_LIBS) -lm

# Objects are made anew when the flags change.
FLAGS := $(C) $(CPU) $(CU) $(LIBS)
$(shell mkdir -p $B; echo '$(FLAGS)' | cmp -s - $B/flags || echo '$(FLAGS)' > $B/flags)

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
$Qawk -f workbook/cpu/cuda_to_cpp.awk $< > $(@:.o=.cpp) && $(CPU) -I$(dir $<) -c $(@:.o=.cpp) -o $@
endef
endif

$B/machinery/%.o: workbook/%.c $B/flags
	@mkdir -p $(@D)
	$(call compile_c,$(if $(filter workbook/memory.c,$<),$(MEMORY)))
$B/machinery/%.o: workbook/%.cu $B/flags workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $(@D)
	$(compile_cu)
$B/reference/%.o: reference/%.c $B/flags
	@mkdir -p $(@D)
	$(call compile_c)
$B/reference/%.o: reference/%.cu $B/flags workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $(@D)
	$(compile_cu)
$B/layer/%.o: workbook/cpu/%.cpp $B/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$Q$(CPU) -c $< -o $@
$B/tests/%.o: tests/%.c $B/flags
	@mkdir -p $(@D)
	$(call compile_c)
$B/tests/%.o: tests/%.cu $B/flags workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $(@D)
	$(compile_cu)

# --------------------------------------------------------------------------------------------------- one implementation
# A problem's number is the key: problems/03/flash_forward.cu is $(call source,problems,03).

NUMBERS := $(sort $(notdir $(wildcard problems/[0-9][0-9])))
source = $(firstword $(wildcard $(1)/$(2)/*.cu $(1)/$(2)/*.c))
name = $(patsubst tests/$(1)_%.c,%,$(wildcard tests/$(1)_*.c))

MACHINERY := $(addprefix $B/machinery/,case.o problems.o validate.o device.o memory.o) $(LAYER)

# $(1): folder below $B, $(2): number, $(3): source
define implementation
$B/$(1)/$(2).o: $(3) $B/flags workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $$(@D)
	$$(if $$(filter %.cu,$$<),$$(compile_cu),$$(call compile_c))
$B/$(1)/$(2)_worker: $B/$(1)/$(2).o $B/machinery/worker_$(2).o $(MACHINERY)
	$Q$(LINK) $$^ $(LIBS) -o $$@
$B/$(1)/$(2).so: $B/$(1)/$(2).o
	$Q$(LINK) -shared $$^ -o $$@
endef
define suite
$B/machinery/worker_$(1).o: workbook/worker.c $B/flags
	@mkdir -p $$(@D)
	$Q$(C) -DWB_NAME=$(call name,$(1)) -c $$< -o $$@
$B/tests/$(1)_test: $B/tests/$(1)_$(call name,$(1)).o $(addprefix $B/tests/,harness.o expect.o worker_run.o) $B/reference/oracle.o $(addprefix $B/machinery/,picture.o case.o problems.o validate.o)
	$Q$(LINK) $$^ -lcriterion -lm -o $$@
endef
$(foreach n,$(NUMBERS),$(eval $(call suite,$n)))
$(foreach i,problems solutions,$(foreach n,$(NUMBERS),$(if $(call source,$i,$n),$(eval $(call implementation,$i,$n,$(call source,$i,$n))))))

# The machinery's own suites: tests/NAME.c, about workbook/NAME.c if there is one, with kernels in tests/NAME_kernels.cu if it has any.
OWN := $(filter-out harness expect worker_run library diagnose,$(basename $(notdir $(filter-out tests/0%,$(wildcard tests/*.c)))))
define own_suite
$B/tests/$(1)_test: $B/tests/$(1).o $(if $(wildcard tests/$(1)_kernels.cu),$B/tests/$(1)_kernels.o) $(filter-out $(MACHINERY),$(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/$(1).c))) $(MACHINERY) $B/reference/oracle.o
	$Q$(LINK) $$^ -lcriterion $(LIBS) -o $$@
endef
$(foreach t,$(OWN),$(eval $(call own_suite,$t)))

# Wrong kernels by other hands, for mistakes/measure.sh: tests/mistakes/NN_name.cu.
$(foreach m,$(wildcard tests/mistakes/*.c tests/mistakes/*.cu),$(eval $(call implementation,mistakes/$(basename $(notdir $m)),$(firstword $(subst _, ,$(notdir $m))),$m)))

# Names the mistake in a function that failed its suite: WB_WORKER=... build/cpu/tests/diagnose 03.
$B/tests/diagnose: $B/tests/diagnose.o $(addprefix $B/tests/,expect.o worker_run.o) $(addprefix $B/reference/,mistakes.o mistakes_table.o mistakes_forward.o mistakes_backward.o mistakes_sum.o oracle.o) $(addprefix $B/machinery/,case.o problems.o validate.o)
	$Q$(LINK) $^ -lm -o $@

# Other ways to solve a problem, under the same suite: solutions/NN/variants/NAME.cu.
VARIANTS := $(patsubst solutions/%.cu,%,$(wildcard solutions/[0-9][0-9]/variants/*.cu))
variants: $(foreach v,$(VARIANTS),$B/variants/$v/$(firstword $(subst /, ,$v))_worker $B/variants/$v/$(firstword $(subst /, ,$v)).so)
$(foreach v,$(VARIANTS),$(eval $(call implementation,variants/$v,$(firstword $(subst /, ,$v)),solutions/$v.cu)))

# Edited copies of a source, made by tune.sh: build/BACKEND/tune/NN/NAME/source.cu.
$(foreach t,$(wildcard $B/tune/*/*/*.cu),$(eval $(call implementation,$(patsubst $B/%/,%,$(dir $t)),$(word 4,$(subst /, ,$t)),$t)))

# Code that cheats or dies, for the harness's own test.
HOSTILE := $(basename $(notdir $(wildcard tests/hostile/*.c)))
$(foreach h,$(HOSTILE),$(eval $(call implementation,hostile/$h,01,tests/hostile/$h.c)))

$B/bench: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/bench*.c)) $B/machinery/roofline.o $B/machinery/timer.o $B/reference/naive_cpu.o $B/reference/naive_gpu.o $B/reference/oracle.o $(MACHINERY)
	$(call say,LINK,$@)
	$Q$(LINK) -rdynamic $^ $(LIBS) -o $@

$B/verdict: $(addprefix $B/machinery/,verdict.o roofline.o bench_shapes.o case.o problems.o validate.o)
	$Q$(LINK) $^ -lm -o $@

$B/points: $(addprefix $B/machinery/,points.o grades.o safe_text.o problems.o)
	$Q$(LINK) $^ -o $@

$B/report: $(addprefix $B/machinery/,report.o grades.o safe_text.o problems.o)
	$Q$(LINK) $^ -o $@

$B/mask: $(addprefix $B/machinery/,mask.o picture.o problems.o) $B/reference/oracle.o
	$Q$(LINK) $^ -lm -o $@

# Wrong solutions: solutions/NN/wrong/NAME.patch, applied to the key, must be rejected by the suite.
WRONG := $(patsubst solutions/%.patch,%,$(wildcard solutions/[0-9][0-9]/wrong/*.patch))
define wrong_solution
$B/wrong/$(1)/$(notdir $(call source,solutions,$(2))): $(call source,solutions,$(2)) solutions/$(1).patch
	@mkdir -p $$(@D)
	@cp $$< $$@ && patch -s -d $$(@D) -p1 --no-backup-if-mismatch -F 0 < solutions/$(1).patch
$(call implementation,wrong/$(1),$(2),$B/wrong/$(1)/$(notdir $(call source,solutions,$(2))))
$B/wrong/$(1)/caught: $B/tests/$(2)_test $B/wrong/$(1)/$(2)_worker workbook/caught.sh workbook/suite.sh
	@workbook/caught.sh $$^ $(BACKEND) $$@
endef
$(foreach w,$(WRONG),$(eval $(call wrong_solution,$w,$(firstword $(subst /, ,$w)))))

# --------------------------------------------------------------------------------------------------------------- targets

export BACKEND
export WB_CASE := $(CASE)
export WB_SEED := $(SEED)
export WB_JOBS := $(JOBS)
export WB_CASES := $(CASES)
FORCE:
.PHONY: FORCE help demo test bench record plot plot-roofline mutants skeletons check report lib bundle compile-gpu setup clean format check-format own-tests variants

help:  ## this list
	@workbook/help.sh $(BACKEND) $(IMPL)
demo: setup  ## see it work: install what is missing, run every answer key against its naive baseline, draw the charts
	@$(MAKE) --no-print-directory show-demo
show-demo: $B/bench $B/verdict $(foreach n,$(NUMBERS),$B/solutions/$n.so)
	@workbook/demo.sh $(BACKEND) $(NUMBERS)

test-%: FORCE  ## test-03: the tests of one problem
	@MAKE="$(MAKE)" workbook/test.sh $(BACKEND) $(IMPL) $*
test:  ## the tests of all problems; fails if one that was started fails
	@MAKE="$(MAKE)" workbook/test.sh $(BACKEND) $(IMPL) $(NUMBERS)
run-%: FORCE  ## run-03 CASE=B=1,Hq=2,Nq=256,D=64: call the function once, print what comes out
	@$(MAKE) --no-print-directory -s $B/$(IMPL)/$*_worker
	@$B/$(IMPL)/$*_worker $(if $(CASE),--case $(CASE))
tune-%: FORCE  ## tune-07 TRY=FILE: other tile sizes, timed side by side as edited copies of a source (workbook/tune.sh)
	@MAKE="$(MAKE)" workbook/tune.sh $(BACKEND) $(or $(SOURCE),$(call source,$(IMPL),$*)) $* $(or $(TRY),solutions/$*/tiles.txt) $(SHAPES)
bench-%: FORCE  ## bench-03: time and memory against the naive baseline and the answer key
	@MAKE="$(MAKE)" workbook/bench.sh $(BACKEND) $(IMPL) $*
bench:  ## the same for all problems
	@MAKE="$(MAKE)" workbook/bench.sh $(BACKEND) $(IMPL) $(NUMBERS)
record:  ## all that is recorded of the keys on a GPU, into plots/data/<gpu> and build/record (PART=suites, bench, peers, example, sanitize)
	@MAKE="$(MAKE)" workbook/record.sh $(BACKEND) build/record $(PART)
mask-%: $B/mask FORCE  ## mask-06 N=32 W=12 BR=8 BC=8: which query sees which key, and the tiles that are visited; build/plots has it as SVG
	@mkdir -p build/plots
	@$B/mask $* $(foreach v,N W S BR BC,$(if $(filter command,$(origin $v)),$v=$($v))) --svg build/plots/mask_$*.svg
plot-%: FORCE  ## plot-03: charts of the last bench-03 in build/plots (TERM=dumb: in the terminal)
	@plots/plot.sh $* $(BACKEND)
plot-roofline: $B/verdict
	@plots/plot.sh roofline $(BACKEND)
plot: $B/verdict  ## all charts, and plot-roofline: which roof bounds each problem on a GPU, and how near it comes
	@for n in $(NUMBERS) roofline; do plots/plot.sh $$n $(BACKEND) || exit 1; done

progress:  ## where each problem stands: state, points, next step; runs nothing
	@workbook/progress.sh $(NUMBERS)
next:  ## the one thing to do now
	@workbook/next.sh $(NUMBERS)
hint-%: FORCE  ## hint-03 GAP=tail LEVEL=2: 1 a question, 2 the idea, 3 nearly the answer; without GAP, of the first gap untouched
	@workbook/hint.sh $*
watch:  ## watch P=03: the tests of a problem again at every save, until Ctrl-C
	@MAKE="$(MAKE)" exec workbook/watch.sh $(NUMBERS)
reset-%: FORCE  ## reset-03: put the shipped skeleton back; your file is kept beside it
	@workbook/reset.sh $*
diff-%: FORCE  ## diff-03: yours against the answer key; asks first (YES=1: does not)
	@workbook/diff.sh $*
.PHONY: progress next watch
report:  ## one page of scores, failures, charts and masks, to keep or hand in: build/report.html, or OUT=FILE; runs no tests
	@MAKE="$(MAKE)" workbook/report.sh $(BACKEND) $(IMPL) $(if $(filter command,$(origin OUT)),"$(OUT)")

check:  ## prove the workbook: keys pass, skeletons earn nothing, wrong solutions are caught
	@MAKE="$(MAKE)" workbook/check.sh $(BACKEND) $(NUMBERS)
grade:  ## SUBMISSION=folder-or-archive [OUT=dir]: grade one submission in a sandbox (workbook/grade.sh)
	@$(GRADING) workbook/grade_base.sh build/grades/base
	@$(GRADING) workbook/grade.sh $(GRADE_HOW) --base build/grades/base -- '$(SUBMISSION)' '$(or $(OUT),build/grades/reports/one)'
grade-all:  ## SUBMISSIONS=dir [JOBS=n] [OUT=dir] [SEED=n] [CASES=file]: grade a class, each in a sandbox; build/grades/grades.csv
	@$(GRADING) WB_GRADERS=$(JOBS) workbook/grade_all.sh $(GRADE_HOW) '$(SUBMISSIONS)' $(if $(OUT),'$(OUT)')
class-copy:  ## DEST=dir: the workbook for a class: no answer keys, no history
	@workbook/class_copy.sh '$(DEST)'
gradescope:  ## [ZIP=file] [CASES=file] [SEED=n]: an autograder to upload to Gradescope, build/gradescope.zip
	@workbook/gradescope.sh '$(or $(ZIP),build/gradescope.zip)'
class-test:  ## a simulated class of 30, bombs included, must get the grades it deserves; some minutes
	@MAKE="$(MAKE)" tests/class/run.sh
.PHONY: grade grade-all class-copy gradescope class-test judges

mutants: $(foreach w,$(WRONG),$B/wrong/$w/caught)  ## each wrong solution must be rejected by its suite
	@cat $^
lib: $B/lib/libworkbook.so  ## the answer keys as one shared library behind workbook/workbook.h
bundle:  ## programs and libraries for a GPU machine without Criterion, OpenBLAS, gnuplot: make bundle BACKEND=cuda ARCH=90a
	@MAKE="$(MAKE)" workbook/bundle.sh $(BACKEND) $(NUMBERS)
compile-gpu:  ## compile everything for sm_75, sm_80, sm_90a and the newest GPU that nvcc knows; needs no GPU
	@MAKE="$(MAKE)" workbook/compile_gpu.sh
setup:  ## install what is missing (setup.sh)
	@./setup.sh
format:  ## clang-format all C, C++ and CUDA files in place
	clang-format -i $(FORMATTED)
check-format:
	@clang-format --dry-run -Werror $(FORMATTED)
clean:  ## remove build/
	rm -rf build

FORMATTED = $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cpp')

# For the graders: what was asked of make, as far as it matters to them.
GRADING = MAKE="$(MAKE)" $(foreach v,CC CXX MARCH,$(if $(filter command environment,$(origin $v)),$v='$($v)'))
GRADE_HOW = $(if $(UNSAFE),--unsafe)

# What the scripts ask for.
program-%: FORCE
	@$(MAKE) --no-print-directory -j$(JOBS) $B/tests/$*_test $B/tests/diagnose $B/$(IMPL)/$*_worker
worker-%: FORCE
	@$(MAKE) --no-print-directory -j$(JOBS) $B/$(IMPL)/$*_worker
libraries-%: FORCE
	@$(MAKE) --no-print-directory -j$(JOBS) $B/bench $B/verdict $B/$(IMPL)/$*.so $(if $(wildcard solutions/$*/*.c*),$B/solutions/$*.so)
own-tests: $(foreach t,$(OWN),$B/tests/$t_test)
	@for t in $(OWN); do workbook/suite.sh $B/tests/$${t}_test none $(BACKEND) || exit 1; done
judges: $B/points $(if $(wildcard tests/diagnose.c),$B/tests/diagnose) $(foreach n,$(NUMBERS),$B/tests/$n_test $B/machinery/worker_$n.o) $(MACHINERY)
everything: $B/bench $B/tests/diagnose $B/verdict $B/points $B/report $B/mask $(foreach h,$(HOSTILE),$B/hostile/$h/01_worker $B/hostile/$h/01.so) $(foreach t,$(OWN),$B/tests/$t_test) $(foreach n,$(NUMBERS),$B/tests/$n_test $(foreach i,problems solutions,$B/$i/$n_worker $B/$i/$n.so)) lib variants

# Problems that have no key yet are exported too, and say so when called.
$B/lib/libworkbook.so: $(foreach n,$(NUMBERS),$(if $(call source,solutions,$n),$B/solutions/$n.o)) $B/machinery/not_implemented.o $(addprefix $B/machinery/,problems.o validate.o device.o) $(LAYER)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$Q$(LINK) -shared $^ $(OPENBLAS_LIBS) $(if $(CUDA_HOME),$(if $(filter cuda,$(BACKEND)),-L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt)) -lm -o $@

-include workbook/sanitize.mk
-include $(shell find $B -name '*.d' 2>/dev/null)
