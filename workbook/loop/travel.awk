# travel.awk - two steps of travel.sh, which says what for.
# -v which=take -v gaps="a; b" SKELETON MINE: MINE, but of its gaps these alone are mine, and each line of theirs ends with
# a byte 1; the others are as in SKELETON. What begins a gap becomes a comment, what ends one goes.
# -v which=choose: a merged file without its conflicts: mine where it is mine in a gap, and no gap of the other side's.
which == "take" && FNR == 1 { file++ }
which == "take" && /^ *\/\/[{]/ {
    gap = $0
    sub(/^ *\/\/[{] */, "", gap)
    sub(/ *(:.*)?$/, "", gap)
    kept = index("; " gaps ";", "; " gap ";")
    sub(/\/\/[{]/, "//")
    if (file == 2) print $0 (kept ? "\1" : "\n" shipped[gap])
    next
}
which == "take" && /^ *\/\/[}]/ { gap = ""; next }
which == "take" && file == 1 { if (gap != "") shipped[gap] = shipped[gap] (shipped[gap] == "" ? "" : "\n") $0; next }
which == "take" { if (gap == "" || kept) print $0 (gap == "" ? "" : "\1"); next }

/^<<<<<<< / { mine = other = ""; side = "mine"; next }
side != "" && /^=======$/ { side = "other"; next }
side != "" && /^>>>>>>> / { $0 = other ~ /\/\/[{}]/ || mine !~ /\1/ ? other : mine; side = ""; if ($0 == "") next; sub(/\n$/, "") }
side == "mine" { mine = mine $0 "\n"; next }
side == "other" { other = other $0 "\n"; next }
{ gsub(/\1/, ""); print }
