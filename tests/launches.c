/* launches.c - kernel<<<...>>>(...) compiles wherever nvcc takes it, by every compiler that the workbook knows, and starts the right kernel
 * with the right arguments. What a student may write is in launches_kernels.cu. */
#include <criterion/criterion.h>

int *launches_memory(int count);
void launches_results(const int *device, int *numbers, int count);
int launches_in_lambdas(int *device, int D);
int launches_in_templates(int *device);
void launches_and_shared_memory(int *errors);
int launches_know_their_kernels(void);

enum { ROOM = 32, cudaErrorInvalidValue = 1 };

TestSuite(launches, .timeout = 60);

#define EXPECT_NUMBERS(device, written, ...)                                                                           \
    do {                                                                                                               \
        const int want[] = {__VA_ARGS__}, count = (int)(sizeof want / sizeof *want);                                   \
        int got[ROOM];                                                                                                 \
        cr_assert_eq(written, count, "%d launches, should be %d", written, count);                                     \
        launches_results(device, got, count);                                                                          \
        for (int i = 0; i < count; i++) cr_expect_eq(got[i], want[i], "launch %d stored %d", i, got[i]);               \
    } while (0)

Test(launches, kernels_named_by_parameters_of_the_lambdas_around_them)
{
    int *device = launches_memory(ROOM);
    const int small = launches_in_lambdas(device, 32);
    EXPECT_NUMBERS(device, small, 432, 408, 507, 36, 3, 7, 3204, 3207, 416, 502, 41, 16, 3204, 632, 48, 1604);
    const int large = launches_in_lambdas(device, 64);
    EXPECT_NUMBERS(device, large, 864, 808, 907, 72, 3, 7, 6408, 6407, 816, 902, 73, 16, 6408, 1064, 80, 1608);
}

Test(launches, in_templates_and_members)
{
    int *device = launches_memory(ROOM);
    const int written = launches_in_templates(device);
    EXPECT_NUMBERS(device, written, 532, 432, 14, 9, 3205, 102, 304, 11);
}

Test(launches, are_told_apart_by_the_kernel_that_they_name)
{
    int errors[3];
    launches_and_shared_memory(errors);
    cr_expect_eq(errors[0], 0, "asked for its shared memory, and got error %d", errors[0]);
    for (int i = 1; i < 3 && launches_know_their_kernels(); i++)
        cr_expect_eq(errors[i], cudaErrorInvalidValue, "kernel %d never asked, and got error %d", i, errors[i]);
}
