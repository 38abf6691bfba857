#!/bin/sh
# book.sh - tests/book.sh, which makes the book and looks at it in a browser; skipped (77) where there is none, or no
# venv of Python.
set -u
: "${WB_BROWSER:=$(command -v chromium || command -v chromium-browser)}"
[ -n "$WB_BROWSER" ] && python3 -c 'import ensurepip' 2>/dev/null ||
    { echo "there is no chromium, or no python3-venv"; exit 77; }
export WB_BROWSER
exec sh tests/book.sh
