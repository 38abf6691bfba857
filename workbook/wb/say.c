#include "wb/wb.h"

#include "score/safe_text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static FILE *report;
static char *text;

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (report) {
        va_list again;
        va_copy(again, arguments);
        vfprintf(report, format, again);
        va_end(again);
    }
    vprintf(format, arguments);
    va_end(arguments);
}

void say_plain(const char *before, const char *of)
{
    char *const copy = strdup(of);
    if (!copy) abort();
    for (char *line = copy, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        char *const safe = safe_text(line, PLAIN);
        say("%s%s\n", before, safe);
        free(safe);
    }
    free(copy);
}

void say_now(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

void say_begin(void) { report = text_in_memory(&text); }

char *say_end(void)
{
    if (!report || fclose(report)) return strdup("");
    report = NULL;
    return text;
}
