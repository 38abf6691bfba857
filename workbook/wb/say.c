

#include "wb/wb.h"

#include <stdarg.h>

static FILE *report;
static char *text;

void say(const char *format, ...)
{
    char *said;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&said, format, arguments) < 0) abort();
    va_end(arguments);
    if (report) fputs(said, report);
    fputs(said, stdout);
    free(said);
}

void say_plain(const char *before, const char *of)
{
    char *const copy = strdup(of);
    if (!copy) abort();
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")) && (*line || rest);) {
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
