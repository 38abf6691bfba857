#!/bin/sh
# watch.sh NN... - tests a problem again at every save of its source, until Ctrl-C. P says which; without, the one of
# make next. The screen holds one page (score/page.c): the failure that keeps the next checkpoint, and a summary. A save
# during a run ends that run and starts anew.
set -u
. workbook/loop/source.sh
score=build/${BACKEND:-cpu}/score
if [ -n "${P:-}" ]; then
    number=$(printf '%s' "$P" | sed 's/^\([0-9]\)$/0\1/')
else
    number=$("$score" next --number)
    if [ -z "$number" ]; then
        echo "watch: everything has passed. Which one? make watch P=03"
        exit 0
    fi
fi
case " $* " in
*" $number "*) ;;
*) echo "watch: there is no problem P=$P; there are $*" >&2; exit 1 ;;
esac

run='' seen='' page=''
scratch=$(mktemp -d) || exit 1
TMPDIR=$scratch # what a run that is ended leaves behind goes with it
export TMPDIR
source_file() { find_source problems "$number"; echo "$file"; }
# Inode, size and time to the nanosecond, where the system tells it.
stamp() { stat -c '%i %s %y' "$1" 2>/dev/null || stat -f '%i %z %Fm' "$1" 2>/dev/null; }

# ------------------------------------------------------------------------------------------------------------ processes

processes() { # "pid parent" of all but those that have ended and wait for their parent to notice
    if [ -r /proc/self/stat ]; then
        cat /proc/[0-9]*/stat 2>/dev/null | sed -n 's/^\([0-9]*\) (.*) [^Z] \([0-9]*\) .*/\1 \2/p'
    else
        ps -A -o pid= -o ppid= -o state= | grep -v Z
    fi
}
family() { # the run and all that it started
    processes | awk -v first="$1" '
        { parent[$1] = $2 }
        END {
            for (pid in parent) {
                for (p = pid; p in parent && p != first && p > 1; p = parent[p]) {}
                if (p == first) print pid
            }
        }'
}
# Workers have process groups of their own, and a half-written object must not stay. So all stand still first, until
# nobody new appears; then they are asked to end, which make answers by removing what it was making; who is left after two
# seconds is killed.
end_run() {
    [ -n "$run" ] || return
    all='' known=none
    while [ "$all" != "$known" ]; do
        known=$all
        all=$(family "$run" | sort -n | tr '\n' ' ')
        kill -STOP $all 2>/dev/null
    done
    kill -TERM $all 2>/dev/null
    kill -CONT $all 2>/dev/null
    patience=20
    while [ $patience -gt 0 ] && processes | awk -v all=" $all" 'index(all, " " $1 " ") { n++ } END { exit !n }'; do
        sleep 0.1
        patience=$((patience - 1))
    done
    kill -KILL $all 2>/dev/null
    wait "$run" 2>/dev/null
    run=
}
finish() {
    trap '' INT TERM HUP
    end_run
    rm -rf "$scratch"
    printf '\n'
    exit 0
}
trap finish INT TERM HUP

# ----------------------------------------------------------------------------------------------------------- the screen

look_at_terminal() { # sets `terminal`: "rows columns", or nothing
    terminal=
    [ ! -t 1 ] || terminal=$(stty size </dev/tty 2>/dev/null)
}
show() { # STATUS: it heads the page; below stands what the last finished run said
    look_at_terminal
    [ -z "$terminal" ] || printf '\033[H\033[2J'
    printf '%s   %s\n\n%sWaiting for a save of %s. Ctrl-C ends.' "$title" "$1" "$page" "$file"
    [ -n "$terminal" ] || echo
}
tell_time() { # in the heading, without touching the rest
    [ ! -t 1 ] || printf '\0337\033[H%s   testing ... %d s\033[K\0338' "$title" $(($(date +%s) - began))
}

start_run() {
    seen=$(stamp "$file")
    began=$(date +%s)
    title="$number $(basename "${file%.*}")"
    VERBOSE=1 $MAKE --no-print-directory "test-$number" >"$scratch/output" 2>&1 </dev/null &
    run=$!
    show "testing ..."
}
finished() {
    wait "$run"
    run=
    look_at_terminal
    # shellcheck disable=SC2086
    page=$("$score" page "$number" ${terminal:-0 0} "$scratch/output")
    [ -z "$page" ] || page="$page
"
    show "$(date +%H:%M:%S)   $("$score" standing "$number")   ($(($(date +%s) - began)) s)"
}

file=$(source_file)
while :; do
    [ -n "$file" ] || file=$(source_file)
    now=$(stamp "$file")
    if [ -n "$now" ] && [ "$now" != "$seen" ]; then
        end_run
        start_run
    elif [ -n "$run" ] && ! kill -0 "$run" 2>/dev/null; then
        finished
    elif [ -n "$run" ]; then
        tell_time
    fi
    sleep 0.5
done
