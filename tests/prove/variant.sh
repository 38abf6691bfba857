#!/bin/sh
# variant.sh NN NAME - solutions/NN/variants/NAME.cu passes the suite of NN. A line "// exempt: memory same_twice"
# there names tests that it fails by design, and says so in its text.
exec tests/prove/suite.sh "$1" "build/${BACKEND:-cpu}/variants/$1/variants/$2/$1_worker" \
    "$(sed -n 's|^// exempt: ||p' "solutions/$1/variants/$2.cu")"
