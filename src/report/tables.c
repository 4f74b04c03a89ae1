#include "report/tables.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "report/columns.h"
#include "report/evidence.h"
#include "report/json_read.h"

/* If there are more than LISTED_MAX connections, only the first SHOWN are printed. */
enum { LISTED_MAX = 40, SHOWN = 24 };

/* Returns true if the connection is inside a host, so that it has no ports or GIDs. */
static bool is_inside(const json_t *connection)
{
    return strcmp(json_read_text(connection, "transport", "net"), "net") != 0;
}

/* Returns true if a host has several connected ranks, so that its name does not identify a rank. */
static bool shares_hosts(const json_t *connections)
{
    const json_t *connection;
    size_t i;

    json_array_foreach(connections, i, connection)
    {
        if (is_inside(connection)) {
            return true;
        }
    }
    return false;
}

static void end_cells(struct columns *columns, const json_t *connection, bool with_ranks)
{
    const char *from = json_read_text(connection, "from_host", "?");
    const char *to = json_read_text(connection, "to_host", "?");

    if (with_ranks) {
        columns_cell(columns, "%lld %s", (long long)json_read_int(connection, "from", -1),
                     from);
        columns_cell(columns, "→ %lld %s", (long long)json_read_int(connection, "to", -1),
                     to);
    } else {
        columns_cell(columns, "%s", from);
        columns_cell(columns, "→ %s", to);
    }
}

static void inside_cells(struct columns *columns, const json_t *connection)
{
    columns_cell(columns, "%s", json_read_text(connection, "transport", "?"));
    columns_cell(columns, "%s", json_read_text(connection, "reason", ""));
    for (int i = 0; i < 3; i++) {
        columns_cell(columns, "-");
    }
    columns_cell(columns, "inside");
    columns_cell(columns, "-");
}

/* Prints the relaying hosts in order; if there are more than three, the first, the last and their
 * number. */
static void via_cell(struct columns *columns, const json_t *via)
{
    size_t n = json_array_size(via);
    struct weft_text text = {NULL, 0, 0};

    for (size_t i = 0; i < n && n <= 3; i++) {
        const char *hop = json_string_value(json_array_get(via, i));

        weft_text_add(&text, "%s%s", i > 0 ? ", " : "", hop != NULL ? hop : "?");
    }
    if (n > 3) {
        const char *first = json_string_value(json_array_get(via, 0));
        const char *last = json_string_value(json_array_get(via, n - 1));

        weft_text_add(&text, "%s ... %s, %zu hosts", first != NULL ? first : "?",
                      last != NULL ? last : "?", n);
    }
    columns_cell(columns, "%s", n == 0 ? "direct" : text.bytes);
    weft_text_fini(&text);
}

static void net_cells(struct columns *columns, const json_t *connection)
{
    int64_t setup_ns = json_read_int(connection, "setup_ns", -1);

    columns_cell(columns, "%s → %s", json_read_text(connection, "local_port", "?"),
                 json_read_text(connection, "remote_port", "?"));
    columns_cell(columns, "%s → %s", json_read_text(connection, "local_gid", "?"),
                 json_read_text(connection, "remote_gid", "?"));
    columns_cell(columns, "%s", json_read_text(connection, "gid_type", "?"));
    columns_cell(columns, "%lld", (long long)json_read_int(connection, "path_mtu", 0));
    columns_cell(columns, "%lld", (long long)json_read_int(connection, "qps", 0));
    via_cell(columns, json_object_get(connection, "via"));
    if (setup_ns >= 0) {
        columns_cell(columns, "%.1fus", (double)setup_ns / 1e3);
    } else {
        columns_cell(columns, "-");
    }
}

void report_connections(const json_t *document, bool all,
                        const struct report_style *style, struct weft_text *out)
{
    static const char *const heads[] = {"from", "to",  "port", "gid",   "type",
                                        "mtu",  "qps", "via",  "set-up"};
    const json_t *connections = json_object_get(document, "connections");
    size_t n = json_array_size(connections);
    size_t shown = all || n <= LISTED_MAX ? n : SHOWN;
    bool with_ranks = shares_hosts(connections);
    struct columns columns;

    if (n == 0) {
        return;
    }
    columns_init(&columns, heads, WEFT_LENGTH(heads));
    columns_right(&columns, 5);
    columns_right(&columns, 6);
    columns_right(&columns, 8);
    for (size_t i = 0; i < shown; i++) {
        const json_t *connection = json_array_get(connections, i);

        columns_row(&columns);
        end_cells(&columns, connection, with_ranks);
        if (is_inside(connection)) {
            inside_cells(&columns, connection);
        } else {
            net_cells(&columns, connection);
        }
    }
    weft_text_add(out, "\n%sconnections%s\n", style->bold, style->off);
    columns_print(&columns, "  ", out);
    if (shown < n) {
        weft_text_add(out, "  ... and %zu more: -v, or --json\n", n - shown);
    }
    columns_fini(&columns);
}

