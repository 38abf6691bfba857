# sanitize.mk - check builds: programs that look at every access. Included by the Makefile. On the cpu backend alone:
# $B/check/IMPL/NN_worker, the student's .cu, compiled to announce loads and stores, with workbook/cpu/check behind it;
# of problem 01 with AddressSanitizer and UBSan, and NN_threads_worker with ThreadSanitizer.

CHECK := build/cpu/check
CHECK_OBJECTS := $(patsubst workbook/cpu/check/%.cpp,$(CHECK)/layer/%.o,$(wildcard workbook/cpu/check/*.cpp))
# Ubuntu's compiler defines _FORTIFY_SOURCE, which makes a memcpy one that has another name and announces nothing.
# Local variables begin as bytes 0xfe, where the compiler can do that (wb/sanitize.c, look_at_values).
CHECK_CU := $(CPU) -U_FORTIFY_SOURCE -O1 -gdwarf-4 -g1 -fsanitize=thread,bounds,alignment \
  $(if $(CLANG)$(filter-out 4 5 6 7 8 9 10 11,$(GCC)),-ftrivial-auto-var-init=pattern) \
  $(if $(CLANG),-mllvm -tsan-instrument-read-before-write)
$(CHECK)/%.o: export LC_ALL = C
RENAME := $(foreach f,memcpy memmove memset,--redefine-sym $f=check_$f)

ifeq ($(BACKEND),cpu)
$(CHECK)/layer/%.o: workbook/cpu/check/%.cpp $B/flags.mk
	@$(folder)
	$(call say,CXX,$<)
	$Q$(CPU) $(CXXFLAGS) -c $< -o $@

# A function's own copy of std::vector<int>::push_back() announces what it does, and must not become the layer's,
# which says what was found. All else stays global: who defines what the check build defines, such as __tsan_read4,
# does not link.
define own_templates
$Q$(LD) -r --force-group-allocation $(1) -o $(2)
$Qobjcopy $(RENAME) -w $(foreach s,_ZNSt* _ZNKSt* _ZSt* _ZNSa* _ZNKSa* _ZN9__gnu_cxx* _ZNK9__gnu_cxx*,-L '$s') $(2)
endef
# $(1): object, $(2): source, $(3): more flags
define check_object
$(1): $(2) $B/flags.mk workbook/sanitize/sanitize.mk workbook/cpu/cuda_to_cpp.awk
	@$$(folder)
	$$(call say,CHECK,$$<)
	$$(call compile_copy,$$(CHECK_CU) $(3))
endef
caller_of = $(if $(filter $(1),$(NUMBERS)),$B/machinery/tested_$(1).o $(WORKER)) $(MACHINERY)
# $(1): folder below $(CHECK), $(2): number, or the name of a program that is no worker, $(3): source, $(4): libraries
define check_of_cu
$(call check_object,$(CHECK)/$(1)/$(2).o,$(3))
$(CHECK)/$(1)/$(2)_worker: $(CHECK)/$(1)/$(2).o $(call caller_of,$(2)) $(CHECK_OBJECTS)
	$$(call own_templates,$$<,$$@.o)
	$Q$$(LINK) $$@.o $$(filter-out $$<,$$^) $(LIBS) $(4) -o $$@
endef

# C code, and all of the machinery that is C, under the compiler's own sanitizers. -fopenmp stays away: its threads
# are not known to them.
CHECK_C = $(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) -O1 -g -fno-omit-frame-pointer -fopenmp-simd \
  -Iworkbook -Iworkbook/words -I. \
  $(OPENBLAS_CFLAGS) $(SANITIZER_$(1))
SANITIZER_address := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SANITIZER_threads := -fsanitize=thread
# By name: a grader's kit has their objects and no source.
NOT_OF_C := $(addprefix $B/machinery/,device.o worker/late_inputs.o attention.o attention_backward.o rank.o)
CHECK_C_OBJECTS = $(patsubst $B/machinery/%,$(CHECK)/$(1)/%,$(filter-out \
  $(NOT_OF_C),$(filter $B/machinery/%,$(WORKER) $(MACHINERY)))) $(CHECK)/$(1)/sanitize/options.o $(NOT_OF_C) $(LAYER)
# $(1): address or threads
define check_machinery
$(CHECK)/$(1)/%.o: workbook/%.c $B/flags.mk workbook/sanitize/sanitize.mk
	@$$(folder)
	$Q$(call CHECK_C,$(1)) -MMD -MP -c $$< -o $$@
endef
define check_worker
$(CHECK)/$(1)/tested_$(2).o: workbook/worker/tested.c $B/flags.mk workbook/sanitize/sanitize.mk
	@$$(folder)
	$Q$(call CHECK_C,$(1)) -MMD -MP -DWB_NAME=$(call name,$(2)) -c $$< -o $$@
endef
$(foreach s,address threads,$(eval $(call check_machinery,$s))$(foreach \
  n,$(C_NUMBERS),$(eval $(call check_worker,$s,$n))))
check-machinery: $(CHECK_OBJECTS) $(foreach s,address threads,$(call CHECK_C_OBJECTS,$s) \
  $(foreach n,$(C_NUMBERS),$(CHECK)/$s/tested_$n.o))
# $(1): folder below $(CHECK), $(2): number, $(3): source, $(4): address or threads, $(5): the worker's name, $(6): what
# is made with it
define check_of_c
$(CHECK)/$(1)/$(5): $(3) $(CHECK)/$(4)/tested_$(2).o $(call CHECK_C_OBJECTS,$(4)) workbook/sanitize/sanitize.mk | $(6)
	@$$(folder)
	$$(call say,CHECK,$$<)
	$Q$(call CHECK_C,$(4)) $$(filter %.c %.o,$$^) $(LIBS) -lstdc++ -pthread -o $$@
endef
define check_of_c_both
$(call check_of_c,$(1),$(2),$(3),address,$(2)_worker,$(CHECK)/$(1)/$(2)_threads_worker)
$(call check_of_c,$(1),$(2),$(3),threads,$(2)_threads_worker)
endef
check_of = $(call $(if $(filter %.cu,$(3)),check_of_cu,check_of_c_both),$(1),$(2),$(3))
$(foreach i,problems solutions,$(foreach n,$(NUMBERS),$(if \
  $(call source,$i,$n),$(eval $(call check_of,$i,$n,$(call source,$i,$n))))))

# Variants on Hopper, and those of 13 and 14, for tests/proofs.txt.
CHECKED_VARIANTS := $(foreach v,$(VARIANTS),$(if $(findstring hopper,$v)$(filter 13/% 14/% %/one_launch,$v),$v))
$(foreach v,$(CHECKED_VARIANTS),$(eval $(call check_of,variants/$v,$(firstword $(subst /, ,$v)),solutions/$v.cu)))

# Independent solutions (tests/honest).
$(foreach h,$(HONEST),$(eval $(call check_of,honest/$h,$(firstword $(subst _, ,$h)),$(wildcard tests/honest/$h.c \
  tests/honest/$h.cu))))
$(foreach n,$(HONEST_EDITS),$(eval $(call \
  check_of,honest/$n_%,$n,$B/honest/$n_%/$(notdir $(call source,solutions,$n)))))

# Programs of tests/sanitize that draw what they run, in children as suites do (tests/in_a_child.h).
$(foreach d,$(wildcard tests/sanitize/*.cu),$(eval $(call check_of_cu,drawn,$(basename $(notdir $d)),$d,-lcriterion)))

# Broken kernels: the edits of tests/sanitize/NN.diff are made in the reference solution of NN.
broken_copy = $(CHECK)/broken/$(1)_%/$(notdir $(call source,solutions,$(1)))
# $(1): the problem
define broken
$(broken_copy): $(call source,solutions,$(1)) tests/sanitize/$(1).diff workbook/sanitize/broken_copy.sh $(EDIT)
	@$$(folder)
	@sh workbook/sanitize/broken_copy.sh $$< tests/sanitize/$(1).diff $$* >$$@
$(call check_of,broken/$(1)_%,$(1),$(broken_copy))
endef
$(foreach b,$(basename $(notdir $(wildcard tests/sanitize/*.diff))),$(eval $(call broken,$b)))
endif
