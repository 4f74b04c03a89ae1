/* weft show --policy P: prints what a policy would choose for each pair of ranks, with its
 * rules. */
#include <stdio.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/show_view.h"
#include "rdma/rdma.h"
#include "report/columns.h"
#include "run/asks.h"
#include "run/choices.h"

/* Maximum number of ranks for which the rules of every pair are printed; with more, those of the
 * first pair. */
#define REASONS_RANKS_MAX 4

struct page {
    const struct view *view;
    const struct run_choices *choices;
    struct columns columns;
    struct weft_text *out;
};

/* Returns the number of rails that both ends have. */
static uint32_t n_rails(const struct run_choice *choice)
{
    return choice->connector.n_rails < choice->acceptor.n_rails
               ? choice->connector.n_rails
               : choice->acceptor.n_rails;
}

static const struct rdma_port_facts *port_of(const struct page *page, uint32_t rank,
                                             uint32_t port)
{
    return &page->choices->facts[rank][port];
}

/* Finds the scenario's port of that name. Returns false for any other name, such as a bond's. */
static bool find_port(const struct page *page, uint32_t rank, const char *name,
                      uint32_t *out)
{
    const struct world_host *host =
        &page->choices->plan->spec.hosts[page->choices->hosts[rank]];

    *out = world_port_index(host, name);
    return *out < host->n_ports;
}

/* Writes "wired", or where the cable leads instead. Returns true if a cable connects the ports. */
static bool judge(const struct page *page, const struct run_choice *choice,
                  const char *local, const char *remote, char *out, size_t out_bytes)
{
    const struct world_spec *spec = &page->choices->plan->spec;
    uint32_t a = page->choices->hosts[choice->from], b = page->choices->hosts[choice->to];
    uint32_t port, peer_port;
    struct world_end far;

    if (!find_port(page, choice->from, local, &port) ||
        !find_port(page, choice->to, remote, &peer_port)) {
        weft_format(out, out_bytes, "not known");
        return false;
    }
    if (run_is_wired(spec, a, port, b, peer_port)) {
        weft_format(out, out_bytes, "wired");
        return true;
    }
    if (!run_far_end(spec, a, port, &far)) {
        weft_format(out, out_bytes, "%s has no cable", local);
    } else if (far.is_switch) {
        weft_format(out, out_bytes, "%s goes to a switch without %s", local, remote);
    } else {
        weft_format(out, out_bytes, "%s goes to %s:%s", local, spec->hosts[far.node].name,
                    spec->hosts[far.node].ports[far.port].name);
    }
    return false;
}

static json_t *gid_document(const struct rdma_port_facts *port, uint32_t gid)
{
    char text[IO_IP_TEXT_BYTES];

    if (gid >= port->n_gids) {
        return json_null();
    }
    return json_pack("{s:s, s:s, s:i}", "gid",
                     rdma_gid_format(&port->gids[gid].gid, text, sizeof(text)), "type",
                     rdma_gid_type_name((enum ibv_gid_type)port->gids[gid].type), "index",
                     (int)port->gids[gid].index);
}

static const char *gid_cell(const struct rdma_port_facts *port, uint32_t gid,
                            char out[IO_IP_TEXT_BYTES + 24])
{
    char text[IO_IP_TEXT_BYTES];

    if (gid >= port->n_gids) {
        return "none";
    }
    weft_format(out, IO_IP_TEXT_BYTES + 24, "%s %s",
                rdma_gid_format(&port->gids[gid].gid, text, sizeof(text)),
                port->gids[gid].type == IBV_GID_TYPE_ROCE_V2 ? "v2" : "v1");
    return out;
}

static json_t *show_rail(struct page *page, const struct run_choice *choice, uint32_t i)
{
    const struct rdma_rail *ours = &choice->connector.rails[i];
    const struct rdma_rail *theirs = &choice->acceptor.rails[i];
    const struct rdma_port_facts *local = port_of(page, choice->from, ours->local_port);
    const struct rdma_port_facts *remote = port_of(page, choice->to, theirs->local_port);
    char cable[128], a[IO_IP_TEXT_BYTES + 24], b[IO_IP_TEXT_BYTES + 24];
    bool is_wired = judge(page, choice, local->name, remote->name, cable, sizeof(cable));

    columns_row(&page->columns);
    columns_cell(&page->columns, "%u %s", choice->from,
                 show_host_of(page->view, choice->from));
    columns_cell(&page->columns, "→ %u %s", choice->to,
                 show_host_of(page->view, choice->to));
    columns_cell(&page->columns, "%s → %s", local->name, remote->name);
    columns_cell(&page->columns, "%s → %s", gid_cell(local, ours->local_gid, a),
                 gid_cell(remote, theirs->local_gid, b));
    if (ours->path_mtu == theirs->path_mtu) {
        columns_cell(&page->columns, "%u", ours->path_mtu);
    } else {
        columns_cell(&page->columns, "%u, %u", ours->path_mtu, theirs->path_mtu);
    }
    columns_cell(&page->columns, "%s", cable);
    return json_pack("{s:s, s:s, s:o, s:o, s:i, s:i, s:b, s:s}", "local_port",
                     local->name, "remote_port", remote->name, "local_gid",
                     gid_document(local, ours->local_gid), "remote_gid",
                     gid_document(remote, theirs->local_gid), "path_mtu",
                     (int)ours->path_mtu, "remote_path_mtu", (int)theirs->path_mtu,
                     "is_wired", is_wired, "cable", cable);
}

