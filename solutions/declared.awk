# declared.awk - what workbook.h declares, read from `cc -E workbook/workbook.h`: a declaration a line, without the
# names of parameters.
#   -v as=map     a version script for the linker instead: the functions are exported, and nothing else is
/^# [0-9]/ { ours = $3 ~ /workbook[.]h"$/; next }
ours && !/^#/ { text = text " " $0 }

function types(declaration,    n, i, parameter, open) { # int f(int rows, const char *text) is int f(int, const char *)
    if (!(open = index(declaration, "("))) return declaration
    n = split(substr(declaration, open + 1, length(declaration) - open - 1), parameter, ", ")
    declaration = substr(declaration, 1, open)
    for (i = 1; i <= n; i++) {
        if (parameter[i] ~ /[ *][A-Za-z_0-9]+$/) sub(/ ?[A-Za-z_0-9]+$/, "", parameter[i])
        declaration = declaration (i > 1 ? ", " : "") parameter[i]
    }
    return declaration ")"
}
END {
    gsub(/[ \t]+/, " ", text)
    gsub(/[(] /, "(", text)
    gsub(/ [)]/, ")", text)
    gsub(/[*] /, "*", text)
    if (as == "map") print "{ global:"
    n = split(text, part, ";")
    for (i = 1; i <= n; i++) {
        one = one part[i]
        depth += gsub(/[{]/, "{", part[i]) - gsub(/[}]/, "}", part[i])
        if (depth) { one = one ";"; continue }
        gsub(/^ | *__attribute__.*| $/, "", one)
        name = one
        sub(/[(].*/, "", name)
        sub(/.*[ *]/, "", name)
        if (as != "map" && one != "") print types(one)
        if (as == "map" && one ~ /[(]/ && one !~ /^typedef /) print "    " name ";"
        one = ""
    }
    if (as == "map") print "local: *; };"
}
