// changes.c - finds the places of a source where something else might stand: by its tokens alone, for what does not
// compile is dropped afterwards, line by line (repair.c). So every piece that is put in has a line of its own.
#include "repair/changes.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

change changes[REPAIR_IDS];
int change_count;

enum { TOKENS = 40000, OTHERS = 28, MISSING = 500 };  // MISSING: ids for a gap that probes and statements may take

typedef struct token {
    int at, end;  // in the text
    int line;
    bool spaced;  // on both sides
    char kind;    // i: a word, n: a number, s: a string, p: any other
    char *is;
    int mate;             // of a bracket
    int block, function;  // the innermost block or head of a loop around it; the outermost that is a function's
    int until;            // of a token that begins such a block: where it ends
    int list;             // the innermost bracket around it, which may be of a template's parameters; 0: none
} token;

// What is put into the text at a place: those of one place in this order, and then in that of their ids.
typedef enum piece_kind { OTHER, END_OPERAND, END_CONDITION, OPERATOR, CONDITION, OPERAND, PROBE, LAST } piece_kind;
typedef struct piece {
    int at;
    piece_kind kind;
    int id;  // OTHER: the first of REPAIR_EACH, which are dropped alone; all else of a site is dropped together
    int line, lines;  // where it was written; 0: it was not
    char *text;
} piece;

static char *text;
static token all[TOKENS + 1];
static int count;
static bool *mine;  // by line: it is not in the skeleton
static piece pieces[REPAIR_IDS];
static int piece_count;
static bool dropped[REPAIR_IDS];  // by the number of a site, or the id of an OTHER
static bool too_many;

// ------------------------ reading

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void read_tokens(const char *of)  // behind those that are there
{
    static const char longer[] = " <<< >>> <<= >>= ... -> :: <= >= == != && || ++ -- += -= *= /= %= |= &= ^= << ";
    int line = 1, open[200], depth = 0;
    bool fresh = true;  // nothing but space since the line began
    for (const char *at = of, *end; *at && count < TOKENS; at = end) {
        char kind = 'p';
        end = at + 1;
        if ((*at == '#' && fresh) || strncmp(at, "//", 2) == 0)
            for (kind = ' '; *end && *end != '\n';) end += *end == '\\' && end[1] == '\n' ? 2 : 1;
        else if (strncmp(at, "/*", 2) == 0)
            kind = ' ', end = strstr(at + 2, "*/") ? strstr(at + 2, "*/") + 2 : at + strlen(at);
        else if (isspace((unsigned char)*at))
            kind = ' ';
        else if (*at == '"' || *at == '\'') {
            for (kind = 's'; *end && *end != *at && *end != '\n';) end += *end == '\\' && end[1] ? 2 : 1;
            end += *end != 0;
        } else if (is_word(*at) || (*at == '.' && isdigit((unsigned char)at[1])))
            for (kind = isdigit((unsigned char)*at) || *at == '.' ? 'n' : 'i';
                 is_word(*end) || (kind == 'n' && (*end == '.' || (strchr("+-", *end) && strchr("eEpP", end[-1]))));)
                end++;
        for (int size = 3; size > 1 && kind == 'p' && end == at + 1; size--) {
            const char word[] = {' ', at[0], at[1], size == 3 ? at[2] : ' ', size == 3 ? ' ' : 0, 0};
            if (strstr(longer, word)) end = at + size;
        }
        if (kind != ' ') {
            token *const t = &all[count];
            *t = (token){.at = (int)(at - of), .end = (int)(end - of), .line = line, .kind = kind, .mate = -1};
            t->is = strndup(at, (size_t)(end - at));
            t->spaced = at > of && isspace((unsigned char)at[-1]) && isspace((unsigned char)*end);
            if (strchr("([{", *at) && depth < 200) open[depth++] = count;
            if (strchr(")]}", *at) && depth > 0) t->mate = open[--depth], all[t->mate].mate = count;
            count++, fresh = false;
        }
        for (const char *c = at; c < end; c++)
            if (*c == '\n') line++, fresh = true;
    }
    all[count] = (token){.at = (int)strlen(of), .end = (int)strlen(of), .line = line, .is = "", .mate = -1};
}

