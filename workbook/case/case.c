// case.c - see case.h. The inputs are made by a hash of (seed, tensor, index), so any element can be made alone.
#include "case/case.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>

// ------------------------ numbers

float wb_from_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t wb_to_bf16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if ((wide & 0x7fffffff) > 0x7f800000) return 0x7fff;  // NaN: rounding could carry it to infinity
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

static const struct {
    const char *name;
    size_t bytes;
} types[] = {{"float", 4}, {"bfloat16", 2}, {"int", 4}, {"int8_t", 1}, {"uint8_t", 1}};  // by wb_type

size_t wb_type_bytes(wb_type type) { return types[type].bytes; }
const char *wb_type_name(wb_type type) { return types[type].name; }

double wb_get(wb_type type, const void *array, size_t i)
{
    switch (type) {
    case WB_E4M3: return wb_from_e4m3(((const uint8_t *)array)[i]);
    case WB_INT8: return ((const int8_t *)array)[i];
    case WB_INT32: return ((const int32_t *)array)[i];
    case WB_BFLOAT16: return wb_from_bf16(((const uint16_t *)array)[i]);
    default: return ((const float *)array)[i];
    }
}

void wb_get_all(wb_type type, const void *array, size_t count, double *values)
{
    const uint16_t *bits = array;
    for (size_t i = 0; i < count; i++) values[i] = type == WB_BFLOAT16 ? wb_from_bf16(bits[i]) : wb_get(type, array, i);
}

void wb_put(wb_type type, void *array, size_t i, double value)
{
    switch (type) {
    case WB_E4M3: ((uint8_t *)array)[i] = wb_to_e4m3((float)value); break;
    case WB_INT8: ((int8_t *)array)[i] = (int8_t)value; break;
    case WB_INT32: ((int32_t *)array)[i] = (int32_t)value; break;
    case WB_BFLOAT16: ((uint16_t *)array)[i] = wb_to_bf16((float)value); break;
    default: ((float *)array)[i] = (float)value; break;
    }
}

// Mean 0, variance 1, within +-3.5: the sum of four uniform 16-bit numbers. The same bits on every machine.
static float normal(uint64_t stream, uint64_t index)
{
    const uint64_t bits = mix(stream ^ mix(index));
    const int sum = (int)(bits & 0xffff) + (int)(bits >> 16 & 0xffff) + (int)(bits >> 32 & 0xffff) + (int)(bits >> 48);
    return (float)(sum - 2 * 65535) * (1.7320508f / 65536);
}

// ------------------------ text and back

typedef enum pattern_kind {
    PATTERN_PLAIN,    // K is noise, as Q is
    PATTERN_LOGITS,   // K lies along a direction so that logits are those of logit()
    PATTERN_RESIZED,  // noise, made larger and smaller by resized()
    PATTERN_WORKED    // a lesson's few numbers
} pattern_kind;

static const struct pattern {
    pattern_kind kind;
    float logit;
    bool everywhere;
} patterns[] = {
#define WB_INPUT(name, text, kind, logit, everywhere) {PATTERN_##kind, logit, everywhere},
#include "case/inputs.inc"
};

bool wb_input_is_everywhere(wb_input input) { return patterns[input].everywhere; }

static const char *const input_names[] = {
#define WB_INPUT(name, text, ...) #text,
#include "case/inputs.inc"
};
static const char *const lens_names[WB_LENS] = {"same", "mixed", "zipf", "edges", "empty"};

const char *wb_lens_name(wb_lens lens) { return lens_names[lens]; }

wb_case wb_case_defaults(const wb_problem *problem, wb_case c)
{
    attention_shape *s = &c.shape;
    if (problem->signature == WB_ROW_SUM) return c;
    if (s->batch == 0) s->batch = 1;
    if (s->q_heads == 0) s->q_heads = 1;
    if (s->kv_heads == 0) s->kv_heads = s->q_heads;
    if (s->kv_len == 0) s->kv_len = s->q_len;
    if (s->scale == 0 && s->head_dim > 0) s->scale = 1 / sqrtf((float)s->head_dim);
    if (problem->mask == WB_CAUSAL) s->causal = 1;
    if (problem->signature == WB_DECODE && c.page == 0) c.page = 16;
    if (problem->window && s->window == 0) s->window = s->q_len;
    if (problem->signature == WB_BLOCK_MASK) {
        if (c.masks == 0) c.masks = 1;
        if (c.q_tile == 0) c.q_tile = 128;
        if (c.kv_tile == 0) c.kv_tile = 64;
    }
    if (problem->signature == WB_FP8 && c.levels == 0) c.levels = 2;
    if (wb_has_ranks(problem) && c.ranks == 0) c.ranks = 1;
    return c;
}

// What numbers may be: also what a function has to refuse, but nothing that no test could lay out in memory.
enum { MOST_HEADS = 1 << 16, MOST_ROWS = 1 << 26, MOST_DIM = 1 << 12, MOST_OFFSET = 1 << 14 };
static const double MOST_ELEMENTS = 1e10;  // of one tensor

// In the order in which they are printed: each that is not its default, and those that a problem always shows.
typedef enum field_kind { INTEGER, SCALE, SEED, MASK, NAME, LOGITS, NULL_POINTER } field_kind;
typedef struct field {
    const char *name;
    field_kind kind;
    size_t at;  // of an integer, or of the number of a name, in wb_case
    long least, most;
    const char *const *names;  // below `most`
} field;

#define INTEGER_AT(name, member, least, most) \
    { \
        name, INTEGER, offsetof(wb_case, member), least, most, NULL \
    }
