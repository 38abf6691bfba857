# profile.mk - the profiling build: a kernel that announces loads and stores, as in the check build (sanitize.mk), with
# workbook/cpu/profile behind it. Included by the Makefile.

ifeq ($(BACKEND),cpu)
PROFILE := build/cpu/profiling
PROFILE_OBJECTS := $(patsubst workbook/cpu/profile/%.cpp,$(PROFILE)/layer/%.o,$(wildcard workbook/cpu/profile/*.cpp)) \
  $(addprefix $(CHECK)/layer/,calls.o entry.o)
$(PROFILE)/layer/%.o: workbook/cpu/profile/%.cpp $B/flags.mk
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$Q$(CPU) $(CXXFLAGS) -c $< -o $@
# g++ would load the parts of a float4 one by one; clang++ does.
# $(1): folder below $(PROFILE), $(2): number, or the name of a program that is no worker, $(3): source
define profile_of
$(call check_object,$(PROFILE)/$(1)/$(2).o,$(3),-DCUDACPU_SEES_LOADS $(if $(CLANG),,-fno-tree-sra))
$(PROFILE)/$(1)/$(2)_worker: $(PROFILE)/$(1)/$(2).o $(call caller_of,$(2)) $(PROFILE_OBJECTS)
	$$(call own_templates,$$<,$$@.o)
	$Q$$(LINK) $$@.o $$(filter-out $$<,$$^) $(LIBS) \
	    $(foreach f,expf exp2f exp exp2,-Wl$(comma)--wrap=$f) -o $$@
endef
$(foreach i,problems solutions,$(foreach n,$(NUMBERS),$(if $(filter %.cu,$(call source,$i,$n)),$(eval \
  $(call profile_of,$i,$n,$(call source,$i,$n))))))
# Slow kernels, for the lab.
$(if $(wildcard solutions/03/slow.diff),$(eval $(call profile_of,slow/%,03,$B/slow/%/flash_forward.cu)))
# A program whose counts are known.
$(foreach k,$(wildcard tests/profile/known.cu),$(eval $(call profile_of,known,known,$k)))
endif
$(if $(wildcard solutions/03/slow.diff),$(eval $(call edited,slow/%,03,solutions/03/slow.diff)))
