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

# For tests/train.sh and train_ranks.sh: layers that the check must reject, kernels that a run must survive, what runs
# on GPUs, on the CPU layer, where NCCL is played, and programs whose ranks do not train as one.
TRAIN_WRONG := tests/train/wrong.diff
wrong_in = $(shell awk -v list=$(TRAIN_WRONG) -v tell=known -f $(EDIT) | awk '$$2 == "$(1)" { print $$1 }')
$(eval $(call edited_source,$(TRAINED)/wrong_layers/%,train/layers.c,$(TRAIN_WRONG)))
$(TRAINED)/wrong_layers/%/layers.o: $(TRAINED)/wrong_layers/%/layers.c $B/flags.mk
	$(call compile_c,-DREAL=double -Itrain -O1)
$(TRAINED)/wrong_layers/%/check: $(TRAINED)/wrong_layers/%/layers.o $(CHECKED)
	$Q$(LINK) $^ $(LIBS) -o $@
$(TRAINED)/wrong_layers/%/layers_host: $(TRAINED)/wrong_layers/%/layers.o $(TRAINED)/double/layers_test.o $(CASE_OF) \
  $(addprefix $B/machinery/,validate.o problems.o)
	$Q$(LINK) $^ $(LIBS) -o $@
wrong_layers = $(call wrong_in,layers)
$(eval $(call edited,train/wrong_kernels/%,07,$(TRAIN_WRONG)))
ON_LAYER := $(patsubst %,$(TRAINED)/device/%.o,train model context attention_naive compare checkpoint ranks \
  attention_device layers ranks_device) $(addprefix $B/machinery/,judge/session.o judge/spent.o) \
  $(MACHINERY)
$(TRAINED)/on_layer: $(ON_LAYER)
	$Q$(LINK) -rdynamic $^ $(LIBS) -o $@
# $(1): its folder, $(2): the source, of train/, $(3): what it is compiled by, $(4): the program, of these objects: $(5)
define wrong_ranks
$(call edited_source,$(1)/%,train/$(2),$(TRAIN_WRONG))
$(1)/%/edited.o: KERNELFLAGS += -Itrain
$(1)/%/edited.o: $(1)/%/$(2) $B/flags.mk
	$(3)
$(1)/%/$(4): $(1)/%/edited.o $(TRAINED)/$(4)
	$Q$$(LINK) -rdynamic $$< $(filter-out %/$(basename $(2)).o,$(5)) $(LIBS) -o $$@
endef
$(foreach s,ranks_host model train context,$(eval $(call wrong_ranks,$(TRAINED)/wrong_ranks/$s,$s.c,$$(call \
  compile_c,-Itrain -O1),train,$(TRAIN_O))))
$(eval $(call wrong_ranks,$(TRAINED)/wrong_ranks/ranks_device,ranks_device.cu,$$(compile_cu),on_layer,$(ON_LAYER)))
train-ranks: $(TRAINED)/train $(TRAINED)/on_layer $B/solutions/17.so $B/solutions/18.so
	@$(MAKE) --no-print-directory $(foreach s,ranks_host model train context ranks_device,$(foreach n,$(call \
	    wrong_in,$s),$(TRAINED)/wrong_ranks/$s/$n/$(if $(filter %_device,$s),on_layer,train)))

train-test: $(TRAINED)/train $(TRAINED)/check $(patsubst %,$(TRAINED)/wrong_kernels/%/07_worker,crashes is_nan) \
  $B/solutions/07_worker $B/solutions/09_worker
	@$(MAKE) --no-print-directory $(wrong_layers:%=$(TRAINED)/wrong_layers/%/check)
# One after the other: both edit the layers.
train-layers: $(TRAINED)/layers_host $(TRAINED)/layers_device | train-test
	@$(MAKE) --no-print-directory $(wrong_layers:%=$(TRAINED)/wrong_layers/%/layers_host)
.PHONY: train-test train-layers train-ranks

everything: $(TRAINED)/train $(TRAINED)/check $(TRAINED)/layers_host $(TRAINED)/layers_device