static const field fields[] = {
    INTEGER_AT("rows", rows, -MOST_ROWS, MOST_ROWS),
    INTEGER_AT("cols", cols, -MOST_ROWS, MOST_ROWS),
    INTEGER_AT("B", shape.batch, -MOST_HEADS, MOST_HEADS),
    INTEGER_AT("Hq", shape.q_heads, -MOST_HEADS, MOST_HEADS),
    INTEGER_AT("Hkv", shape.kv_heads, -MOST_HEADS, MOST_HEADS),
    INTEGER_AT("Nq", shape.q_len, -MOST_ROWS, MOST_ROWS),
    INTEGER_AT("Nk", shape.kv_len, -MOST_ROWS, MOST_ROWS),
    INTEGER_AT("D", shape.head_dim, -MOST_DIM, MOST_DIM),
    {"scale", SCALE, 0, 0, 0, NULL},
    INTEGER_AT("causal", shape.causal, INT_MIN, INT_MAX),
    INTEGER_AT("W", shape.window, INT_MIN, INT_MAX),
    INTEGER_AT("sinks", shape.sinks, INT_MIN, INT_MAX),
    {"mask", MASK, offsetof(wb_case, mask), 0, WB_MASK_NAMES, wb_mask_names},
    INTEGER_AT("masks", masks, -MOST_HEADS, MOST_HEADS),
    INTEGER_AT("q_tile", q_tile, -MOST_DIM, MOST_DIM),
    INTEGER_AT("kv_tile", kv_tile, -MOST_DIM, MOST_DIM),
    INTEGER_AT("levels", levels, INT_MIN, INT_MAX),
    INTEGER_AT("page", page, -MOST_DIM, MOST_DIM),
    {"lens", NAME, offsetof(wb_case, lens), 0, WB_LENS, lens_names},
    INTEGER_AT("pages", pages, -MOST_ROWS, MOST_ROWS),
    INTEGER_AT("max_pages", max_pages, -MOST_ROWS, MOST_ROWS),
    INTEGER_AT("ranks", ranks, 1, WB_MOST_RANKS),
    INTEGER_AT("part", part, 0, WB_MOST_RANKS),
    INTEGER_AT("stray", stray, 0, 3),
    INTEGER_AT("short_workspace", short_workspace, 0, 1),
    {"seed", SEED, 0, 0, 0, NULL},
    {"input", NAME, offsetof(wb_case, input), 0, WB_INPUTS, input_names},
    {"logits", LOGITS, 0, 0, 0, NULL},
#define WB_CONDITION(name, most, ...) INTEGER_AT(#name, name, 0, most),
#include "case/conditions.inc"
    {"null", NULL_POINTER, 0, 0, 0, NULL},
};
enum { FIELDS = sizeof fields / sizeof *fields };
_Static_assert(FIELDS * 40 <= WB_CASE_TEXT, "a case's text can hold all fields, of 40 characters each");

static int *integer_of(wb_case *c, const field *f) { return (int *)((char *)c + f->at); }

// The name that a value begins with; a message has the others, as far as there is room.
static wb_status parse_name(const field *f, const char *value, size_t length, wb_case *c)
{
    char known[256] = "";
    for (int k = 0; k < f->most; k++) {
        *integer_of(c, f) = k;
        if (strlen(f->names[k]) == length && strncmp(value, f->names[k], length) == 0) return WB_OK;
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", f->names[k]);
    }
    return wb_fail(WB_BAD_ARGUMENT, "'%s=%s' in the case: the %s must be one of%s", f->name, value, f->name, known);
}

// "tree", or "tree/20" with its size.
static wb_status parse_mask(const field *f, const char *value, wb_case *c)
{
    const size_t length = strcspn(value, "/");
    const wb_status status = parse_name(f, value, length, c);
    if (status != WB_OK || !value[length]) return status;
    char *end;
    const long size = strtol(value + length + 1, &end, 10);
    if (*end || end == value + length + 1 || size < 1 || size > MOST_ROWS)
        return wb_fail(WB_BAD_ARGUMENT, "'mask=%s' in the case: the size must be 1 to %d", value, MOST_ROWS);
    c->mask_size = (int)size;
    return WB_OK;
}

// The names that a case of this problem may say; those that only tests need are not told.
static const char *names_of(const wb_problem *problem)
{
    switch (problem->signature) {
    case WB_ROW_SUM: return "rows cols seed input offset";
    case WB_BLOCK_MASK: return "B Hq Hkv Nq Nk D scale mask masks q_tile kv_tile seed input offset";
    case WB_DECODE: return "B Hq Hkv Nq Nk D scale page lens pages max_pages seed input offset processors";
    case WB_FP8: return "B Hq Hkv Nq Nk D scale causal levels seed input offset";
    case WB_RING:
    case WB_RING_BACKWARD: return "B Hq Hkv Nq D scale causal ranks seed input offset";
    default: return "B Hq Hkv Nq Nk D scale causal W sinks logits seed input offset";
    }
}

static wb_status parse_word(const wb_problem *problem, char *word, wb_case *c)
{
    char *value = strchr(word, '=');
    if (!value) return wb_fail(WB_BAD_ARGUMENT, "'%s' in the case: expected name=value", word);
    *value++ = 0;
    const field *f = fields;
    while (f < fields + FIELDS && strcmp(f->name, word)) f++;
    if (f == fields + FIELDS)
        return wb_fail(WB_BAD_ARGUMENT, "'%s' in the case: the name must be one of %s", word, names_of(problem));
    char *end = value + strlen(value);
    switch (f->kind) {
    case INTEGER: {
        const long number = strtol(value, &end, 10);
        if (number < f->least || number > f->most)
            return wb_fail(WB_BAD_ARGUMENT, "'%s=%s' in the case: must be %ld to %ld", word, value, f->least, f->most);
        *integer_of(c, f) = (int)number;
        break;
    }
    case SCALE: c->shape.scale = strtof(value, &end); break;
    case SEED: c->seed = strtoull(value, &end, 0); break;
    case MASK: return parse_mask(f, value, c);
    case NAME: return parse_name(f, value, strlen(value), c);
    case LOGITS:
        c->logits = !strcmp(value, "normal")  ? WB_LOGITS_NORMAL
                    : !strcmp(value, "mixed") ? WB_LOGITS_MIXED
                                              : WB_LOGITS_GIVEN;
        if (c->logits == WB_LOGITS_GIVEN) c->sink_logit = strtof(value, &end);
        break;
    case NULL_POINTER:
        if (strlen(value) >= sizeof c->null)
            return wb_fail(WB_BAD_ARGUMENT, "'%s=%s' in the case: the name of the tensor is too long", word, value);
        strcpy(c->null, value);
        break;
    }
    if (end == value || *end)
        return wb_fail(WB_BAD_ARGUMENT, "'%s=%s' in the case: the value is not a number", word, value);
    return WB_OK;
}

