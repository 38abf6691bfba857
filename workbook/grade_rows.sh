#!/bin/sh
# grade_rows.sh OUT NAME... - the rows of grades.csv (RFC 4180) for these submissions, from OUT/reports/NAME/record. For grade_all.sh.
set -u
export LC_ALL=C
out=$1
shift

# A name as the table has it: bytes in, characters of UTF-8 out.
named() {
    printf '%s' "$1" | od -An -v -tx1 | LC_ALL=C awk '
        BEGIN { for (i = 0; i < 256; i++) value[sprintf("%02x", i)] = i }
        { for (i = 1; i <= NF; i++) byte[++n] = value[$i] }
        function more(at, first, last) { return byte[at] >= first && byte[at] <= last }
        function characters(i,  b) { # how many bytes the character at i has; 0: it is none
            b = byte[i]
            if (b >= 32 && b < 127 && b != 37) return 1
            if (b >= 194 && b < 224) return more(i + 1, 128, 191) && !(b == 194 && byte[i + 1] < 160) ? 2 : 0
            if (b >= 224 && b < 240) return more(i + 1, b == 224 ? 160 : 128, b == 237 ? 159 : 191) && more(i + 2, 128, 191) ? 3 : 0
            if (b >= 240 && b < 245) return more(i + 1, b == 240 ? 144 : 128, b == 244 ? 143 : 191) && more(i + 2, 128, 191) && more(i + 3, 128, 191) ? 4 : 0
            return 0
        }
        END {
            if (byte[1] == 61 || byte[1] == 43 || byte[1] == 45 || byte[1] == 64) printf "\047"
            for (i = 1; i <= n; i++) {
                length_of = characters(i)
                if (!length_of) { printf "%%%02X", byte[i]; continue }
                for (k = 0; k < length_of; k++) printf "%c", byte[i + k]
                i += length_of - 1
            }
        }'
}

for path; do
    name=${path#./}
    record=$out/reports/$name/record
    {
        named "$name"
        printf '\n'
        if [ -f "$record" ]; then tail -n 1 "$record"; else echo "not graded"; fi
        sed -n 1p "$out/reports/$name/failure" 2>/dev/null
    } | awk -F'\t' -v numbers="$(wc -l <"$out/base/workbook/shipped.sha256")" '
        function field(text) {
            if (text !~ /[",]/) return text
            gsub(/"/, "\"\"", text)
            return "\"" text "\""
        }
        NR == 1 { row = field($0) }
        NR == 2 && $0 == "not graded" {
            for (i = 0; i < 2 + 2 * numbers; i++) row = row ","
            ungraded = 1
        }
        NR == 2 && !ungraded { for (i = 1; i <= NF; i++) row = row "," field($i) }
        NR == 3 && ungraded { why = ": " $0 }
        END { if (ungraded) row = row "," field("not graded" why); printf "%s\r\n", row }'
done
