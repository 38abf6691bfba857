# build.mk - how one source file is compiled, and of what a worker, a suite, and an edited copy of a key are made.
# Objects, programs and records of a backend lie in $B, build/BACKEND.

# Of a loop that stays as it is in spite of a #pragma clang warns.
WARNINGS := -Wall -Wextra -Wshadow $(if $(CLANG),-Wno-pass-failed) $(if $(WERROR),-Werror)
CFLAGS ?= $(if $(DEBUG),-O0,-O3) -g
C := $(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) -march=$(MARCH) -fno-math-errno -ffp-contract=fast $(OPENMP) \
  -fPIC -MMD -MP -Iworkbook -Iworkbook/words -I. $(OPENBLAS_CFLAGS)
# addr2line misreads #line in DWARF 5; CUDA code often reads memory as another type, float4 for one.
CXXFLAGS ?= -gdwarf-4 $(if $(DEBUG),-O0 -g,-O2 -g1) -fno-semantic-interposition
# -Og takes about half the time of -O1, and suites a twelfth longer, 16's a quarter. Of debug information lines are
# enough: -g1 stands behind -gdwarf-4, which would ask for all of it, and a check build would take half as long again.
# The library links several kernels: what each has of its own under a name in common is weak.
KERNELFLAGS ?= -gdwarf-4 $(if $(DEBUG),-O0 -g,-Og -g1) $(if $(CLANG),,-fno-gnu-unique -finline-functions-called-once)
# C++17, with the one word of C++20 that cudacpu/launch.h needs, where the compiler has it and how.
DIALECT := -std=c++$(if $(CLANG),$(if $(filter $(CLANG),3 4 5 6 7 8 9 10 11 12 13 14 15 16),20 \
  -Wno-deprecated,17),17 -fconcepts)
CPU := $(CXX) $(DIALECT) -D__CUDACPU__ $(WARNINGS) -Wno-unknown-pragmas -fno-strict-aliasing -fPIC -MMD -MP \
  -Iworkbook/cpu/include -Iworkbook -Iworkbook/words -I. -Itests
# g++ from 15 on copies a float4 in two halves: a misaligned one has to announce itself (cpu/faults.cpp).
KERNEL := $(CPU) $(if $(filter-out 4 5 6 7 8 9 10 11 12 13 14,$(GCC)),-fsanitize=alignment)
# Counts what runs of a file's own lines, not of headers'; inlined is what has been counted.
COUNTS := -fprofile-arcs -ftest-coverage -fprofile-update=prefer-atomic -fprofile-info-section=wb_counters \
  -fno-early-inlining -fprofile-exclude-files=^[/w]

ifeq ($(BACKEND),cuda)
# -arch=native would be sm_90 on a Hopper GPU, without what hopper.cuh needs.
ARCH ?= $(if $(HAVE_GPU),$(if $(filter 9.0,$(CAPABILITY)),90a,native))
ifeq ($(ARCH),)
$(error BACKEND=cuda without a GPU on this machine: say what to compile for, for example ARCH=80 (A100) or ARCH=90a \
  (H100, H200))
endif
GENCODE := $(if $(filter native,$(ARCH)),-arch=native,$(foreach a,$(ARCH),-gencode=arch=compute_$a,code=sm_$a))
CU := $(NVCC) -std=c++17 -O3 -lineinfo $(GENCODE) -Xcompiler \
  -Wall$(comma)-Wextra$(comma)-Wshadow$(comma)-fPIC$(if $(WERROR),$(comma)-Werror -Werror all-warnings) -MMD -MP \
  -Iworkbook -Iworkbook/words -I. -Itests
# NCCL's header is NVIDIA's where there is one; the library is looked for when 17 runs (nccl/nccl.cu).
CU += -Xcompiler -idirafter,workbook/nccl
$B/machinery/nccl/nccl.o: CU += -DWB_CUDA_HOME=$(CUDA_HOME)
DEVICE_LIBS := -L$(CUDA_HOME)/lib64 -lcudart -lcublas -ldl -Wl,-rpath,$(CUDA_HOME)/lib64
MEMORY := -DWB_BACKEND_CUDA -I$(CUDA_HOME)/include
LAYER :=
else
# The layer has three units, since reading headers took most of the time of its files: what runs at every step of a
# thread, and two that are to be compiled soon. Files of a unit have no static name in common.
unit_1 := async_copy atomics engine fiber hooks knowledge scheduler shared_memory signals tensor_cores warp \
  warpgroup_products
