#!/bin/sh
# clean.sh WORKER - a check build's worker finds nothing in a right kernel, in any order of threads. ORDERS: which.
set -u
worker=$1 said=${ROW:-build/cpu/one}.said
cases=$("$worker" --cases list) && [ -n "$cases" ] || { echo "the check build names no cases"; exit 1; }
for order in ${ORDERS:-0 1 2 3 4}; do
    for given in $cases; do
        CUDACPU_ORDER=$order "$worker" --case "$given" --guard 0 || { echo "order $order, case $given"; exit 1; }
    done
done >"$said" 2>&1 || { cat "$said"; exit 1; }
rm -f "$said"
echo "the check build finds nothing in orders ${ORDERS:-0 1 2 3 4} of $(echo $cases | wc -w) cases"
