#!/bin/sh
# bundle.sh - make bundle: build/bundle.tar.gz, the workbook as it stands here and, in tools/, of what setup.sh installs
# the libraries with their headers: for a GPU machine that lacks them. It must have make, compilers, the CUDA Toolkit,
# and a C library no older than this machine's. with_tools.sh, there ./with-tools, runs a command with tools/.
set -eu
bundle=build/bundle tools=build/bundle/tools
rm -rf $bundle && mkdir -p $tools/include $tools/lib
tar --exclude='./build' --exclude='./.*' -cf - . | tar -xf - -C $bundle
git describe --always --dirty --abbrev=10 >$tools/commit 2>/dev/null || echo unknown >$tools/commit
cp workbook/bench/with_tools.sh $bundle/with-tools
# shellcheck disable=SC2046
printf '#include <%s>\n' criterion/criterion.h cjson/cJSON.h cblas.h sha256.h |
    ${CC:-cc} -x c -M $(pkg-config --cflags openblas 2>/dev/null) - | tr -d '\\' | xargs -n 1 |
    grep -E '/(criterion|cjson)/|/(cblas|openblas_config|sha2|sha256)\.h$' | while read -r header; do
    to=$tools/include/$(echo "$header" | sed -E 's:.*/((criterion|cjson)/.*):\1:; t; s:.*/::')
    mkdir -p "$(dirname "$to")" && cp -L "$header" "$to"
done
# What they link in turn comes along, each by the name that a program asks for; the C and C++ libraries do not.
echo 'int main(void) { return 0; }' >$tools/t.c
# shellcheck disable=SC2046
${CC:-cc} -Wl,--no-as-needed $tools/t.c -lcriterion -lcjson -lmd \
    $(pkg-config --libs openblas 2>/dev/null || echo -lopenblas) -o $tools/t
ldd $tools/t | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)|ld-linux[^/]*)\.so' | xargs -I{} cp -L {} $tools/lib/
rm -f $tools/t $tools/t.c
tar -C build -czf build/bundle.tar.gz bundle && rm -rf $bundle
echo "bundle: $(du -h build/bundle.tar.gz | cut -f1) in build/bundle.tar.gz. Copy it to the GPU machine, then there:"
echo "bundle: tar -xf bundle.tar.gz && cd bundle && ./with-tools make test-03"
