// criterion.c - linked into every test program: what Criterion calls is found here before it is found in a library.
//
// Its tests talk to their program at /tmp/criterion_N.sock, and the program tells each one by shared memory /bxfi_N
// what to do. N is a process's number, which anybody can tell and which comes again; where somebody else has made a
// file of that name, or a program that was killed has left one, a test cannot run. Where WB_SOCKETS names a folder,
// sockets lie in it, and the memory's name ends with the folder's, which no two runs share.
//
// It draws differences of texts by libgit2, which reads all the certificates of the system as it begins, once a test: a
// third of what an empty test costs. No test here asks for such a drawing.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// Where this path lies here; false: where it says.
static bool moved(const char *path, struct sockaddr_un *to)
{
    static const char usual[] = "/tmp/criterion_";
    const char *folder = getenv("WB_SOCKETS");
    if (!folder || strncmp(path, usual, strlen(usual)) != 0) return false;
    to->sun_family = AF_UNIX;
    return snprintf(to->sun_path, sizeof to->sun_path, "%s%s", folder, path + strlen("/tmp")) <
           (int)sizeof to->sun_path;
}

static int elsewhere(const char *name, int socket, const struct sockaddr *to, socklen_t size)
{
    typedef int (*call)(int socket, const struct sockaddr *to, socklen_t size);
    const call system = (call)dlsym(RTLD_NEXT, name);
    struct sockaddr_un mine = {0};
    if (to->sa_family != AF_UNIX || !moved(((const struct sockaddr_un *)to)->sun_path, &mine))
        return system(socket, to, size);
    return system(socket, (const struct sockaddr *)&mine, sizeof mine);
}

// The name of shared memory here.
static const char *own(const char *name, char mine[256])
{
    const char *folder = getenv("WB_SOCKETS");
    if (!folder || strncmp(name, "/bxf", 4) != 0) return name;
    const char *last = strrchr(folder, '/');
    snprintf(mine, 256, "%s_%s", name, last ? last + 1 : folder);
    return mine;
}

#pragma GCC visibility push(default)  // that the libraries find them
int bind(int socket, const struct sockaddr *to, socklen_t size) { return elsewhere("bind", socket, to, size); }
int connect(int socket, const struct sockaddr *to, socklen_t size) { return elsewhere("connect", socket, to, size); }

int unlink(const char *path)
{
    struct sockaddr_un mine = {0};
    return unlinkat(AT_FDCWD, moved(path, &mine) ? mine.sun_path : path, 0);
}

int shm_open(const char *name, int flags, mode_t mode)
{
    typedef int (*call)(const char *name, int flags, mode_t mode);
    char mine[256];
    return ((call)dlsym(RTLD_NEXT, "shm_open"))(own(name, mine), flags, mode);
}

int shm_unlink(const char *name)
{
    typedef int (*call)(const char *name);
    char mine[256];
    return ((call)dlsym(RTLD_NEXT, "shm_unlink"))(own(name, mine));
}

int git_libgit2_init(void);
int git_libgit2_shutdown(void);
int git_libgit2_init(void) { return 1; }
int git_libgit2_shutdown(void) { return 0; }
#pragma GCC visibility pop
