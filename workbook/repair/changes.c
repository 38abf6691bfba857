// changes.c - finds the places of a source where something else might stand: by its tokens alone, for what does not
// compile is dropped afterwards, line by line (repair.c). So every piece that is put in has a line of its own.
#include "repair/changes.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

change changes[REPAIR_IDS];
int change_count;

enum { TOKENS = 40000, PIECES = 60000, OTHERS = 28 };

typedef struct token {
    int at, end;  // in the text
    int line;
    int mate;   // of a bracket
    char kind;  // i: a word, n: a number, p: any other
} token;

// What is put into the text at a place: `deep` orders those of one place, the outermost first where it opens and last
// where it closes.
typedef struct piece {
    int at, deep;
    bool closes;
    int site;    // dropped with it
    bool alone;  // this piece alone is dropped, not its site; it has REPAIR_EACH ids
    int first;   // of these
    bool dropped;
    int line;  // where it was written
    int lines;
    char *text;
} piece;

static char *text;
static token all[TOKENS];
static int count;
static bool *mine;  // by line: it is not in the skeleton
static piece pieces[PIECES];
static int piece_count, sites, order[PIECES];
static bool site_dropped[REPAIR_IDS];

// ------------------------ reading

static bool is_word(int c) { return isalnum(c) || c == '_'; }

static void read_tokens(void)
{
    static const char *const longer[] = {"<<<", ">>>", "<<=", ">>=", "...", "->", "::", "<=", ">=", "==", "!=", "&&",
                                         "||",  "++",  "--",  "+=",  "-=",  "*=", "/=", "%=", "|=", "&=", "^=", "<<"};
    int line = 1, open[200], depth = 0;
    bool fresh = true;  // nothing but space since the line began
    for (int i = 0; text[i] && count < TOKENS;) {
        const char c = text[i];
        if (c == '\n')
            line++, fresh = true, i++;
        else if (isspace((unsigned char)c))
            i++;
        else if ((c == '#' && fresh) || strncmp(text + i, "//", 2) == 0) {
            while (text[i] && text[i] != '\n') i += text[i] == '\\' && text[i + 1] == '\n' ? (line++, 2) : 1;
        } else if (strncmp(text + i, "/*", 2) == 0) {
            for (i += 2; text[i] && strncmp(text + i, "*/", 2); i++) line += text[i] == '\n';
            i += text[i] ? 2 : 0;
        } else {
            token *t = &all[count];
            *t = (token){i, i + 1, line, -1, 'p'};
            fresh = false;
            if (c == '"' || c == '\'') {
                for (i++; text[i] && text[i] != c && text[i] != '\n'; i++) i += text[i] == '\\';
                t->end = i + 1, t->kind = 's';
            } else if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)text[i + 1]))) {
                while (is_word(text[t->end]) || text[t->end] == '.') t->end++;
                t->kind = 'n';
            } else if (is_word(c)) {
                while (is_word(text[t->end])) t->end++;
                t->kind = 'i';
            } else
                for (size_t n = 0; n < sizeof longer / sizeof *longer; n++)
                    if (strncmp(text + i, longer[n], strlen(longer[n])) == 0) {
                        t->end = i + (int)strlen(longer[n]);
                        break;
                    }
            i = t->end;
            if (t->end - t->at == 1 && strchr("([{", c) && depth < 200) open[depth++] = count;
            if (t->end - t->at == 1 && strchr(")]}", c) && depth > 0)
                t->mate = open[--depth], all[t->mate].mate = count;
            count++;
        }
    }
    all[count] = (token){(int)strlen(text), (int)strlen(text), line, -1, 'p'};
}

