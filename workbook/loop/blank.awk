# blank.awk - of a skeleton the contract alone: awk -v number=03 -v name=flash_forward -f blank.awk SKELETON. What
# stays: its first comment, what it includes, and of each function of workbook.h the head and the lines that look at its
# arguments.
NR == 1 { comment = 1 }
comment && /^\/\// { print; next }
{ comment = 0 }
/^#include/ { print }
/^wb_status$/ { type = $0; next } # the name is in the next line
index((type ? type " " : "") $0, "wb_status " name "(") == 1 || index($0, "size_t " name "_workspace(") == 1 {
    if (type) $0 = type "\n" $0
    if (!functions++)
        print "\n// The contract alone. make reset-" number " puts the file with its gaps back, whose hints serve" \
            " here by name: make hint-" number " GAP=..."
    print ""
    inside = 1
}
{ type = "" }
inside {
    print
    if (/wb_stream stream\)/) stream = 1
    if (/^    if \(status != WB_OK\) return status;$/) {
        if (stream) print "    (void)stream;"
        print "    // TODO(" number ") yours: all of it."
        print "    return wb_fail(WB_NOT_IMPLEMENTED, \"" name ": nothing is written yet\");\n}"
        inside = stream = 0
    } else if (/^    if .* return 0;$/) {
        print "    return 0;  // TODO(" number ") yours: how many bytes of workspace\n}"
        inside = 0
    }
}
END { exit !functions || inside }
