# tests.mk - suites of the machinery, wrong solutions, independent solutions, and code that cheats or dies.

# The machinery's own suites: tests/NAME.c, about workbook/*/NAME.c if there is one; of what has kernels
# tests/NAME.cu.
OWN := $(filter-out harness harness_judge library library_choice library_forms library_pairs \
  $(if $(filter cuda,$(BACKEND)),layer ranks),$(basename $(notdir \
  $(filter-out $(wildcard tests/[0-9][0-9]_*.c),$(wildcard tests/*.c tests/*.cu)))))
define own_suite
$B/tests/$(1)_test: $B/tests/$(1).o $(filter-out $(RECORD) \
  $(MACHINERY),$(patsubst workbook/%,$B/machinery/%.o,$(basename \
  $(wildcard $(foreach e,c cu,workbook/$(1).$e workbook/*/$(1).$e))))) $(RECORD) $(MACHINERY) $B/reference/oracle.o
	$Q$$(LINK) $$^ -lcriterion -lcjson $(LIBS) -o $$@
endef
$(foreach t,$(OWN),$(eval $(call own_suite,$t)))

# Independent solutions, written from the lessons alone: tests/honest/NN_name.cu.
HONEST := $(basename $(notdir $(wildcard tests/honest/*.c tests/honest/*.cu)))
$(foreach m,$(wildcard tests/honest/*.c tests/honest/*.cu),$(eval \
  $(call implementation,honest/$(basename $(notdir $m)),$(firstword $(subst _, ,$(notdir $m))),$m)))
# Edits of a key that are as right: tests/honest/NN.diff.
HONEST_EDITS := $(basename $(notdir $(wildcard tests/honest/*.diff)))
$(foreach n,$(HONEST_EDITS),$(eval $(call edited,honest/$n_%,$n,tests/honest/$n.diff)))

# Code that cheats or dies, for the harness's own test; and code that no worker can be made of.
$(eval $(call implementation,hostile,01,tests/hostile/hostile.c))
$(eval $(call implementation,refused,01,tests/hostile/refused.c))
$(eval $(call implementation,hostile,17,tests/hostile/ring.cu))
hostile: $B/hostile/01_worker $B/hostile/01.so $B/hostile/17_worker

# Conditions that no case meets (tests/coverage.sh).
$(eval $(call edited,planted/%,03,tests/planted.diff))
$(eval $(call implementation,planted/%,03_counted,$B/planted/%/$(notdir $(call source,solutions,03))))

# Wrong solutions: each edit of solutions/NN/wrong.diff must be rejected by the suite.
$(foreach n,$(patsubst solutions/%/wrong.diff,%,$(wildcard solutions/*/wrong.diff)),$(eval \
  $(call edited,wrong/$n/%,$n,solutions/$n/wrong.diff)))
# There are hundreds, and each runs for a moment: compiled in a third of the time, they are wrong in the same way.
# Without what debuggers want of the layer they are linked in half the time.
$B/wrong/%.o: KERNELFLAGS = -O0
$B/wrong/%_worker: LINK += -Wl,--strip-debug

# What scripts and graders ask for.
wb: $B/wb
suites: $B/wb $B/diagnose $(MACHINERY) $(NUMBERS:%=$B/tests/%_test)
own: $B/wb $(OWN:%=$B/tests/%_test)
everything: $(EVERYTHING) $(RINGS:%=$B/solutions/%) hostile own suites variants lib $B/lib/libworkbook_all.so \
  $(LIBRARY_WORKERS) $(foreach i,problems solutions,$(foreach n,$(NUMBERS),$B/$i/$n_worker $B/$i/$n.so))
lib: $B/lib/libworkbook.so
