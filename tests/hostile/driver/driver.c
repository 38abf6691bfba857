// driver.c - a driver that has one GPU, of the major compute capability that DRIVER_SAYS, or none: for verdicts.sh.
#include <stdlib.h>

static int capability(void) { return getenv("DRIVER_SAYS") ? atoi(getenv("DRIVER_SAYS")) : 0; }

int cuInit(unsigned flags) { return flags || !capability() ? 100 : 0; }
int cuDeviceGet(int *device, int number)
{
    *device = 7;
    return number;
}
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = capability();
    return attribute != 75 || device != 7;
}
