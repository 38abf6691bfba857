#!/bin/sh
# pages.sh - a page that the cache does not have, or a length that the table has no room for, ends a run on the
# CPU layer with a sentence that names sequence and number, whoever has a table like that.
set -u
worker=build/${BACKEND:-cpu}/solutions/13_worker
[ "${BACKEND:-cpu}" = cpu ] && [ -d solutions/13 ] ||
    { echo "skip  the CPU layer alone looks, at the answer key"; exit 77; }
${MAKE:-make} --no-print-directory -s BACKEND=cpu "$worker" || exit 1
failed=0
stops() { # STRAY SENTENCE
    said=$("$worker" --case "B=3,Hq=2,Nq=1,Nk=70,D=64,page=32,stray=$1" 2>&1 >/dev/null)
    status=$?
    if [ $status -eq 66 ] && echo "$said" | grep -q "^   $2\$"; then
        echo "ok    $2"
    else
        echo "FAIL  stray=$1 should say: $2. Exit status $status: $said"
        failed=1
    fi
}
stops 1 'page_table says page 11 for key 0 of sequence 0, and the cache has pages 0 to 10'
stops 2 'kv_len of sequence 0 is 129, and its row of page_table has room for 0 to 128 keys'
stops 3 'kv_len of sequence 0 is -1, and its row of page_table has room for 0 to 128 keys'
exit $failed