/* Formats bus bandwidth as a share of the bound; "-" if there is no bound or no result. */
static void share_of_limit(const json_t *job, char *out, size_t out_bytes)
{
    double limit = json_read_real(job, "limit_gBps", 0);
    double bus = json_read_real(job, "bus_bw_gBps", 0);

    if (limit > 0 && bus > 0) {
        weft_format(out, out_bytes, "%.1f%%", 100 * bus / limit);
    } else {
        weft_format(out, out_bytes, "-");
    }
}

/* Maximum number of output lines printed per program, the last ones, unless all are requested. */
enum { SAID_MAX = 12 };

static void add_output(const json_t *program, bool all, struct weft_text *out)
{
    const char *host = json_read_text(program, "host", "?");
    const char *text = json_read_text(program, "output", "");
    int64_t n_left_out = json_read_int(program, "output_left_out", 0);
    size_t n_lines = 0;

    for (const char *at = text; *at != '\0'; at++) {
        n_lines += *at == '\n';
    }
    if (!all && n_lines > SAID_MAX) {
        weft_text_add(out, "  %s: ... (%zu lines more: -v, or --json)\n", host,
                      n_lines - SAID_MAX);
    }
    for (size_t i = 0; *text != '\0'; i++) {
        size_t n = strcspn(text, "\n");

        if (all || i + SAID_MAX >= n_lines) {
            weft_text_add(out, "  %s: ", host);
            for (size_t j = 0; j < n; j++) {
                bool is_control = (unsigned char)text[j] < ' ' && text[j] != '\t';

                weft_text_add(out, "%c", is_control ? '?' : text[j]);
            }
            weft_text_add(out, "\n");
        }
        text += n + (text[n] == '\n' ? 1 : 0);
    }
    if (n_left_out > 0) {
        weft_text_add(out, "  %s: ... (%lld bytes were not kept)\n", host,
                      (long long)n_left_out);
    }
}

static void status_cell(struct columns *columns, const json_t *program)
{
    const char *ended = json_read_text(program, "ended", "?");
    int64_t status = json_read_int(program, "status", -1);

    if (strcmp(ended, "exited") == 0) {
        columns_cell(columns, "%lld", (long long)status);
    } else if (strcmp(ended, "signal") == 0) {
        columns_cell(columns, "signal %lld",
                     (long long)json_read_int(program, "signal", 0));
    } else {
        columns_cell(columns, "%s", ended);
    }
}

static void time_cell(struct columns *columns, int64_t time_ns, bool is_known)
{
    if (is_known) {
        columns_cell(columns, "%.3fms", (double)time_ns / 1e6);
    } else {
        columns_cell(columns, "-");
    }
}

void report_programs(const json_t *job, bool all, const struct report_style *style,
                     struct weft_text *out)
{
    static const char *const heads[] = {"host", "status", "began", "took", "command"};
    const json_t *programs = json_object_get(job, "programs");
    const json_t *program;
    struct columns columns;
    size_t i;

    columns_init(&columns, heads, WEFT_LENGTH(heads));
    columns_right(&columns, 2);
    columns_right(&columns, 3);
    json_array_foreach(programs, i, program)
    {
        const char *command = json_read_text(program, "command", "");
        int64_t began = json_read_int(program, "began_ns", -1);
        int64_t ended = json_read_int(program, "ended_ns", -1);

        columns_row(&columns);
        columns_cell(&columns, "%s", json_read_text(program, "host", "?"));
        status_cell(&columns, program);
        time_cell(&columns, began, began >= 0);
        time_cell(&columns, ended - began, began >= 0 && ended >= 0);
        columns_cell(&columns, "%.*s%s", (int)strcspn(command, "\n"), command,
                     strchr(command, '\n') != NULL ? " ..." : "");
    }
    weft_text_add(out, "\n%sprograms of job %lld%s\n", style->bold,
                  (long long)json_read_int(job, "index", 0), style->off);
    columns_print(&columns, "  ", out);
    columns_fini(&columns);
    json_array_foreach(programs, i, program)
    {
        add_output(program, all, out);
    }
}