static bool is(int t, const char *what)
{
    return t >= 0 && t < count && (size_t)(all[t].end - all[t].at) == strlen(what) &&
           strncmp(text + all[t].at, what, strlen(what)) == 0;
}
static bool is_one_of(int t, const char *words)  // "|a|b|"
{
    char word[80];
    if (t < 0 || t >= count || all[t].end - all[t].at > 70) return false;
    snprintf(word, sizeof word, "|%.*s|", all[t].end - all[t].at, text + all[t].at);
    return strstr(words, word) != NULL;
}
static char kind(int t) { return t >= 0 && t < count ? all[t].kind : 'p'; }
static char *plain(int from, int to)  // in one line, without comments
{
    char *s = calloc((size_t)(all[to - 1].end - all[from].at) + 2, 1);
    for (int t = from; t < to; t++) {
        strncat(s, text + all[t].at, (size_t)(all[t].end - all[t].at));
        if (t + 1 < to && all[t + 1].at > all[t].end) strcat(s, " ");
    }
    return s;
}

#define TYPES \
    "|int|float|double|unsigned|size_t|bool|char|bf16|auto|const|constexpr|static|void|uint4|uint32_t|uint8_t|int8_t|" \
    "half|short|long|struct|class|typename|template|"
#define WORDS \
    TYPES "|if|else|for|while|do|return|break|continue|switch|case|default|sizeof|true|false|operator|using|new|" \
          "nullptr|NULL|goto|enum|union|inline|extern|__shared__|__global__|__device__|TILE_FN|"

// ------------------------ pieces

static bool too_many;
static int new_ids(int line, change_kind kind, int n)
{
    const int first = change_count;
    sites++;
    if (first + n + 1 >= REPAIR_IDS) return too_many = true, 0;
    for (int i = 0; i < n; i++) changes[first + i] = (change){.line = line, .site = sites, .kind = kind};
    change_count += n;
    return first;
}

__attribute__((format(printf, 5, 6))) static void put(int at, bool closes, int deep, bool alone, const char *as, ...)
{
    piece p = {.at = at, .deep = deep, .closes = closes, .site = sites, .alone = alone};
    va_list list;
    va_start(list, as);
    if (vasprintf(&p.text, as, list) < 0) exit(2);
    va_end(list);
    too_many |= piece_count == PIECES;
    if (!too_many) pieces[piece_count++] = p;
}
#define SAY(id, ...) snprintf(changes[id].put, sizeof changes[id].put, __VA_ARGS__)
// What a change replaces: tokens.
static void of(int id, int from, int to)
{
    changes[id].at = all[from].at, changes[id].end = all[to - 1].end;
    snprintf(changes[id].of, sizeof changes[id].of, "%s", plain(from, to));
}

// ------------------------ operands: words with their members, and numbers

typedef struct operand {
    int from, to;  // tokens
    char *name;
    bool declared;  // here, and may be used nowhere
} operand;
static operand operands[8000];
static int operand_count;

// The end of the chain of members that begins at t; t: it is none.
static int chain(int t)
{
    if (kind(t) == 'n') return t + 1;
    if (kind(t) != 'i' || is_one_of(t, WORDS) || is(t - 1, ".") || is(t - 1, "->") || is(t - 1, "::")) return t;
    int end = t + 1;
    while ((is(end, ".") || is(end, "->")) && kind(end + 1) == 'i' && !is(end + 2, "(") && !is(end + 2, "<")) end += 2;
    return end;
}
static bool is_spaced(int t)
{
    return all[t].at > 0 && isspace((unsigned char)text[all[t].at - 1]) && isspace((unsigned char)text[all[t].end]);
}
static bool are_same(int a, int b)
{
    const int size = all[a].end - all[a].at;
    return all[b].end - all[b].at == size && strncmp(text + all[a].at, text + all[b].at, (size_t)size) == 0;
}
static bool is_type(int t)
{
    if (is_one_of(t, TYPES) || (all[t].end - all[t].at > 2 && strncmp(text + all[t].end - 2, "_t", 2) == 0))
        return true;
    for (int k = 1; k < count; k++)
        if (are_same(k, t) && is_one_of(k - 1, "|class|typename|struct|using|namespace|")) return true;
    return false;
}
static bool is_operand(int from, int end)
{
    if (is_type(from) && kind(from) == 'i') return false;
    if (end == from || is(end, "(") || is(end, "::") || is(end, "{") || is(end, ".") || is(end, "->")) return false;
    if (is(end, "<") && !is_spaced(end)) return false;
    if (kind(end) == 'i' || is_one_of(end, "|=|+=|-=|*=|/=|++|--|:|")) return is(end, ":") && !is(end + 1, ":");
    if (kind(from - 1) == 'i' && !is_one_of(from - 1, "|return|case|else|")) return false;
    if (is_one_of(from - 1, "|&|*|>|") && !is_spaced(from - 1) &&
        kind(from) != 'n') {  // a declared name, or an address
        if (kind(from - 2) == 'i' || is(from - 1, ">")) return false;
        if (is(from - 1, "&")) return false;
    }
    int open = from - 1;  // a size of an array that is declared
    while (is(open, "[") && is(open - 1, "]")) open = all[open - 1].mate;
    if (is(open, "[") && (kind(open - 2) == 'i' || (is_one_of(open - 2, "|*|&|>|") && !is_spaced(open - 2))))
        return false;
    if (is(open, "[") && is(open - 2, ",")) {  // behind another name: int a[2], b[4]
        while (open > 1 && !is_one_of(open - 1, "|;|{|}|(|[|"))
            open = all[open - 1].mate >= 0 ? all[open - 1].mate : open - 1;
        if (is_type(open)) return false;
    }
    return !is_one_of(from - 1, "|++|--|#|");
}

