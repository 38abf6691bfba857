# unset.awk - local variables that are declared without a value, and next met where they are not filled, a line each:
# "19 float sum;". awk -v skeleton=FILE -f unset.awk SOURCE: of lines that FILE does not have. The first argument of a
# call may be filled there. -v conditional=1: of those that a condition without an else fills.
function meets(line, name) { return match(" " line " ", "[^a-zA-Z0-9_.]" name "[^a-zA-Z0-9_]") }
function is_filled(line, name) {
    sub(/.*(fill|load)[a-z_]*\(|^ *(for \(.*\) )?[a-z_]+\(/, "= ", line)
    sub(/.*[&]/, "= ", line)
    if (!match(line, name "(\\[[^]]*\\])*(\\.[a-z]+)* = ")) return line ~ "^= " name
    return !meets(substr(line, RSTART + RLENGTH), name)
}
BEGIN { while (skeleton && (getline line < skeleton) > 0) given[line] = 1 }
{ whole[NR] = $0; sub(/ *\/\/.*/, ""); code[NR] = $0 }
END {
    local = "^ +(float|double|int|unsigned|uint32_t|size_t|bool|bf16|float[24]|(reg_tile|row_vec|col_vec)<[^()]*>) "
    for (n = 1; n <= NR; n++) {
        if (code[n] ~ /^(template|struct|union).* \{$/) inside = 1
        if (code[n] ~ /^[^ ].*\)$|^[^ ].*\) \{$|^\{/) inside = 0
        if (inside || code[n] !~ local "[^()]*;$") continue
        words = code[n]
        sub(local, "", words)
        sub(/;$/, "", words)
        gsub(/\{[^}]*\}/, "0", words)
        for (k = split(words, each, /, */); k > 0; k--) {
            name = each[k]
            sub(/\[.*/, "", name)
            if (name !~ /^[a-zA-Z_0-9]+$/ || each[k] ~ /=/) continue
            for (at = n + 1; at <= NR && !meets(code[at], name); at++) continue
            may_be_left = code[at] ~ /^ *if \(.*;$/ && code[at + 1] !~ /^ *else /
            if (at <= NR && is_filled(code[at], name) ? !(conditional && may_be_left) : conditional) continue
            found[given[whole[n]] + 0] = found[given[whole[n]] + 0] n code[n] "\n"
            break
        }
    }
    text = found[0]
    gsub(/ +/, " ", text)
    printf "%s", text
}
