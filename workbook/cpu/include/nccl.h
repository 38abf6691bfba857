#include "nccl/nccl.h"
