#!/bin/sh
# watch.sh NN... - tests a problem again at every save of its source, until Ctrl-C. P says which
# problem; without, the one of make next. A save during a run ends that run, and what it has found is dropped.
set -u
. workbook/loop/source.sh
if [ -n "${P:-}" ]; then
    number=$(printf '%s' "$P" | sed 's/^\([0-9]\)$/0\1/')
else
    number=$("build/${BACKEND:-cpu}/score" next --number)
    [ -n "$number" ] || { echo "watch: every problem has passed; name one: make watch P=03"; exit 0; }
fi
case " $* " in
*" $number "*) ;;
*) echo "watch: there is no problem P=$P; there are $*" >&2; exit 1 ;;
esac
find_source problems "$number"
if [ -z "$file" ]; then
    echo "watch: there is no $name.cu or $name.c in problems/$number; make reset-$number restores it" >&2
    exit 1
fi
# A save is seen by the file's sum: what an editor outside of WSL or of a container writes is announced to nobody here.
running=
sum() { cksum <"$file" 2>/dev/null; } # of a file that is away for a moment, as some editors save, there is none
stop() {
    [ -z "$running" ] || { kill -s TERM -- "-$running"; wait "$running"; } 2>/dev/null
    running=
}
trap 'stop; exit 0' INT TERM HUP
seen=
while :; do
    now=$(sum)
    if [ -n "$now" ] && [ "$now" != "$seen" ]; then
        stop
        seen=$now
        [ ! -t 1 ] || printf '\033[H\033[2J\033[3J' # a clear screen
        WB_WATCH=yes setsid workbook/loop/test.sh "${BACKEND:-cpu}" problems "$number" &
        running=$!
    fi
    sleep 0.5
done
