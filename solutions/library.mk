# library.mk - the library: libworkbook.so, and what its suites and the bench want of it.

# The library: every key under its function's name, but those whose kernel solutions/library.c chooses; these under
# the names that stand in kernels.h. Of each the function alone is seen by the others (and NAME_microseconds; and, of a
# kernel with a workspace, NAME_in and NAME_workspace): 03 and 05 both have a forward_kernel<64, 32, 64, 4, 2> with the
# same parameters, and a linker that is not told keeps one of the two. What is read of kernels.h are words: "NN/...", of
# a row, and NN_FORM: of a form with a workspace.
CHOICES := $(filter "% $(NUMBERS:%=%_%:),$(file <solutions/kernels.h))
CHOSEN := $(sort $(foreach s,$(patsubst "%"$(comma),%,$(filter "%,$(CHOICES))),$(if \
  $(findstring /variants/,$s),$(subst /variants/,/,$s),$(dir $s)key)))
chosen = $(notdir $(filter $(1)/%,$(CHOSEN)))
library_symbol = --redefine-sym $(1)=$(2) --keep-global-symbol=$(1) --keep-global-symbol=$(2)
define library_kernel
$B/lib/$(1)$(2:%=_%).o: $B/$(if $(filter-out key,$(2)),variants/$(1)/variants/$(2),solutions)/$(1).o
	@mkdir -p $$(@D)
	$Q$(LD) -r --force-group-allocation $$< -o $$@ && objcopy \
	    $(foreach f,$(addprefix $(call name,$(1)),_in _workspace _microseconds _add _add_in \
	    _add_workspace /),$(call \
	    library_symbol,$(f:/=),$(f:/=)$(2:%=_%))) $$@
endef
LIBRARY_KEYS := $(foreach n,$(NUMBERS),$(if $(call source,solutions,$n),$(or $(addprefix $n/,$(call chosen,$n)),$n/)))
$(foreach k,$(LIBRARY_KEYS),$(eval $(call library_kernel,$(firstword $(subst /, ,$k)),$(word 2,$(subst /, ,$k)))))
LIBRARY := $(addprefix $B/lib/,library.o keys.o pairs.o) $B/machinery/attention_backward.o \
  $(foreach k,$(LIBRARY_KEYS),$B/lib/$(firstword $(subst /, ,$k))$(addprefix _,$(word 2,$(subst /, ,$k))).o) \
  $B/lib/decode_e4m3.o $B/lib/wide.o
# Kernels that serve no problem: $(1): name, $(2): the problem that they are like
define its_alone
$(call implementation,$(1),$(2),solutions/flash_$(1).cu)
$B/lib/$(1).o: $B/$(1)/$(2).o
	@mkdir -p $$(@D)
	$$(call its_own,$$<,$$@,flash_$(1))
endef
$(eval $(call its_alone,decode_e4m3,14))
$(eval $(call its_alone,wide,10))
$(addprefix $B/lib/,library.o keys.o pairs.o): $B/lib/%.o: solutions/%.c VERSION $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c,-DWB_VERSION='"$(file <VERSION)"')
$B/lib/libworkbook.so $B/lib/libworkbook_all.so: $(LIBRARY)
# It exports what workbook.h declares, calls its own functions whatever the program's are called, and stays loaded:
# the layer's signal handlers do. libworkbook_all.so exports each kernel under its name, for make duel and, on the cpu
# backend, for the bench, whose layer has to be its own.
SONAME = libworkbook.so.$(firstword $(subst ., ,$(file <VERSION)))
$B/lib/libworkbook.so: $B/lib/workbook.map
$B/lib/libworkbook.so: \
  LINK += -Wl,--version-script=$B/lib/workbook.map,-soname,$(SONAME),-Bsymbolic-functions,-z,nodelete
$B/lib/workbook.map: workbook/workbook.h solutions/declared.awk $B/flags.mk
	@mkdir -p $(@D)
	$Q$(CC) -E $< | awk -v as=map -f solutions/declared.awk >$@
# Yours, for reference/gpt_oss.py.
$B/problems/gpt_oss.so: $B/problems/11.o $B/problems/12.o
$B/lib/libworkbook.so $B/lib/libworkbook_all.so $B/problems/gpt_oss.so: \
  $(addprefix $B/machinery/,problems.o validate.o device.o quantise_fp8.o heads_first.o add_share.o indices.o scored.o \
  $(if $(filter cuda,$(BACKEND)),nccl/nccl.o) $(addprefix case/,block_mask.o named_mask.o quantise.o)) $(LAYER)
	$(call say,LINK,$@)
	$Q$(LINK) -shared $(filter %.o,$^) $(OPENBLAS_LIBS) \
	    $(if $(CUDA_HOME),$(if $(filter cuda,$(BACKEND)),-L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt)) -lm -o \
	    $@
	$(if $(filter %/libworkbook.so,$@),@ln -sf libworkbook.so $(@D)/$(SONAME))
# What it chooses, for the suites of these functions; and its forms with a workspace, NN_FORM_worker
# (tests/library_forms.c).
LIBRARY_FORMS := $(patsubst %:,%,$(filter %:,$(CHOICES)))
LIBRARY_WORKERS := $(sort $(foreach c,$(CHOSEN),$B/lib/$(patsubst %/,%,$(dir $c))_worker) \
  $(LIBRARY_FORMS:%=$B/lib/%_worker))
# All have the same kernels, and find them beside them.
$B/lib/libkernels.so: $(filter-out %/01.o,$(LIBRARY))
	$Q$(LINK) -shared -Xlinker -soname -Xlinker libkernels.so $^ -o $@
define library_worker
$B/lib/$(1)_worker: $B/machinery/tested_$(firstword $(subst _, ,$(1))).o $(WORKER) \
  $(if $(findstring _,$(1)),$B/lib/form_$(lastword $(subst _, ,$(1))).o) $B/lib/libkernels.so $(MACHINERY)
	$Q$$(LINK) $(if $(findstring _,$(1)),-Xlinker --wrap=$(call name,$(firstword $(subst _, ,$(1))))) $$^ \
	    $(LIBS) -Xlinker -rpath -Xlinker '$$$$ORIGIN' -o $$@
endef
$(foreach w,$(LIBRARY_WORKERS:$B/lib/%_worker=%),$(eval $(call library_worker,$w)))
$B/lib/form_%.o: tests/library_forms.c $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c,-DFORM=$*)
library-workers: $(LIBRARY_WORKERS)
