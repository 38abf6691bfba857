# series.awk - the header row and the rows of a bench TSV that belong to one line of a chart.
#   awk -f plots/series.awk -v impl=key -v where=B=1,D=128 file.tsv
# An empty impl means any but the roofs. A condition compares a column with a value, or with another column: rows=cols.
BEGIN {
    FS = "\t"
    conditions = split(where, condition, ",")
}
/^#/ { next }
$1 == "problem" {
    for (i = 1; i <= NF; i++) at[$i] = i
    print
    next
}
impl != "" && $at["impl"] != impl { next }
impl == "" && $at["impl"] ~ /^roof_/ { next }
{
    for (i = 1; i <= conditions; i++) {
        split(condition[i], pair, "=")
        value = pair[2] in at ? $at[pair[2]] : pair[2]
        if ($at[pair[1]] != value) next
    }
    print
}
