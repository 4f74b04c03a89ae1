/* Reads when a fault begins: at a time, or at a moment of the job. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "scenario/arena.h"
#include "scenario/names.h"
#include "scenario/sections.h"

#define DIGITS "0123456789"
#define WORDS_MAX 3u
#define EVENT_DIGITS_MAX 9u /* of the number of a queue pair or a packet */

/* The parts of "titanic sent 10MiB+1ms". */
struct pieces {
    struct tree_node words[WORDS_MAX]; /* [n] */
    uint32_t n;                        /* exceeds WORDS_MAX if there are too many */
    bool has_delay;
    struct tree_node delay; /* "1ms" */
};

static struct tree_node piece_of(struct loader *loader, const struct tree_node *node,
                                 const char *text, size_t n_bytes)
{
    return (struct tree_node){.kind = TREE_SCALAR,
                              .mark = node->mark,
                              .text = arena_copy(loader->arena, text, n_bytes)};
}

static void split(struct loader *loader, const struct tree_node *node, struct pieces *out)
{
    const char *text = node->text, *plus = strrchr(text, '+');
    const char *end = plus == NULL ? text + strlen(text) : plus;

    *out = (struct pieces){.has_delay = plus != NULL};
    while (text += strspn(text, " "), text < end) {
        size_t n_bytes = strcspn(text, " ");

        n_bytes = n_bytes < (size_t)(end - text) ? n_bytes : (size_t)(end - text);
        if (out->n < WORDS_MAX) {
            out->words[out->n] = piece_of(loader, node, text, n_bytes);
        }
        out->n++;
        text += n_bytes;
    }
    if (plus != NULL) {
        plus += 1 + strspn(plus + 1, " ");
        out->delay = piece_of(loader, node, plus, strlen(plus));
    }
}

static bool is_word(const struct pieces *pieces, uint32_t index, const char *text)
{
    return strcmp(pieces->words[index].text, text) == 0;
}

uint64_t scenario_n_rows(const struct scenario *scenario)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        n += scenario->jobs[i].n_bytes;
    }
    return n;
}

/* The number of rows is known before the run, so a row that does not exist is an error. */
static bool read_row(struct loader *loader, const struct tree_node *node, uint32_t *out)
{
    uint64_t n_rows = scenario_n_rows(loader->scenario), row;
    char quoted[DIAGNOSE_QUOTE_BYTES];

    if (strspn(node->text, DIGITS) != strlen(node->text)) {
        return complain(loader, node->mark,
                        "at: expected the number of a row, such as row 3, got 'row %s'",
                        diagnose_quote(node->text, quoted));
    }
    row = strlen(node->text) > 9 ? UINT64_MAX : strtoul(node->text, NULL, 10);
    if (row == 0) {
        return complain(loader, node->mark, "at: there is no row 0: rows count from 1");
    }
    if (row > n_rows) {
        return complain(loader, node->mark,
                        "at: there is no row %s: the jobs have %llu, one for each size",
                        diagnose_quote(node->text, quoted), (unsigned long long)n_rows);
    }
    *out = (uint32_t)row;
    return true;
}

/* Reads "3" of "titanic:p0 rts 3". */
static bool read_number(struct loader *loader, const struct tree_node *node,
                        const char *what, uint32_t *out)
{
    size_t n_digits = strlen(node->text);
    char quoted[DIAGNOSE_QUOTE_BYTES];

    if (n_digits > EVENT_DIGITS_MAX || strspn(node->text, DIGITS) != n_digits ||
        strspn(node->text, "0") == n_digits) {
        return complain(loader, node->mark,
                        "at: expected a number from 1 to 999999999 after %s, got '%s'",
                        what, diagnose_quote(node->text, quoted));
    }
    *out = (uint32_t)strtoul(node->text, NULL, 10);
    return true;
}

/* Reads what happens at a port: "titanic:p0 rts", "titanic:p0 rts 3" or "titanic:p0 packet 9". */
static bool read_port_moment(const struct topology *topology, const struct pieces *pieces,
                             struct world_moment *out)
{
    struct loader *loader = topology->loader;
    const struct tree_node *port = &pieces->words[0], *event = &pieces->words[1];
    struct topology_place place;
    char quoted[DIAGNOSE_QUOTE_BYTES];

    if (!topology_find(topology, port->mark, "at", port->text, &place)) {
        return false;
    }
    if (place.is_switch || place.n_ports != 1) {
        return complain(
            loader, port->mark,
            "at: %s is about one port of a host, such as titanic:p0, got '%s'",
            event->text, diagnose_quote(port->text, quoted));
    }
    out->host = place.node;
    out->port = place.ports[0];
    out->n = 1;
    return pieces->n < 3 || read_number(loader, &pieces->words[2], event->text, &out->n);
}

