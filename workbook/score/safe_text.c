#include "score/safe_text.h"

#include <stdlib.h>
#include <string.h>

int utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    const int length = s[0] >= 0xc2 && s[0] < 0xe0   ? 2
                       : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                       : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                     : 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;  // the 0 at the end of the text too
    const bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
                     (s[0] == 0xf4 && s[1] > 0x8f) || (s[0] == 0xef && s[1] == 0xbf && s[2] > 0xbd);
    return bad ? 0 : length;
}

bool utf8_invisible(const char *c)
{
    const unsigned char second = (unsigned char)c[1], third = second ? (unsigned char)c[2] : 0;
    if ((unsigned char)c[0] == 0xd8) return second == 0x9c;
    if ((unsigned char)c[0] == 0xef) return second == 0xbb && third == 0xbf;
    if ((unsigned char)c[0] != 0xe2) return false;
    return second == 0x80 ? (third >= 0x8b && third <= 0x8f) || (third >= 0xaa && third <= 0xae)
                          : second == 0x81 && third >= 0xa0 && third <= 0xaf;
}

void write_text(FILE *f, const char *text, text_form form)
{
    const char *const start = text;
    while (*text && text - start < TEXT_LIMIT) {
        const int length = utf8_length(text);
        const unsigned char c = (unsigned char)*text;
        if (length == 0)
            fputs("\xef\xbf\xbd", f);
        else if (form == LINE && (c == '\n' || c == '\t'))
            fputc(' ', f);
        else if ((c < 32 && c != '\n' && c != '\t') || c == 127 || (c == 0xc2 && (unsigned char)text[1] < 0xa0) ||
                 utf8_invisible(text))
            fputc('?', f);
        else
            fwrite(text, 1, (size_t)length, f);
        text += length ? length : 1;
    }
    const char *const end = form == LINE ? " " : "\n";
    if (*text) fprintf(f, "%s... (%zu bytes in all)%s", end, strlen(start), end);
}

FILE *text_in_memory(char **text)
{
    static size_t size;  // nobody asks
    FILE *const f = open_memstream(text, &size);
    if (!f) abort();
    return f;
}

char *safe_text(const char *text, text_form form)
{
    char *result = NULL;
    FILE *const f = text_in_memory(&result);
    write_text(f, text, form);
    if (fclose(f) || !result) abort();
    return result;
}

const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}