static bool names(const char *text, const char *word)
{
    const size_t length = strlen(word);
    const char *at = text;
    while (at && (strncmp(at, word, length) || at[length] != '=')) at = (at = strchr(at, ',')) ? at + 1 : NULL;
    return at;
}

wb_status wb_case_parse(const wb_problem *problem, const char *text, wb_case *c)
{
    char copy[WB_CASE_TEXT];
    if (strrchr(text, ':')) text = strrchr(text, ':') + 1;  // the others run before it
    if (strlen(text) >= sizeof copy)
        return wb_fail(WB_BAD_ARGUMENT, "a case has fewer than %zu characters", sizeof copy);
    // Twice: lengths and heads first, from which the defaults follow; then what is given replaces them, 0 included.
    memset(c, 0, sizeof *c);
    c->seed = 1;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) *c = wb_case_defaults(problem, *c);
        strcpy(copy, text);
        for (char *rest = copy, *word; (word = strtok_r(rest, ",", &rest));) {
            const wb_status status = parse_word(problem, word, c);
            if (status != WB_OK) return status;
        }
    }
    const bool sum = problem->signature == WB_ROW_SUM;
    const char *first = sum ? "rows" : "Nq", *second = sum ? "cols" : "D";
    const bool has_first = names(text, first), has_second = names(text, second);
    if (!has_first || !has_second)
        return wb_fail(WB_BAD_ARGUMENT,
                       "the case '%s' has no %s%s%s: %s and %s are required, all other names have defaults", text,
                       has_first ? second : first, has_first || has_second ? "" : " and no ",
                       has_first || has_second ? "" : second, first, second);
    if (problem->signature == WB_BLOCK_MASK &&
        (double)c->shape.q_len * (double)c->shape.kv_len * (double)c->masks > MOST_ELEMENTS)
        return wb_fail(WB_BAD_ARGUMENT, "the mask of the case would have more than %.0e pairs", MOST_ELEMENTS);
    // Of a mask's lists the bits are the longest, a word for 32 keys of whole tiles.
    if (problem->signature == WB_BLOCK_MASK && ((double)c->shape.q_len + fmax(c->q_tile, 1)) *
                                                       ((double)c->shape.kv_len + fmax(c->kv_tile, 1) + 32) / 32 *
                                                       c->masks >
                                                   MOST_ELEMENTS)
        return wb_fail(WB_BAD_ARGUMENT, "the mask of the case would have more than %.0e words of bits", MOST_ELEMENTS);
    if (c->part > c->ranks)
        return wb_fail(WB_BAD_ARGUMENT, "the case has part=%d, but only %d ranks", c->part, c->ranks);
    wb_problem without_lists = *problem;
    if (problem->signature == WB_BLOCK_MASK) without_lists.signature = WB_FORWARD;
    wb_tensor tensors[WB_MAX_TENSORS];
    for (int k = wb_case_tensors(&without_lists, c, tensors) - 1; k >= 0; k--) {
        const size_t *dim = tensors[k].dim;
        if ((double)dim[0] * (double)dim[1] * (double)dim[2] * (double)dim[3] > MOST_ELEMENTS)
            return wb_fail(WB_BAD_ARGUMENT, "tensor %s of the case would have more than %.0e elements", tensors[k].name,
                           MOST_ELEMENTS);
    }
    return WB_OK;
}

wb_status wb_case_fit(const wb_problem *problem, const char *text, wb_case *c)
{
    const wb_status status = wb_case_parse(problem, text, c);
    attention_shape *const s = &c->shape;
    s->scale = 0, s->head_dim = wb_head_dim(problem, s->head_dim);
    if (!problem->grouped) s->kv_heads = s->q_heads;
    if (!problem->window) s->window = 0;
    if (!problem->sinks) s->sinks = 0;
    if (problem->mask != WB_CAUSAL_OPTIONAL) s->causal = problem->mask == WB_CAUSAL;
    if (s->causal) s->kv_len = s->q_len;
    if (problem->signature != WB_BLOCK_MASK) c->mask = WB_MASK_DOCUMENTS, c->masks = c->q_tile = 0;
    if (problem->signature != WB_DECODE) c->page = c->pages = c->max_pages = 0;
    *c = wb_case_defaults(problem, *c);
    return status;
}

static wb_status check_arguments(const wb_problem *problem, const wb_case *c)
{
    void *const p = (void *)(uintptr_t)(256 + c->offset), *const at = (void *)256;  // never looked into
    const char *const name = problem->name;
    const attention_shape *const s = &c->shape;
    const decode_shape decode = wb_decode_shape(c);
    const wb_ring ring = {p, 0, c->ranks, NULL};
    const block_mask mask = {c->q_tile, c->kv_tile, c->masks, p, p, p, p, p};
    if (c->null[0]) return wb_fail(WB_BAD_ARGUMENT, "%s: %s is null", name, c->null);
    if (c->stray && wb_has_ranks(problem))
        return wb_fail(WB_BAD_ARGUMENT, "%s: with stray=%d the arguments are invalid for a ring", name, c->stray);
    switch (problem->signature) {
    case WB_ROW_SUM: return wb_check_row_sum(name, p, p, p, c->rows, c->cols);
    case WB_DECODE:
        if (!problem->int8_cache) return wb_check_decode(name, p, p, p, p, p, at, at, at, 0, 0, &decode);
        return wb_check_decode_int8(name, p, p, p, p, p, at, at, at, at, at, 0, 0, &decode);
    case WB_FORWARD: return wb_check_forward(name, p, p, p, p, p, s);
    case WB_FP8: return wb_check_fp8(name, p, p, p, p, p, p, p, p, c->levels, s);
    case WB_RING: return wb_check_ring(name, p, p, p, p, p, at, 0, 0, s, &ring);
    case WB_RING_BACKWARD: return wb_check_ring_backward(name, p, p, p, p, p, p, p, p, p, p, at, 0, 0, s, &ring);
    case WB_BLOCK_MASK: return wb_check_block_mask(name, p, p, p, p, p, &mask, s);
    default: return wb_check_backward(name, p, p, p, p, p, p, p, p, p, p, s);
    }
}

bool wb_case_is_valid(const wb_problem *problem, const wb_case *c) { return check_arguments(problem, c) == WB_OK; }

