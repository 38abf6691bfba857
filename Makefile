# The FlashAttention workbook. `make help` lists what you can do.
#
#   IMPL=problems|solutions   whose code: yours (the default) or the reference solution
#   BACKEND=cpu|cuda          where kernels run; cuda where there are nvcc and a GPU
#   ARCH=80                   compute capability to compile for (cuda; the GPU's own by default)
#   SEED=7  CASE=B=1,Nq=5,D=16  TEST=memory  other inputs; one case, one test alone
#   V=1  show the commands      DEBUG=1  compile for gdb
#
# This file is the door: what may be typed. workbook/*.mk and each room's .mk say how things are built, in
# build/BACKEND. `make new-problem` adds a problem; nothing here changes.

.DEFAULT_GOAL := help
include workbook/settings.mk
ifdef WB_BUILDING
include workbook/build.mk workbook/programs.mk
-include solutions/library.mk tests/tests.mk train/train.mk
include workbook/sanitize/sanitize.mk
-include workbook/profile/profile.mk $(wildcard $(addsuffix *.d,$B/*/ $B/*/*/ $B/*/*/*/ $B/*/*/*/*/))
endif

# ------------------------------------------------------------------------------------------ begin

demo:  ## see it work: every reference solution against its naive baseline, and charts
	@QUIET=1 ./setup.sh
	@+$(BUILD) -j"$$JOBS" $B/bench $(NUMBERS:%=$B/solutions/%.so) $(RINGS:%=$B/solutions/%)
	@workbook/bench/demo.sh $(BACKEND) $(NUMBERS)
setup:  ## install what is missing (setup.sh); offers to compile the test machinery
	@./setup.sh
next: $B/wb  ## the next thing to do, and a question; P=03: in that problem
	@$< next
progress: $B/wb  ## the state, points and next step of each problem; runs nothing
	@$< progress
help:  ## this list
	@awk -v backend=$(BACKEND) -v impl=$(IMPL) -v refused="$(OF_KEYS)" \
	    -f workbook/loop/help.awk Makefile
book:  ## the lessons as a site, opened from the disk
	@workbook/book/book.sh $(PYTHON)

# ------------------------------------------------------------------------------ work on a problem

test-%: $B/wb FORCE  ## test-03 [COVERAGE=1]: the tests of one problem (and your lines that no case runs)
	@$< test $(BACKEND) $(IMPL) $*
test: $B/wb  ## the tests of all problems; fails if a started problem fails
	@$< test $(BACKEND) $(IMPL) $(NUMBERS)
watch: $B/wb  ## watch P=03: runs the tests of a problem at every save, until Ctrl-C
	@exec $< watch $(BACKEND)
hint-%: $B/wb FORCE  ## hint-03 GAP=tail LEVEL=2: 1 a question, 2 the idea, 3 nearly the answer
	@$< hint $*
run-%: FORCE  ## run-03 CASE=B=1,Hq=2,Nq=256,D=64: call the function once and print its results
	@+$(BUILD) -s $B/$(IMPL)/$*_worker
	@$B/$(IMPL)/$*_worker $${CASE:+--case "$$CASE"}
ring:  ## RANKS=4 [N=4096 D=128 HEADS=8/2 CAUSAL=0 PASS=backward]: 17 or 18 on RANKS ranks; checks the results
	@workbook/start/ring.sh $(BACKEND) $(IMPL) $(call given,N D HEADS CAUSAL RUNS PASS)
sanitize-%: $B/wb FORCE  ## sanitize-03: checks every memory access: races, stray accesses, barriers
	@$< sanitize $(IMPL) $*
sanitize: $B/wb  ## the same for all problems
	@$< sanitize $(IMPL) $(NUMBERS)
mask-%: $B/mask FORCE  ## mask-06 N=32 W=12 BR=8, mask-15 mask=tree/7: which query attends to which key; also an SVG
	@mkdir -p build/plots
	@$B/mask $* $(call given,N W sinks mask BR BC) --table build/plots/mask_$*.tsv
	@. plots/draw.sh; picture plots/mask.gp build/plots/mask_$*.tsv build/plots/mask_$*.svg
timeline-%: FORCE  ## timeline-10 CASE=... [BLOCK=n]: what a block or a ring does over time
	@workbook/timeline/timeline.sh $(IMPL) $*
profile-%: FORCE  ## profile-03 CASE=...: what each line asks of memory and units; needs no GPU
	@workbook/profile/profile.sh $(IMPL) $*
lab:  ## which one is slow, and why? profiles of four kernels of 03 (problems/lab.md); SAY="A NAME" answers
	@workbook/profile/lab.sh
reset-%: FORCE  ## reset-03: restore the shipped skeleton; your file is kept beside it
	@workbook/loop/reset.sh $*
blank-%: FORCE  ## blank-03: a file without gaps, with the contract only; reset-03 restores the gaps
	@workbook/loop/reset.sh $* blank
start-%: $B/wb FORCE  ## start-04: the shipped file with your code from the problem before
	@workbook/loop/reset.sh $* start
diff-%: $B/wb FORCE  ## diff-03: your file against the reference solution; asks first, unless YES=1
	@workbook/loop/step.sh $* diff
step-%: $B/wb FORCE  ## step-04: changes from your file of the problem before to the one shipped (KEYS=1: solutions)
	@workbook/loop/step.sh $*
predict-%: $B/wb FORCE  ## predict-04 GUESS=0.5: answers make next's question; shows your number and the counted one
	@workbook/loop/predict.sh $*
report: $B/wb  ## a page of scores and failures, to keep or hand in: build/report.html, OUT=FILE
	@workbook/score/report.sh $(BACKEND) $(IMPL) $(if $(filter OUT,$(COMMANDED)),"$$OUT")
handin: $B/wb  ## tests what you have started, and packs what counts: build/handin.tar.gz, OUT=FILE
	@workbook/loop/handin.sh $(BACKEND) $(if $(filter OUT,$(COMMANDED)),"$$OUT",build/handin.tar.gz) $(NUMBERS)
compile_commands.json: FORCE  ## for editors with clangd: how each file is compiled
	@workbook/loop/compile_commands.sh $(OPENMP) $(OPENBLAS_CFLAGS) >$@

# ---------------------------------------------------------------------------------------- measure

bench-%: FORCE  ## bench-03: time and memory, with baseline and reference solution (WITH_VARIANTS=1: variants)
	@workbook/bench/bench.sh $(BACKEND) $(IMPL) $*
bench:  ## the same for all problems
	@workbook/bench/bench.sh $(BACKEND) $(IMPL) $(NUMBERS)
plot-%: FORCE  ## plot-03: charts of the last bench-03 in build/plots (TERM=dumb: in the terminal)
	@plots/plot.sh $* $(BACKEND)
plot-roofline: FORCE
	@plots/plot.sh roofline $(BACKEND)
plot:  ## all charts, and plot-roofline: which roof bounds each problem on a GPU
	@plots/plot.sh all $(BACKEND) $(NUMBERS)
duel: $B/lib/libworkbook_all.so  ## the library against others on random shapes: SEED= LIMIT= ONLY= PEERS= LARGEST=
	@mkdir -p $B/results && $(PYTHON) reference/duel.py $< >$B/results/duel_seed$${SEED:-1}.tsv; status=$$?; \
	    awk -f plots/duel.awk -v worst=10 $B/results/duel_seed$${SEED:-1}.tsv; exit $$status
record:  ## measures the reference solutions on a GPU; PART=bench, peers, torch, gpt_oss, duel (record.sh)
	@workbook/bench/record.sh $(BACKEND) $$PART
bundle:  ## this workbook and the libraries it links, for a GPU machine that lacks them (problems/with-a-gpu.md)
	@CC='$(CC)' workbook/bench/bundle.sh
compile-gpu:  ## compile everything for four generations of GPUs; needs no GPU
	@ls $(wildcard $(addsuffix /*.cu,workbook workbook/* reference problems/* solutions/* \
	    solutions/*/variants)) | \
	    xargs -P "$$JOBS" -n 1 workbook/bench/compile_gpu.sh

