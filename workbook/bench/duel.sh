#!/bin/sh
# duel.sh BACKEND - shapes drawn by chance, the library beside FlashAttention-4, cuDNN and others (reference/duel.py);
# wants PyTorch and a GPU.
set -u
table=build/$1/results/duel_seed${SEED:-1}.tsv
mkdir -p "${table%/*}"
"$PYTHON" reference/duel.py "build/$1/lib/libworkbook_all.so" >"$table"
status=$?
awk -f plots/duel.awk -v worst=10 "$table"
exit $status