// Whether token t is one of these words.
static bool is(int t, const char *words)
{
    if (t < 0 || t >= count) return false;
    const size_t size = strlen(all[t].is);
    for (const char *at = words; (at = strstr(at, all[t].is)); at++)
        if ((at == words || at[-1] == ' ') && (at[size] == ' ' || !at[size])) return true;
    return false;
}
static char kind(int t) { return t >= 0 && t < count ? all[t].kind : 'p'; }
static bool is_spaced(int t) { return all[t].spaced; }
static char *plain(int from, int to)  // in one line, without comments
{
    char *s = calloc((size_t)(all[to - 1].end - all[from].at) + 2, 1);
    for (int t = from; t < to; t++) {
        strcat(s, all[t].is);
        if (t + 1 < to && all[t + 1].at > all[t].end) strcat(s, " ");
    }
    return s;
}

#define TYPES \
    "int float double unsigned size_t bool char bf16 auto const constexpr static void uint4 uint32_t uint8_t int8_t " \
    "half short long struct class typename template"
#define WORDS \
    TYPES " if else for while do return break continue switch case default sizeof true false operator using new " \
          "nullptr NULL goto enum union inline extern __shared__ __global__ __device__ TILE_FN"

// ------------------------ pieces

// What a change replaces: tokens.
static void of(int id, int from, int to)
{
    change *const c = &changes[id];
    c->line = all[from].line, c->at = all[from].at, c->end = all[to - 1].end, c->of = plain(from, to);
}

// The first of n changes in a place.
static int new_ids(change_kind kind, int n, int from, int to)
{
    const int first = change_count;
    if (first + n >= REPAIR_IDS) return too_many = true, 0;
    for (int id = first; id < first + n; id++)
        changes[id] = (change){.site = first, .kind = kind, .put = ""}, of(id, from, to);
    change_count += n;
    return first;
}

__attribute__((format(printf, 1, 2))) static char *written(const char *as, ...)
{
    char *made;
    va_list list;
    va_start(list, as);
    if (vasprintf(&made, as, list) < 0) exit(2);
    va_end(list);
    return made;
}
static void put_text(int at, piece_kind kind, int id, char *as)
{
    pieces[piece_count] = (piece){.at = at, .kind = kind, .id = id, .text = as};
    piece_count += !too_many;
}
#define put(at, kind, id, ...) put_text(at, kind, id, written(__VA_ARGS__))
#define SAY(id, ...)           (changes[id].put = written(__VA_ARGS__))

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
    if (kind(t) != 'i' || is(t, WORDS) || is(t - 1, ". -> ::")) return t;
    int end = t + 1;
    while (is(end, ". ->") && kind(end + 1) == 'i' && !is(end + 2, "( <")) end += 2;
    return end;
}
static bool is_type(int t)
{
    bool type = is(t, TYPES) || (strlen(all[t].is) > 2 && strcmp(all[t].is + strlen(all[t].is) - 2, "_t") == 0);
    for (int k = 1; k < count && !type; k++)
        type = is(k - 1, "class typename struct using namespace") && is(k, all[t].is);
    return type;
}
static bool is_declared(int t)
{
    return kind(t) == 'i' && (kind(t - 1) == 'i' || (is(t - 1, "> * &") && !is_spaced(t - 1)));
}
static bool is_operand(int from, int end)
{
    if (end == from || (kind(from) == 'i' && is_type(from)) || is(end, "( :: { . ->")) return false;
    if (is(end, "<") && !is_spaced(end)) return false;
    if (kind(end) == 'i' || is(end, "= += -= *= /= ++ -- :")) return is(end, ":") && !is(end + 1, ":");
    if (kind(from - 1) == 'i' && !is(from - 1, "return case else")) return false;
    if (is(from - 1, "& * >") && !is_spaced(from - 1) && kind(from) != 'n')  // a declared name, or an address
        if (kind(from - 2) == 'i' || is(from - 1, "& >")) return false;
    int open = from - 1;  // a size of an array that is declared
    while (is(open, "[") && is(open - 1, "]")) open = all[open - 1].mate;
    if (is(open, "[") && is_declared(open - 1)) return false;
    if (is(open, "[") && is(open - 2, ",")) {  // behind another name: int a[2], b[4]
        while (open > 1 && !is(open - 1, "; { } ( [")) open = all[open - 1].mate >= 0 ? all[open - 1].mate : open - 1;
        if (is_type(open)) return false;
    }
    return !is(from - 1, "++ -- #");
}

