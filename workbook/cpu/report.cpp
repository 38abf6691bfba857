// report.cpp - printing reports: who, where, the line of source.
#include "flight.h"

#include <execinfo.h>
#include <link.h>
#include <stdarg.h>

namespace cudacpu
{
static const char *what_kind;

static int told_file = -1;
static auto &named = *new std::vector<std::pair<std::string, int>>;  // in the order in which they are told

void report_names(const char *file, int line)
{
    const char *slash = strrchr(file, '/');
    const std::pair<std::string, int> place(slash ? slash + 1 : file, line);
    if (std::find(named.begin(), named.end(), place) == named.end()) named.push_back(place);
}

void report_record(const char *kind, const char *section)
{
    std::string record = std::string(kind) + "\t";
    for (const auto &[file, line] : named) record += " " + file + ":" + std::to_string(line);
    (record += std::string("\t") + section).resize(WB_FINDING);
    if (told_file >= 0 && pwrite(told_file, record.data(), WB_FINDING, 0) < 0) told_file = -1;
}

const char *leaf(call_site site)
{
    static char text[4][160];
    static int n;
    char *t = text[n = (n + 1) % 4];
    int from = 0;
    site = students(site, &from);
    const char *slash = site.file ? strrchr(site.file, '/') : nullptr;
    if (site.file) report_names(site.file, site.line);
    const int used = snprintf(t, 160, "%s:%d", slash ? slash + 1 : site.file ? site.file : "?", site.line);
    if (from && used < 120) snprintf(t + used, 40, " (called at line %d)", from);
    return t;
}

void report_begin(const char *kind)
{
    static std::atomic<int> begun;
    if (begun.exchange(1)) {
        for (;;) pause();
    }
    nccl_alone();
    what_kind = kind;
    open_host_stack();
    fprintf(stderr, "cudacpu: %s", kind);
    if (current) {
        const block &b = *current;
        fprintf(stderr, " in kernel %s, block (%u,%u,%u)", hook_kernel_name(b), b.index.x, b.index.y, b.index.z);
        if (b.running)
            fprintf(stderr, ", thread (%u,%u,%u)", b.running->index.x, b.running->index.y, b.running->index.z);
    }
    if (nccl_rank() >= 0) fprintf(stderr, " on rank %d", nccl_rank());
    fputc('\n', stderr);
}

static void report_sentence(const char *format, va_list arguments)
{
    fputs("   ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void report_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report_sentence(format, arguments);
    va_end(arguments);
}

const char *from_here(const char *file)
{
    for (const char *at = file; at && *at == '/'; at = strchr(at, '/'))
        if (access(++at, R_OK) == 0) return at;
    return file;
}

void report_source(const char *name, int line, const char *indent)
{
    FILE *file = fopen(name, "r");
    char text[512];
    report_names(name, line);
    for (int n = 1; file && fgets(text, sizeof text, file); n += strchr(text, '\n') != nullptr) {
        if (n != line) continue;
        text[strcspn(text, "\r\n")] = 0;
        fprintf(stderr, "%s| %s\n", indent, text + strspn(text, " \t"));
        break;
    }
    if (file) fclose(file);
}

void report_place(call_site site)
{
    if (!site.file) return;
    int from = 0;
    site = students(site, &from);
    site.file = from_here(site.file);
    report_line("at %s:%d", site.file, site.line);
    report_source(site.file, site.line, "      ");
    if (from) report_place({site.file, from});
}

void report_end()
{
    report_record(what_kind, hook_report_end(what_kind));
    fflush(stdout);
    fflush(stderr);
    _exit(EXIT_REPORT);
}

void report(const char *kind, call_site site, const char *format, ...)
{
    report_begin(kind);
    va_list arguments;
    va_start(arguments, format);
    report_sentence(format, arguments);
    va_end(arguments);
    if (site.file && !site.reached && is_tile_vocabulary(site.file) && current)
        report_code(__builtin_return_address(0));
    else
        report_place(hook_place(site, current ? current->running : nullptr));
    report_end();
}

void trap(call_site site) { report("trap", site, "the kernel called __trap()"); }

void lane_list(unsigned lanes, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int first = 0; first < WARP && used + 16 < size; first++) {
        if (!(lanes >> first & 1)) continue;
        int last = first;
        while (last + 1 < WARP && lanes >> (last + 1) & 1) last++;
        used += (snprintf(text + used, size - used, last > first ? "%s%d-%d" : "%s%d", used ? ", " : "", first, last));
        first = last;
    }
}

// ------------------------ from an instruction to a line
// The debug information knows, and addr2line, which comes with every compiler on Linux, reads it.

bool is_tile_vocabulary(const char *file)
{
    const char *name = strrchr(file, '/');
    static const char *const words[] = {"fragments.cuh", "tile.cuh", "hopper.cuh", "paged.cuh", "int8.cuh", "e4m3.cuh"};
    for (const char *word : words)
        if (strcmp(name ? name + 1 : file, word) == 0) return true;
    return false;
}

bool is_students(const char *file)
{
    return file[0] != '?' && !strstr(file, "cpu/include/") && !strstr(file, "workbook/cpu/") &&
           strncmp(file, "/usr/", 5) != 0 && !strstr(file, "/sysdeps/");
}

void short_name(const char *function, char *name, size_t size)
{
    name[0] = 0;
    if (strstr(function, "{lambda") || strncmp(function, "cudacpu::", 9) == 0 || function[0] == '_') return;
    const char *end = function + strcspn(function, "<(\n");
    if (strncmp(function, "void ", 5) == 0) function += 5;
    for (const char *p = function; p < end; p++)
        if (*p == ' ' || *p == ':') function = p + 1;
    if (end > function && size_t(end - function) < size && strncmp(function, "operator", 8) != 0)
        snprintf(name, size, "%.*s", int(end - function), function);
}

struct object {
    uintptr_t code;  // looked for
    char path[512];
    uintptr_t base;
};

static int holds_code(dl_phdr_info *info, size_t, void *data)
{
    object &o = *static_cast<object *>(data);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) &segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || o.code - info->dlpi_addr - segment.p_vaddr >= segment.p_memsz) continue;
        o.base = info->dlpi_addr;
        if (info->dlpi_name && info->dlpi_name[0]) {
            snprintf(o.path, sizeof o.path, "%s", info->dlpi_name);
        } else {
            const ssize_t length = readlink("/proc/self/exe", o.path, sizeof o.path - 1);
            o.path[length > 0 ? length : 0] = 0;
        }
        return 1;
    }
    return 0;
}

