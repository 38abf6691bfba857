#!/bin/sh
# bundle.sh - make bundle: build/bundle.tar.gz, the workbook as it stands here and, in tools/, of what setup.sh installs
# the libraries with their headers: for a GPU machine that lacks them (problems/with-a-gpu.md).
set -eu
bundle=build/bundle tools=build/bundle/tools
rm -rf $bundle && mkdir -p $tools/include $tools/lib
tar --exclude='./build' --exclude='./.*' -cf - . | tar -xf - -C $bundle
git describe --always --dirty --abbrev=10 >$tools/commit 2>/dev/null || echo unknown >$tools/commit
cat >$bundle/with-tools <<'END'
#!/bin/sh
cd "$(dirname "$0")" || exit 2
tools=$PWD/tools PATH=$PATH:/sbin:/usr/local/cuda/bin
ldconfig -p >"$tools/here"
for library in "$tools"/lib/*.so.*; do
    ! grep -qF "$(basename "$library") " "$tools/here" || rm -f "$library"
done
for name in criterion cjson md openblas; do # as a linker looks for them
    grep -q "lib$name\.so " "$tools/here" && continue
    of_system=$(awk -v n="lib$name.so." 'index($1, n) == 1 { print $NF; exit }' "$tools/here")
    ln -sf "${of_system:-$(ls "$tools/lib/lib$name.so."*)}" "$tools/lib/lib$name.so"
done
export PATH LIBRARY_PATH="$tools/lib${LIBRARY_PATH:+:$LIBRARY_PATH}" # a system's headers: no warnings of theirs
export C_INCLUDE_PATH="$tools/include${C_INCLUDE_PATH:+:$C_INCLUDE_PATH}"
export CPLUS_INCLUDE_PATH="$tools/include${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}"
export LD_LIBRARY_PATH="$tools/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$@"
END
chmod +x $bundle/with-tools
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
