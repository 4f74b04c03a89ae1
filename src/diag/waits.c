/* Follows the waits of hosts. A host that waits for one at fault, or for one that waits for it, met
 * a consequence. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

struct named {
    const char *name;
    uint32_t host; /* index into the input */
};

/* The waits of all hosts, as a graph. */
struct graph {
    const struct diag_input *input;
    struct named *names; /* Owned [n_hosts], sorted */
    bool *is_reported;   /* Owned [n_hosts]: an error names it, or it is behind one */
    bool *is_reached;    /* Owned [n_hosts]: it leads to the present finding */
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void graph_open(const struct diag_input *input, struct graph *out)
{
    size_t n = (size_t)input->n_hosts + 1;

    out->input = input;
    out->names = weft_calloc(n, sizeof(*out->names));
    out->is_reported = weft_calloc(n, sizeof(*out->is_reported));
    out->is_reached = weft_calloc(n, sizeof(*out->is_reached));
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        out->names[i] = (struct named){input->hosts[i].name, i};
    }
    qsort(out->names, input->n_hosts, sizeof(*out->names), compare);
}

static void graph_close(struct graph *graph)
{
    free(graph->names);
    free(graph->is_reported);
    free(graph->is_reached);
}

/* Returns UINT32_MAX if there is no host of that name. */
static uint32_t find(const struct graph *graph, const char *name)
{
    struct named key = {.name = name};
    const struct named *found = bsearch(&key, graph->names, graph->input->n_hosts,
                                        sizeof(*graph->names), compare);

    return found == NULL ? UINT32_MAX : found->host;
}

static void mark(const struct graph *graph, bool *marks, const char *name)
{
    uint32_t host = find(graph, name);

    if (host != UINT32_MAX) {
        marks[host] = true;
    }
}

/* Marks the hosts that the finding names: its ends, and those in its evidence, such as the one that
 * drops the packets between them. */
static void mark_named(const struct graph *graph, bool *marks,
                       const struct diag_finding *finding)
{
    mark(graph, marks, finding->host);
    mark(graph, marks, finding->peer);
    for (uint32_t i = 0; i < finding->n_evidence; i++) {
        if (finding->evidence[i].kind == WEFT_KIND_TEXT) {
            mark(graph, marks, finding->evidence[i].text);
        }
    }
}

/* Returns the first wait of the host that leads to the present finding; NULL if none does. */
static const struct diag_wait *leads(const struct graph *graph,
                                     const struct diag_host *host)
{
    for (uint32_t i = 0; i < host->n_waits; i++) {
        uint32_t peer = find(graph, host->waits[i].peer);

        if (peer != UINT32_MAX && graph->is_reached[peer]) {
            return &host->waits[i];
        }
    }
    return NULL;
}

static void add(struct diag_finding *finding, const struct diag_host *host,
                const struct diag_wait *wait)
{
    if (finding->n_behind < DIAG_BEHIND_MAX) {
        struct diag_behind *behind = &finding->behind[finding->n_behind];

        weft_format(behind->host, sizeof(behind->host), "%s", host->name);
        weft_format(behind->peer, sizeof(behind->peer), "%s", wait->peer);
        behind->what = wait->what;
    }
    finding->n_behind++;
}

static void find_behind(const struct graph *graph, struct diag_finding *finding)
{
    const struct diag_input *input = graph->input;
    bool any = true;

    memset(graph->is_reached, 0, input->n_hosts * sizeof(*graph->is_reached));
    mark_named(graph, graph->is_reached, finding);
    while (any) {
        any = false;
        for (uint32_t i = 0; i < input->n_hosts; i++) {
            const struct diag_host *host = &input->hosts[i];
            const struct diag_wait *wait =
                graph->is_reached[i] || graph->is_reported[i] ? NULL : leads(graph, host);

            if (wait != NULL) {
                any = graph->is_reached[i] = graph->is_reported[i] = true;
                add(finding, host, wait);
            }
        }
    }
}

void diag_find_behind(const struct diag_input *input, struct diag_findings *out)
{
    struct graph graph;

    graph_open(input, &graph);
    for (uint32_t i = 0; i < out->n; i++) {
        if (out->items[i].severity == DIAG_ERROR) {
            mark_named(&graph, graph.is_reported, &out->items[i]);
        }
    }
    for (uint32_t i = 0; i < out->n; i++) {
        struct diag_finding *finding = &out->items[i];

        if (finding->severity == DIAG_ERROR) {
            find_behind(&graph, finding);
        }
    }
    graph_close(&graph);
}

/* ---- circles ---- */

/* Maximum number of waits that the evidence of a circle contains. */
#define CIRCLE_MAX 16u
/* A host with this many waits (HOST_WAITS_MAX) may have more, which it did not record. */
#define WAITS_CUT 64u

