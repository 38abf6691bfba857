// rule: what a worker says about itself replaces no result, and what it shares with its test cannot be cut off
// expect: NaN or infinite
// Before main it takes the cases in the place of the worker, writes what the worker would (stage done, status ok, no
// memory used), and answers. The outputs are not there. If their file could be made shorter, this would end by a
// signal.
#include "worker/exchange.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int receive(void)  // as the worker does: the memory of the next case
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } descriptor;
    char text[WB_CASE_TEXT];
    struct iovec data = {text, sizeof text};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &descriptor, .msg_controllen = sizeof descriptor};
    int file = -1;
    if (recvmsg(3, &message, MSG_WAITALL) == (ssize_t)sizeof text)
        memcpy(&file, CMSG_DATA(&descriptor.header), sizeof file);
    return file;
}

__attribute__((constructor)) static void before_main(void)
{
    for (int served = 0, file; (file = receive()) >= 0; served++) {
        (void)!ftruncate(file, 0);
        wb_exchange *x = (wb_exchange *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (x != MAP_FAILED) x->stage = WB_STAGE_DONE;
        const char answer = (char)served;
        send(3, &answer, 1, 0);
    }
    _exit(0);
}

static wb_status bomb(void) { return WB_OK; }