static json_t *reasons_document(const struct run_choice_end *end)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < end->n_reasons; i++) {
        json_array_append_new(
            array, json_pack("{s:s, s:s, s:s}", "what", end->reasons[i].what, "rule",
                             end->reasons[i].text, "source", end->reasons[i].source));
    }
    return array;
}

static bool is_same(const struct rdma_reason *a, const struct rdma_reason *b)
{
    return strcmp(a->what, b->what) == 0 && strcmp(a->text, b->text) == 0;
}

static const struct run_choice_end *end_at(const struct page *page, uint32_t i)
{
    const struct run_choice *choice = &page->choices->items[i / 2];

    return i % 2 == 0 ? &choice->connector : &choice->acceptor;
}

/* Returns true if the `i`th end's `k`th reason was printed before, for an earlier end or this
 * one. */
static bool is_told(const struct page *page, uint32_t i, uint32_t k)
{
    const struct rdma_reason *reason = &end_at(page, i)->reasons[k];

    for (uint32_t e = 0; e <= i; e++) {
        const struct run_choice_end *end = end_at(page, e);

        for (uint32_t r = 0; r < (e < i ? end->n_reasons : k); r++) {
            if (is_same(&end->reasons[r], reason)) {
                return true;
            }
        }
    }
    return false;
}

/* Prints each rule once. */
static void print_reasons(const struct page *page, uint32_t n_ends)
{
    weft_text_add(page->out, "  why\n");
    for (uint32_t i = 0; i < n_ends; i++) {
        const struct run_choice_end *end = end_at(page, i);

        for (uint32_t k = 0; k < end->n_reasons; k++) {
            if (!is_told(page, i, k)) {
                weft_text_add(page->out, "    %-8s  %s [%s]\n", end->reasons[k].what,
                              end->reasons[k].text, end->reasons[k].source);
            }
        }
    }
}

static json_t *show_choice(struct page *page, const struct run_choice *choice)
{
    json_t *rails = json_array();
    const char *why = choice->error.status != WEFT_OK ? choice->error.message : NULL;

    for (uint32_t i = 0; i < n_rails(choice); i++) {
        json_array_append_new(rails, show_rail(page, choice, i));
    }
    if (n_rails(choice) == 0) {
        columns_row(&page->columns);
        columns_cell(&page->columns, "%u %s", choice->from,
                     show_host_of(page->view, choice->from));
        columns_cell(&page->columns, "→ %u %s", choice->to,
                     show_host_of(page->view, choice->to));
        columns_cell(&page->columns, "none");
        columns_cell(&page->columns, "%s", why != NULL ? why : "nothing was chosen");
    }
    return json_pack("{s:i, s:i, s:s, s:s, s:o, s:s?, s:{s:o, s:o}}", "from",
                     (int)choice->from, "to", (int)choice->to, "from_host",
                     show_host_of(page->view, choice->from), "to_host",
                     show_host_of(page->view, choice->to), "rails", rails, "error", why,
                     "why", "connector", reasons_document(&choice->connector), "acceptor",
                     reasons_document(&choice->acceptor));
}

static json_t *show_all(struct page *page)
{
    static const char *const heads[] = {"from", "to", "port", "gid", "mtu", "cable"};
    json_t *pairs = json_array();
    uint32_t n_shown = page->choices->n_ranks <= REASONS_RANKS_MAX ? page->choices->n : 1;

    columns_init(&page->columns, heads, WEFT_LENGTH(heads));
    for (uint32_t i = 0; i < page->choices->n; i++) {
        json_array_append_new(pairs, show_choice(page, &page->choices->items[i]));
    }
    columns_print(&page->columns, "  ", page->out);
    columns_fini(&page->columns);
    print_reasons(page, 2 * n_shown);
    return pairs;
}

json_t *show_policy(const struct view *view, const char *policy, struct weft_text *out)
{
    struct run_options options = {.backend = backend_find("sim"), .has_policy = true};
    struct run_choices choices;
    struct weft_error error;
    struct page page = {.view = view, .choices = &choices, .out = out};
    json_t *pairs = NULL;
    json_t *document;

    if (view->scenario->n_ranks > SHOW_RANKS_MAX) {
        return json_null();
    }
    if (!weft_policy_parse(policy, &options.policy)) {
        return json_null(); /* cannot happen, because cli.c checked it */
    }
    weft_text_add(out, "\nwhat %s would choose\n", policy);
    if (run_choices_make(view->scenario, &options, &choices, &error) == WEFT_OK) {
        pairs = show_all(&page);
    } else {
        weft_text_add(out, "  nothing: %s\n", error.message);
    }
    document = json_pack("{s:s, s:s?, s:o}", "policy", policy, "error",
                         pairs == NULL ? error.message : NULL, "pairs",
                         pairs == NULL ? json_null() : pairs);
    run_choices_fini(&choices);
    return document;
}