static int after_template(int t)  // the token behind <...> at t, or t
{
    if (!is(t, "<") || is_spaced(t)) return t;
    for (int k = t + 1, depth = 1; k < count && k < t + 40; k++) {
        if (is(k, "<")) depth++;
        if (is(k, ">") && --depth == 0) return k + 1;
        if (is_one_of(k, "|;|{|}|(|)|")) break;
    }
    return t;
}

// By token: the innermost block or head of a loop around it, and the outermost block that is a function's; -1: none.
static int block_of[TOKENS], function_of[TOKENS];
static int list_of[TOKENS];  // the innermost bracket around it, which may be of a template's parameters; 0: none

static int declared_until(int t)  // the end of the statement around t
{
    while (t < count && !is(t, ";") && !is(t, "}")) t = all[t].mate > t ? all[t].mate + 1 : t + 1;
    return t;
}

static void find_blocks(void)
{
    int open[200], end[200], depth = 0;
    for (int t = 0; t < count; t++) {
        while (depth > 0 && end[depth - 1] <= t) depth--;
        block_of[t] = depth ? open[depth - 1] : -1;
        if (is(t, "(") || (is(t, "<") && is(t - 1, "template"))) {
            const int last = is(t, "(") ? all[t].mate : after_template(t);
            for (int k = t + 1; k < last; k++) list_of[k] = t;
        }
        function_of[t] = -1;
        for (int k = depth - 1; k >= 0; k--)
            if (is(open[k], "{") && (is(open[k] - 1, ")") || is(open[k] - 1, "const"))) function_of[t] = open[k];
        if (depth == 200 || all[t].mate < t) continue;
        const int behind = all[t].mate + 1;
        if (is(t, "{")) open[depth] = t, end[depth++] = all[t].mate;
        if (is(t, "(") && is(t - 1, "for"))  // its names are known in the body as well
            open[depth] = t, end[depth++] = is(behind, "{") ? all[behind].mate : declared_until(behind);
    }
}

