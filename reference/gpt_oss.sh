#!/bin/sh
# gpt_oss.sh BACKEND LIBRARY - 11 and 12 as the attention of gpt-oss (gpt_oss.py); draws the losses. Wants PyTorch,
# transformers.
set -u
mkdir -p "build/$1/results"
"$PYTHON" reference/gpt_oss.py "$2" >"build/$1/results/gpt_oss.tsv" && plots/plot.sh gpt_oss "$1"
