#!/bin/sh
# untouched.sh FILE - exit status 0 if FILE is a skeleton as it was shipped: a problem that is not started.
grep -q "^$(sha256sum <"$1" | cut -d' ' -f1) " workbook/shipped.sha256 2>/dev/null
