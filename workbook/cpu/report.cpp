// report.cpp - printing reports: who, where, the line of source.
#include "hooks.h"
#include "report.h"

#include <atomic>
#include <stdarg.h>
#include <unistd.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define HAVE_BACKTRACE
#endif
#ifdef __ELF__
#include <link.h>
#endif

namespace cudacpu
{
static const char *what_kind;

void report_begin(const char *kind)
{
    static std::atomic<int> begun;
    if (begun.exchange(1)) {
        for (;;) pause();
    }
    what_kind = kind;
    open_host_stack();
    fprintf(stderr, "cudacpu: %s", kind);
    if (current) {
        const block &b = *current;
        fprintf(stderr, " in kernel %s, block (%u,%u,%u)", hook_kernel_name(b), b.index.x, b.index.y, b.index.z);
        if (b.running)
            fprintf(stderr, ", thread (%u,%u,%u)", b.running->index.x, b.running->index.y, b.running->index.z);
    }
    fputc('\n', stderr);
}

void report_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("   ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void report_place(call_site site)
{
    if (!site.file) return;
    char here[512];
    if (getcwd(here, sizeof here)) {  // a path below this directory is shown without it
        const size_t length = strlen(here);
        if (strncmp(site.file, here, length) == 0 && site.file[length] == '/') site.file += length + 1;
    }
    report_line("at %s:%d", site.file, site.line);
    FILE *file = fopen(site.file, "r");
    if (!file) return;
    char text[512];
    for (int line = 1; fgets(text, sizeof text, file); line += strchr(text, '\n') != nullptr) {
        if (line != site.line) continue;
        text[strcspn(text, "\r\n")] = 0;
        report_line("   | %s", text + strspn(text, " \t"));
        break;
    }
    fclose(file);
}

void report_end()
{
    hook_report_end(what_kind);
    fflush(stdout);
    fflush(stderr);
    _exit(EXIT_REPORT);
}

void report(const char *kind, call_site site, const char *format, ...)
{
    report_begin(kind);
    va_list arguments;
    va_start(arguments, format);
    fputs("   ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
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
        used += static_cast<size_t>(
            snprintf(text + used, size - used, last > first ? "%s%d-%d" : "%s%d", used ? ", " : "", first, last));
        first = last;
    }
}

// ---------------------------------------------------------------------------------------------- from an instruction to a line
// The debug information knows, and addr2line, which comes with every compiler on Linux, reads it.

#ifdef __ELF__

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

// Whether a line is the student's: not the layer's, not the compiler's.
static bool is_students(const char *file)
{
    return file[0] != '?' && !strstr(file, "cpu/include/") && !strstr(file, "workbook/cpu/") &&
           strncmp(file, "/usr/", 5) != 0 && !strstr(file, "/sysdeps/");
}

// Prints the student's lines that this instruction came from, inlined calls included, innermost first; false if there are none.
static bool print_lines(uintptr_t code)
{
    object o = {code, "", 0};
    if (!dl_iterate_phdr(holds_code, &o) || !o.path[0] || strchr(o.path, '\'')) return false;
    char command[640], text[1024];
    snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%lx 2>/dev/null", o.path,
             static_cast<unsigned long>(code - o.base));
    FILE *lines = popen(command, "r");
    if (!lines) return false;
    int printed = 0;
    while (fgets(text, sizeof text, lines)) {
        char *colon = strrchr(text, ':');
        if (!colon || !is_students(text)) continue;
        *colon = 0;
        if (printed++ < 4) report_place({text, atoi(colon + 1)});
    }
    pclose(lines);
    return printed > 0;
}

void report_code(void *program_counter)
{
    const uintptr_t code = reinterpret_cast<uintptr_t>(program_counter);
    if (print_lines(code)) return;
#ifdef HAVE_BACKTRACE  // not in the student's code, but called from there
    void *frames[32];
    const int count = backtrace(frames, 32);
    int at = 0;
    while (at < count && frames[at] != program_counter) at++;
    for (int i = at + 1; i < count && i < at + 8; i++)
        if (print_lines(reinterpret_cast<uintptr_t>(frames[i]) - 1)) return;
#endif
}

#else
void report_code(void *) {}
#endif
}
