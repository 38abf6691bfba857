#!/bin/sh
# compile_commands.sh [FLAG...] - prints how each file is compiled, for editors with clangd, in clang's words; FLAGs are
# for C alone. Answer keys are not named, so that no editor leads a student into one; clangd gives them the flags of the
# problem's own file.
set -u
layer="-D__CUDACPU__ -Iworkbook/cpu/include -Iworkbook -Iworkbook/words -I. -Itests -Wall -Wextra -Wno-unknown-pragmas"
cuda="clang++ -x cuda --cuda-host-only -nocudainc -nocudalib -Wno-unknown-cuda-version"
cuda="$cuda -Xclang -fcuda-allow-variadic-functions -std=c++17"
directory=$(pwd | sed 's/[\\"]/\\&/g')
for file in problems/*/*.c* reference/*.c* workbook/*.c* workbook/*/*.c* workbook/cpu/check/*.cpp tests/*.c* \
    train/*.c; do
    case $file in
    *.cu | *.cuh) flags="$cuda -include workbook/cpu/editor.h $layer" ;;
    *.cpp) flags="clang++ -std=c++20 -Wno-deprecated $layer" ;;
    *) flags="clang -std=c11 -D_GNU_SOURCE -Wall -Wextra -Iworkbook -Iworkbook/words -I. $*" ;;
    esac
    [ ! -f "$file" ] ||
        printf '{"directory": "%s", "file": "%s", "command": "%s -c %s"}\n' "$directory" "$file" "$flags" "$file"
done | sed '1s/^/[/; $!s/$/,/; $s/$/]/'
