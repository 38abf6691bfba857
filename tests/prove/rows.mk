# rows.mk - make as the engine of the proofs: each row that is due is a target (prove.sh calls it with -j, -k and
# --output-sync).
rows := $(shell cat $(PROOFS)/due)
all: $(rows)
$(rows):
	@tests/prove/row.sh $@
.PHONY: all $(rows)
