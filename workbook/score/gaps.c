#include "score/score.h"

#include "score/safe_text.h"

#include <sha256.h>
#include <sys/stat.h>

bool gaps_file_in(const char *folder, const wb_problem *p, char *file, size_t size)
{
    static const char *const endings[] = {"cu", "c"};
    struct stat is;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(file, size, "%s/%02d/%s.%s", folder, p->number, p->name, endings[i]);
        if (stat(file, &is) == 0 && S_ISREG(is.st_mode)) return true;
    }
    *file = 0;
    return false;
}

bool gaps_file(const wb_problem *p, char file[64]) { return gaps_file_in("problems", p, file, 64); }

bool gaps_are_shipped(const char *path)
{
    char sum[SHA256_DIGEST_STRING_LENGTH];
    struct stat is;
    if (stat(path, &is) || !S_ISREG(is.st_mode) || is.st_size > FILE_LIMIT || !SHA256File(path, sum)) return false;
    char *const shipped = grades_read_file("workbook/loop/shipped.sha256");
    const bool found = strstr(shipped, sum);
    free(shipped);
    return found;
}

// A line that begins or ends a gap.
static bool marked(const char *line, const char *mark)
{
    return strncmp(line + strspn(line, " "), mark, strlen(mark)) == 0;
}

// How long the text is up to a line that begins with a mark, or to its end; with this line if `with` is set.
static size_t up_to(const char *text, const char *mark, bool with)
{
    const char *line = text;
    while (*line && !marked(line, mark)) line = next_line(line);
    return (size_t)((with ? next_line(line) : line) - text);
}

static int lines_in(const char *text, size_t length)
{
    int lines = 0;
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
    return lines;
}

const char *gaps_text(const char *source, const char *name, size_t *length, int *number)
{
    for (const char *at = source; at += up_to(at, "//{", false), *at; at += up_to(at, "//{", true)) {
        const char *const here = at + strspn(at, " /{"), *const inside = at + up_to(at, "//{", true);
        size_t size = strcspn(here, ":\n");
        while (size > 0 && here[size - 1] == ' ') size--;
        if (size != strlen(name) || strncmp(here, name, size) != 0) continue;
        *number = lines_in(source, (size_t)(inside - source)), *length = up_to(inside, "//}", false);
        return inside;
    }
    *number = 0, *length = 0;
    return "";
}

const char *gaps_skeleton(const wb_problem *p)
{
    static char kept[64];
    char command[160], file[64];
    snprintf(kept, sizeof kept, "build/shipped/%02d", p->number);
    if (gaps_are_shipped(kept)) return kept;
    if (gaps_file(p, file) && gaps_are_shipped(file)) return strcpy(kept, file);
    mkdir("build", 0777);
    mkdir("build/shipped", 0777);
    snprintf(command, sizeof command, "workbook/loop/shipped.sh %02d %s 2>/dev/null", p->number, kept);
    return system(command) == 0 && gaps_are_shipped(kept) ? kept : "";
}

// Any editor may have saved it: with a mark before its first line, CR LF, or a last line without an end.
static char *any_editors(char *text)
{
    const size_t length = strlen(text), mark = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    char *const kept = realloc(text, length + 2), *to = kept;
    if (!kept) abort();
    for (const char *from = kept + mark; *from; from++)
        if (from[0] != '\r' || from[1] != '\n') *to++ = *from;
    if (to > kept && to[-1] != '\n') *to++ = '\n';
    *to = 0;
    return kept;
}

// The line of a gap where a return of the skeleton's still stands, and what stands behind it is never done; or 0.
static int left_in(const char *text, size_t length, const char *shipped, size_t shipped_length, int line)
{
    for (const char *end = text + length; text < end; line++) {
        const size_t whole = strcspn(text, "\n"), blank = strspn(text, " "), comment = strcspn(text, "\n/");
        const char *const at = text + blank, *const behind = text + whole + 1;
        const bool ends = strncmp(at, "return", 6) == 0 || strncmp(at, "if (kv_heads > 0) return", 24) == 0;
        const bool more = behind < end && strspn(behind, " \n") < (size_t)(end - behind);
        // With its indentation: one within a condition of the student's own is no such line.
        if (comment > blank && ends && memmem(shipped, shipped_length, text, comment) &&
            (more || strncmp(at, "if", 2) == 0))
            return line + 1;
        text += whole + 1;
    }
    return 0;
}

int gaps_in(const wb_problem *p, const char *file, gap gaps[MAX_GAPS])
{
    char *const mine = any_editors(grades_read_file("%s", file)),
                *const skeleton = grades_read_file("%s", gaps_skeleton(p)),
                *const hints = grades_read_file("problems/%02d/hints.txt", p->number);
    int count = 0;
    for (char *line = strtok(hints, "\n"); line && count < MAX_GAPS; line = strtok(NULL, "\n")) {
        if (strncmp(line, "== ", 3) != 0) continue;
        gap *g = &gaps[count++];
        int shipped_line;
        size_t length, shipped_length;
        snprintf(g->name, sizeof g->name, "%s", line + 3);
        const char *text = gaps_text(mine, g->name, &length, &g->line),
                   *shipped = gaps_text(skeleton, g->name, &shipped_length, &shipped_line);
        // Without a skeleton to compare with: a gap that still holds the line that skeletons put there.
        const bool same = shipped_line ? length == shipped_length && memcmp(text, shipped, length) == 0
                                       : memmem(text, length, "TODO(", 5) != NULL;
        g->untouched = same && g->line > 0;
        g->left = same ? 0 : left_in(text, length, shipped, shipped_length, g->line);
    }
    free(mine);
    free(skeleton);
    free(hints);
    return count;
}

