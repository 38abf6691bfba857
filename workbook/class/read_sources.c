// read_sources.c - reads a submission's sources out of a folder that somebody may be changing at the same time: each
// step of a path is opened from the one before, and none may be a link, so nothing outside of the folder is ever
// read, whoever runs this.
//
//   read_sources WHAT FOLDER NN/NAME...     WHAT: what the folder is called, "folder" or "archive"
//
// Prints lines of
//   file NN RANK BASE16 PATH    it could be problems/NN/NAME: RANK, how deep it lies; 100 more where it is known by the
//                               letters of its name alone
//   left NN REASON              it is there, and cannot be taken
//   other PATH                  a source that no problem knows
//   inner PATH                  no source at all, but one archive, whose bytes go to descriptor 3
//   reason REASON               nothing can be taken
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 256 << 10, LARGEST_ARCHIVE = 100 << 20, DEEPEST = 8, ENTRIES = 20000, OF_ONE = 8, PROBLEMS = 100 };

static char **known;  // NN/NAME
static int entries, found[PROBLEMS], archives, archive = -1;
static char archive_path[1024];

static int open_in(int at, const char *name, int flags)
{
    return openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
}

static bool ends(const char *name, const char *const endings[])
{
    for (; *endings; endings++) {
        const size_t all = strlen(name), its = strlen(*endings);
        if (all > its && strcasecmp(name + all - its, *endings) == 0) return true;
    }
    return false;
}
static const char *const sources[] = {".c", ".cu", ".c.txt", ".cu.txt", NULL}, *const others[] = {".h",   ".cuh", ".cc",
                                                                                                  ".cpp", ".hpp", NULL},
                         *const packed[] = {".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", NULL};

// The letters of a file's name before its ending, in lower case.
static void letters(const char *name, char to[64])
{
    int n = 0;
    const char *end = strrchr(name, '.');
    if (end && strcasecmp(end, ".txt") == 0)
        for (end--; end > name && *end != '.';) end--;
    for (; *name && name != end && n < 63; name++)
        if (isalpha((unsigned char)*name)) to[n++] = (char)tolower((unsigned char)*name);
    to[n] = 0;
}

// Which of the known files it is by name, or -1.
static int which(const char *name)
{
    char its[64], one[64];
    if (!ends(name, sources)) return -1;
    letters(name, its);
    for (int i = 0; known[i]; i++) {
        letters(known[i] + 3, one);
        if (strcmp(its, one) == 0) return i;
    }
    return -1;
}

// Takes the file, which may be known[i]. Returns why it cannot be taken, or null.
static const char *take(int at, const char *name, const char *path, int depth, int i)
{
    static unsigned char text[LARGEST + 1];
    char place[300];
    snprintf(place, sizeof place, "problems/%s", known[i]);
    const size_t all = strlen(path), its = strlen(place);
    const bool there = all >= its && strcmp(path + all - its, place) == 0 && (all == its || path[all - its - 1] == '/');
    const int file = open_in(at, name, 0);
    if (file < 0)
        return errno == ELOOP ? "is a link" : errno == EACCES ? "is not readable (file mode)" : "is not a file";
    struct stat is;
    size_t size = 0;
    const bool regular = fstat(file, &is) == 0 && S_ISREG(is.st_mode);
    for (ssize_t n; regular && size < sizeof text && (n = read(file, text + size, sizeof text - size)) > 0;)
        size += (size_t)n;
    close(file);
    if (!regular) return "is not a file";
    if (size > LARGEST) return "is larger than 256 KB";
    printf("file %.2s %d ", known[i], depth + (there ? 0 : 100));
    for (size_t k = 0; k < size; k++) printf("%02X", text[k]);
    printf("%s %s\n", size ? "" : "=", path);
    return NULL;
}

static bool is_number(const char *name)
{
    for (int i = 0; known[i]; i++)
        if (strncmp(known[i], name, 2) == 0 && strlen(name) == 2) return true;
    return false;
}

static void walk(int folder, const char *above, int depth)
{
    DIR *all = fdopendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all)) && entries++ < ENTRIES;) {
        const char *const name = entry->d_name;
        char path[1024];
        if (*name == '.' || strcmp(name, "__MACOSX") == 0 || strcmp(name, "build") == 0) continue;
        const int length = snprintf(path, sizeof path, "%s%s%s", above, *above ? "/" : "", name);
        if (length >= (int)sizeof path) continue;
        for (char *c = path; *c; c++)
            if ((unsigned char)*c < 32 || *c == 127) *c = '?';
        const int below = open_in(folder, name, O_DIRECTORY), i = which(name);
        const char *left = NULL;
        if (below >= 0 && depth < DEEPEST) {
            walk(below, path, depth + 1);
        } else if (below >= 0) {
            close(below);
        } else if (is_number(name) && (errno == EACCES || errno == ENOTDIR || errno == ELOOP)) {
            struct stat is;  // of a link open says ENOTDIR
            const bool link = fstatat(folder, name, &is, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(is.st_mode);
            if (link || errno == EACCES)
                printf("left %s %s %s\n", name, path, link ? "is a link" : "is not readable (file mode)");
        } else if (i >= 0 && found[atoi(known[i]) % PROBLEMS]++ < OF_ONE) {
            if ((left = take(folder, name, path, depth, i))) printf("left %.2s %s %s\n", known[i], path, left);
        } else if (ends(name, sources) || ends(name, others)) {
            printf("other %s\n", path);
        } else if (ends(name, packed) && archives++ == 0) {
            archive = open_in(folder, name, 0);
            snprintf(archive_path, sizeof archive_path, "%s", path);
        }
    }
    if (all) closedir(all);
}

static void hand_on_archive(void)
{
    static char part[1 << 16];
    struct stat is;
    if (fstat(archive, &is) != 0 || !S_ISREG(is.st_mode)) return;
    size_t size = 0;
    for (ssize_t n; size < LARGEST_ARCHIVE && (n = read(archive, part, sizeof part)) > 0; size += (size_t)n)
        if (write(3, part, (size_t)n) != n) return;
    printf("inner %s\n", archive_path);
}

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "usage: read_sources WHAT FOLDER NN/NAME...\n"), 2;
    known = argv + 3;
    const int top = open_in(AT_FDCWD, argv[2], O_DIRECTORY);
    if (top < 0) return printf("reason the %s cannot be read: %s\n", argv[1], strerror(errno)), 0;
    walk(top, "", 0);
    bool any = false;
    for (int i = 0; i < PROBLEMS; i++) any |= found[i] > 0;
    if (!any && archives == 1 && archive >= 0) hand_on_archive();
    if (!any && archives > 1) printf("reason the %s holds several archives, %s and others\n", argv[1], archive_path);
    return 0;
}