// Whether a case of this problem names the field though it has its default.
static bool always_printed(const wb_problem *problem, const char *name)
{
    const char *all = problem->signature == WB_ROW_SUM ? " rows cols " : " B Hq Nq D ";
    char word[32];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(all, word) || (problem->grouped && strcmp(name, "Hkv") == 0) ||
           (problem->window && strcmp(name, "W") == 0) || (problem->sinks && strcmp(name, "sinks") == 0) ||
           (problem->signature == WB_DECODE && strcmp(name, "page") == 0) ||
           (wb_has_ranks(problem) && strcmp(name, "ranks") == 0);
}

void wb_case_print(const wb_problem *problem, const wb_case *c, char text[WB_CASE_TEXT])
{
    const attention_shape *s = &c->shape;
    const wb_case bare = {.shape = {.q_heads = s->q_heads, .q_len = s->q_len, .head_dim = s->head_dim}};
    wb_case mine = *c, plain = wb_case_defaults(problem, bare);
    size_t n = 0;
#define PRINT(...) n += (size_t)snprintf(text + n, WB_CASE_TEXT - n, __VA_ARGS__)
    for (const field *f = fields; f < fields + FIELDS; f++) {
        const char *comma = n ? "," : "";
        switch (f->kind) {
        case INTEGER:
            if (*integer_of(&mine, f) != *integer_of(&plain, f) || always_printed(problem, f->name))
                PRINT("%s%s=%d", comma, f->name, *integer_of(&mine, f));
            break;
        case SCALE:
            if (s->scale != plain.shape.scale) PRINT("%sscale=%.9g", comma, s->scale);
            break;
        case SEED: PRINT("%sseed=%llu", comma, (unsigned long long)c->seed); break;
        case MASK:
            if (problem->signature == WB_BLOCK_MASK) PRINT("%smask=%s", comma, wb_mask_names[c->mask]);
            if (problem->signature == WB_BLOCK_MASK && c->mask_size) PRINT("/%d", c->mask_size);
            break;
        case NAME:
            if (*integer_of(&mine, f)) PRINT("%s%s=%s", comma, f->name, f->names[*integer_of(&mine, f)]);
            break;
        case LOGITS:
            if (c->logits == WB_LOGITS_GIVEN)
                PRINT("%slogits=%.9g", comma, c->sink_logit);
            else if (c->logits != WB_LOGITS_NORMAL)
                PRINT("%slogits=mixed", comma);
            break;
        case NULL_POINTER:
            if (c->null[0]) PRINT("%snull=%s", comma, c->null);
            break;
        }
    }
#undef PRINT
}

// ------------------------ tensors

static wb_tensor tensor(const char *name, bool output, wb_type type, int a, int b, int c, int d)
{
    const int sizes[4] = {a, b, c, d};
    wb_tensor t = {.name = name, .output = output, .type = type, .count = 1};
    for (int i = 0; i < 4; i++) {
        t.dim[i] = sizes[i] < 1 ? 1 : (size_t)sizes[i];
        t.count *= t.dim[i];
    }
    t.bytes = t.count * wb_type_bytes(type);
    return t;
}

static wb_tensor as(const char *name, bool output, wb_tensor t)
{
    t.name = name, t.output = output;
    return t;
}

// The arrays of a block mask. Its bits are numbers of 32 bits like the others.
enum { LISTS = 5 };
static int lists_of(const wb_case *c, wb_tensor tensors[], const void *at[])
{
    const block_mask *m = &wb_case_mask_of(c)->lists;
    const int q_tiles = c->shape.q_len < 1 ? 1 : (c->shape.q_len - 1) / m->q_tile + 1, end = m->masks * (q_tiles + 1);
    const int wholes = m->whole_start[end - 1], parts = m->part_start[end - 1];  // at least 1 each, by tensor()
    int n = 0;
    tensors[n++] = tensor("whole_start", false, WB_INT32, 1, 1, m->masks, q_tiles + 1);
    tensors[n++] = tensor("whole", false, WB_INT32, 1, 1, 1, wholes);
    tensors[n++] = tensor("part_start", false, WB_INT32, 1, 1, m->masks, q_tiles + 1);
    tensors[n++] = tensor("part", false, WB_INT32, 1, 1, 1, parts);
    tensors[n++] = tensor("bits", false, WB_INT32, 1, parts, m->q_tile, m->kv_tile / 32);
    at[0] = m->whole_start, at[1] = m->whole, at[2] = m->part_start, at[3] = m->part, at[4] = m->bits;
    return n;
}