// Whether the word at token w is known at token t: it stands before it, in a block around it, or among the parameters.
static bool is_known(int w, int t)
{
    const int function = function_of[t];
    int head = function - 1;  // behind what stands before the function
    while (head > 0 && (function_of[head] >= 0 || !is_one_of(head, "|;|}|"))) head--;
    for (int k = t - 1; k >= 0; k--) {
        if (!are_same(k, w) || is_one_of(k - 1, "|.|->|")) continue;
        if (is(k + 1, "=") && declared_until(k) > t) continue;
        const bool global = !list_of[k] && !is_one_of(k + 1, "|>|,|") && block_of[k] < 0;
        if (function_of[k] < 0 && (global || k > head || (block_of[k] > 1 && is(block_of[k] - 1, "enum")))) return true;
        if (function_of[k] != function) continue;
        if (list_of[k] && !is(list_of[k] - 1, "for") &&
            (kind(k - 1) == 'i' || (is_one_of(k - 1, "|&|*|") && !is_spaced(k - 1)))) {
            const int body = all[list_of[k]].mate + 1;  // a parameter of a lambda, or so it seems
            if (is(body, "{") && (t < body || t > all[body].mate)) continue;
        }
        for (int block = block_of[t]; block >= 0; block = block_of[block])
            if (block == block_of[k]) return true;
    }
    return false;
}

static void find_operands(void)
{
    for (int t = 0; t < count && operand_count < 8000; t++) {
        int end = chain(t);
        const bool declared = end == t + 1 && kind(t) == 'i' && (kind(t - 1) == 'i' || is_one_of(t - 1, "|*|&|")) &&
                              is_one_of(end, "|=|,|)|;|") && !is_type(t) && !is_operand(t, end);
        if (declared || is_operand(t, end))
            operands[operand_count++] = (operand){.from = t, .to = end, .name = plain(t, end), .declared = declared};
        if (end > t) t = end - 1;
    }
}

// K_scale and V_scale, shape.q_len and shape.kv_len, K and V.
static bool have_like_names(const operand *a, const operand *b)
{
    const size_t m = strlen(a->name), n = strlen(b->name);
    size_t from = 0, to = 0;
    while (from < m && a->name[from] == b->name[from]) from++;
    while (to < m && to < n && a->name[m - 1 - to] == b->name[n - 1 - to]) to++;
    if (from == m || from == n) return true;  // K and K_here
    return (m == 1 && n == 1 && isalpha((unsigned char)*a->name) && isalpha((unsigned char)*b->name)) ||
           (from + to >= 3 && 2 * (from + to) >= m);
}

static int bound(int t, int step)  // the end of what a logical operator joins, in this direction
{
    for (; t > 0 && t < count; t += step) {
        if (all[t].mate >= 0 && (step > 0) == (all[t].mate > t)) {
            t = all[t].mate;
            continue;
        }
        if (is_one_of(t, "|&&|(|)|,|;|?|:|{|}|=|return|[|]|") || is(t, "||")) return t;
    }
    return t;
}

static operand conditions[400];
static int condition_count;

static void find_conditions(void)
{
    for (int t = 1; t < count && condition_count < 400; t++) {
        int from, to;
        if (is(t, "&&") || is(t, "||")) {
            if (condition_count == 0 || conditions[condition_count - 1].to != t) {
                from = bound(t - 1, -1) + 1;
                if (from < t) conditions[condition_count++] = (operand){.from = from, .to = t};
            }
            from = t + 1, to = bound(t + 1, 1);
        } else if (is(t, "if") && is(t + 1, "(") && all[t + 1].mate == bound(t + 2, 1))
            from = t + 2, to = all[t + 1].mate;
        else if (is(t, "?"))
            from = bound(t - 1, -1) + 1, to = t;
        else
            continue;
        if (from < to) conditions[condition_count++] = (operand){.from = from, .to = to};
    }
}

// Which nobody writes in place of another name.
static bool is_number_of_own(const char *name)
{
    return !strncmp(name, "blockIdx", 8) || !strncmp(name, "threadIdx", 9) || strstr(name, "Dim.");
}

// With which nobody computes.
static bool is_limit(const char *name)
{
    return strstr(name, "FLT_") || strstr(name, "INFINITY") || strstr(name, "_MAX");
}

// Whether the comparison, quotient or difference around x has this name already.
static bool is_compared(const operand *x, const char *name)
{
    const int from = bound(x->from - 1, -1) + 1, to = bound(x->to, 1);
    bool has = false, compares = false;
    for (int t = from; t < to; t++) {
        compares |= is_one_of(t, "|<|<=|>|>=|==|!=|/|%|-|");
        has |= chain(t) > t && strcmp(plain(t, chain(t)), name) == 0;
    }
    return has && compares;
}

