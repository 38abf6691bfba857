// rule: there is no network
// expect: Function not implemented
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static wb_status bomb(void)
{
    struct sockaddr_in to;
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_port = htons(53);
    to.sin_addr.s_addr = htonl(0x08080808);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to)) return wb_fail(WB_UNSUPPORTED, "%s", strerror(errno));
    return wb_fail(WB_UNSUPPORTED, "connected");
}
