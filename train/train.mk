# train.mk - the program that trains a language model with the kernels of 07 and 09, and its checks. Included at the
# Makefile.

TRAINED := $B/train
TRAIN_C := train model context attention_naive compare checkpoint ranks \
  $(if $(filter cuda,$(BACKEND)),attention_device layers ranks_device,attention_worker layers ranks_host)
$(TRAINED)/host/%.o: train/%.c $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c)
# What runs on a GPU; on the CPU layer its test alone does.
$(TRAINED)/device/%.o: train/%.cu $B/flags.mk workbook/cpu/cuda_to_cpp.awk
	@mkdir -p $(@D)
	$(compile_cu)
$(TRAINED)/device/%.o: train/%.c $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c,-DTRAIN_CUDA)
TRAIN_MACHINERY := $(addprefix $B/machinery/,judge/session.o judge/spent.o) \
  $(if $(filter cuda,$(BACKEND)),$(MACHINERY),$(CASE_OF) \
  $(addprefix $B/machinery/,worker/exchange.o validate.o problems.o))
TRAIN_O := $(patsubst %,$(TRAINED)/$(if $(filter cuda,$(BACKEND)),device,host)/%.o,$(TRAIN_C)) $(TRAIN_MACHINERY)
$(TRAINED)/train: $(TRAIN_O)
	$(call say,LINK,$@)
	$Q$(LINK) -rdynamic $^ $(if $(filter cuda,$(BACKEND)),$(DEVICE_LIBS) -lm,$(LIBS)) -o $@

# The layers of a GPU against those of the host.
$(TRAINED)/layers_host: $(addprefix $(TRAINED)/double/,layers_test.o layers.o) $(CASE_OF) \
  $(addprefix $B/machinery/,validate.o problems.o)
	$Q$(LINK) $^ $(LIBS) -o $@
$(TRAINED)/layers_device: $(TRAINED)/device/layers_test.o $(TRAINED)/device/layers.o $(MACHINERY)
	$Q$(LINK) $^ $(LIBS) -o $@

# Gradients against finite differences, in double.
CHECKED := $(patsubst %,$(TRAINED)/double/%.o,check model context attention_naive ranks ranks_host) $(CASE_OF) \
  $(addprefix $B/machinery/,validate.o problems.o)
$(TRAINED)/double/%.o: train/%.c $B/flags.mk
	@mkdir -p $(@D)
	$(call compile_c,-DREAL=double)
$(TRAINED)/check: $(TRAINED)/double/layers.o $(CHECKED)
	$Q$(LINK) $^ $(LIBS) -o $@

