// safe_text.c - whatever a student's program prints, the grader's files stay valid.
#include "score/safe_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void becomes(const char *text, text_form form, const char *want)
{
    char *got = safe_text(text, form);
    cr_assert_str_eq(got, want);
    free(got);
}

Test(safe_text, plain_stays)
{
    becomes("O differs: 0.5 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n", PLAIN,
            "O differs: 0.5 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n");
}

Test(safe_text, a_line_is_one_line) { becomes("a\"b\\c\n\td\r", LINE, "a\"b\\c  d?"); }

Test(safe_text, controls_show_as_question_marks)
{
    becomes("\x1b[31m\a\r\x7f", PLAIN, "?[31m???");
    becomes("\x01", LINE, "?");
    becomes("\xc2\x9b[31m\xc2\x80\xc2\x9f\xc2\xa0", PLAIN, "?[31m??\xc2\xa0");  // U+0080 to U+009F: terminals obey them
}

Test(safe_text, what_turns_or_hides_text)
{
    becomes("\xe2\x80\xae"
            "0\xe2\x80\x8b"
            "5\xe2\x81\xa6"
            "7\xd8\x9c\xef\xbb\xbf\xe2\x80\xa6",
            PLAIN, "?0?5?7??\xe2\x80\xa6");
    becomes("\xe2\x80\x8f", PLAIN, "?");
    becomes("\xe2\x80", LINE, "\xef\xbf\xbd\xef\xbf\xbd");
}

// A byte that begins nothing, a character that is cut off, one longer than need be, half of a pair, one beyond the
// last, U+FFFF.
Test(safe_text, what_is_no_utf8)
{
    becomes("\x80|\xff|\xc3|\xe2\x82|", PLAIN, "\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd|");
    becomes("\xc0\xaf", PLAIN, "\xef\xbf\xbd\xef\xbf\xbd");
    becomes("\xed\xa0\x80", PLAIN, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    becomes("\xf4\x90\x80\x80", PLAIN, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    becomes("\xef\xbf\xbf", PLAIN, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    becomes("end \xe2", LINE, "end \xef\xbf\xbd");
}

Test(safe_text, long_text_is_cut_and_says_so)
{
    char *text = calloc(1, TEXT_LIMIT + 100);
    memset(text, 'x', TEXT_LIMIT + 50);
    char *got = safe_text(text, LINE);
    cr_assert(strlen(got) < TEXT_LIMIT + 60);
    cr_assert(strstr(got, "bytes in all"));
    free(got);
    free(text);
}
