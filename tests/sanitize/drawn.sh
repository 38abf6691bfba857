#!/bin/sh
# drawn.sh NAME - programs that tests/sanitize/NAME.cu draws (SEED=): right ones are never reported, wrong ones rightly. It may take half
# an hour of its own.
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$seed"
exec build/cpu/within 1800 "build/cpu/check/drawn/${1}_worker" "$seed"
