// zip.c - writes a zip archive of files that gzip has packed, under any names, for archives that no honest program would make:
//
//   zip NAME FILE.gz [NAME FILE.gz ...] >ARCHIVE
//
// A gzip file is a header of ten bytes, the packed bytes, their CRC and length: all that an entry of a zip needs (gzip -n).
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long at;  // bytes written so far

static void put(const void *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, stdout) != count) exit(1);
    at += (long)count;
}

static void number(uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8) put(&(unsigned char){(unsigned char)value}, 1);
}

// What the header before a file and the directory at the end have in common.
static void describe(const unsigned char *gz, size_t size, const char *name)
{
    number(20, 2), number(0, 2), number(8, 2), number(0, 2), number(0x5a21, 2);
    put(gz + size - 8, 4), number((uint32_t)(size - 18), 4), put(gz + size - 4, 4);
    number((uint32_t)strlen(name), 2), number(0, 2);
}

int main(int argc, char **argv)
{
    enum { MOST = 16 };
    static unsigned char gz[MOST][1 << 20];
    size_t size[MOST];
    long start[MOST];
    const int count = (argc - 1) / 2;
    if (count < 1 || count > MOST || argc % 2 == 0) return 2;
    for (int i = 0; i < count; i++) {
        FILE *file = fopen(argv[2 + 2 * i], "rb");
        size[i] = file ? fread(gz[i], 1, sizeof gz[i], file) : 0;
        if (size[i] < 18 || size[i] == sizeof gz[i]) return 1;
        fclose(file);
        start[i] = at;
        put("PK\3\4", 4);
        describe(gz[i], size[i], argv[1 + 2 * i]);
        put(argv[1 + 2 * i], strlen(argv[1 + 2 * i]));
        put(gz[i] + 10, size[i] - 18);
    }
    const long directory = at;
    for (int i = 0; i < count; i++) {
        put("PK\1\2", 4), number(20, 2);
        describe(gz[i], size[i], argv[1 + 2 * i]);
        number(0, 2), number(0, 2), number(0, 2), number(0, 4), number((uint32_t)start[i], 4);
        put(argv[1 + 2 * i], strlen(argv[1 + 2 * i]));
    }
    const long end = at;
    put("PK\5\6", 4), number(0, 2), number(0, 2), number((uint32_t)count, 2), number((uint32_t)count, 2);
    number((uint32_t)(end - directory), 4), number((uint32_t)directory, 4), number(0, 2);
    return fflush(stdout) ? 1 : 0;
}
