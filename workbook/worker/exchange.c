// exchange.c - see exchange.h.
#include "worker/exchange.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

size_t wb_exchange_layout(const wb_tensor *tensors, int count, const wb_case *c, size_t guard,
                          wb_zone zones[WB_MAX_TENSORS])
{
    size_t at = 4096;
    for (int k = 0; k < count; k++) {
        zones[k] = (wb_zone){.start = at, .data = guard + wb_tensor_offset(&tensors[k], k, count, c->offset)};
        // pages, so that `place` fixes its begin
        const size_t bytes = zones[k].data + tensors[k].bytes + guard, page = guard ? 4096 : 1;
        zones[k].bytes = (bytes + page - 1) / page * page;
        at = (at + zones[k].bytes + 255) / 256 * 256;
    }
    return at;
}

typedef union wb_descriptor {  // a few, as a socket carries them
    struct cmsghdr header;
    char room[CMSG_SPACE(MOST_FILES * sizeof(int))];
} wb_descriptor;

static struct msghdr message_of(struct iovec *text, wb_descriptor *descriptor)
{
    return (struct msghdr){
        .msg_iov = text, .msg_iovlen = 1, .msg_control = descriptor->room, .msg_controllen = sizeof descriptor->room};
}

bool wb_exchange_send(int socket, const char text[WB_CASE_TEXT], const int files[], int count)
{
    wb_descriptor descriptor = {.room = {0}};
    struct iovec data = {(char *)text, WB_CASE_TEXT};
    struct msghdr message = message_of(&data, &descriptor);
    const size_t bytes = sizeof(int) * (size_t)count;
    message.msg_controllen = CMSG_SPACE(bytes);
    descriptor.header.cmsg_len = CMSG_LEN(bytes);
    descriptor.header.cmsg_level = SOL_SOCKET;
    descriptor.header.cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(&descriptor.header), files, bytes);
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == WB_CASE_TEXT;
}

int wb_exchange_receive(int socket, char text[WB_CASE_TEXT], int files[MOST_FILES])
{
    wb_descriptor descriptor = {.room = {0}};
    struct iovec data = {text, WB_CASE_TEXT};
    struct msghdr message = message_of(&data, &descriptor);
    if (recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != WB_CASE_TEXT) return 0;
    text[WB_CASE_TEXT - 1] = 0;
    if (!CMSG_FIRSTHDR(&message)) return 0;
    const size_t bytes = descriptor.header.cmsg_len - CMSG_LEN(0);
    memcpy(files, CMSG_DATA(&descriptor.header), bytes);
    return (int)(bytes / sizeof *files);
}

void wb_exchange_answer(int socket, int number)
{
    const char answer = (char)number;
    send(socket, &answer, 1, MSG_NOSIGNAL);
}

wb_answer wb_exchange_answered(int socket, int number)
{
    char answer;
    const ssize_t n = recv(socket, &answer, 1, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? WB_NO_ANSWER : WB_ANSWER_NEVER;
    return n == 0 ? WB_ANSWER_NEVER : answer == (char)number ? WB_ANSWERED : WB_ANSWER_DAMAGED;
}