# -------------------------------------------------------------------------------- use the kernels

train:  ## train a language model with your 07 and 09: WRONG= STEPS= SEED= TEXT= RESUME=1 RANKS=
	@train/train.sh $(BACKEND) $(IMPL)
which:  ## which kernel is wrong? three trainings with curves and gradients; SAY="A 07 NAME" answers
	@train/which.sh
gpt-oss: $(OF_GPT_OSS)  ## your 11 and 12 inside gpt-oss; needs PyTorch, transformers
	@mkdir -p $B/results
	@$(PYTHON) reference/gpt_oss.py $< >$B/results/gpt_oss.tsv && plots/plot.sh gpt_oss $(BACKEND)
lib: $(if $(WB_BUILDING),,lib-takes) $B/lib/libworkbook.so  ## reference solutions, or faster kernels, as one library
lib-takes:
	@$(if $(wildcard $B/lib/libworkbook.so),,echo "lib: compiling 110 files, one line each:" \
	    "two to six minutes on two cores" >&2)
install: lib  ## PREFIX=/usr/local [DESTDIR=dir]: the library for programs, pkg-config and CMake
	@solutions/install.sh $(BACKEND)
uninstall:  ## PREFIX=/usr/local: removes the library
	@solutions/install.sh --remove
torch: lib  ## tests of the library in PyTorch (reference/flash_workbook); needs pytest, hypothesis
	@WB_LIBRARY=$B/lib/libworkbook.so $(PYTHON) -m pytest -q -p no:cacheprovider \
	    $(addprefix reference/,flash_attn_test.py ring_test.py transformers_test.py)