static void vary_operands(void)
{
    for (int n = 0; n < operand_count; n++) {
        const operand *x = &operands[n];
        if (!mine[all[x->from].line] || function_of[x->from] < 0 || x->declared) continue;
        // An argument of a template, as of row_vec<ROWS>, is a constant of the compiler's.
        if ((is(x->from - 1, "<") && !is_spaced(x->from - 1)) || (is(x->to, ">") && !is_spaced(x->to))) continue;
        const char *y[OTHERS];
        bool alike[OTHERS];  // of the others 0 or 1 is likelier: they may only happen to have its value
        int others = 0;
        // like names, then the nearest
        for (int step = 2; step < 4 * operand_count && others < OTHERS; step++) {
            const int by = step % (2 * operand_count), k = by % 2 ? n - (by + 1) / 2 : n + by / 2;
            const bool like = step < 2 * operand_count;
            if (k < 0 || k >= operand_count || (like && !have_like_names(x, &operands[k]))) continue;
            if (like && others > OTHERS / 2) continue;
            if (kind(operands[k].from) == 'i' && !is_known(operands[k].from, x->from)) continue;
            const char *name = operands[k].name;
            if (is_number_of_own(name) && !is_number_of_own(x->name)) continue;
            if (strncmp(name, "0x", 2) == 0 && strpbrk(name, ".p")) continue;                  // no one writes it
            if (kind(x->from) == 'n' && strchr(x->name, '.') && !strchr(name, '.')) continue;  // 8.0f is no BC
            bool known = strcmp(name, x->name) == 0 || strcmp(name, "0") == 0 || strcmp(name, "1") == 0;
            for (int j = 0; j < others; j++) known |= strcmp(name, y[j]) == 0;
            if (!known) alike[others] = like, y[others++] = name;
        }
        const int line = all[x->from].line, all_of_it = REPAIR_OWN + REPAIR_EACH * others;
        const int id = new_ids(line, CHANGE_NEAR, all_of_it + 1);
        for (int k = 0; k <= all_of_it; k++) changes[id + k].as_it_is = id + all_of_it;
        for (int k = 0; k < all_of_it; k++) of(id + k, x->from, x->to);
        const bool whole = kind(x->from) == 'n' && strspn(x->name, "0123456789") == strlen(x->name);
        for (int k = 0; k < 2; k++)
            if (whole)
                SAY(id + k, "%d", atoi(x->name) + 1 - 2 * k);
            else
                SAY(id + k, "%s %c 1", x->name, "+-"[k]);
        SAY(id + 2, "0"), SAY(id + 3, "-%s", x->name), SAY(id + 4, "1");
        if (!is_limit(x->name)) changes[id + 3].kind = CHANGE_TURNED;
        put(all[x->from].at, false, 9, false, "\n::wb_repair::vary(%d, \n", id);
        for (int j = 0; j < others; j++) {
            const int k = id + REPAIR_OWN + REPAIR_EACH * j;
            static const char how[REPAIR_EACH] = " */+--";
            SAY(k, "%s", y[j]);
            for (int m = 0; m < REPAIR_EACH; m++) changes[k + m].odd = is_compared(x, y[j]);
            for (int m = 1; m < REPAIR_EACH && !is_limit(x->name) && !is_limit(y[j]); m++) {
                const bool last = m == REPAIR_EACH - 1;
                SAY(k + m, "%s %c %s", last ? y[j] : x->name, how[m], last ? x->name : y[j]);
                changes[k + m].kind = CHANGE_FACTOR;
            }
            changes[k].kind = kind(x->from) == 'n' ? CHANGE_NEAR : alike[j] ? CHANGE_OPERAND : CHANGE_CONDITION;
            // a place for each, so that what does not compile leaves the numbers of the others as they are
            put(all[x->to - 1].end, true, 9, true, "\n, %s", y[j]), pieces[piece_count - 1].first = k;
        }
        put(all[x->to - 1].end, true, 9, false, "\n) ");
    }
}