int wb_case_tensors(const wb_problem *problem, const wb_case *c, wb_tensor tensors[WB_MAX_TENSORS])
{
    const attention_shape *s = &c->shape;
    const wb_type type = problem->on_host ? WB_FLOAT32 : WB_BFLOAT16;
    const wb_tensor O = tensor("O", true, type, s->batch, s->q_heads, s->q_len, s->head_dim);
    const wb_tensor L = tensor("L", true, WB_FLOAT32, 1, s->batch, s->q_heads, s->q_len);
    const wb_tensor K = tensor("K", false, type, s->batch, s->kv_heads, s->kv_len, s->head_dim);
    const wb_tensor sink_logits = tensor("sink_logits", false, WB_FLOAT32, 1, 1, 1, s->q_heads);
    const wb_tensor Q = as("Q", false, O), V = as("V", false, K);
    int n = 0;
    switch (problem->signature) {
    case WB_ROW_SUM:
        tensors[n++] = tensor("y", true, WB_FLOAT32, 1, 1, 1, c->rows);
        tensors[n++] = tensor("x", false, WB_BFLOAT16, 1, 1, c->rows, c->cols);
        tensors[n++] = tensor("w", false, WB_BFLOAT16, 1, 1, 1, c->cols);
        break;
    case WB_RING:
    case WB_FORWARD:
    case WB_BLOCK_MASK:
        tensors[n++] = O, tensors[n++] = L, tensors[n++] = Q, tensors[n++] = K, tensors[n++] = V;
        if (problem->sink_logits) tensors[n++] = sink_logits;
        if (problem->signature == WB_BLOCK_MASK) n += lists_of(c, tensors + n, (const void *[LISTS]){NULL});
        break;
    case WB_FP8: {
        const int tiles = wb_fp8_tiles(s->kv_len);
        tensors[n++] = O, tensors[n++] = L;
        tensors[n++] = tensor("Q", false, WB_E4M3, s->batch, s->q_heads, s->q_len, s->head_dim);
        tensors[n++] = tensor("K", false, WB_E4M3, s->batch, s->kv_heads, s->kv_len, s->head_dim);
        tensors[n++] = tensor("V", false, WB_E4M3, s->batch, s->kv_heads, tiles, s->head_dim * WB_FP8_KEYS);
        tensors[n++] = tensor("Q_exponent", false, WB_INT8, 1, s->batch, s->q_heads, s->q_len);
        tensors[n++] = tensor("K_exponent", false, WB_INT8, 1, s->batch, s->kv_heads, tiles);
        tensors[n] = as("V_exponent", false, tensors[n - 1]), n++;
        break;
    }
    case WB_DECODE: {
        const decode_shape d = wb_decode_shape(c);
        tensors[n++] = O, tensors[n++] = L, tensors[n++] = Q;
        tensors[n++] =
            tensor("K", false, problem->int8_cache ? WB_INT8 : type, d.pages, d.page_size, d.kv_heads, d.head_dim);
        tensors[n++] = as("V", false, tensors[3]);
        if (problem->int8_cache) {
            tensors[n++] = tensor("K_scale", false, WB_FLOAT32, 1, d.pages, d.kv_heads, d.page_size);
            tensors[n++] = as("V_scale", false, tensors[5]);
        }
        tensors[n++] = tensor("page_table", false, WB_INT32, 1, 1, d.batch, d.max_pages);
        tensors[n++] = tensor("kv_len", false, WB_INT32, 1, 1, 1, d.batch);
        break;
    }
    case WB_RING_BACKWARD:
    case WB_BACKWARD:
        tensors[n++] = as("dQ", true, O), tensors[n++] = as("dK", true, K), tensors[n++] = as("dV", true, V);
        if (problem->sink_logits) tensors[n++] = as("dsinks", true, sink_logits);
        tensors[n++] = as("delta", true, L);
        tensors[n++] = Q, tensors[n++] = K, tensors[n++] = V;
        if (problem->sink_logits) tensors[n++] = sink_logits;
        tensors[n++] = as("O", false, O), tensors[n++] = as("L", false, L), tensors[n++] = as("dO", false, O);
        break;
    }
    for (int k = 0; c->part && k < n; k++) tensors[k] = wb_shard_of(c, &tensors[k]);
    if (c->products) tensors[n++] = tensor("products", true, WB_FLOAT32, 1, 1, 1, c->products);
    return n;
}

size_t wb_tensor_alignment(const wb_tensor *t)
{
    const bool is_sum = strcmp(t->name, "x") == 0 || strcmp(t->name, "w") == 0;
    const bool is_array = (t->type == WB_FLOAT32 && !strstr(t->name, "_scale")) || is_sum ||
                          strstr(t->name, "_exponent") || (t->type == WB_INT32 && strcmp(t->name, "bits") != 0);
    return is_array ? wb_type_bytes(t->type) : 16;
}

int wb_tensor_named(const wb_tensor tensors[], int count, const char *name)
{
    for (int k = 0; k < count; k++)
        if (strcmp(tensors[k].name, name) == 0) return k;
    return -1;
}

// The logit t(j) that every query has for key j of a head.
static float logit(const wb_case *c, size_t head, size_t j, size_t keys)
{
    static const float turns[] = {0, 1000, -140, 140, -1000};
    switch (c->input) {
    case WB_EARLY_MAX: return j == 0 ? 8 : 0;
    case WB_LATE_MAX: return j + 1 == keys ? 8 : 0;
    case WB_BY_HEAD: return turns[head % (sizeof turns / sizeof *turns)];
    case WB_STAIRS: return 2 * (float)(j / 16);
    case WB_RISING: return 200 * (float)j / (float)keys;
    case WB_FALLING: return 200 - 200 * (float)j / (float)keys;
    default: return patterns[c->input].logit;
    }
}

// Inputs for a quantiser: `noise` of NORMAL, made larger or smaller. head, j: key head and key; of Q head and query.
static float resized(const wb_case *c, const wb_tensor *t, float noise, size_t head, size_t j, size_t d)
{
    const bool V = *t->name == 'V', Q = *t->name == 'Q';
    const int tile = (int)(j / WB_FP8_KEYS);
    if (c->input == WB_LEFTWARD)
        return Q ? noise : ldexpf(noise, V ? 20 - 3 * (tile < 8 ? tile : 8) : 2 - (tile < 8 ? tile : 8));
    if (c->input == WB_SIZES) {
        const uint64_t dice = mix(mix(c->seed ^ (uint64_t)*t->name) ^ mix(head << 32 ^ (Q ? j : (size_t)tile)));
        return ldexpf(noise, V ? (int)(dice % 17) - 8 : (int)(dice % 5) - 2);
    }
    if (Q && c->shape.kv_heads > 0 && c->shape.q_heads >= c->shape.kv_heads)
        head /= (size_t)(c->shape.q_heads / c->shape.kv_heads);
    switch (c->input) {
    case WB_ZERO_ROWS:  // K and V of a key take turns apart. At most 3.5 * 2^-123 / 127: denormal. V of 16: exponents
                        // are from -118, of zeros, to 2 at most, within 120
        if (c->levels)
            return Q                     ? (j % 3 == 1 ? 0 : noise)
                   : (tile + V) % 3 == 1 ? 0
                   : (tile + V) % 3      ? ldexpf(noise, -123)
                                         : ldexpf(noise, V ? (int)(mix(head) % 9) : 0);
        return Q || (j + V) % 3 == 0 ? noise : (j + V) % 3 == 1 ? 0 : ldexpf(noise, -123);
    case WB_OUTLIERS: return Q || d != mix(mix(head) ^ j) % t->dim[3] ? noise : noise < 0 ? -60 : 60;
    default: {
        const int most = c->levels ? 124 : 100, up = head % 2 ? most : -most, step = (int)(j % 5);
        return ldexpf(noise, Q ? -up : V && up < 0 ? -80 + step : up - step);
    }
    }
}

