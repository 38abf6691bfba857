// expect: carries state from an earlier call
// test: every_head_dim
// A child takes the worker's place at the socket, and answers without computing; the worker only waits for it.
#include "hostile.h"

#include <sys/wait.h>
#include <unistd.h>

HOSTILE()
{
    static int calls;
    if (calls++ > 0) return WB_OK;
    const wb_status status = right(O, L, Q, K, V, shape);
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        return status;
    }
    waitpid(child, NULL, 0);
    _exit(0);
}