static size_t line_in(const char *text, const char *end) { return text < end ? strcspn(text, "\n") + 1 : 0; }

// The line n lines on, or the end.
static const char *lines_on(const char *text, const char *end, int n)
{
    while (n-- > 0) text += line_in(text, end);
    return text;
}

// What is known of given code while it is compared: how many parts differ, and the texts of a given_code.
typedef struct comparison {
    int parts;
    FILE *says, *restored;
} comparison;

// `more` lines of a from line n on stand where b had `gone`: says what these were, without comments.
static void say_part(comparison *to, int n, int more, const char *b, int gone)
{
    if (to->parts++ >= 3) return;
    fprintf(to->says, "     %sline%s %d", more ? "" : "before ", more > 1 ? "s" : "", n);
    if (more > 1) fprintf(to->says, " to %d", n + more - 1);
    fputs(!gone ? ": added" : more ? ": was" : ": removed", to->says);
    int quoted = 0;
    for (int k = 0; k < gone && quoted < 2; k++, b = next_line(b)) {
        const char *const from = b + strspn(b, " "), *const comment = strstr(from, "//");
        const char *end = from + strcspn(from, "\n");
        if (comment > from && comment < end) end = comment;
        while (end > from && end[-1] == ' ') end--;
        if (end - from > 1) fprintf(to->says, "%s `%.*s`", quoted++ ? "," : "", (int)(end - from), from);
    }
    if (gone > quoted) fprintf(to->says, quoted ? " and %d more" : " %d without code", gone - quoted);
    fputs("\n", to->says);
}

// Compares a, the first line of which is `line`, with b: where they part, as few lines as can be are left out until
// they meet. A function of one's own changes nothing: it is only added, and begins without a blank.
static void compare(comparison *to, const char *a, size_t of_a, const char *b, size_t of_b, int line)
{
    const char *const end_a = a + of_a, *const end_b = b + of_b;
    while (a < end_a || b < end_b) {
        const char *x = a, *y = b;
        int gone = 0, more = 0;  // lines of b, and of a
        for (int both = 0; line_in(x, end_a) != line_in(y, end_b) || memcmp(x, y, line_in(x, end_a)) != 0;) {
            if (gone++ == both) gone = 0, both++;
            more = both - gone, x = lines_on(a, end_a, more), y = lines_on(b, end_b, gone);
        }
        const bool own = !gone && *a != ' ';
        if ((gone || more) && !own) say_part(to, line, more, b, gone);
        if (own) fwrite(a, 1, (size_t)(x - a), to->restored);
        y = lines_on(y, end_b, 1), fwrite(b, 1, (size_t)(y - b), to->restored);
        a = lines_on(x, end_a, 1), b = y, line += more + 1;
    }
}

given_code gaps_given(const wb_problem *p, const char *file)
{
    given_code given;
    char *const mine = any_editors(grades_read_file("%s", file));
    char *const skeleton = grades_read_file("%s", gaps_skeleton(p));
    const char *a = mine, *b = skeleton;
    comparison to = {0, text_in_memory(&given.says), text_in_memory(&given.restored)};
    fputs("  given code was changed, outside of the gaps:\n", to.says);
    for (int line = 1; *a && *b;) {
        const size_t of_a = up_to(a, "//{", true), of_b = up_to(b, "//{", true);
        compare(&to, a, of_a, b, of_b, line);
        line += lines_in(a, of_a), a += of_a, b += of_b;
        const size_t of_gap = up_to(a, "//}", false);
        fwrite(a, 1, of_gap, to.restored);
        line += lines_in(a, of_gap), a += of_gap, b += up_to(b, "//}", false);
    }
    if (to.parts > 3) fprintf(to.says, "     and in %d more places\n", to.parts - 3);
    fclose(to.says), fclose(to.restored);
    if (!to.parts || *a || *b) *given.says = 0;  // the same, or gaps have come or gone: another file
    free(mine);
    free(skeleton);
    return given;
}

const gap *gaps_first(const gap *gaps, int count)
{
    for (int i = 0; i < count; i++)
        if (gaps[i].untouched) return &gaps[i];
    return NULL;
}

char *gaps_sentence(const wb_problem *p, const char *file)
{
    char *text = NULL;
    gap gaps[MAX_GAPS];
    const int count = gaps_in(p, file, gaps);
    const gap *const first = gaps_first(gaps, count);
    FILE *const to = text_in_memory(&text);
    for (int i = 0; i < count; i++)
        if (gaps[i].untouched) fprintf(to, "%s%s", &gaps[i] == first ? "  not written yet: " : ", ", gaps[i].name);
    if (first) fprintf(to, "  (make hint-%02d)\n", p->number);
    for (int i = 0; i < count; i++)
        if (gaps[i].left)
            fprintf(to, "  line %d of gap %s is still the skeleton's: the function returns there, before your code\n",
                    gaps[i].left, gaps[i].name);
    fclose(to);
    return text;
}