static int after_template(int t)  // the token behind <...> at t, or t
{
    for (int k = t, depth = 0; is(t, "<") && !is_spaced(t) && k < t + 40 && !is(k, "; { } ( )"); k++) {
        depth += is(k, "<") - is(k, ">");
        if (depth == 0) return k + 1;
    }
    return t;
}

static int declared_until(int t)  // the end of the statement around t
{
    while (t < count && !is(t, "; }")) t = all[t].mate > t ? all[t].mate + 1 : t + 1;
    return t;
}

// The last token of the statement that begins at t, if it declares nothing; 0: none does.
static int statement(int t)
{
    const bool headed = is(t - 1, ")") && is(all[t - 1].mate - 1, "if for while"), heads = is(t, "if for while");
    if ((!headed && !is(t - 1, "; { } else")) || is(all[t].list - 1, "for if while") || kind(t) != 'i') return 0;
    if (!heads && (is(t, WORDS) || is_type(t) || kind(after_template(t + 1)) == 'i')) return 0;
    int end = heads ? all[t + 1].mate : declared_until(t);
    for (int body = end + 1; heads && (body == end + 1 || is(end + 1, "else")); body = end + 2)
        end = is(body, "{") ? all[body].mate : declared_until(body);
    return is(end, "; }") ? end : 0;
}

static void find_blocks(int from)
{
    for (int t = from; t < count; t++) {
        int b = t == 0 ? -1 : all[t - 1].until > 0 ? t - 1 : all[t - 1].block;
        while (b >= 0 && all[b].until <= t) b = all[b].block;
        all[t].block = b;
        all[t].function = b < 0 ? -1 : all[b].function;
        if (all[t].function < 0 && is(b, "{") && is(b - 1, ") const")) all[t].function = b;
        const int mate = all[t].mate, last = is(t, "(") ? mate : is(t - 1, "template") ? after_template(t) : t;
        for (int k = t + 1; k < last; k++) all[k].list = t;
        if (is(t, "{")) all[t].until = mate;
        if (is(t, "(") && is(t - 1, "for") && mate > t)  // its names are known in the body as well
            all[t].until = is(mate + 1, "{") ? all[mate + 1].mate : declared_until(mate + 1);
    }
}

// Whether the word at token w is known at token t: it stands before it, in a block around it, or among the parameters.
static bool is_known(int w, int t)
{
    const int function = all[t].function;
    int head = function - 1;  // behind what stands before the function
    while (head > 0 && (all[head].function >= 0 || !is(head, "; }"))) head--;
    for (int k = t - 1; k >= 0; k--) {
        const int block = all[k].block, list = all[k].list, body = all[list].mate + 1;
        if (!is(k, all[w].is) || is(k - 1, ". ->") || (is(k + 1, "=") && declared_until(k) > t)) continue;
        if (all[k].function < 0 && (k > head || (block < 0 ? !list && !is(k + 1, "> ,") : is(block - 1, "enum"))))
            return true;
        if (all[k].function != function || all[block].until <= t) continue;
        if (!list || is(list - 1, "for") || !is_declared(k) || !is(body, "{")) return true;
        if (body <= t && t <= all[body].mate) return true;  // else a parameter of a lambda, or so it seems
    }
    return false;
}

static void find_operands(void)
{
    for (int t = 0, end; t < count && operand_count < 8000; t = end <= t ? t + 1 : end) {
        end = chain(t);
        const bool used = is_operand(t, end);
        const bool declared = !used && end == t + 1 && kind(t) == 'i' && (kind(t - 1) == 'i' || is(t - 1, "* &")) &&
                              is(end, "= , ) ;") && !is_type(t);
        if (declared || used) operands[operand_count++] = (operand){t, end, plain(t, end), declared};
    }
}

// K_scale and V_scale, shape.q_len and shape.kv_len, K and V, K and K_here.
static bool have_like_names(const char *a, const char *b)
{
    const size_t m = strlen(a), n = strlen(b);
    size_t from = 0, to = 0;
    while (from < m && a[from] == b[from]) from++;
    while (to < m && to < n && a[m - 1 - to] == b[n - 1 - to]) to++;
    return from == m || from == n || (m == 1 && n == 1 && isalpha((unsigned char)*a) && isalpha((unsigned char)*b)) ||
           (from + to >= 3 && 2 * (from + to) >= m);
}