# Keys with a mistake, made by wrong.sh: $(TRAINED)/wrong/NAME/*.cu.
$(foreach t,$(wildcard $(TRAINED)/wrong/*/*.cu),$(eval \
  $(call implementation,$(patsubst $B/%/,%,$(dir $t)),$(if $(findstring backward,$(notdir $t)),09,07),$t)))

# For tests/train.sh: layers that the check must reject, and kernels that a run must survive.
$(eval $(call edited_source,$(TRAINED)/wrong_layers/%,train/layers.c,tests/train/layers.diff))
$(TRAINED)/wrong_layers/%/layers.o: $(TRAINED)/wrong_layers/%/layers.c $B/flags.mk
	$(call compile_c,-DREAL=double -Itrain -O1)
$(TRAINED)/wrong_layers/%/check: $(TRAINED)/wrong_layers/%/layers.o $(CHECKED)
	$Q$(LINK) $^ $(LIBS) -o $@
$(TRAINED)/wrong_layers/%/layers_host: $(TRAINED)/wrong_layers/%/layers.o $(TRAINED)/double/layers_test.o $(CASE_OF) \
  $(addprefix $B/machinery/,validate.o problems.o)
	$Q$(LINK) $^ $(LIBS) -o $@
wrong_layers = $(call names_in,tests/train/layers.diff)
WRONG_KERNELS := $(patsubst tests/train/%.cu,%,$(wildcard tests/train/*.cu))
$(foreach k,$(WRONG_KERNELS),$(eval $(call implementation,train/wrong_kernels/$k,$(firstword \
  $(subst _, ,$k)),tests/train/$k.cu)))
# For tests/train_ranks.sh: what runs on GPUs, on the CPU layer, where NCCL is played; and programs whose ranks do not
# train as one.
ON_LAYER := $(patsubst %,$(TRAINED)/device/%.o,train model context attention_naive compare checkpoint ranks \
  attention_device layers ranks_device) $(addprefix $B/machinery/,judge/session.o judge/spent.o) \
  $(MACHINERY)
$(TRAINED)/on_layer: $(ON_LAYER)
	$Q$(LINK) -rdynamic $^ $(LIBS) -o $@
define wrong_ranks
$(call edited_source,$(TRAINED)/wrong_ranks/$(1)/%,train/$(1).c,tests/train/$(1).diff)
$(TRAINED)/wrong_ranks/$(1)/%/$(1).o: $(TRAINED)/wrong_ranks/$(1)/%/$(1).c $B/flags.mk
	$$(call compile_c,-Itrain -O1)
$(TRAINED)/wrong_ranks/$(1)/%/train: $(TRAINED)/wrong_ranks/$(1)/%/$(1).o $(TRAINED)/train
	$Q$$(LINK) -rdynamic $$< $(filter-out %/$(1).o,$(TRAIN_O)) $(LIBS) -o $$@
endef
RANKS_EDITED := ranks_host model train context
$(foreach s,$(RANKS_EDITED),$(eval $(call wrong_ranks,$s)))
$(eval $(call edited_source,$(TRAINED)/wrong_ranks/on_layer/%,train/ranks_device.cu,tests/train/ranks_device.diff))
$(TRAINED)/wrong_ranks/on_layer/%/ranks_device.o: KERNELFLAGS += -Itrain
$(TRAINED)/wrong_ranks/on_layer/%/ranks_device.o: $(TRAINED)/wrong_ranks/on_layer/%/ranks_device.cu $B/flags.mk
	$(compile_cu)
$(TRAINED)/wrong_ranks/on_layer/%/on_layer: $(TRAINED)/wrong_ranks/on_layer/%/ranks_device.o $(TRAINED)/on_layer
	$Q$(LINK) -rdynamic $< $(filter-out %/ranks_device.o,$(ON_LAYER)) $(LIBS) -o $@
train-ranks: $(TRAINED)/train $(TRAINED)/on_layer $B/solutions/17.so $B/solutions/18.so
	@$(MAKE) --no-print-directory $(foreach s,$(RANKS_EDITED),$(foreach \
	    n,$(call names_in,tests/train/$s.diff),$(TRAINED)/wrong_ranks/$s/$n/train)) \
	  $(foreach n,$(call names_in,tests/train/ranks_device.diff),$(TRAINED)/wrong_ranks/on_layer/$n/on_layer)

train-test: $(TRAINED)/train $(TRAINED)/check $(foreach \
  k,$(WRONG_KERNELS),$(TRAINED)/wrong_kernels/$k/$(firstword $(subst _, ,$k))_worker) $B/solutions/07_worker \
  $B/solutions/09_worker
	@$(MAKE) --no-print-directory $(wrong_layers:%=$(TRAINED)/wrong_layers/%/check)
# One after the other: both edit the layers.
train-layers: $(TRAINED)/layers_host $(TRAINED)/layers_device | train-test
	@$(MAKE) --no-print-directory $(wrong_layers:%=$(TRAINED)/wrong_layers/%/layers_host)
.PHONY: train-test train-layers train-ranks

everything: $(TRAINED)/train $(TRAINED)/check $(TRAINED)/layers_host $(TRAINED)/layers_device
