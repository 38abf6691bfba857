#!/bin/sh
# repair.sh - of a reference solution repair says nothing; of a key with a drawn mistake (SEED repeats) it names the
# lines, and of several places in a line the right one, and its gap; an edit that is right for one head dimension only
# is not named. Where no edit fixes it, it names the variable that the gap leaves wrong.
set -u
out=build/cpu n=03 failed=0
key=solutions/$n/flash_forward.cu
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
seed=${SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
echo "seed $seed"
repair() { # SOURCE CASE
    WB_WORKER=$out/repaired/${n}_worker "$out/repair" --seconds 3600 "$1" $out/repaired/$n.cu \
        "$MAKE --no-print-directory BACKEND=cpu $out/repaired/${n}_worker" $n "$2" 2>/dev/null
}
place_of() { # LINE of SOURCE
    awk -v line="$1" '$1 ~ "^//[{}]" { gap = $0; gsub(/^ *\/\/[{}] *| *:.*/, "", gap) }
        NR == line { print gap ? "gap\t" gap : "given" }' "$2"
}
begins() { # LINE SAID
    [ "$(echo "$2" | head -n 1)" = "$1" ] || { echo "not $1: $2"; failed=1; }
}
mkdir -p $out/repaired
said=$(repair $key Nq=20,Nk=13,D=16) && { echo "of the reference solution: $said"; failed=1; }
sed 's/row_sum_whole(l)/rowwise(&, [](float x) { return (D == 16 ? 2.0f : 3.0f) * x; })/' $key >"$work/both.cu"
said=$(repair "$work/both.cu" Nq=20,Nk=200,D=16) && { echo "l is wrong for each D: $said"; failed=1; }
begins 'gap	finalize' "$said"
# l is the whole row's from the beginning, and O is divided by twice as much.
sed 's/row_sum_part(S)/row_sum(S)/; s/l = row_sum_whole(l)/l = l * 2.0f/' $key >"$work/own.cu"
begins 'gap	accumulate|finalize' "$(repair "$work/own.cu" Nq=20,Nk=200,D=16)"
sed 's/scale \* 1.44269504f/scale/; s/l = row_sum_whole(l)/l = l * 2.0f/' $key >"$work/two.cu" # not in a gap alone
begins neither "$(repair "$work/two.cu" Nq=20,Nk=200,D=16)"
# Another text of `finalize` with a mistake that no edit fixes: L alone is wrong, a line is missing, or O as well.
other() { # WHOLE INVERSE L SAID
    printf '%s\n' "const row_vec<ROWS> whole = $1;" "scale_rows(O_reg, rowwise(whole, [](float x) { return $2; }));" \
        "L_row = rowwise(whole, m, [](float x, float y) { return $3; });" >"$work/text"
    sed -e "/{ finalize/,/\/\/}/{/\/\/[{}]/!d; /{ finalize/r $work/text" -e '}' $key >"$work/other.cu"
    said=$(repair "$work/other.cu" Nq=20,Nk=200,D=16)
    begins 'gap	finalize' "$said"
    case $said in $4) ;; *) echo "not $4: $said"; failed=1 ;; esac
}
other 'row_sum_whole(l)' '1 / x' 'log2f(x) + y' '*gap finalize, `L_row` of row 0 of the warp is *'
other l '1 / x' '0.69314718f * y + logf(x)' '*: behind line * a line is missing, line * of solutions/03/*'
other 'row_sum_whole(l)' '1 / (x + 0.37f)' '0.69314718f * y + logf(x) + 0.2f' '*none of the edits*'
# What the gap leaves wrong is named if it alone makes the case right; not m, which two right texts keep differently.
sed 's/if (e.col >= left) s = -INFINITY/s += (e.col >= left ? 1 : 0) * -INFINITY/' $key >"$work/nan.cu"
said=$(repair "$work/nan.cu" Nq=20,Nk=13,D=16)
begins 'gap	tail' "$said"
case $said in
*'gap tail, `S` in row 0, column '*"is NaN; with the reference solution's text it is "[0-9-]*'left = '*) ;;
*) echo "S is NaN: $said"; failed=1 ;;
esac
sed -e 's/= row_max_part(S) \* scale2/= max(m, row_max(S) * scale2)/; s/any_above(S_max, m + 8.0f)/true/' \
    -e 's/m_new = max(m, row_max_whole(S_max))/m_new = S_max/; s/l = l \* alpha/l = l/' \
    -e 's/S_max/top/g' $key >"$work/m.cu"
said=$(repair "$work/m.cu" Nq=20,Nk=200,D=16)
begins 'gap	max|rescale|accumulate' "$said"
case $said in *'at the end of gap'*) echo "m and l: $said"; failed=1 ;; esac
# A class's copy has no reference solutions: no gap is named, and no variable.
mkdir "$work/class" && for file in *; do [ "$file" = solutions ] || ln -s "$PWD/$file" "$work/class"; done
said=$(cd "$work/class" && repair "$work/other.cu" Nq=20,Nk=200,D=16)
begins 'gap	' "$said"
case $said in *'reference solution'*) echo "without solutions: $said"; failed=1 ;; esac
mistakes='s/e.col >= left/e.col > left/:in line
s/scale \* 1.44269504f/scale/:in line
s/exp2_fast(s/expf(s/:write `exp2f` instead
s/log2(l)) \*/log2(m)) */:(m + log2(l)) *'
mistake=$(echo "$mistakes" | awk -v n="$seed" '{ line[NR] = $0 } END { print line[n % NR + 1] }')
words=${mistake#*:} mistake=${mistake%%:*}
sed "$mistake" $key >"$work/wrong.cu"
said=$(repair "$work/wrong.cu" Nq=20,Nk=200,D=16)
for line in $(diff $key "$work/wrong.cu" | sed -n 's/^\([0-9]*\)c.*/\1/p'); do
    begins "$(place_of "$line" "$work/wrong.cu")" "$said"
    case $said in
    given | *"in line $line, "*"$words"* | *"$words $line, "*) ;;
    *) echo "$mistake in line $line: ${said:-nothing is said}"; failed=1 ;;
    esac
done
exit $failed