static int bound(int t, int step)  // the end of what a logical operator joins, in this direction
{
    for (; t > 0 && t < count; t += step)
        if (all[t].mate >= 0 && (step > 0) == (all[t].mate > t))
            t = all[t].mate;
        else if (is(t, "&& || ( ) , ; ? : { } = return [ ]"))
            break;
    return t;
}

// Which nobody writes in place of another name; and with which nobody computes.
static bool is_place(const char *name) { return strstr(name, "Idx.") || strstr(name, "Dim."); }
static bool is_limit(const char *name) { return strstr(name, "FLT_") || strstr(name, "INF") || strstr(name, "_MAX"); }

// Of the compiler's: BC, WARPS, a template's D.
static bool is_constant(const char *name)
{
    bool is_one = name[1] && !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")] && !is_limit(name);
    for (int k = 1; k < count && !is_one; k++) is_one = is(all[k].list - 1, "template") && !strcmp(all[k].is, name);
    return is_one;
}

// Whether the name stands beside x already.
static bool is_beside(const operand *x, const char *name)
{
    bool is_one = false;
    for (int t = x->from - 4; t < x->to + 4; t++) is_one |= chain(t) > t && !strcmp(plain(t, chain(t)), name);
    return is_one;
}

// Whether y may stand in the place of x, and is not what `changed` tries anyway (choice.h).
static bool may_stand(const operand *x, const operand *y)
{
    if (strcmp(y->name, x->name) == 0 || strcmp(y->name, "0") == 0 || strcmp(y->name, "1") == 0) return false;
    if ((is_place(y->name) && !is_place(x->name)) || is_beside(x, y->name)) return false;
    if (kind(y->from) == 'n' && (strpbrk(y->name, "p+-") || is(x->from - 1, "!"))) return false;  // nobody writes it
    if (kind(x->from) == 'n' && strchr(x->name, '.') && !strchr(y->name, '.')) return false;      // 8.0f is no BC
    return kind(y->from) != 'i' || is_known(y->from, x->from);
}

static void vary_operand(const operand *x)
{
    const char *y[OTHERS];
    int others = 0, alike = 0;  // like names, then the nearest
    const int n = (int)(x - operands), all_of_them = 2 * operand_count;
    for (int step = 2; step < 2 * all_of_them && others < OTHERS; step++) {
        const int by = step % all_of_them, k = by % 2 ? n - (by + 1) / 2 : n + by / 2;
        const bool like = step < all_of_them;
        if (k < 0 || k >= operand_count || (like && others > OTHERS / 2)) continue;
        if ((like && !have_like_names(x->name, operands[k].name)) || !may_stand(x, &operands[k])) continue;
        int j = 0;
        while (j < others && strcmp(operands[k].name, y[j])) j++;
        if (j == others) y[others++] = operands[k].name, alike += like;
    }
    const bool logical = is(x->from - 1, "!");  // of which nobody computes anything
    const int ids = REPAIR_OWN + REPAIR_EACH * others, id = new_ids(CHANGE_NEAR, ids + 1, x->from, x->to);
    for (int k = 0; k <= ids; k++) changes[id + k].as_it_is = id + ids;
    for (int k = 0; k < 2 && !logical && !is_limit(x->name); k++)
        if (x->name[strspn(x->name, "0123456789")])
            SAY(id + k, "%s %c 1", x->name, "+-"[k]);
        else
            SAY(id + k, "%d", atoi(x->name) + 1 - 2 * k);
    const bool minus = is(x->from - 1, "-") && kind(x->from - 2) == 'p' && !is(x->from - 2, ") ]");  // which goes
    if (minus) of(id + 3, x->from - 1, x->to);
    if (!logical) SAY(id + 2, "0"), SAY(id + 3, "%s%s", minus ? "" : "-", x->name), SAY(id + 4, "1");
    if (!is_limit(x->name)) changes[id + 3].kind = CHANGE_TURNED;
    put(all[x->from].at, OPERAND, id, "\n::wb_repair::vary(%d, \n", id);
    for (int j = 0; j < others; j++) {
        const int k = id + REPAIR_OWN + REPAIR_EACH * j;
        SAY(k, "%s", y[j]);
        // of the others 0 or 1 is likelier: they may only happen to have its value
        changes[k].kind = kind(x->from) == 'n' ? CHANGE_NEAR : j < alike ? CHANGE_OPERAND : CHANGE_CONDITION;
        for (int m = 1; m < REPAIR_EACH && !logical && !is_limit(x->name) && !is_limit(y[j]); m++) {
            const bool last = m == REPAIR_EACH - 1;
            SAY(k + m, "%s %c %s", last ? y[j] : x->name, " */+--"[m], last ? x->name : y[j]);
            changes[k + m].kind = CHANGE_FACTOR;
        }
        // a place for each, so that what does not compile leaves the numbers of the others as they are
        put(all[x->to - 1].end, OTHER, k, "\n, %s", y[j]);
    }
    put(all[x->to - 1].end, END_OPERAND, id, "\n) ");
}

