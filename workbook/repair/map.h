// map.h - the file that a worker shares with who runs it, which a variable of the environment names.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace wb_repair
{
template <class T> T *map(const char *variable)  // NULL: there is none. Not by mmap(), which is the layer's here
{
    const char *name = getenv(variable);
    const int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    const long at = syscall(SYS_mmap, 0L, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
    return at == -1 ? nullptr : reinterpret_cast<T *>(at);
}
}  // namespace wb_repair
