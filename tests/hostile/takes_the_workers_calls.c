// expect: are NaN or infinite
// The worker's send would be this one, and its recvmsg could give it other cases than those that it was sent.
#include "hostile.h"

#include <sys/socket.h>
#include <unistd.h>

ssize_t send(int socket, const void *data, size_t size, int flags) { _exit(0); }

HOSTILE() { return WB_OK; }