static void vary_operands(void)
{
    for (const operand *x = operands; x < operands + operand_count && !too_many; x++)
        if (mine[all[x->from].line] && all[x->from].function >= 0 && !x->declared &&  // and of no template's <...>
            !(is(x->from - 1, "<") && !is_spaced(x->from - 1)) && !(is(x->to, ">") && !is_spaced(x->to)))
            vary_operand(x);
}

static void vary_operator(int t, const char *const other[4])
{
    const bool orders = strchr("<>", **other), compares = orders || strchr("=!", **other);
    const int id = new_ids(compares ? CHANGE_OPERAND : CHANGE_NEAR, 3, t, t + 1);
    for (int k = 0; k < 3; k++)
        if (strcmp(other[k + 1], *other)) SAY(id + k, "%s", other[k + 1]);
    for (int k = 1; k < 3 && orders; k++) changes[id + k].kind = CHANGE_TURNED;
    if (is(t, "/")) changes[id + 1].kind = CHANGE_CONDITION;  // a remainder, too
    const int end = is(t + 1, "(") ? all[t + 1].mate + 1 : chain(t + 1);
    if (!compares && end > t + 1 && !is(end, "( [ < {"))
        SAY(id + 2, "nothing"), of(id + 2, t, end), changes[id + 2].kind = CHANGE_CONDITION;
    put(all[t].end, OPERATOR, id, "\n::wb_repair::change{%d} %s\n", id, *other);
}

static void vary_operators(void)
{
#define NAMES(IS, A, B, C) {#IS, #A, #B, #C},
    static const char *const list[][4] = {REPAIR_OPERATORS(NAMES)};
    for (int t = 1; t < count && !too_many; t++) {
        if (!mine[all[t].line] || kind(t) != 'p' || !is_spaced(t) || all[t].function < 0) continue;
        if (kind(t - 1) != 'n' && !is(t - 1, ") ]") && (kind(t - 1) != 'i' || is(t - 1, WORDS))) continue;
        for (size_t n = 0; n < sizeof list / sizeof *list; n++)
            if (is(t, *list[n])) vary_operator(t, list[n]);
    }
}

// Before a call, or an assignment, a copy of it with the other word.
static void vary_word(int t, const char *other)
{
    const bool calls = kind(t) == 'i';
    const int to = is(t + 1, "{") ? 0 : !calls ? declared_until(t) : is(t + 1, "(") ? all[t + 1].mate + 1 : 0;
    int from = t - 1;
    while (is(from, "]") || is(from - 1, ". ->")) from = is(from, "]") ? all[from].mate - 1 : from - 2;
    if (to <= t + 1 || (is(t, "=") && *other != '+') ||
        (calls ? is(t - 1, ". -> ::") : !is(from - 1, "; { } ) else") || is(all[t].block, "(")))
        return;
    const int id = new_ids(calls ? CHANGE_OPERAND : CHANGE_NEAR, 1, t, t + 1);
    const char *const rest = plain(t + 1, to), *const begin = plain(from, t);
    if (is(t, "="))
        SAY(id, "= %s +", begin);  // rows have no +=
    else
        SAY(id, "%s", other);
    if (!calls) {
        put(all[from].at, OPERAND, id, "\nif (::wb_repair::decide(%d, false)) %s %s %s; else\n", id, begin,
            changes[id].put, rest);
    } else {
        put(all[t].at, OPERAND, id, "\n(::wb_repair::decide(%d, false) ? %s%s :\n", id, other, rest);
        put(all[to - 1].end, END_OPERAND, id, "\n)\n");
    }
}