static void vary_operators(void)
{
    enum { COMPARISONS = 6, OPERATORS = 11 };
    static const char *const list[OPERATORS][4] = {
        {"<", "<=", ">", ">="},
        {"<=", "<", ">=", ">"},
        {">", ">=", "<", "<="},
        {">=", ">", "<=", "<"},
        {"==", "!=", ">=", "<="},
        {"!=", "==", "<", ">"},
        {"+", "-"},
        {"-", "+"},
        {"*", "/"},
        {"/", "*", "%"},
        {"%", "/"},
    };
    for (int t = 1; t < count; t++) {
        if (!mine[all[t].line] || kind(t) != 'p' || !is_spaced(t) || function_of[t] < 0) continue;
        if (!(kind(t - 1) == 'i' || kind(t - 1) == 'n' || is(t - 1, ")") || is(t - 1, "]"))) continue;
        if (is_one_of(t - 1, WORDS)) continue;
        for (int n = 0; n < OPERATORS; n++) {
            if (!is(t, list[n][0])) continue;
            const int id = new_ids(all[t].line, n < COMPARISONS ? CHANGE_OPERAND : CHANGE_NEAR, 3);
            for (int k = 1; k < 4 && list[n][k]; k++) SAY(id + k - 1, "%s", list[n][k]), of(id + k - 1, t, t + 1);
            for (int k = 1; k < 3 && n < 4; k++) changes[id + k].kind = CHANGE_TURNED;
            if (is(t, "/")) changes[id + 1].kind = CHANGE_CONDITION;  // a remainder, too
            const int end = is(t + 1, "(") ? all[t + 1].mate + 1 : chain(t + 1);
            if (n >= COMPARISONS && end > t + 1 && !is_one_of(end, "|(|[|<|{|"))
                SAY(id + 2, "nothing"), of(id + 2, t, end), changes[id + 2].kind = CHANGE_CONDITION;
            put(all[t].end, true, 99, false, "\n::wb_repair::change{%d} %s\n", id, list[n][0]);
        }
    }
}

static void vary_conditions(void)
{
    for (int n = 0; n < condition_count; n++) {
        const operand *x = &conditions[n];
        const int line = all[x->from].line;
        if (!mine[line] && !mine[all[x->to - 1].line]) continue;
        const int id = new_ids(line, CHANGE_FACTOR, 2);
        SAY(id, "true"), SAY(id + 1, "false");
        for (int k = 0; k < 2; k++) of(id + k, x->from, x->to);
        put(all[x->from].at, false, 5, false, "\n::wb_repair::decide(%d, !!((\n", id);
        put(all[x->to - 1].end, true, 5, false, "\n)))\n");
    }
}

// ------------------------ all of it

static void find_mine(const char *skeleton)
{
    mine = calloc((size_t)all[count].line + 2, sizeof *mine);
    int line = 1;
    for (const char *l = text; *l; line++) {
        const char *end = l + strcspn(l, "\n");
        const char *from = l + strspn(l, " \t");
        char copy[400];
        const int size = (int)(end - from) < 390 ? (int)(end - from) : 390;
        snprintf(copy, sizeof copy, "%.*s\n", size, from);
        mine[line] = size > 0 && strncmp(from, "//", 2) && strncmp(from, "#", 1);
        for (const char *at = skeleton; mine[line] && (at = strstr(at, copy)); at++) {
            const char *b = at;
            while (b > skeleton && (b[-1] == ' ' || b[-1] == '\t')) b--;
            if (b == skeleton || b[-1] == '\n') mine[line] = false;
        }
        l = end + (*end == '\n');
    }
    for (int t = 0; t < count; t++)
        if (is(t, "constexpr"))  // no function of choice.h is
            for (int l = all[t].line; l <= all[declared_until(t)].line; l++) mine[l] = false;
}