void report_jobs(const json_t *document, bool all, const struct report_style *style,
                 struct weft_text *out)
{
    const json_t *jobs = json_object_get(document, "jobs");
    const char *job_name = "";
    const json_t *job;
    size_t i;

    json_array_foreach(jobs, i, job)
    {
        const char *name = json_read_text(job, "job", "?");
        int64_t nwrong = json_read_int(job, "nwrong", -1);
        int64_t time_ns = json_read_int(job, "time_ns", -1);
        char share[16];
        char wrong[24];
        char time[24] = "-";

        if (json_object_get(job, "programs") != NULL) {
            report_programs(job, all, style, out);
            continue;
        }
        if (strcmp(name, job_name) != 0) {
            job_name = name;
            weft_text_add(out, "\n%s%s%s\n", style->bold, name, style->off);
            weft_text_add(out, "#%13s %12s %8s %6s %6s %11s %8s %8s %7s %9s  %s\n",
                          "size", "count", "type", "redop", "root", "time", "algbw",
                          "busbw", "#wrong", "of limit", "algorithm");
            weft_text_add(out, "#%13s %12s %8s %6s %6s %11s %8s %8s\n", "(B)",
                          "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)");
        }
        share_of_limit(job, share, sizeof(share));
        weft_format(wrong, sizeof(wrong), nwrong < 0 ? "N/A" : "%lld", (long long)nwrong);
        if (time_ns >= 0) {
            weft_format(time, sizeof(time), "%.3f", (double)time_ns / 1e3);
        }
        weft_text_add(
            out, " %13lld %12lld %8s %6s %6lld %11s %8.2f %8.2f %s%7s%s %9s  %s\n",
            (long long)json_read_int(job, "size_bytes", 0),
            (long long)json_read_int(job, "count", 0),
            json_read_text(job, "dtype", "none"), json_read_text(job, "op", "none"),
            (long long)json_read_int(job, "root", -1), time,
            json_read_real(job, "alg_bw_gBps", 0), json_read_real(job, "bus_bw_gBps", 0),
            nwrong == 0  ? style->good
            : nwrong < 0 ? ""
                         : style->bad,
            wrong, style->off, share, json_read_text(job, "algorithm", "-"));
    }
}

void report_links(const json_t *document, bool all, struct weft_text *out)
{
    static const char *const heads[] = {"cable", "bytes", "packets", "drops", "busy"};
    struct columns columns;
    const json_t *link;
    bool any = false;
    size_t i;

    columns_init(&columns, heads, WEFT_LENGTH(heads));
    for (unsigned c = 1; c < WEFT_LENGTH(heads); c++) {
        columns_right(&columns, c);
    }
    json_array_foreach(json_object_get(document, "links"), i, link)
    {
        int64_t drops = json_read_int(link, "drops", 0);

        if (!all && drops == 0) {
            continue;
        }
        any = true;
        columns_row(&columns);
        columns_cell(&columns, "%s", json_read_text(link, "link", "?"));
        columns_cell(&columns, "%lld", (long long)json_read_int(link, "bytes", 0));
        columns_cell(&columns, "%lld", (long long)json_read_int(link, "packets", 0));
        columns_cell(&columns, "%lld", (long long)drops);
        columns_cell(&columns, "%.1f%%", 100 * json_read_real(link, "utilisation", 0));
    }
    if (any) {
        weft_text_add(out, "\ncables\n");
        columns_print(&columns, "  ", out);
    }
    columns_fini(&columns);
}

/* Returns true if a finding explains why the run failed, so that its tables are not needed. */
static bool is_explained(const json_t *document)
{
    const json_t *finding;
    size_t i;

    json_array_foreach(json_object_get(document, "findings"), i, finding)
    {
        if (strcmp(json_read_text(finding, "severity", ""), "error") == 0 &&
            !report_is_survived(finding)) {
            return true;
        }
    }
    return false;
}

static bool is_measured(const json_t *document)
{
    const json_t *job;
    size_t i;

    json_array_foreach(json_object_get(document, "jobs"), i, job)
    {
        if (json_read_int(job, "time_ns", -1) >= 0) {
            return true;
        }
    }
    return false;
}

void report_run(const json_t *document, bool all, const struct report_style *style,
                struct weft_text *out)
{
    bool is_short = !all && is_explained(document);

    if (!is_short) {
        report_connections(document, all, style, out);
    }
    if (!is_short || is_measured(document)) {
        report_jobs(document, all, style, out);
    }
    if (!is_short) {
        report_links(document, all, out);
    }
    report_findings(document, style, out);
    report_verdict(document, style, out);
}
