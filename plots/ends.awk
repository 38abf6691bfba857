# ends.awk - where the names of lines go that end close together: awk -f plots/ends.awk -v x=Nq -v y=tflops -v least=20
# reads tables with a header, each after a line "# NAME", and prints NAME, an x right of the last (of a logarithmic
# axis), and a y: that of the line's end, or `least` from its neighbours'.
BEGIN { FS = "\t" }
/^# / { name[++n] = substr($0, 3); columns = 0; next }
!columns { for (i = 1; i <= NF; i++) at[$i] = i; columns = NF; next }
$at[x] + 0 > 0 && (!left || $at[x] + 0 < left) { left = $at[x] + 0 }
$at[x] + 0 >= last[n] && $at[y] ~ /^[0-9.]/ { last[n] = $at[x] + 0; end[n] = $at[y] * factor }
END {
    for (i = 1; i <= n; i++) if (last[i]) order[++m] = i
    for (i = 2; i <= m; i++)
        for (j = i; j > 1 && end[order[j]] < end[order[j - 1]]; j--) {
            t = order[j]; order[j] = order[j - 1]; order[j - 1] = t
        }
    for (i = 1; i <= m; i++) { to[i] = end[order[i]]; if (last[order[i]] > right) right = last[order[i]] }
    for (round = 0; round < 200; round++)
        for (i = 2; i <= m; i++) if (to[i] - to[i - 1] < least) {
            t = (least - to[i] + to[i - 1]) / 2
            to[i] += t; to[i - 1] -= t
            if (to[1] < 0) to[1] = 0
        }
    for (i = 1; i <= m; i++) print name[order[i]], right * (right / left) ^ 0.03, to[i]
}
