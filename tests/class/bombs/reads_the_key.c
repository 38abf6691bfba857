// rule: no file of the judge is seen
// expect: found 0 of 6
#include <fcntl.h>

static wb_status bomb(void)
{
    const char *const places[] = {"@ROOT@/solutions/01/tiled_attention.c",
                                  "/proc/1/root@ROOT@/solutions/01/tiled_attention.c",
                                  "/proc/self/cwd/../solutions/01/tiled_attention.c",
                                  "@BASE@/tests/01_tiled_attention.c",
                                  "@BASE@/build/cpu/tests/01_test",
                                  "@CANARY@/canary"};
    int found = 0;
    for (int i = 0; i < 6; i++) found += open(places[i], O_RDONLY) >= 0;
    return wb_fail(WB_UNSUPPORTED, "found %d of 6", found);
}
