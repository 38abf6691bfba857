# programs.mk - the programs of workbook/'s rooms.

# Names the mistake in a function that failed its suite: WB_WORKER=... build/cpu/diagnose 03.
$B/diagnose: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/diagnose/*.c)) $(JUDGE) \
  $(addprefix $B/machinery/,problems.o score/gaps.o score/grades.o \
  score/outcome.o score/safe_text.o)
	$Q$(LINK) $^ -lcjson -lmd -lmd -lm -o $@
# Looks for an edit that fixes a function: it writes $B/repaired/NN.cu, the student's file with all changes in it, and
# this makes its worker, which stops at a wide load that is not aligned. What is in C is read as C++ (repair/choice.h).
# Only its author runs it: nothing keeps the function's names from the judge's.
# Its variables are counted, but not hidden from the judge: it is run for its author alone.
$B/repair: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/repair/*.c)) $(JUDGE) \
  $(addprefix $B/machinery/,problems.o diagnose/cases.o score/gaps.o score/grades.o score/outcome.o \
  score/safe_text.o)
	$Q$(LINK) $^ -lcjson -lmd -lm -o $@
define repaired
$B/repaired/$(1).o: $B/repaired/$(1).cu $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	$$(call compile_copy,$$(KERNEL) $$(KERNELFLAGS))
$B/repaired/$(1)_worker: $B/repaired/$(1).o $(judged_by)
	$Q$$(LINK) $$^ $(if $(JUDGED),$$(call statics_of,$$<)) $(LIBS) -o $$@
endef
$(foreach n,$(NUMBERS),$(eval $(call repaired,$n)))
STOPS_AT = -fsanitize=alignment -fsanitize-undefined-trap-on-error
$B/repaired/%.o: export LC_ALL = C
$B/repaired/%.o: KERNELFLAGS = $(if $(WB_WARN),,-w) -O0 $(STOPS_AT) -Iproblems/$* -Isolutions/$*
C_NUMBERS := $(foreach n,$(NUMBERS),$(if $(filter %.c,$(call source,problems,$n)),$n))
$(patsubst %,$B/repaired/%.o,$(C_NUMBERS)): KERNELFLAGS += -w -DREPAIR_C -Drestrict=__restrict__ -fpermissive \
  $(OPENBLAS_CFLAGS)

# Baselines are waited for, and nobody steps through them.
$B/reference/%.o: KERNELFLAGS = -O3 -march=$(MARCH)
$B/bench: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/bench/bench*.c)) \
  $B/machinery/bench/roofline.o $B/machinery/bench/timer.o $B/reference/naive_cpu.o $B/reference/naive_gpu.o \
  $B/reference/naive_decode.o $(sort $(JUDGE) $(MACHINERY))
	$(call say,LINK,$@)
	$Q$(LINK) -rdynamic $^ $(LIBS) -o $@

# 17 and 18 on this machine, a process a rank (start/ring.cu). On GPUs wb_attention is the library's, where
# there is one.
define ring_program
$B/$(1)/$(3): $B/$(1)/$(2).o $B/machinery/start/$(3).o \
  $(if $(ring_library),$(filter-out %/attention.o,$(MACHINERY)) $B/lib/libworkbook.so,$(MACHINERY))
	$Q$$(LINK) $$(filter %.o,$$^) $(if $(ring_library),-L$B/lib -lworkbook \
	    -Wl$(comma)-rpath$(comma)$(CURDIR)/$B/lib) $(LIBS) -o $$@
endef
ring_library = $(and $(filter cuda,$(BACKEND)),$(wildcard solutions/[0-9]*))
$(foreach n,17 18,$(foreach i,problems solutions wrong/$n/% \
  $(addprefix variants/,$(filter $n/%,$(VARIANTS))),$(eval $(call ring_program,$i,$n,$(call ring_of,$n)))))

# What a person types about their work, and what grades: one program.
$B/wb: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/wb/*.c workbook/score/*.c)) \
  $(addprefix $B/machinery/,problems.o judge/spent.o)
	$(call say,LINK,$@)
	$Q$(LINK) $^ -lcjson -lmd -lm -o $@

$B/mask: $(addprefix $B/machinery/,mask/mask.o mask/picture.o problems.o validate.o) $(CASE_OF) $B/reference/oracle.o
	$Q$(LINK) $^ -lm -o $@

$B/timeline: $(patsubst workbook/%.c,$B/machinery/%.o,$(wildcard workbook/timeline/*.c))
	$Q$(LINK) $^ -lm -o $@

$B/needs: $(addprefix $B/machinery/,profile/needs.o bench/roofline.o problems.o) $(JUDGE)
	$Q$(LINK) $^ -lm -o $@

# What starts a submission, and which system calls it may make.
$B/confine: workbook/class/confine.c $B/flags.mk
	$Q$(C) $< -lseccomp -o $@

EVERYTHING := $(addprefix $B/,bench diagnose repair wb mask timeline needs)
# What a submission is judged with (class/grade_base.sh).
judges: $(addprefix $B/,wb confine machinery/worker/coverage.o) $(MACHINERY) \
  check-machinery \
  $(if $(wildcard workbook/diagnose/diagnose.c),$B/diagnose) \
  $(foreach n,$(NUMBERS),$B/tests/$n_test $B/machinery/tested_$n.o $(if $(JUDGED),$B/machinery/judge_$n.o))
