// class.c - the grades of a class: grades.csv (RFC 4180).
#include "score/safe_text.h"
#include "score/score.h"

static int groups(void) { return grades_total(WB_BEYOND).possible ? WB_GROUPS : WB_BEYOND; }

static void print_cell(const char *text)
{
    const bool quoted = strpbrk(text, "\",;") != NULL;  // some spreadsheets take a semicolon for a comma
    if (quoted) putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    if (quoted) putchar('"');
}

// Whether a spreadsheet would take what begins so for a formula.
static bool begins_formula(const char *name)
{
    static const char *const signs[] = {
        "=", "+", "-", "@", ";", "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strncmp(name, signs[i], strlen(signs[i])) == 0) return true;
    return false;
}

// Of a name controls, utf8_invisible ones, bytes that are not UTF-8 and "%" as %0A; a ' before what begins_formula.
static void print_name(const char *name)
{
    char *text;
    FILE *const to = text_in_memory(&text);
    if (begins_formula(name)) fputc('\'', to);
    for (int length; *name; name += length ? length : 1) {
        length = utf8_length(name);
        const unsigned char c = (unsigned char)name[0];
        const bool control = c < 32 || c == 127 || c == '%' || (c == 0xc2 && (unsigned char)name[1] < 0xa0);
        if (length && !control && !utf8_invisible(name))
            fwrite(name, 1, (size_t)length, to);
        else
            for (int i = 0; i < (length ? length : 1); i++) fprintf(to, "%%%02X", (unsigned char)name[i]);
    }
    fclose(to);
    print_cell(text);
    free(text);
}

// Points of each group, points and state of each problem, and why there is less than there might be: the second line of
// OUT/reports/NAME/record, of which grade.sh compares the others; the first is empty where nothing was graded.
static void print_row(const char *out, const char *name)
{
    char folder[4096], text[600];
    snprintf(folder, sizeof folder, "%s/reports/%s", out, name);
    char *const record = grades_read_file("%s/record", folder), *second = record + strcspn(record, "\n");
    second += *second == '\n', second[strcspn(second, "\n")] = 0;
    char *const why = safe_text(second, LINE);
    const bool graded = *record && *record != '\n';
    grades_read(folder);
    print_name(name);
    for (int g = 0; g < groups(); g++) printf(graded ? ",%d" : ",", grades_total((wb_group)g).earned);
    EACH_PROBLEM (p)
        if (graded)
            printf(",%d,%s", grades_of(p->number).earned, grades_records[p->number].state);
        else
            printf(",,");
    putchar(',');
    snprintf(text, sizeof text, "not graded%s%.500s", *why ? ": " : "", why);
    print_cell(graded ? why : text);
    free(record), free(why);
    printf("\r\n");
}

// The names of the submissions come from standard input, each ends with 0 (find -print0).
int score_class(char **given)
{
    char *name = NULL;
    size_t room = 0;
    grades_read("");
    printf("name,score,bonus%s", groups() == WB_GROUPS ? ",beyond" : "");
    EACH_PROBLEM (p) printf(",%02d,%02d state", p->number, p->number);
    printf(",reason\r\n");
    while (getdelim(&name, &room, 0, stdin) > 0) print_row(given[0], strncmp(name, "./", 2) ? name : name + 2);
    free(name);
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