static void vary_words(void)
{
    char words[] = "expf exp2f expf exp2_fast exp exp2 logf log2f log log2 fmaxf fminf max min "
                   "row_max row_max_part row_sum row_sum_part = += += -= += *= *= /= *= =";  // two and two
    for (char *rest = words, *a, *b; (a = strsep(&rest, " ")) && (b = strsep(&rest, " "));)
        for (int t = 1; t < count && !too_many; t++)
            if (mine[all[t].line] && all[t].function >= 0 && (is(t, a) || is(t, b))) vary_word(t, is(t, a) ? b : a);
}

static void vary_condition(int from, int to)
{
    if (from >= to || (!mine[all[from].line] && !mine[all[to - 1].line])) return;
    const int id = new_ids(CHANGE_FACTOR, 2, from, to);
    SAY(id, "true"), SAY(id + 1, "false");
    put(all[from].at, CONDITION, id, "\n::wb_repair::decide(%d, !!((\n", id);
    put(all[to - 1].end, END_CONDITION, id, "\n)))\n");
}

static void vary_conditions(void)
{
    for (int t = 1, last = 0; t < count && !too_many; t++)
        if (is(t, "&& ||")) {
            if (last != t) vary_condition(bound(t - 1, -1) + 1, t);
            vary_condition(t + 1, last = bound(t + 1, 1));
        } else if (is(t, "if") && is(t + 1, "(") && all[t + 1].mate == bound(t + 2, 1))
            vary_condition(t + 2, last = all[t + 1].mate);
        else if (is(t, "?"))
            vary_condition(bound(t - 1, -1) + 1, last = t);
}

// ------------------------ all of it

// Without the spaces that its lines begin with, and between two ends of lines.
static char *without_indents(const char *s)
{
    char *const made = calloc(strlen(s) + 3, 1), *to = made;
    for (*to = '\n'; *s; s++)
        if (*to != '\n' || (*s != ' ' && *s != '\t')) *++to = *s;
    to[1] = '\n';
    return made;
}

static void find_mine(const char *skeleton)
{
    mine = calloc((size_t)all[count].line + 2, sizeof *mine);
    const char *const given = without_indents(skeleton), *end;
    int line = 1;
    for (const char *at = without_indents(text); at[1]; at = end, line++) {
        end = strchr(at + 1, '\n');
        mine[line] = !memmem(given, strlen(given), at, (size_t)(end + 1 - at));
    }
    for (int t = 0; t < count; t++)
        if (is(t, "constexpr"))  // no function of choice.h is
            for (int l = all[t].line; l <= all[declared_until(t)].line; l++) mine[l] = false;
}

static int by_place(const void *a, const void *b)
{
    const piece *const p = a, *const q = b;
    return p->at != q->at ? p->at - q->at : p->kind != q->kind ? (int)p->kind - (int)q->kind : p->id - q->id;
}

// Without a statement that declares nothing.
static void vary_statements(void)
{
    for (int t = 1, end; t < count && !too_many; t++) {
        if (!mine[all[t].line] || all[t].function < 0 || !(end = statement(t))) continue;
        const int id = new_ids(CHANGE_CONDITION, 1, t, end + 1);
        SAY(id, "nothing");
        put(all[t].at, CONDITION, id, "\n{ if (!::wb_repair::decide(%d, false))\n", id);
        put(all[end].end, END_CONDITION, id, "\n}\n");
    }
}

bool changes_read(const char *source, const char *skeleton)
{
    text = strdup(source);
    change_count = 1, piece_count = 0, operand_count = 0, count = 0, too_many = false;
    read_tokens(text);
    find_blocks(0);
    find_mine(skeleton);
    find_operands();
    vary_conditions();
    vary_operators();
    vary_words();
    vary_statements();
    vary_operands();
    if (too_many) change_count = 1, piece_count = 0, too_many = false;
    return piece_count > 0;
}

// ------------------------ the reference solution's text

static int token_at(int at)
{
    int t = 0;
    while (t < count && all[t].at < at) t++;
    return t;
}

// The `return x;` that a text ends with; 0: with another statement.
static int last_return(int from, int to)
{
    int r = to - 1;
    while (r > from && !is(r, "return")) r--;
    return is(r, "return") && declared_until(r) == to - 1 && (r == from || is(r - 1, "; { }")) ? r : 0;
}

static int times(int t, int size, int from, int to)  // these tokens stand there
{
    int n = 0;
    for (int at = from, k; at + size <= to; at++, n += k == size)
        for (k = 0; k < size && strcmp(all[at + k].is, all[t + k].is) == 0;) k++;
    return n;
}