wheel:  ## dist/*.whl: the library for PyTorch, for GPUs of 80, 90a and 120, or ARCH="80 90a"
	@BACKEND=$(if $(NVCC),$(if $(filter file,$(origin BACKEND)),cuda,$(BACKEND)),$(BACKEND)) \
	    $(PYTHON) reference/pip_wheel.py

# ----------------------------------------------------------- run a class (workbook/class/README.md)

class-copy:  ## DEST=dir [UPTO=12]: the workbook for a class: no reference solutions, no history, nothing after 12
	@workbook/class/class_copy.sh "$$DEST"
grade:  ## SUBMISSION=folder-or-archive [OUT=dir P=03 CASE=...]: grade one submission in a sandbox, or try a case
	@workbook/class/grade.sh $${UNSAFE:+--unsafe} -- \
	    "$$SUBMISSION" "$${OUT:-build/grades/reports/one}"
grade-all:  ## SUBMISSIONS=dir [JOBS=n OUT=dir UPTO=12 AGAIN=name REPLACE=1 ROSTER=file SEED= CASES= ...]: a class
	@workbook/class/grade_all.sh $${UNSAFE:+--unsafe} \
	    "$$SUBMISSIONS" $${OUT:+"$$OUT"}
gradescope: $B/wb  ## [ZIP=file UPTO=12 CASES=file SEED=n SANITIZE=1 LIMIT=minutes]: for Gradescope
	@workbook/class/gradescope.sh "$${ZIP:-build/gradescope.zip}"

# ------------------------------------------------------------------------------ the workbook itself

check:  ## tests the workbook (tests/proofs.txt); ONLY=wrong/06: these rows; ALL=1: unchanged rows, too
	@tests/prove/prove.sh $(BACKEND) $(if $(filter STAGE,$(COMMANDED)),"$$STAGE",check) $(NUMBERS)
check-all:  ## tests the whole workbook, as for a release
	@tests/prove/prove.sh $(BACKEND) release $(NUMBERS)
class-test: $B/wb  ## a simulated class, attacks included, must get the grades it deserves
	@tests/class/run.sh
new-problem:  ## N=20 NAME=flash_copy FROM=03: a new problem, as a copy (workbook/README.md)
	@workbook/loop/new_problem.sh "$$N" "$$NAME" "$$FROM"
tables:  ## fill the tables of plots/h200.md and lessons with the recorded figures (plots/tables.awk)
	@plots/tables.sh
format:  ## clang-format all C, C++ and CUDA files in place
	clang-format -i $(FORMATTED)
check-format:
	@clang-format --dry-run -Werror $(FORMATTED)
clean:  ## remove build/
	rm -rf build

FORCE:
.PHONY: FORCE help setup demo progress next book test watch ring sanitize lab report handin bench plot \
  duel record bundle compile-gpu train which gpt-oss lib install uninstall torch wheel class-copy \
  grade grade-all gradescope check check-all class-test new-problem tables format lib-takes \
  check-format clean