unit_2 := copy_engine faults flight nccl pages report runtime_api
unit_3 := $(filter-out $(unit_1) $(unit_2),$(patsubst workbook/cpu/%.cpp,%,$(wildcard workbook/cpu/*.cpp)))
UNITS := 1 2 3
LAYER := $(UNITS:%=$B/layer/unit_%.o)
DEVICE_LIBS := -ldl
# What worker, machinery and layer keep from a function that they call: see JUDGED.
HIDDEN := -fvisibility=hidden
endif
LINK = $(CXX) $(OPENMP) -pthread -Wl,--as-needed
LIBS := $(OPENBLAS_LIBS) $(DEVICE_LIBS) -lm

# Objects are made anew when the flags change.
FLAGS := $(strip $(C) $(HIDDEN) $(KERNEL) $(CXXFLAGS) $(KERNELFLAGS) $(CU) $(LIBS) $(COUNTS) \
  $(foreach u,$(UNITS),$(unit_$u)))
-include $B/flags.mk
build/tools.mk $B/flags.mk: ;
ifneq ($(BUILT_WITH),$(FLAGS))
$(shell mkdir -p $B && echo 'BUILT_WITH := $(FLAGS)' >$B/flags.$$$$ && mv $B/flags.$$$$ $B/flags.mk)
endif

# ------------------------ one source file

folder = $(if $(wildcard $(@D)),,mkdir -p $(@D))

define compile_c
$(call say,CC,$<)
$Q$(BEGUN)$(C) $(1) $(COUNTING) -c $< -o $@$(ENDED)
endef
ifeq ($(BACKEND),cuda)
define compile_cu
$(call say,NVCC,$<)
$Q$(BEGUN)$(CU) -c $< -o $@$(ENDED)
endef
else
define compile_cu
$(call say,CXX,$<)
$Q$(BEGUN)LC_ALL=C awk -v object=$@ -v makes=$(@:.o=.cu.d) -f workbook/cpu/cuda_to_cpp.awk $< > $(@:.o=.cpp) && \
  $(KERNEL) $(KERNELFLAGS) $(COUNTING) -I$(dir $<) -c $(@:.o=.cpp) -o $@$(ENDED)
endef
endif

# No shell starts these: a save makes several copies of a source.
define compile_copy
$Qawk -v object=$@ -v makes=$(@:.o=.cu.d) -v made=$(@:.o=.cpp) -f workbook/cpu/cuda_to_cpp.awk $<
$Q$(1) -I$(dir $<) -c $(@:.o=.cpp) -o $@
endef

$B/machinery/%.o: workbook/%.c $B/flags.mk
	@$(folder)
	$(call compile_c,$(HIDDEN) $(if $(filter workbook/memory.c,$<),$(MEMORY)) $(BRIEF))
# What computes for no long time; what gcc says at -O1 of variables that may be uninitialized is a guess.
BRIEFLY := $(if $(DEBUG),,-O1 -g1 $(if $(CLANG),,-Wno-maybe-uninitialized))
$(addprefix $B/machinery/,$(addsuffix /%.o,diagnose repair score wb mask judge class timeline profile worker)): \
  BRIEF = $(BRIEFLY)
$B/machinery/judge/expect.o: BRIEF = $(if $(DEBUG),,-O2)
$B/machinery/%.o: KERNELFLAGS += $(HIDDEN)
$B/machinery/%.o: workbook/%.cu $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@$(folder)
	$(compile_cu)
$B/reference/%.o: reference/%.c $B/flags.mk
	@$(folder)
	$(call compile_c)
$B/reference/%.o: reference/%.cu $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@$(folder)
	$(compile_cu)
$B/layer/unit_%.cpp: $B/flags.mk
	@$(folder)
	@printf '#include "cpu/%s.cpp"\n' $(unit_$*) >$@
$(foreach u,$(UNITS),$(eval $B/layer/unit_$u.o: $(unit_$u:%=workbook/cpu/%.cpp)))
$B/layer/unit_%.o: $B/layer/unit_%.cpp $B/flags.mk
	$(call say,CXX,workbook/cpu$(comma) unit $*)
	$Q$(CPU) $(CXXFLAGS) $(if $(filter 1,$*)$(DEBUG),,-Og) $(HIDDEN) -c $< -o $@
# What judges at length is the oracle, so suites need no more than -O1.
$B/tests/%.o: tests/%.c $B/flags.mk
	@$(folder)
	$(call compile_c,$(BRIEFLY))
$B/tests/%.o: tests/%.cu $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@$(folder)
	$(compile_cu)

# ------------------------ one implementation
# What judges: the oracle, and what starts workers.
CASE_OF := $(addprefix $B/machinery/case/,case.o random_case.o pages.o shards.o quantise.o named_mask.o \
  block_mask.o)
JUDGE := $(addprefix $B/machinery/,judge/expect.o judge/session.o judge/spent.o judge/worker_run.o worker/exchange.o \
  validate.o) $(CASE_OF) $B/reference/oracle.o
# What writes the record of a test program's run.
RECORD := $(addprefix $B/machinery/,judge/record.o score/outcome.o score/safe_text.o)
MACHINERY := $(CASE_OF) $(addprefix $B/machinery/,worker/exchange.o worker/late_inputs.o problems.o \
  validate.o device.o memory.o attention.o attention_backward.o rank.o $(if $(filter \
  cuda,$(BACKEND)),nccl/nccl.o)) $(LAYER)
# What calls a function. Which one, tested_NN.o says.
WORKER := $(addprefix $B/machinery/worker/,worker.o run.o conditions.o by_hand.o)

# A worker is two objects, and neither can name what the other keeps to itself. Of the function's nothing is called
# but the function. Of the judge's (worker, machinery, layer) it can name what workbook.h and cpu/include declare: all
# else is compiled as hidden, and here becomes local. How many bytes of variables it has that outlive functions is noted
# as wb_statics (memory.h); counters, padded, are none.
JUDGED := $(and $(filter cpu,$(BACKEND)),$(call in_path,objcopy))
define its_own
$Q$(LD) -r --force-group-allocation $(1) -o $(2)
$Qobjcopy $(foreach f,$(3) $(3)_workspace,--keep-global-symbol=$f) $(2)
endef
judged_by = $(if $(JUDGED),$B/machinery/judge_$(1).o,$B/machinery/tested_$(1).o $(WORKER) $(MACHINERY))
statics_of = -Xlinker --defsym=wb_statics=wb_statics_from+$(subst $() ,+,$(wordlist 2,3,$(filter \
  0% 1% 2% 3% 4% 5% 6% 7% 8% 9%,$(shell size $(1)))))
statics_but_counters = -Xlinker --defsym=wb_statics=wb_statics_from+$$({ size $(1); nm -S -t d $(1); } | awk \
  'NR == 2 { n = $$2 + $$3 } / __gcov[^ ]*$$/ { n -= 4 + ($$2 < 32 ? $$2 : int(($$2 + 31) / 32) * 32) } \
  END { print n < 0 ? 0 : n }')

# An object is as old as the moment its source was read: no save is overlooked. A worker appears whole.
# $(1): folder below $B, $(2): number, or NN_counted, $(3): source
define implementation
$B/$(1)/$(2).o: $(3) $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@$$(folder)
	$$(if $$(filter %.cu,$$<),$$(compile_cu),$$(call compile_c))
$B/$(1)/$(2).o: private BEGUN = : >$$(@:.o=.began) &&
$B/$(1)/$(2).o: private ENDED =  && { [ ! $$< -nt $$(@:.o=.began) ] || touch -c -r $$(@:.o=.began) $$@; }
$B/$(1)/$(2)_worker: $B/$(1)/$(2).o $(call judged_by,$(2))
	$(if $(JUDGED),$$(call its_own,$$<,$$@.o,$(call name,$(firstword $(subst _, ,$(2))))))
	$Q$$(LINK) $(if $(JUDGED),$$@.o $$(filter-out $$<,$$^),$$^) $(if $(JUDGED)$(filter cuda,$(BACKEND)),$$(call \
	    $(if $(filter %_counted,$(2)),statics_but_counters,statics_of),$$<)) $(LIBS) -o $$@.new
	$Qmv -f $$@.new $$@
$B/$(1)/$(2).so: $B/$(1)/$(2).o
	$Q$$(LINK) -shared $$^ -o $$@
endef
judge_object = $(LD) -r --force-group-allocation $^ $(LIBGCOV_WANTED) -o $@ && \
  objcopy --localize-hidden -w -L '__gcov_*_to_*' $(if $(DEBUG),,--strip-debug) $@
define suite
$B/machinery/tested_$(1).o: workbook/worker/tested.c $B/flags.mk
	@$$(folder)
	$Q$(C) $(HIDDEN) -DWB_NAME=$(call name,$(1)) -c $$< -o $$@
$B/machinery/judge_$(1).o: $B/machinery/tested_$(1).o $(WORKER) $(MACHINERY)
	$Q$$(judge_object)
$B/machinery/judge_$(1)_counted.o: $B/machinery/tested_$(1).o $(WORKER) $(MACHINERY) $B/machinery/worker/coverage.o
	$Q$$(judge_object)
$B/tests/$(1)_test: $(addprefix $B/tests/,$(1)_$(call name,$(1)).o harness.o harness_judge.o) $(RECORD) $(JUDGE) \
  $(addprefix $B/machinery/,mask/picture.o problems.o)
	$Q$$(LINK) $$^ -lcriterion -lcjson -ldl -lm -o $$@
endef
$(foreach n,$(NUMBERS),$(eval $(call suite,$n)))

# What a suite runs of a source (loop/coverage.sh), where gcc counts it: NN_counted_worker; gcc's notes in .gcno.
COUNTED := $(and $(JUDGED),$(GCOV),_counted)
%_counted.o: private COUNTING = $(COUNTS)
%_counted.o: private LIBGCOV_WANTED = -u __gcov_info_to_gcda $(LIBGCOV)
$(foreach i,problems solutions,$(foreach n,$(NUMBERS),$(if $(call source,$i,$n),$(foreach c,$n $(COUNTED:%=$n%),$(eval \
  $(call implementation,$i,$c,$(call source,$i,$n)))))))

# The key of a problem with one edit of a list (workbook/loop/edit.awk); one that stays the same is not compiled again.
# $(1): folder below $B, % in it stands for the entry's name; $(2): number, $(3): the list
EDIT := workbook/loop/edit.awk
define edited_source
$(1)/edited: $(2) $(3) $(EDIT)
	@$$(folder)
	@awk -v list=$(3) -v entry=$$* -f $(EDIT) $$< >$$@.new
	@cmp -s $$@.new $$(@D)/$(notdir $(2)) || cp $$@.new $$(@D)/$(notdir $(2))
	@mv $$@.new $$@
$(1)/$(notdir $(2)): $(1)/edited ;
endef
edited = $(call edited_source,$B/$(1),$(call source,solutions,$(2)),$(3))$(newline)$(call \
  implementation,$(1),$(2),$B/$(1)/$(notdir $(call source,solutions,$(2))))
define newline


endef

# Other ways to solve a problem, under the same suite: solutions/NN/variants/NAME.cu.
VARIANTS := $(patsubst solutions/%.cu,%,$(wildcard solutions/[0-9][0-9]/variants/*.cu))
variants: $(foreach v,$(VARIANTS),$B/variants/$v/$(firstword $(subst /, ,$v))_worker \
  $B/variants/$v/$(firstword $(subst /, ,$v)).so)
$(foreach v,$(VARIANTS),$(eval $(call implementation,variants/$v,$(firstword $(subst /, ,$v)),solutions/$v.cu)))

# Edited copies of a source: build/BACKEND/tune/NN/NAME/source.cu (loop/reset.sh).
$(foreach t,$(wildcard $B/tune/*/*/*.cu),$(eval \
  $(call implementation,$(patsubst $B/%/,%,$(dir $t)),$(word 4,$(subst /, ,$t)),$t)))
