#!/bin/sh
# chosen.sh TABLE... - from bench's tables with a line for the library: what solutions/library.c has chosen for each function and shape, beside the
# fastest of the others that keep the same promises. A table on stdout:
#   function, the shape, the source that serves it, its ms; other, other_ms: the fastest of the key and its variants besides; ratio = ms / other_ms; verdict
# The verdict is "SLOWER" where the chosen one takes over 2 % longer and its fast tenth is slower than the other's slow tenth; else "ok".
# A variant that is exempt from same_twice competes with NAME_fastest alone. Exit status 1: no table has a line for the library.
set -u
gives_up=$(
    for variant in solutions/*/variants/*.cu build/cuda/variants/*/variants/*/exempt; do
        [ -f "$variant" ] || continue
        case $variant in
        */exempt) exempt=$(cat "$variant") name=$(basename "$(dirname "$variant")") ;;
        *) exempt=$(sed -n 's|^// exempt: ||p' "$variant") name=$(basename "$variant" .cu) ;;
        esac
        case " $exempt " in *" same_twice "*) printf '%s:%s ' "$(echo "$variant" | sed 's|.*\([0-9][0-9]\)/variants/.*|\1|')" "$name" ;; esac
    done
)
awk -F '\t' -v OFS='\t' -v gives_up="$gives_up" '
    function shape_of(from,    i, shape) {
        for (i = from; i < from + 11; i++) shape = shape OFS $i
        return substr(shape, 2)
    }
    # Of the implementations of a shape, the fastest besides this one that keeps the same promises.
    function best_other(p, shape, but, any_bits,    n, i, best) {
        n = split(impls[p, shape], impl, " ")
        for (i = 1; i <= n; i++) {
            if (impl[i] == but || impl[i] ~ /^(naive|library|yours)$/) continue
            if (!any_bits && index(" " gives_up, " " p ":" impl[i] " ")) continue
            if (best == "" || ms[p, shape, impl[i]] < ms[p, shape, best]) best = impl[i]
        }
        return best
    }
    FNR == 1 { files++ }
    /^# (gpu|commit|date|driver): / && files == 1 { print }
    /^# chosen\t/ { choice[++choices] = $2 OFS shape_of(3); source[choices] = $14; problem[choices] = last; next }
    /^#/ || $1 == "problem" || $2 ~ /^roof_/ || $14 !~ /^[0-9]/ { next }
    {
        last = $1
        shape = shape_of(3)
        impls[$1, shape] = impls[$1, shape] " " $2
        ms[$1, shape, $2] = $14 + 0
        low[$1, shape, $2] = $15 + 0
        high[$1, shape, $2] = $16 + 0
    }
    END {
        print "function", "B", "Hq", "Hkv", "Nq", "Nk", "D", "W", "S", "rows", "cols", "causal", "source", "ms", "other", "other_ms", "ratio", "verdict"
        for (c = 1; c <= choices; c++) {
            p = problem[c]
            split(choice[c], part, OFS)
            shape = substr(choice[c], length(part[1]) + 2)
            fastest = part[1] ~ /_fastest$/
            # Its own line where the source is of this problem; a kernel of another problem is seen in the line of the library.
            n = split(source[c], path, "/")
            name = path[n - 1] == "variants" ? path[n] : "key"
            sub(/[.]cu$/, "", name)
            label = path[2] == p && ((p, shape, name) in ms) ? name : "library"
            # What the function of the library itself took; its fastest form is not timed here, but the same kernel under its own name.
            mine = fastest || !((p, shape, "library") in ms) ? label : "library"
            other = best_other(p, shape, label, fastest)
            if (other == "" || !((p, shape, mine) in ms)) continue
            ratio = ms[p, shape, mine] / ms[p, shape, other]
            slower = ratio > 1.02 && low[p, shape, mine] > high[p, shape, other]
            print choice[c], source[c], ms[p, shape, mine], other, ms[p, shape, other], sprintf("%.3f", ratio), slower ? "SLOWER" : "ok"
            rows++
        }
        exit !rows
    }' "$@"
