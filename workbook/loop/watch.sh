#!/bin/sh
# watch.sh NN... - tests a problem again at every save of its source, until Ctrl-C; entr(1) waits for saves. P says
# which problem; without, the one of make next. A save during a run ends that run, and what it has found is dropped.
set -u
. workbook/loop/source.sh
if [ -n "${P:-}" ]; then
    number=$(printf '%s' "$P" | sed 's/^\([0-9]\)$/0\1/')
else
    number=$("build/${BACKEND:-cpu}/score" next --number)
    [ -n "$number" ] || { echo "watch: everything has passed. Which one? make watch P=03"; exit 0; }
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
if ! command -v entr >/dev/null; then
    echo "watch: entr, which waits for saves, is not installed." \
        "./setup.sh installs it (apt-get install entr)" >&2
    exit 1
fi
# -r: a run that is under way is ended; -c: the screen is cleared; -n: there is no terminal whose keys could be read
if [ -t 0 ] && [ -t 1 ]; then how=-cr; else how=-nr; fi
echo "$file" | WB_WATCH=yes entr $how workbook/loop/test.sh "${BACKEND:-cpu}" problems "$number"