static bool is_variable(int t)
{
    return kind(t) == 'i' && !is(t, WORDS) && !is_type(t) && !is(t - 1, ". -> ::") && !is(t + 1, "( ::") &&
           !(is(t + 1, "<") && !is_spaced(t + 1));
}

// Whether the names of this statement mean something at token `there`.
static bool may_begin(int t, int last, int there)
{
    for (int k = t; k <= last; k++) {
        if (!is_variable(k) || is(all[k].list - 1, "]") || is_limit(all[k].is) || is_constant(all[k].is) ||
            is_known(k, there))
            continue;
        int own = t;  // a name that it declares
        while (own <= k && (strcmp(all[own].is, all[k].is) || !is_declared(own))) own++;
        if (own > k) return false;
    }
    return true;
}

// A statement of theirs that no statement from `from` to `to` is, or is meant to be, in each place there.
static void vary_missing(int at, int from, int to, int theirs, const char *other)
{
    for (int t = theirs, last; t < count; t++) {
        if (is(t - 1, ")") || !(last = statement(t))) continue;
        const int size = last + 1 - t;
        bool stands = times(t, size, theirs, count) <= times(t, size, from, to);
        for (int s = from; s < to && !stands; s++)  // begins alike, and is none of theirs
            stands = times(t, 2, s, s + 2) && !times(s, statement(s) + 1 - s, theirs, count);
        for (int b = from; b <= to && !stands && change_count < REPAIR_IDS - 1; b++) {
            if ((b > from && (!is(b - 1, "; { }") || is(b - 2, "="))) || is(b, "; , ) else")) continue;
            if (is(all[b].list - 1, "for") || (b == to && last_return(from, to)) || !may_begin(t, last, b - 1))
                continue;
            const int id = new_ids(CHANGE_MISSING, 1, b - 1, b);
            change *const c = &changes[id];
            c->at = c->end = b > from ? all[b - 1].end : at, c->theirs = all[t].line, c->of = "";
            c->put = written("\n%.*s\n", all[last].end - all[t].at, other + all[t].at);
            put(c->at, LAST, id, "\nif (::wb_repair::decide(%d, false)) {\n%s\n}\n", id, c->put);
        }
    }
}

bool changes_swap(int swap, int at, int end, const char *other, int length, bool *alone)
{
    const int from = token_at(at), to = token_at(end), theirs = count, before = from - (from > 0);
    const int block = all[before].until > 0 ? before : all[before].block, id = change_count;
    const int function = all[block + 1].function, head = function > 0 ? all[function - 1].mate : 0;
    if (!is(block, "{") || function < 0 || id + MISSING > REPAIR_IDS) return false;
    // What follows, if it uses a name that the gap declares, is written twice; and what follows several gaps.
    int rest = strncmp(other, "//{", 3) ? to : all[block].until;
    for (int t = from; t < to && rest == to; t++)
        for (int k = to; is_declared(t) && is(t + 1, "= ; , [ { (") && all[t].block == block && k < count; k++)
            if (k < all[block].until && is(k, all[t].is) && !is(k - 1, ". ->")) rest = all[block].until;
    bool loops = false;
    for (int b = block; b > 0; b = all[b].block) loops |= is(b, "(") || is(all[b - 1].mate - 1, "while");
    other = strndup(other, (size_t)length);
    read_tokens(other), find_blocks(theirs);
    const int back = last_return(from, to), back_theirs = last_return(theirs, count);
    const int ends = back ? all[back].at : end, closes = rest > to ? all[rest].at : end;
    changes[change_count++] = (change){.site = id, .kind = CHANGE_SWAP, .put = ""};
    put(at, CONDITION, id, "\nif (::wb_repair::is_swapped(%d)) {\n%.*s\n::wb_repair::arrive();\n", swap,
        back_theirs ? all[back_theirs].at : length, other);
    put(ends, CONDITION, id, "\n::wb_repair::arrive();\n");
    for (int n = from, words = 0; n < to + count - theirs && words < PROBE_WORDS; n++) {
        const int w = n < to ? n : n - to + theirs;
        bool new = is_variable(w) && !is_constant(all[w].is) && is_known(w, to), outlives = loops &&is_known(w, from);
        for (int k = head < 0 ? function : head; k < all[function].until && !outlives;
             k++)  // used behind, or a float &
            outlives = (k < from || k >= to) && is(k, all[w].is) &&
                       (k < from ? is(k - 1, "&") && !is_spaced(k - 1) : !is(k - 1, ". ->"));
        for (int k = id + 1; k < change_count && new; k++) new = strcmp(changes[k].of, all[w].is) != 0;
        if (!new || !outlives) continue;
        const int k = change_count++;
        changes[k] = (change){.site = k, .kind = CHANGE_SWAP, .put = "", .of = all[w].is};
        put(at, PROBE, k, "\n::wb_repair::probe(%d, %s);\n", words, all[w].is);
        put(ends, PROBE, k, "\n::wb_repair::probe(%d, %s);\n", words++, all[w].is);
    }
    put(at, LAST, id, "\n%s%s\n%.*s\n} else {\n", back_theirs ? "return ::wb_repair::returned =" : "",
        back_theirs ? other + all[back_theirs].end : "", closes - end, text + end);
    put(closes, LAST, id, "\n}\n");
    if (back) put(all[back].end, CONDITION, id, "\n::wb_repair::returned =\n");
    vary_missing(at, from, to, theirs, other);
    count = theirs, *alone = memmem(text + end, (size_t)(closes - end), "//{", 3);
    return true;
}

