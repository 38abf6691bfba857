// exchange.c - see exchange.h.
#include "exchange.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0
#endif

typedef union wb_descriptor {  // one, as a socket carries it
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
} wb_descriptor;

static struct msghdr message_of(struct iovec *text, wb_descriptor *descriptor)
{
    return (struct msghdr){
        .msg_iov = text, .msg_iovlen = 1, .msg_control = descriptor->room, .msg_controllen = sizeof descriptor->room};
}

bool wb_exchange_send(int socket, const char text[WB_CASE_TEXT], int file)
{
    wb_descriptor descriptor = {.room = {0}};
    struct iovec data = {(char *)text, WB_CASE_TEXT};
    const struct msghdr message = message_of(&data, &descriptor);
    descriptor.header.cmsg_len = CMSG_LEN(sizeof file);
    descriptor.header.cmsg_level = SOL_SOCKET;
    descriptor.header.cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(&descriptor.header), &file, sizeof file);
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == WB_CASE_TEXT;
}

int wb_exchange_receive(int socket, char text[WB_CASE_TEXT])
{
    wb_descriptor descriptor = {.room = {0}};
    struct iovec data = {text, WB_CASE_TEXT};
    struct msghdr message = message_of(&data, &descriptor);
    int file = -1;
    if (recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != WB_CASE_TEXT) return -1;
    if (CMSG_FIRSTHDR(&message)) memcpy(&file, CMSG_DATA(&descriptor.header), sizeof file);
    text[WB_CASE_TEXT - 1] = 0;
    return file;
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
