// rule: what a worker shares with its test cannot be cut off
// expect: it printed  cannot be made shorter
// The memory that it shares with its test is a file, which it would make shorter; the test has sealed its size.
#include "exchange.h"

#include <stdio.h>
#include <string.h>
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
    const int file = receive();
    puts(ftruncate(file, 0) ? "cannot be made shorter" : "made shorter");
    fflush(stdout);
    _exit(1);
}

static wb_status bomb(void) { return WB_OK; }
