# timeline.awk - rows for timeline.gp from the trace events of make timeline-NN: awk -v of=bars -f timeline.awk FILE
#   of=lanes   y, name      of=bars   from, to, y, class, label      of=title, costs, at   the text of that name
# A cycle is a microsecond there, and what takes ms is written in microseconds. Classes: 0 is copied or sent, 1 waits
# for a product, 2 waits for something else, 3 other kernels, 4 products of a ring; from 5 on of a warpgroup.
function value(key) {
    if (!match($0, "\"" key "\":(\"[^\"]*\"|[-0-9.]+)")) return ""
    text = substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    gsub(/"/, "", text)
    return text
}
NR == 1 { if (of != "lanes" && of != "bars") { print value(of); exit } }
/"thread_name"/ {
    name = substr($0, index($0, "args"))
    sub(/.*"name":"/, "", name)
    sub(/".*/, "", name)
    rank = name ~ /^rank / ? substr(name, 1, 7) : ""
    ring = rank != ""
    at[value("tid")] = at[value("tid") - 1] + 1 + (rank != before) * .5
    before = rank
    if (of == "lanes") printf "%.1f\t%s\n", at[value("tid")], name
}
/"ph":"X"/ && of == "bars" {
    from[++count] = value("ts") / (ring ? 1000 : 1)
    to[count] = from[count] + value("dur") / (ring ? 1000 : 1)
    y[count] = at[value("tid")]
    kind = value("cat")
    label[count] = name = value("name")
    waits = sub(/^waits for /, "", label[count])
    if (ring) sub(/.* /, "", label[count])
    class[count] = kind == "copies" || kind == "messages" ? 0 : waits ? 1 + (ring || name != "waits for a product") : \
        !ring ? 4 + value("group") : kind == "products" ? 4 : 3
    if (waits && (ring || class[count] == 1)) label[count] = ""
    if (to[count] > end) end = to[count]
}
END {
    for (k = 1; k <= count; k++)
        printf "%s\t%s\t%s\t%d\t%s\n", from[k], to[k], y[k], class[k],
            ((to[k] - from[k]) / end * 980 > 7 * length(label[k]) + 2) ? label[k] : ""
}
