# junit.awk - the records of proofs (row.sh) as JUnit's XML: awk -F TAB -f junit.awk proofs.tsv
function text(s) {
    gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s); gsub(/"/, "\\&quot;", s)
    return s
}
{
    test[NR] = sprintf("  <testcase classname=\"proofs\" name=\"%s: %s\" time=\"%s\">", text($4), text($5), $2)
    if ($1 == "failed") test[NR] = test[NR] "<failure message=\"" text($6) "\"/>"
    if ($1 == "skipped") test[NR] = test[NR] "<skipped message=\"" text($6) "\"/>"
    n[$1]++
}
END {
    print "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
    printf "<testsuite name=\"proofs\" tests=\"%d\" failures=\"%d\" skipped=\"%d\">\n", NR, n["failed"], n["skipped"]
    for (i = 1; i <= NR; i++) print test[i] "</testcase>"
    print "</testsuite>"
}
