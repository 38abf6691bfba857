// read_sources.c - reads a submission's sources out of a folder that somebody may be changing at the same time: each
// step of a path is opened from the one before, and none may be a link, so nothing outside of the folder is ever
// read, whoever runs this.
//
//   read_sources WHAT FOLDER NN/NAME...     WHAT: what the folder is called, "folder" or "archive"
//
// Prints lines of
//   file NN BASE64      problems/NN/NAME, at the top or below one folder
//   left NN REASON      it is there, and cannot be taken
//   reason REASON       nothing can be taken
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 256 << 10 };

static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_link(int at, const char *name)
{
    struct stat is;
    return fstatat(at, name, &is, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(is.st_mode);
}

// The folder problems/ at the top, or below the only folder that has one; -1 after saying why there is none.
static int find_problems(int top, const char *what)
{
    char found[256] = "";
    int problems = open_folder(top, "problems");
    DIR *folder = problems < 0 ? fdopendir(dup(top)) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char *const name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "__MACOSX") == 0) continue;
        const int below = open_folder(top, name), its = below < 0 ? -1 : open_folder(below, "problems");
        if (below >= 0) close(below);
        if (its < 0) continue;
        for (char *c = name; *c; c++)
            if ((unsigned char)*c < 32) *c = '?';
        if (problems >= 0)
            return printf("reason the %s has more than one folder with problems/: '%s' and '%s'\n", what, found, name),
                   -1;
        problems = its;
        snprintf(found, sizeof found, "%s", name);
    }
    if (problems < 0) printf("reason the %s has no folder problems/, at its top or below one folder\n", what);
    return problems;
}

static void print_base64(const unsigned char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const unsigned bits =
            (unsigned)data[i] << 16 | (left > 1 ? (unsigned)data[i + 1] << 8 : 0) | (left > 2 ? data[i + 2] : 0);
        for (int k = 0; k < 4; k++) putchar((size_t)k > left ? '=' : digits[bits >> (18 - 6 * k) & 63]);
    }
}

// Takes NN/NAME. Returns why it cannot be taken, or null.
static const char *take(int problems, const char *number, const char *name)
{
    static unsigned char text[LARGEST + 1];
    const int folder = open_folder(problems, number);
    if (folder < 0)
        return is_link(problems, number) ? "is a link" : errno == EACCES ? "cannot be read, by its mode" : NULL;
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), error = errno;
    close(folder);
    if (file < 0)
        return error == ENOENT   ? NULL
               : error == ELOOP  ? "is a link"
               : error == EACCES ? "cannot be read, by its mode"
                                 : "is not a file";
    struct stat is;
    size_t size = 0;
    const bool regular = fstat(file, &is) == 0 && S_ISREG(is.st_mode);
    for (ssize_t n; regular && size < sizeof text && (n = read(file, text + size, sizeof text - size)) > 0;)
        size += (size_t)n;
    close(file);
    if (!regular) return "is not a file";
    if (size > LARGEST) return "is larger than 256 KB";
    printf("file %s ", number);
    print_base64(text, size);
    putchar('\n');
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "usage: read_sources WHAT FOLDER NN/NAME...\n"), 2;
    const int top = open_folder(AT_FDCWD, argv[2]), problems = top < 0 ? -1 : find_problems(top, argv[1]);
    if (top < 0) printf("reason the %s cannot be read: %s\n", argv[1], strerror(errno));
    for (int i = 3; i < argc && problems >= 0; i++) {
        char number[3] = "";
        memcpy(number, argv[i], 2);
        const char *left = take(problems, number, argv[i] + 3);
        if (left) printf("left %s problems/%s %s\n", number, argv[i], left);
    }
    return 0;
}
