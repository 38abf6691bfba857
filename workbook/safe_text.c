#include "safe_text.h"

#include <string.h>

// The length of the UTF-8 character at s, 1 to 4; 0 if it is none (RFC 3629: no surrogates, nothing longer than need be).
static int utf8_length(const unsigned char *s)
{
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

static const char *escape(char c, text_form form)
{
    if (form == JSON) return c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\t' ? "\\t" : NULL;
    if (form == XML) return c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : NULL;
    return NULL;
}

void write_text(FILE *f, const char *text, text_form form)
{
    const char *const start = text;
    while (*text && text - start < TEXT_LIMIT) {
        const int length = utf8_length((const unsigned char *)text);
        const unsigned char c = (unsigned char)*text;
        if (length == 0)
            fputs("\xef\xbf\xbd", f);
        else if (escape(*text, form))
            fputs(escape(*text, form), f);
        else if ((c < 32 && c != '\n' && c != '\t') || c == 127)
            fputc('?', f);
        else
            fwrite(text, 1, (size_t)length, f);
        text += length ? length : 1;
    }
    if (*text)
        fprintf(f, "%s... (%zu bytes in all)%s", form == JSON ? "\\n" : "\n", strlen(start),
                form == JSON ? "\\n" : "\n");
}