static int by_place(const void *a, const void *b)
{
    const int m = *(const int *)a, n = *(const int *)b;
    const piece *p = &pieces[m], *q = &pieces[n];
    if (p->at != q->at) return p->at < q->at ? -1 : 1;
    if (p->closes != q->closes) return p->closes ? -1 : 1;
    if (p->deep != q->deep) return (p->deep < q->deep) == p->closes ? 1 : -1;
    return m < n ? -1 : 1;
}

bool changes_read(const char *source, const char *skeleton)
{
    text = strdup(source);
    change_count = 1;
    read_tokens();
    find_blocks();
    find_mine(skeleton);
    find_operands();
    find_conditions();
    vary_conditions();
    vary_operators();
    vary_operands();
    for (int n = 0; n < piece_count; n++) order[n] = n;
    qsort(order, (size_t)piece_count, sizeof *order, by_place);
    return piece_count > 0 && !too_many;
}

static int newlines(const char *s, size_t size)
{
    int n = 0;
    for (size_t i = 0; i < size; i++) n += s[i] == '\n';
    return n;
}

void changes_write(FILE *to)
{
    int line = 2, at = 0;
    fputs("#include \"repair/choice.h\"\n", to);
    for (int n = 0; n < piece_count; n++) {
        piece *p = &pieces[order[n]];
        fwrite(text + at, 1, (size_t)(p->at - at), to);
        line += newlines(text + at, (size_t)(p->at - at));
        at = p->at;
        const bool gone = site_dropped[p->site] || p->dropped;  // alone, its number stays, with nothing behind it
        const char *const what = !gone                                        ? p->text
                                 : site_dropped[p->site] || p->text[1] != ',' ? ""
                                                                              : "\n, ::wb_repair::none";
        p->line = gone ? 0 : line, p->lines = newlines(p->text, strlen(p->text));
        fputs(what, to);
        line += newlines(what, strlen(what));
    }
    fputs(text + at, to);
}

const char *changes_text(const change *c)
{
    static char as[sizeof c->put + 2];
    const bool sum = strchr(c->put, ' ') || (*c->put == '-' && c->put[1]);
    snprintf(as, sizeof as, sum ? "(%s)" : "%s", strcmp(c->put, "nothing") == 0 ? "" : c->put);
    return as;
}

const char *changes_quote(const change *c)
{
    static char line[400];
    int from = c->at;
    while (from > 0 && text[from - 1] != '\n') from--;
    const char *const begin = text + from + strspn(text + from, " "), *const rest = text + c->end;
    snprintf(line, sizeof line, "%.*s%s%.*s", (int)(text + c->at - begin), begin, changes_text(c),
             (int)strcspn(rest, "\n"), rest);
    return line;
}

void changes_keep(const bool *wanted)
{
    memset(site_dropped, true, sizeof site_dropped);
    for (int id = 1; id < change_count; id++) site_dropped[changes[id].site] &= !wanted[id];
    for (int n = 0; n < piece_count; n++)
        if (pieces[n].alone) pieces[n].dropped = !memchr(wanted + pieces[n].first, true, REPAIR_EACH);
}

bool changes_drop(int line)
{
    bool some = false;
    for (int n = 0; n < piece_count; n++) {
        piece *p = &pieces[n];
        if (p->line == 0 || line < p->line || line > p->line + p->lines) continue;
        if (line == p->line && *p->text == '\n') continue;  // the line that it ended
        some = true;
        if (p->alone)
            p->dropped = true;
        else
            site_dropped[p->site] = true;
    }
    int least = 1 << 30, inner = 0;  // else the innermost site around it
    for (int n = 0; n < piece_count && !some; n++) {
        const piece *p = &pieces[order[n]];
        if (p->closes || p->alone || p->line == 0 || p->line > line) continue;
        for (int k = n + 1; k < piece_count; k++) {
            const piece *q = &pieces[order[k]];
            if (q->site != p->site || !q->closes || q->alone) continue;
            if (q->line >= line && q->line - p->line < least) least = q->line - p->line, inner = p->site;
        }
    }
    return some || (inner && (site_dropped[inner] = true));
}
