# errors.awk - of what a compiler says the first error whole, of the others a line each: most come from the first. What
# has no line "error:", a linker's words for example, is cut off after 40 lines. -v of=warnings: each of these instead.
of == "warnings" { if (/warning:/ && !/^make/ && !said[$0]++) print; next }
/(^|[^a-z])error: / {
    if (!said[$0]++ && ++errors > 1) others = others $0 "\n"
    inside = errors == 1
    if (errors > 1) next
}
/required (from|by)|: In (instantiation|substitution) of|^(make|waiting:)/ { if (!/required from here/) next }
/^[^ ].*: (In|At) |required from|^In file included|^ +from / { if (errors) inside = 0 }
!errors || inside { if (++lines <= 40) print }
END {
    if (of == "warnings") exit
    n = split(others, other, "\n")
    for (i = 1; i < n && i <= 6; i++) print other[i]
    if (n > 7) print "and " n - 7 " more errors"
}
