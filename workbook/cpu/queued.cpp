// queued.cpp - what a rank queues, in the order of the host's calls: rows for a picture of what computes and what
// travels (../timeline). Only where somebody asked (../asks.h). A row says behind what its work is ordered, by the
// clock of its stream (flight.h). Of a group of messages each message is a row.
//
// Ranks are processes of which one has started the others. They share the file that it has opened, and each adds its
// rows at once.
#include "flight.h"

#include "../asks.h"

#include <deque>
#include <string.h>

namespace cudacpu
{
static FILE *file;
static bool wanted;
static std::deque<flight_row> &rows = *new std::deque<flight_row>;

bool queued_wanted() { return file && wanted; }

flight_row *queued_add(const flight_row &row)
{
    rows.push_back(row);
    return &rows.back();
}

static std::string clock_text(const flight_clock &c)
{
    std::string text;
    for (int s = 0; s < STREAMS; s++)
        if (c.at[s]) text += (text.empty() ? "" : " ") + std::to_string(s) + ":" + std::to_string(c.at[s]);
    return text.empty() ? "-" : text;
}

// kind name file line cost at peer turn: of the work, or of one of its messages.
static std::string columns(const char *kind, const char *name, call_site site, double cost, const void *at, int peer,
                           int turn)
{
    char text[512];
    const char *slash = site.file ? strrchr(site.file, '/') : nullptr;
    snprintf(text, sizeof text, "%s\t%s\t%s\t%d\t%.0f\t%zx\t%d\t%d", kind, name,
             slash       ? slash + 1
             : site.file ? site.file
                         : "?",
             site.line, cost, reinterpret_cast<size_t>(at), peer, turn);
    return text;
}

void queued_write()
{
    if (!file) return;
    std::string text;
    for (const flight_row &w : rows) {
        std::vector<std::string> lines;
        for (const flight_item &i : w.items)
            lines.push_back(columns(i.kind, i.call, i.site, static_cast<double>(i.bytes), i.at, i.peer, i.turn));
        if (lines.empty()) lines.push_back(columns(w.kind, w.name.c_str(), w.site, w.cost, w.keys, -1, -1));
        const std::string who = std::to_string(nccl_rank() < 0 ? 0 : nccl_rank()) + "\t" + std::to_string(w.order) +
                                "\t" + std::to_string(w.stream) + "\t" + std::to_string(w.number) + "\t";
        for (const std::string &line : lines) text += who + line + "\t" + clock_text(w.before) + "\n";
    }
    if (fwrite(text.data(), 1, text.size(), file) != text.size() || fflush(file)) perror("rows of a rank");
    rows.clear();
}
}

extern "C" bool wb_record_ranks(const char *path, const char *head)
{
    using namespace cudacpu;
    if (file) fclose(file);
    file = fopen(path, "w");
    if (file) fclose(file);
    file = fopen(path, "a");
    if (!file) return false;
    setvbuf(file, nullptr, _IONBF, 0);  // what is written at once lies together
    fprintf(file, "%s\nrank\torder\tstream\tnumber\tkind\tname\tfile\tline\tcost\tat\tpeer\tturn\tclock\n", head);
    return fflush(file) == 0;
}

extern "C" void wb_record_queued(bool from_here_on) { cudacpu::wanted = from_here_on; }