// A lesson's numbers, two columns of a few rows; elsewhere 0.
static float worked(const wb_case *c, char of, size_t j, size_t d)
{
    static const float Q1[] = {1, 0}, K1[] = {.5f, .3f, .8f, -.2f, .1f, .7f}, V1[] = {1, 0, 0, 1, .5f, .5f};
    static const float Q2[] = {1, .5f, .8f, -.1f, .2f, .9f, -.3f, .4f, .7f, .6f, .1f, -.5f};
    static const float K2[] = {.3f, .7f, .6f, .2f, -.1f, .8f, .4f, -.3f, .9f, .1f, .2f, .5f};
    static const float V2[] = {1, 0, 0, 1, .5f, .5f, .8f, .2f, .3f, .7f, .6f, .4f};
    const bool first = c->input == WB_WORKED_1;
    if (d >= 2 || j >= (!first ? 6u : of == 'Q' ? 1u : 3u)) return 0;
    if (of == 'd') return d ? -.5f : 1;
    return (of == 'Q' ? first ? Q1 : Q2 : of == 'K' ? first ? K1 : K2 : first ? V1 : V2)[2 * j + d];
}

static bool among(size_t j, int from, int count) { return (int)j >= from && (int)j < from + count; }

// Elements d0, d0 + 1, ... of a row, `count` of them. Q = u + noise / 4 and K(j) = c(j) u + noise with a fixed
// direction u of +-1, so that q . k is about c(j) D: c = t / (scale D).
static void attention_row(const wb_case *c, const wb_tensor *t, uint64_t stream, size_t row, size_t d0, size_t count,
                          float *x)
{
    const size_t D = t->dim[3], j = row % t->dim[2], head = row / t->dim[2];
    const char of = *t->name;
    const pattern_kind kind = patterns[c->input].kind;
    const bool is_nan = (of == 'd' && among(j, c->nan_from, c->nan_queries)) ||
                        (of == 'V' && among(j, c->nan_from, c->nan_keys)) ||
                        (of == 'V' && !c->page && c->nan_head && head + 1 == (size_t)c->nan_head);
    const wb_input input = c->input;
    if (is_nan || kind == PATTERN_WORKED) {
        for (size_t d = 0; d < count; d++) x[d] = is_nan ? NAN : worked(c, of, j, d0 + d);
        return;
    }
    for (size_t d = 0; d < count; d++) x[d] = normal(stream, row * D + d0 + d);
    if (kind == PATTERN_RESIZED)
        for (size_t d = 0; d < count; d++) x[d] = resized(c, t, x[d], head % t->dim[1], j, d0 + d);
    else if (of == 'V' && (input == WB_ONES || input == WB_ZERO_V || input == WB_MEAN_ONE))
        for (size_t d = 0; d < count; d++) x[d] = (input != WB_ZERO_V) + (input == WB_MEAN_ONE ? x[d] : 0);
    else if (of == 'd' && (input == WB_ZERO_DO || input == WB_TWICE_DO))
        for (size_t d = 0; d < count; d++) x[d] = input == WB_ZERO_DO ? 0 : 2 * x[d];
    else if (of != 'V' && of != 'd' && kind == PATTERN_LOGITS) {
        const float along = of == 'Q' ? 1 : logit(c, head, j, t->dim[2]) / (c->shape.scale * (float)D);
        for (size_t d = 0; d < count; d++) {
            const float u = mix(d0 + d) & 1 ? 1 : -1;
            if (input == WB_FLAT && of != 'Q') x[d] = normal(stream, head * D + d0 + d);
            x[d] = along * u + (of == 'Q' ? x[d] / 4 : x[d]);
        }
    }
}

static float sink_logit(const wb_case *c, uint64_t stream, size_t head)
{
    static const float turns[] = {3, -INFINITY, 0, 80, -80, -1};
    switch (c->logits) {
    case WB_LOGITS_GIVEN: return c->sink_logit;
    case WB_LOGITS_MIXED: return turns[head % (sizeof turns / sizeof *turns)];
    default: return 2 + 2 * normal(stream, head);
    }
}

static float row_sum_element(const wb_case *c, const wb_tensor *t, uint64_t stream, size_t index)
{
    static const float x1[] = {1, 2, 3, 4, 5, 6}, w1[] = {1, .5f, .25f};
    const bool is_x = *t->name == 'x';
    const size_t col = index % t->dim[3];
    const float noise = normal(stream, index);
    switch (c->input) {
    case WB_WORKED_1: return is_x ? (index < 6 ? x1[index] : 0) : (index < 3 ? w1[index] : 0);
    case WB_HUGE: return is_x ? (col % 2 ? -1000 : 1000) + noise : 1 + noise / 64;
    case WB_TINY: return !is_x ? noise : index / t->dim[3] % 3 == 1 ? 0 : noise / 1000;
    case WB_TOWER: return is_x ? noise * 1e18f : noise;
    case WB_ABYSS: return is_x ? noise * 1e-18f : noise;
    case WB_EARLY_MAX: return is_x && col == 0 ? 100 * noise : noise;
    case WB_LATE_MAX: return is_x && col + 1 == t->dim[3] ? 100 * noise : noise;
    case WB_FLAT: return is_x ? 0.75f : noise;
    case WB_ONES: return is_x ? noise : 1;
    case WB_ZERO_V: return is_x ? noise : 0;
    default: return noise;
    }
}

// Row `row` of an int8 cache, or its scale, of WB_ANY_BYTES.
static float any_bytes(int8_t *q, int D, size_t row, uint64_t seed)
{
    const uint64_t dice = mix(seed ^ mix(row));
    for (size_t d = 0; d < (size_t)D; d++) {
        const uint64_t x = mix(dice + d);
        q[d] = x % 7 ? (int8_t)(x >> 8) : -128;
    }
    return row % 5 == 0 ? 0 : (dice & 1 ? -1 : 1) * (1 + (float)(dice >> 40) * 0x1p-24f) / 128;
}

// Row `row` of an int8 cache, or its scale, from the floats of a cache of bf16; `used`: it is a sequence's.
static void fill_quantised(const wb_case *c, const wb_tensor *t, bool used, float *x, int D, size_t row,
                           size_t scale_at, void *data)
{
    static const float no_scale[] = {NAN, INFINITY, -INFINITY, 3e38f};
    int8_t q[MOST_DIM];
    for (int d = 0; d < D; d++) x[d] = wb_from_bf16(wb_to_bf16(x[d]));
    const float scale = !used                      ? no_scale[mix(row) % 4]
                        : c->input == WB_ANY_BYTES ? any_bytes(q, D, row, c->seed + (uint64_t)*t->name)
                                                   : wb_quantise_row(q, x, D);
    if (t->type == WB_FLOAT32) {
        ((float *)data)[scale_at] = scale;
        return;
    }
    for (int d = 0; !used && d < D; d++) q[d] = (int8_t)mix(row * (size_t)D + (size_t)d);
    memcpy((int8_t *)data + row * (size_t)D, q, (size_t)D);
}

