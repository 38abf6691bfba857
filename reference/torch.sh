#!/bin/sh
# torch.sh BACKEND - the library's attention in PyTorch (reference/flash_workbook): how right it is, on a GPU how fast,
# and its tests. Wants PyTorch, pytest.
set -u
library=build/$1/lib/libworkbook.so table=build/$1/results/torch_attention.tsv
mkdir -p "${table%/*}"
"$PYTHON" reference/torch_attention.py "$library" >"$table" || { cut -f 1-4,6 "$table"; exit 1; }
cut -f 1-4,6 "$table" | grep -v '	ok$'
WB_LIBRARY=$library exec "$PYTHON" -m pytest -q -p no:cacheprovider reference/torch_test.py \
    reference/flash_attn_test.py reference/ring_test.py
