# travel.awk - two steps of travel.sh, which says what for.
# -v which=take -v gaps="a; b" SKELETON MINE: MINE, but of its gaps these alone are mine, if there is code of mine in
# them, and each line of theirs ends with a byte 1; the others are as in SKELETON. What begins a gap becomes a comment,
# what ends one goes.
# -v which=choose -v lost=FILE BASE MERGED: a merged file without its conflicts: mine where it is mine in a gap, and no
# gap of the other side's. FILE gets the lines that are mine, not of BASE, and go.
function code(text) { gsub(/\/\/[^\n]*|[ \n]/, "", text); return text }
which == "take" && FNR == 1 { file++ }
which == "take" && /^ *\/\/[{]/ {
    gap = $0
    sub(/^ *\/\/[{] */, "", gap)
    sub(/ *(:.*)?$/, "", gap)
    sub(/\/\/[{]/, "//")
    head = $0
    own = ""
    next
}
which == "take" && /^ *\/\/[}]/ {
    if (file == 1) shipped[gap] = own
    mine = index("; " gaps ";", "; " gap ";") && code(own) != code(shipped[gap])
    if (mine) gsub(/\n/, "\1\n", own)
    if (file == 2) printf "%s\n%s", head (mine ? "\1" : ""), mine ? own : shipped[gap]
    gap = ""
    next
}
which == "take" && gap != "" { own = own $0 "\n"; next }
which == "take" { if (file == 2) print; next }

FNR == NR { base[$0]; next }
/^<<<<<<< / { mine = other = ""; side = "mine"; next }
side != "" && /^=======$/ { side = "other"; next }
side != "" && /^>>>>>>> / {
    side = ""
    theirs = other ~ /\/\/[{}]/ || mine !~ /\1/
    own = mine
    gsub(/\1/, "", own)
    count = theirs ? split(own, line, "\n") : 0
    for (i = 1; i <= count; i++)
        if (line[i] ~ /[^ ]/ && !(line[i] in base) && !index("\n" other, "\n" line[i] "\n")) print line[i] >lost
    $0 = theirs ? other : mine
    if ($0 == "") next
    sub(/\n$/, "")
}
side == "mine" { mine = mine $0 "\n"; next }
side == "other" { other = other $0 "\n"; next }
{ gsub(/\1/, ""); print }