// K or V of a paged cache: key j of a head of sequence b is that of a tensor [1, Hkv, kv_len[b], D]. Rows of no
// sequence are NaN: unused pages, and what is left of a last page. Of an int8 cache they are any numbers, and their
// scales NaN or infinite or huge. D: of K, where t has the scales.
static void fill_cache(const wb_case *c, const wb_tensor *t, uint64_t stream, void *data)
{
    wb_pages p = wb_pages_make(c);
    const bool scales = strcmp(t->name + 1, "_scale") == 0, quantised = scales || t->type == WB_INT8;
    const size_t rows = t->dim[scales ? 3 : 1], heads = t->dim[2];
    const size_t D = !scales ? t->dim[3] : c->shape.head_dim < 1 ? 1 : (size_t)c->shape.head_dim;
    const size_t columns = (size_t)(p.shape.max_pages < 1 ? 1 : p.shape.max_pages);
#pragma omp parallel for if (t->count > (size_t)1 << 22)
    for (size_t page = 0; page < t->dim[scales ? 1 : 0]; page++) {
        const bool used = p.owner[page] >= 0;
        const size_t b = used ? (size_t)p.owner[page] / columns : 0,
                     first = used ? (size_t)p.owner[page] % columns * rows : 0;
        const size_t keys = used ? (size_t)wb_case_keys(c, (int)b) : 0;
        const wb_tensor head = {.name = t->name, .dim = {1, heads, keys, D}};
        for (size_t n = 0; n < rows * heads; n++) {
            const size_t h = n % heads, j = first + n / heads, row = page * rows * heads + n;
            const bool is_nan = *t->name == 'V' && b * heads + h + 1 == (size_t)c->nan_head;
            float x[MOST_DIM];
            if (j < keys && !is_nan) attention_row(c, &head, mix(stream ^ b), h * keys + j, 0, D, x);
            for (size_t d = 0; d < D && (j >= keys || is_nan); d++) x[d] = NAN;
            const size_t scale_at = (page * heads + h) * rows + n / heads;
            if (quantised) fill_quantised(c, t, j < keys, x, (int)D, row, scale_at, data);
            for (size_t d = 0; d < D && !quantised; d++) wb_put(t->type, data, row * D + d, x[d]);
        }
    }
    wb_pages_free(&p);
}

// Any bytes but NaN, and an exponent with which they are not too large for logits.
static int any_e4m3(uint8_t *q, size_t count, uint64_t dice)
{
    for (size_t i = 0; i < count; i++) {
        q[i] = (uint8_t)(mix(dice + i) >> 8);
        if ((q[i] & 127) == 127) q[i]--;
    }
    return -9 + (int)(dice % 3);
}

// Bytes or exponents of flash_fp8, from the floats that problem 10 would have in their place, rounded to bf16.
static void fill_fp8(const wb_case *c, const wb_tensor *t, uint64_t stream, void *data)
{
    const bool Q = *t->name == 'Q', V = *t->name == 'V', exponents = t->name[1] == '_';
    const wb_tensor plain =
        tensor((char[]){*t->name, 0}, false, WB_BFLOAT16, c->shape.batch, Q ? c->shape.q_heads : c->shape.kv_heads,
               Q ? c->shape.q_len : c->shape.kv_len, c->shape.head_dim);
    const size_t D = plain.dim[3], N = plain.dim[2], most = Q ? 1 : WB_FP8_KEYS, tiles = (N - 1) / most + 1;
#pragma omp parallel for if (t->count > (size_t)1 << 16)
    for (size_t n = 0; n < plain.dim[0] * plain.dim[1] * tiles; n++) {
        const size_t head = n / tiles, first = n % tiles * most, rows = N - first < most ? N - first : most;
        float *x = malloc(most * D * sizeof *x);
        uint8_t *q = calloc(most * D, 1);
        if (!x || !q) abort();
        for (size_t r = 0; r < rows; r++) attention_row(c, &plain, stream, head * N + first + r, 0, D, x + r * D);
        for (size_t i = 0; i < rows * D; i++) x[i] = wb_from_bf16(wb_to_bf16(x[i]));
        int exponent = V ? wb_quantise_fp8_values(q, x, (int)rows, (int)D) : wb_quantise_fp8(q, x, (int)rows, (int)D);
        if (c->input == WB_ANY_BYTES) exponent = any_e4m3(q, V ? most * D : rows * D, mix(stream ^ mix(n)));
        for (size_t j = rows; V && c->input == WB_ANY_BYTES && j < most; j++)
            for (size_t d = 0; d < D; d++) q[d * most + (size_t)wb_fp8_place((int)j)] = 0;
        if (exponents)
            ((int8_t *)data)[n] = (int8_t)exponent;
        else
            memcpy((uint8_t *)data + (V ? n * most : head * N + first) * D, q, V ? most * D : rows * D);
        free(x), free(q);
    }
}

// page_table or kv_len. Of entries beyond the keys of a sequence every second names a page.
static void fill_table(const wb_case *c, const wb_tensor *t, void *data)
{
    wb_pages p = wb_pages_make(c);
    const int columns = p.shape.max_pages, page = p.shape.page_size;
    for (int entry = 0; page > 0 && columns > 0 && entry < p.shape.batch * columns; entry++)
        if (entry % columns * page >= p.kv_len[entry / columns] && entry % 2 == 0)
            p.table[entry] = (int)(mix((uint64_t)entry) >> 33) % (p.shape.pages < 1 ? 1 : p.shape.pages);
    memcpy(data, *t->name == 'p' ? p.table : p.kv_len, t->bytes);
    wb_pages_free(&p);
}

