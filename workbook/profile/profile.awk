# profile.awk - prints what each line of a kernel asked for, beside what the algorithm needs.
#   awk -v needs="$(needs NN CASE)" -v source=FILE -f profile.awk RECORD     the record: cpu/profile/lines.cpp
# Fields: requests, sectors, fewest (3 to 5), shared, passes (6, 7), copied, multiplied, exponentials, barriers, uneven.
function number(n, width) {
    if (n >= 1e5) n = n < 1e9 ? sprintf("%.2fM", n / 1e6) : sprintf("%.2fG", n / 1e9)
    return sprintf("%" width "s", n == 0 ? "" : n)
}
# So many a request, and a mark if fewer would do.
function share(n, requests, fewest) {
    return requests == 0 ? sprintf("%8s", "") : sprintf("%7.1f%s", n / requests, n > 1.02 * fewest ? "!" : " ")
}
function row(x, line) {
    return sprintf("%4s%s", line, x[12] > 0 ? "~" : " ") \
        number(x[3], 7) share(x[4], x[3], x[5]) share(x[5], x[3], x[5]) \
        number(x[6], 7) share(x[7], x[6], x[6]) number(x[8], 7) number(x[9], 7) number(x[10], 7) number(x[11], 6)
}
function need(what, did, needed, unit) {
    if (did > 0 && needed > 0)
        printf "%-21s %10.1f %s; the algorithm needs %.1f: %.2f times\n", \
            what, did / 1e3, unit, needed / 1e3, did / needed
}
BEGIN {
    FS = "\t"
    split(needs, needed)
    while ((getline text <source) > 0) {
        gsub(/^ +| *\/\/.*/, "", text)
        lines[++n] = substr(text, 1, 84)
    }
    printf "profile of %s, %s\n\n", source, needed[1]
    print "             global memory    shared memory   copied multi-  expo-  bar-"
    print "line   reqs. sectors  fewest   reqs. passes   bytes  plied  nents riers"
}
FNR > 1 {
    sectors += $4
    if (!$3) $4 = $5 = 0  # of a box
    for (c = 3; c <= 12; c++) all[c] += of[c] = $c
    if ($2) print row(of, $2) "  " ($1 == source ? lines[$2] : "(" $1 ")")
}
END {
    print row(all, "all") "\n"
    need("Sectors asked for", 32 * sectors, needed[2], "KB")
    need("Multiplied and added", all[9], needed[3], "thousand")
    need("Exponentials", all[10], needed[4], "thousand")
    print "\nsectors (of 32 bytes), the fewest possible, and passes over the banks: all per request."
    print "!: more than the fewest possible. Passes of 1.0: no bank conflict."
    if (all[12]) print "~: approximate, as the lanes of a warp did not run the line equally often."
}