static bool read_moment(const struct topology *topology, const struct tree_node *node,
                        const struct pieces *pieces, struct world_moment *out)
{
    struct loader *loader = topology->loader;
    char got[TREE_DESCRIBE_BYTES];

    if (pieces->n == 1 && is_word(pieces, 0, "jobs")) {
        out->kind = WORLD_MOMENT_JOBS;
        return true;
    }
    if (pieces->n == 2 && is_word(pieces, 0, "row")) {
        out->kind = WORLD_MOMENT_ROW;
        return read_row(loader, &pieces->words[1], &out->row);
    }
    if (pieces->n == 3 && is_word(pieces, 1, "sent")) {
        out->kind = WORLD_MOMENT_SENT;
        return topology_find_host(topology, &pieces->words[0], "at", &out->host) &&
               read_size(loader, &pieces->words[2], "at", 1, WALK_SIZE_MAX, &out->bytes);
    }
    if ((pieces->n == 2 || pieces->n == 3) && is_word(pieces, 1, "rts")) {
        out->kind = WORLD_MOMENT_RTS;
        return read_port_moment(topology, pieces, out);
    }
    if (pieces->n == 3 && is_word(pieces, 1, "packet")) {
        out->kind = WORLD_MOMENT_PACKET;
        return read_port_moment(topology, pieces, out);
    }
    return complain(
        loader, node->mark,
        "at: expected a time with its unit, such as 500us, or a moment of the "
        "job: jobs, row 3 or HOST sent 10MiB, of programs also HOST:PORT rts or "
        "HOST:PORT packet 1000, each with +TIME or without, got %s",
        tree_describe(node, got));
}

bool fault_moment_read(const struct topology *topology, const struct tree_node *node,
                       struct world_fault *out)
{
    struct loader *loader = topology->loader;
    struct pieces pieces;

    if (node->kind != TREE_SCALAR || tree_scalar_kind(node) != TREE_TEXT ||
        strspn(node->text, DIGITS) > 0) {
        return read_time(loader, node, "at", &out->at_ns);
    }
    split(loader, node, &pieces);
    return read_moment(topology, node, &pieces, &out->moment) &&
           (!pieces.has_delay || read_time(loader, &pieces.delay, "at", &out->at_ns));
}

bool fault_moment_check(struct loader *loader, const struct tree_node *node,
                        const struct world_fault *fault)
{
    const struct world_host *hosts = loader->scenario->hosts;
    const struct world_moment *moment = &fault->moment;
    bool is_of_process = world_fault_is_of_calls(fault->kind) ||
                         fault->kind == WORLD_FAULT_VERB_ERROR ||
                         fault->kind == WORLD_FAULT_VERB_SLOW;

    if (world_moment_is_of_programs(moment->kind) && loader->scenario->n_jobs > 0 &&
        !scenario_has_programs(loader->scenario)) {
        return complain(
            loader, node->mark,
            "at: the queue pairs and packets of a port are moments of programs "
            "(exec); the jobs here are Weft's own, with jobs, row N and HOST "
            "sent SIZE");
    }

    if (!is_of_process || moment->kind != WORLD_MOMENT_SENT ||
        moment->host == fault->host) {
        return true;
    }
    return complain(loader, node->mark,
                    "at: fault %s is met by a process of '%s', which does not know what "
                    "'%s' sends; name a moment of its own, such as '%s sent SIZE'",
                    world_fault_name(fault->kind), hosts[fault->host].name,
                    hosts[moment->host].name, hosts[fault->host].name);
}

bool fault_moment_row(const char *text, uint64_t *out_row, const char **out_rest)
{
    size_t n_digits;

    text += strspn(text, " ");
    if (strncmp(text, "row ", 4) != 0) {
        return false;
    }
    text += 4 + strspn(text + 4, " ");
    n_digits = strspn(text, DIGITS);
    if (n_digits == 0 || n_digits > 9) {
        return false;
    }
    *out_row = strtoul(text, NULL, 10);
    *out_rest = text + n_digits;
    return true;
}

char *scenario_moment_text(const struct scenario *scenario,
                           const struct world_fault *fault, char *out, size_t out_bytes)
{
    const struct world_moment *moment = &fault->moment;
    char what[SCENARIO_MOMENT_BYTES] = "", size[32], delay[32];

    weft_format_time(fault->at_ns, delay, sizeof(delay));
    if (moment->kind == WORLD_MOMENT_JOBS) {
        weft_format(what, sizeof(what), "jobs");
    } else if (moment->kind == WORLD_MOMENT_ROW) {
        weft_format(what, sizeof(what), "row %u", moment->row);
    } else if (moment->kind == WORLD_MOMENT_SENT) {
        weft_format_size(moment->bytes, size, sizeof(size));
        weft_format(what, sizeof(what), "%s sent %s", scenario->hosts[moment->host].name,
                    size);
    } else if (world_moment_is_of_programs(moment->kind)) {
        const struct world_host *host = &scenario->hosts[moment->host];

        weft_format(what, sizeof(what), "%s:%s %s", host->name,
                    host->ports[moment->port].name,
                    moment->kind == WORLD_MOMENT_RTS ? "rts" : "packet");
        if (moment->kind == WORLD_MOMENT_PACKET || moment->n > 1) {
            size_t n = strlen(what);

            weft_format(what + n, sizeof(what) - n, " %u", moment->n);
        }
    }
    if (moment->kind == WORLD_MOMENT_START || fault->at_ns > 0) {
        size_t n = strlen(what);

        weft_format(what + n, sizeof(what) - n, "%s%s", n > 0 ? "+" : "", delay);
    }
    weft_format(out, out_bytes, "at %s", what);
    return out;
}
