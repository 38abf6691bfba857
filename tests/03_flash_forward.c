// 03_flash_forward.c - what flash_forward must do: forward.h.
#include "contract.h"

TEST_PROBLEM(flash_forward)

#define SUITE flash_forward
#include "forward.h"
