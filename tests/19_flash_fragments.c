// 19_flash_fragments.c - what flash_fragments must do: what 03 does, and fetch its fragments without bank conflicts.
#include "contract.h"

TEST_PROBLEM(flash_fragments)

#define SUITE flash_fragments
#include "forward.h"

Test(flash_fragments, fragments_without_conflicts)
{
    for (size_t n = 0; n < head_dims(); n++) check_fetches(of(1, 1, 128, 128, dim(n + 2)));
}
