// expect: are NaN or infinite
#include "hostile.h"

HOSTILE() { return WB_OK; }