// Returns how many lines that ends.
static int write_part(FILE *to, const char *s, const char *end)
{
    int n = 0;
    for (; s < end; s++) n += putc(*s, to) == '\n';
    return n;
}

void changes_write(FILE *to)
{
    const char *at = text;
    int line = 2;
    qsort(pieces, (size_t)piece_count, sizeof *pieces, by_place);
    fputs("#include \"repair/choice.h\"\n", to);
    for (piece *p = pieces; p < pieces + piece_count; p++) {
        line += write_part(to, at, text + p->at), at = text + p->at;
        const bool alone = p->kind == OTHER && dropped[p->id];
        // alone, its number stays, with nothing behind it
        const char *const what = dropped[changes[p->id].site] ? "" : alone ? "\n, ::wb_repair::none" : p->text;
        p->line = what == p->text ? line : 0, p->lines = write_part(to, what, what + strlen(what));
        line += p->lines;
    }
    fputs(at, to);
}

const char *changes_text(const change *c)
{
    const bool names = is_word(*c->put), minus = *c->put == '-' && c->put[1] && c->put[1] != '=';
    if (c->kind == CHANGE_MISSING) return c->put;
    return strcmp(c->put, "nothing") == 0            ? ""
           : minus || (names && strchr(c->put, ' ')) ? written("(%s)", c->put)
                                                     : c->put;
}

const char *changes_quote(const change *c)
{
    static char line[400];
    const char *begin = text + c->at, *const rest = text + c->end;
    while (begin > text && begin[-1] != '\n') begin--;
    begin += strspn(begin, " ");
    snprintf(line, sizeof line, "%.*s%s%.*s", (int)(text + c->at - begin), begin, changes_text(c),
             (int)strcspn(rest, "\n"), rest);
    return line;
}

void changes_keep(const bool *wanted)
{
    memset(dropped, true, sizeof dropped);
    for (int id = 1; id < change_count; id++) dropped[changes[id].site] &= !wanted[id];
    for (piece *p = pieces; p < pieces + piece_count; p++)
        if (p->kind == OTHER) dropped[p->id] = !memchr(wanted + p->id, true, REPAIR_EACH);
}

bool changes_drop(int line)
{
    static int began[REPAIR_IDS];  // by site: the line
    int least = 1 << 30, inner = 0;
    bool some = false;
    for (const piece *p = pieces; p < pieces + piece_count; p++) {
        const int site = changes[p->id].site;
        if (p->line == 0) continue;
        const bool swaps = changes[site].kind == CHANGE_SWAP;
        if (line > p->line && line <= p->line + p->lines - swaps)  // not in the line that it ended
            some = dropped[p->kind == OTHER ? p->id : site] = true;
        if (swaps) continue;  // what is wrong in the text that it puts aside is no matter of it
        if (p->kind >= OPERATOR)
            began[site] = p->line;
        else if (p->kind != OTHER && began[site] <= line && line <= p->line && p->line - began[site] < least)
            least = p->line - began[site], inner = site;
    }
    if (!some && inner) some = dropped[inner] = true;  // the innermost site around it
    return some;
}