static bool has_wait(const struct diag_host *host, enum weft_wait_for what,
                     const char *peer)
{
    for (uint32_t i = 0; i < host->n_waits; i++) {
        if (host->waits[i].what == what && strcmp(host->waits[i].peer, peer) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the wait of a server for its client, otherwise the host's first one; NULL if it waits for
 * none. */
static const struct diag_wait *wait_of(const struct diag_host *host)
{
    for (uint32_t i = 0; i < host->n_waits; i++) {
        if (host->waits[i].what == WEFT_WAIT_CLIENT) {
            return &host->waits[i];
        }
    }
    return host->n_waits > 0 ? &host->waits[0] : NULL;
}

/* Returns true if the host waits for a message that the peer does not send, or for a buffer that
 * the peer does not offer, as far as the peer knows. Otherwise the cable between them can be the
 * reason. */
static bool is_unanswered(const struct diag_host *host, const struct diag_wait *wait,
                          const struct diag_host *peer)
{
    if (peer == NULL || !peer->was_observed || peer->n_waits >= WAITS_CUT) {
        return false;
    }
    return (wait->what == WEFT_WAIT_SEND &&
            !has_wait(peer, WEFT_WAIT_RECEIVE, host->name)) ||
           (wait->what == WEFT_WAIT_RECEIVE &&
            !has_wait(peer, WEFT_WAIT_SEND, host->name));
}

/* Adds the hosts for which `host` waits to `found`, unless they are in it. Returns false if it has
 * no waits, or others than for data that is not answered. Its relay's waits do not count: that data
 * is of two other hosts. */
static bool add_awaited(const struct diag_input *input, const struct diag_host *host,
                        bool *is_found, const struct diag_host **found, uint32_t *n)
{
    bool any = false;

    for (uint32_t i = 0; i < host->n_waits; i++) {
        const struct diag_host *peer = diag_find_host(input, host->waits[i].peer);

        if (host->waits[i].what == WEFT_WAIT_RELAY) {
            continue;
        }
        any = true;
        if (!is_unanswered(host, &host->waits[i], peer)) {
            return false;
        }
        if (!is_found[peer - input->hosts]) {
            is_found[peer - input->hosts] = true;
            found[(*n)++] = peer;
        }
    }
    return any;
}

/* Returns true if all hosts reported what they did. One that did not can be a relay whose process
 * stands still, so that data between others does not move. */
static bool are_all_observed(const struct diag_input *input)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        if (!input->hosts[i].was_observed || input->hosts[i].has_hung) {
            return false;
        }
    }
    return true;
}

/* Returns true if the host, and all hosts to which its waits lead, wait for data only that none of
 * them moves. No cable, device or process outside can be the reason then. */
static bool has_no_way_out(const struct diag_input *input, const struct diag_host *host)
{
    const struct diag_host **found =
        weft_calloc((size_t)input->n_hosts + 1, sizeof(const struct diag_host *));
    bool *is_found = weft_calloc((size_t)input->n_hosts + 1, sizeof(*is_found));
    bool all = are_all_observed(input);
    uint32_t n = 1;

    found[0] = host;
    is_found[host - input->hosts] = true;
    for (uint32_t i = 0; all && i < n; i++) {
        all = add_awaited(input, found[i], is_found, found, &n);
    }
    free(found);
    free(is_found);
    return all;
}

/* Returns the host for which a host of a circle waits; NULL if it waits for none. */
static const struct diag_host *awaited_by(const struct diag_input *input,
                                          const struct diag_host *host)
{
    const struct diag_wait *wait = wait_of(host);

    return wait != NULL &&
                   (wait->what == WEFT_WAIT_CLIENT || wait->what == WEFT_WAIT_SEND ||
                    wait->what == WEFT_WAIT_RECEIVE)
               ? diag_find_host(input, wait->peer)
               : NULL;
}

/* Returns the number of hosts of the circle that begins at `host`; 0 if it is in none. Sets
 * *out_first to the one that comes first in the input. */
static uint32_t circle_of(const struct diag_input *input, const struct diag_host *host,
                          const struct diag_host **out_first)
{
    const struct diag_host *at = host;
    uint32_t n = 0;

    *out_first = host;
    do {
        at = awaited_by(input, at);
        n++;
        if (at != NULL && at < *out_first) {
            *out_first = at;
        }
    } while (at != NULL && at != host && n < input->n_hosts);
    return at == host && n > 1 ? n : 0;
}

/* Returns true if a host recorded more than the end of a wait or of a peer, such as a relay that
 * was refused memory. Data may have been lost there, although its sender no longer waits. */
static bool has_other_failure(const struct diag_input *input)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t j = 0; j < input->hosts[i].n_errors; j++) {
            weft_status status = input->hosts[i].errors[j].error.status;

            if (status != WEFT_ERR_TIMEOUT && status != WEFT_ERR_CLOSED) {
                return true;
            }
        }
    }
    return false;
}

bool diag_is_in_circle(const struct diag_case *c)
{
    const struct diag_wait *wait = wait_of(c->host);
    /* In phase data, requests that were posted did not complete, which no circle explains. */
    bool is_posted = c->phase == WEFT_PHASE_DATA;
    const struct diag_host *first;

    return c->status == WEFT_ERR_TIMEOUT && c->use == NULL && !c->is_turned &&
           wait != NULL && circle_of(c->input, c->host, &first) > 0 &&
           (wait->what == WEFT_WAIT_CLIENT ||
            (!is_posted && !has_other_failure(c->input) &&
             has_no_way_out(c->input, c->host)));
}

void diag_name_circle(const struct diag_case *c, struct diag_finding *out)
{
    const struct diag_host *at;
    uint32_t n = circle_of(c->input, c->host, &at);

    out->n_evidence = 0;
    for (uint32_t i = 0; i < n && i < CIRCLE_MAX; i++) {
        const struct diag_host *next = awaited_by(c->input, at);
        enum weft_wait_for what = wait_of(at)->what;
        char key[24], text[sizeof(out->evidence[0].text)];

        if (i == 0) {
            diag_name_place(out, at->name, "", next->name);
        }
        weft_format(key, sizeof(key), "wait_%u", i + 1);
        if (what == WEFT_WAIT_CLIENT) {
            weft_format(text, sizeof(text), "%s for a client on %s", at->name,
                        next->name);
        } else {
            weft_format(text, sizeof(text), "%s for %s %s", at->name, next->name,
                        weft_wait_text(what));
        }
        diag_evidence_text(out, key, text);
        at = next;
    }
}
