#!/bin/sh
# drawn.sh NAME - programs that tests/sanitize/NAME.cu draws (SEED=): right ones are never reported, wrong ones rightly.
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$seed"
exec "build/cpu/check/drawn/${1}_worker" "$seed"