void each_line(const std::vector<uintptr_t> &codes, const line_seen &f)
{
    object o = {codes.empty() ? 0 : codes[0], "", 0};
    if (!o.code || !environment("CUDACPU_PLACES", 1) || !dl_iterate_phdr(holds_code, &o) || !o.path[0] ||
        strchr(o.path, '\''))
        return;
    std::string command = std::string("addr2line -afCi -e '") + o.path + "' 2>/dev/null";
    for (uintptr_t code : codes) {
        char address[20];
        snprintf(address, sizeof address, " %lx", code - o.base);
        command += address;
    }
    FILE *const answer = popen(command.c_str(), "r");
    static char text[1 << 16], function[sizeof text];  // names of lambdas in templates are long
    // For each address: itself, then pairs of function and file:line, callers of inlined code behind it.
    for (size_t n = 0; answer && fgets(text, sizeof text, answer);) {
        text[strcspn(text, "\n")] = 0;
        n += strncmp(text, "0x", 2) == 0;
        if (strncmp(text, "0x", 2) == 0) continue;
        strcpy(function, text);
        char *const colon = fgets(text, sizeof text, answer) ? strrchr(text, ':') : nullptr;
        if (colon) *colon = 0, f(n - 1, function, text, atoi(colon + 1));
    }
    if (answer) pclose(answer);
}

// Prints those that are the student's, or with `words` those of tile.cuh and its like; false if there are none.
static bool print_lines(uintptr_t code, bool words)
{
    int printed = 0;
    each_line({code}, [&](size_t, const char *, const char *file, int line) {
        if (line && is_students(file) && is_tile_vocabulary(file) == words && printed++ < 4) report_place({file, line});
    });
    return printed > 0;
}

void report_code(void *program_counter, bool callers)
{
    const uintptr_t code = address_of(program_counter);
    bool found = print_lines(code, false);
    if (found && !callers) return;
    // Not in the student's code, but called from there.
    void *frames[32];
    const int count = backtrace(frames, 32);
    int at = 0;
    while (at < count && frames[at] != program_counter) at++;
    for (int i = at + 1; i < count && i < at + 12; i++)
        if (print_lines(address_of(frames[i]) - 1, false)) {
            found = true;
            if (!callers) return;
        }
    if (!found) print_lines(code, true);
}

extern "C" char __executable_start[] __attribute__((weak));

static std::vector<call_trace> &traces = *new std::vector<call_trace>(1);
call_trace &called(int reached) { return traces[reached]; }
int keep_trace(const call_trace &t)
{
    traces.push_back(t);
    return int(traces.size()) - 1;
}

call_site reached(call_site site)
{
    call_trace t = {};
    void *frames[CALLS];
    for (int n = backtrace(frames, CALLS) - 1; n >= 0; n--)
        t.from[n] = static_cast<char *>(frames[n]) - __executable_start;
    site.reached = keep_trace(t);
    return site;
}

// What is looked for is the last of the student's lines that stand together, from the call outwards.
call_site students(call_site site, int *from)
{
    static char files[8][256];  // several may be on their way to be printed
    static int turn;
    call_site last = {};
    bool beyond = false;
    for (int n = 0; site.reached && n < CALLS && !beyond; n++) {
        const intptr_t code = called(site.reached).from[n];
        const uintptr_t inside = address_of(__executable_start + code) - 1;
        if (!code) continue;
        each_line({inside}, [&](size_t, const char *, const char *text, int line) {
            const char *file = from_here(text);
            const bool is = line && is_students(text) && strncmp(file, "workbook/", 9) != 0 && strlen(file) < 256;
            beyond |= last.file && !is;
            if (!is || beyond) return;
            if (!last.file) turn = (turn + 1) % 8;
            last = {strcpy(files[turn], file), line};
        });
    }
    site.reached = 0;
    if (!last.file || !site.file) return site;
    if (strncmp(from_here(site.file), "workbook/", 9) == 0) return last;
    // What another rank has called comes without its folder.
    const char *const here = from_here(site.file), *const slash = strrchr(last.file, '/');
    const bool same = strcmp(here, last.file) == 0 || (slash && strcmp(here, slash + 1) == 0);
    if (from && same && site.line != last.line) *from = last.line;
    return site;
}

const char *own_name(const kernel &what)
{
    static char name[64];
    *name = 0;
    // Of inlined calls the last is the kernel. In a stripped library the name is its neighbour's, and has no line.
    each_line({address_of(what.address)}, [](size_t, const char *function, const char *file, int) {
        if (*file != '?') short_name(function, name, sizeof name);
    });
    const size_t length = strlen(name);  // as written it may have arguments of a template: they are worth more
    const char after = strncmp(what.name, name, length) == 0 ? what.name[length] : 'x';
    return !length || !after || after == '<' ? what.name : name;
}
}

void wb_report_to(int file) { cudacpu::told_file = file; }