static void fill_attention(const wb_case *c, const wb_tensor *t, uint64_t stream, void *data)
{
    enum { AT_ONCE = 256 };
    const size_t D = t->dim[3];
#pragma omp parallel for if (t->count > (size_t)1 << 24)
    for (size_t row = 0; row < t->count / D; row++)
        for (size_t d0 = 0; d0 < D; d0 += AT_ONCE) {
            const size_t count = D - d0 < AT_ONCE ? D - d0 : AT_ONCE;
            float x[AT_ONCE];
            attention_row(c, t, stream, row, d0, count, x);
            for (size_t d = 0; d < count; d++) wb_put(t->type, data, row * D + d0 + d, x[d]);
        }
}

void wb_case_fill(const wb_problem *problem, const wb_case *c, const wb_tensor *t, void *data)
{
    if (problem->signature == WB_BLOCK_MASK && t->type == WB_INT32) {
        wb_tensor lists[LISTS];
        const void *at[LISTS];
        memcpy(data, at[wb_tensor_named(lists, lists_of(c, lists, at), t->name)], t->bytes);
        return;
    }
    uint64_t stream = mix(c->seed);
    const bool scales = t->name[1] == '_';  // those of Q, K or V: made of the same numbers
    for (const char *letter = t->name; *letter && !(scales && *letter == '_'); letter++)
        stream = mix(stream ^ (uint64_t)*letter);
    const bool is_sum = problem->signature == WB_ROW_SUM, is_logits = strcmp(t->name, "sink_logits") == 0;
    if (is_sum || is_logits)
        for (size_t i = 0; i < t->count; i++)
            wb_put(t->type, data, i, is_sum ? row_sum_element(c, t, stream, i) : sink_logit(c, stream, i));
    else if (problem->signature == WB_DECODE && t->type == WB_INT32)
        fill_table(c, t, data);
    else if (problem->signature == WB_FP8)
        fill_fp8(c, t, stream, data);
    else if (problem->signature == WB_DECODE && (*t->name == 'K' || *t->name == 'V'))
        fill_cache(c, t, stream, data);
    else
        fill_attention(c, t, stream, data);
}

// ------------------------ call
// One function of each signature has the type of them all (workbook.h).

#define CALL(one) ((__typeof__(one) *)function)
wb_status wb_call(const wb_problem *problem, wb_function function, const wb_case *c, void *const p[], wb_stream stream)
{
    const attention_shape *s = &c->shape;
    const wb_signature takes = problem->signature;
    const int at = problem->int8_cache ? 9 : takes == WB_DECODE ? 7 : takes == WB_RING ? 5 : 10;
    const bool has_workspace = takes == WB_DECODE || wb_has_ranks(problem);
    const wb_workspace *w = has_workspace ? p[at] : NULL;
    decode_shape shape = {0};
    block_mask mask = {0}, *given = strcmp(c->null, "mask") == 0 ? NULL : &mask;
    switch (takes) {
    case WB_ROW_SUM: return CALL(weighted_row_sum)(p[0], p[1], p[2], c->rows, c->cols, stream);
    case WB_BLOCK_MASK:
        mask = (block_mask){c->q_tile, c->kv_tile, c->masks, p[5], p[6], p[7], p[8], p[9]};
        return CALL(flash_block_mask)(p[0], p[1], p[2], p[3], p[4], given, s, stream);
    case WB_DECODE:
        shape = wb_decode_shape(c);
        if (problem->int8_cache)
            return CALL(flash_decode_int8)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], w->at, w->bytes,
                                           &shape, stream);
        return CALL(flash_decode)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], w->at, w->bytes, &shape, stream);
    case WB_FP8: return CALL(flash_fp8)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], c->levels, s, stream);
    case WB_RING: return CALL(flash_ring)(p[0], p[1], p[2], p[3], p[4], w->at, w->bytes, s, p[6], stream);
    case WB_RING_BACKWARD:
        return CALL(flash_ring_backward)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], w->at, w->bytes, s,
                                         p[11], stream);
    case WB_BACKWARD:
        if (problem->sink_logits)
            return CALL(flash_sink_logits_backward)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10],
                                                    p[11], s, stream);
        return CALL(flash_gqa_backward)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], s, stream);
    default:
        if (problem->on_host) return CALL(tiled_attention)(p[0], p[1], p[2], p[3], p[4], s);
        if (problem->sink_logits) return CALL(flash_sink_logits)(p[0], p[1], p[2], p[3], p[4], p[5], s, stream);
        return CALL(flash_forward)(p[0], p[1], p[2], p[3], p[4], s, stream);
    }
}

double wb_case_visible_pairs(const wb_problem *problem, const wb_case *c)
{
    const attention_shape *s = &c->shape;
    if (problem->signature == WB_BLOCK_MASK) {
        const block_mask *m = &wb_case_mask_of(c)->lists;
        const int q_tiles = (s->q_len - 1) / m->q_tile + 1, last = s->q_len - (q_tiles - 1) * m->q_tile;
        double pairs = 0;  // of the masks, on average
        for (int b = 0; b < m->masks; b++)
            for (int t = 0; t < q_tiles; t++) {
                const int *whole = m->whole_start + b * (q_tiles + 1) + t;
                pairs += (double)(whole[1] - whole[0]) * m->kv_tile * (t + 1 < q_tiles ? m->q_tile : last);
            }
        const size_t parts = (size_t)m->part_start[m->masks * (q_tiles + 1) - 1];
        for (size_t n = 0; n < parts * (size_t)m->q_tile * (size_t)(m->kv_tile / 32); n++)
            pairs += __builtin_popcount(m->bits[n]);
        return pairs / m->masks;
    }
    if (problem->signature == WB_DECODE) {
        double seen = 0;
        for (int b = 0; b < s->batch; b++)
            for (int i = 0, keys = wb_case_keys(c, b); i < s->q_len; i++)
                seen += keys - s->q_len + i + 1 > 0 ? keys - s->q_len + i + 1 : 0;
        return s->batch > 0 ? seen / s->batch : 0;
    }
    const bool causal = problem->mask != WB_NO_MASK && s->causal;
    if (!causal) return (double)s->q_len * s->kv_len;
    double pairs = 0;
    for (int i = 0; i < s->q_len; i++) {
        const int window = problem->window && s->window < i + 1 ? s->window : i + 1;
        const int hidden = i + 1 - window, sinks = problem->sinks ? s->sinks : 0;
        pairs += window + (sinks < hidden ? sinks : hidden);
    }
    return pairs;
}
