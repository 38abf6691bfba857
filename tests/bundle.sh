#!/bin/sh
# bundle.sh - make bundle: where the linker's list names none of the libraries that the workbook links, those of the
# bundle are used; where it names all, none is.
set -u
. tests/prove/frame.sh
make -s bundle >"$scratch/said" && tar -xf build/bundle.tar.gz -C "$scratch" || { cat "$scratch/said"; exit 1; }
cat >"$scratch/t.c" <<'END_OF_C'
#include <cblas.h>
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <sys/types.h>
#include <sha256.h>
Test(a, b) { cr_assert(cblas_dasum(1, &(double){1}, 1) == 1 && cJSON_Version() && SHA256_DIGEST_LENGTH == 32); }
END_OF_C
mkdir "$scratch/bin" && printf '#!/bin/sh\n' >"$scratch/bin/ldconfig" && chmod +x "$scratch/bin/ldconfig"
there() { # N: so many of the four libraries are the bundle's; all header files are
    cd "$scratch/bundle" || exit 2
    ./with-tools sh -c "cc -M $scratch/t.c >headers &&
        cc -Wl,--no-as-needed $scratch/t.c -lcriterion -lcjson -lmd -lopenblas -o t && ./t &&
        ldd ./t >libraries" >log 2>&1 || cat log
    [ "$(grep -cE 'bundle/tools/lib/lib(criterion|cjson|md|openblas)\.so' libraries)" -eq "$1" ] &&
        [ "$(tr ' ' '\n' <headers | grep -cE 'tools/include/(criterion/criterion|cjson/cJSON|cblas|sha256)\.h')" -eq 4 ]
}
(PATH=$scratch/bin:$PATH there 4)
check "a machine that lacks all four libraries uses the bundle's" [ $? -eq 0 ]
(there 0)
check "a machine that has them uses its own" [ $? -eq 0 ]
check "the workbook is whole there" sh -c "cd $scratch/bundle && ./with-tools make -s help >/dev/null"
exit $failed
