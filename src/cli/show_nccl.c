/* weft show: prints the NICs that NCCL would select, compared with the mesh. */
#include <stdlib.h>

#include "cli/show_view.h"
#include "report/columns.h"
#include "run/asks.h"

/* Appends a NIC, such as "NIC 2 (c0.1)". */
static void add_nic(const struct view *view, uint32_t rank, const struct run_nic *nic,
                    struct weft_text *out)
{
    const struct world_host *host = &view->scenario->hosts[view->hosts[rank]];

    weft_text_add(out, "NIC %d (", nic->dev);
    for (uint32_t i = 0; i < nic->n_ports; i++) {
        weft_text_add(out, "%s%s", i > 0 ? "+" : "", host->ports[nic->ports[i]].name);
    }
    weft_text_add(out, ")");
}

static const char *end_name(const struct view *view, const struct world_end *end)
{
    return end->is_switch ? view->scenario->switches[end->node].name
                          : view->scenario->hosts[end->node].name;
}

/* Checks the cables of a connection, whose queue pair q uses port q mod n of each end. Returns true
 * if every queue pair has a cable from end to end. Otherwise appends to `out` where the cables of
 * the others lead. */
static bool judge(const struct view *view, const struct run_ask *ask,
                  struct weft_text *out)
{
    const struct world_spec *spec = &view->world->spec;
    uint32_t a = view->hosts[ask->from], b = view->hosts[ask->to];
    uint32_t n = ask->send.n_ports > ask->receive.n_ports ? ask->send.n_ports
                                                          : ask->receive.n_ports;
    bool is_wired = true;

    for (uint32_t q = 0; q < n; q++) {
        uint32_t port = ask->send.ports[q % ask->send.n_ports];
        uint32_t peer_port = ask->receive.ports[q % ask->receive.n_ports];
        const char *waits = view->scenario->hosts[b].ports[peer_port].name;
        struct world_end far;

        if (run_is_wired(spec, a, port, b, peer_port)) {
            continue;
        }
        if (is_wired) {
            weft_text_add(out, "NCCL will ask ");
            add_nic(view, ask->from, &ask->send, out);
            weft_text_add(out, " to reach %s; ", show_host_of(view, ask->to));
        } else {
            weft_text_add(out, ", ");
        }
        is_wired = false;
        if (ask->send.n_ports > 1) {
            weft_text_add(out, "the cable of %s ",
                          view->scenario->hosts[a].ports[port].name);
        } else {
            weft_text_add(out, "that cable ");
        }
        if (!run_far_end(spec, a, port, &far)) {
            weft_text_add(out, "is not there");
        } else if (!far.is_switch && far.node == b) {
            weft_text_add(out, "goes to %s:%s, where NCCL waits at %s",
                          end_name(view, &far),
                          view->scenario->hosts[b].ports[far.port].name, waits);
        } else {
            weft_text_add(out, "goes to %s", end_name(view, &far));
        }
    }
    return is_wired;
}

static json_t *nic_document(const struct view *view, uint32_t rank,
                            const struct run_nic *nic)
{
    const struct world_host *host = &view->scenario->hosts[view->hosts[rank]];
    json_t *ports = json_array();
    json_t *leads_to = json_array();

    for (uint32_t i = 0; i < nic->n_ports; i++) {
        struct world_end far;
        bool has_cable =
            run_far_end(&view->world->spec, view->hosts[rank], nic->ports[i], &far);

        json_array_append_new(ports, json_string(host->ports[nic->ports[i]].name));
        json_array_append_new(leads_to, has_cable ? json_string(end_name(view, &far))
                                                  : json_null());
    }
    return json_pack("{s:i, s:o, s:o, s:i}", "nic", nic->dev, "ports", ports, "leads_to",
                     leads_to, "proxy_rank", nic->proxy_rank);
}

static json_t *show_ask(const struct view *view, const struct run_ask *ask,
                        struct columns *columns)
{
    struct weft_text send = {NULL, 0, 0}, receive = {NULL, 0, 0}, why = {NULL, 0, 0};
    bool is_wired = judge(view, ask, &why);
    json_t *document;

    add_nic(view, ask->from, &ask->send, &send);
    if (ask->send.proxy_rank != (int)ask->from) {
        weft_text_add(&send, " by rank %d (PXN)", ask->send.proxy_rank);
    }
    add_nic(view, ask->to, &ask->receive, &receive);
    if (columns != NULL) {
        columns_row(columns);
        columns_cell(columns, "%s %u", ask->is_ring ? "ring" : "pair", ask->channel);
        columns_cell(columns, "%u %s", ask->from, show_host_of(view, ask->from));
        columns_cell(columns, "→ %u %s", ask->to, show_host_of(view, ask->to));
        columns_cell(columns, "%s → %s", send.bytes, receive.bytes);
        columns_cell(columns, "%s", is_wired ? "wired" : why.bytes);
    }
    document =
        json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:o, s:o, s:b, s:s?}", "kind",
                  ask->is_ring ? "ring" : "pair", "channel", (int)ask->channel, "from",
                  (int)ask->from, "to", (int)ask->to, "from_host",
                  show_host_of(view, ask->from), "to_host", show_host_of(view, ask->to),
                  "send", nic_document(view, ask->from, &ask->send), "receive",
                  nic_document(view, ask->to, &ask->receive), "is_wired", is_wired,
                  "text", is_wired ? NULL : why.bytes);
    weft_text_fini(&send);
    weft_text_fini(&receive);
    weft_text_fini(&why);
    return document;
}

static json_t *show_asks(const struct view *view, const struct run_asks *asks,
                         struct weft_text *out)
{
    static const char *const heads[] = {"channel", "from", "to", "asked for", "cable"};
    json_t *connections = json_array();
    struct columns columns;
    uint32_t n_wired = 0;

    columns_init(&columns, heads, 5);
    for (uint32_t i = 0; i < asks->n; i++) {
        bool is_shown =
            asks->asks[i].is_ring || view->scenario->n_ranks <= SHOW_NCCL_PAIRS_MAX;
        json_t *document = show_ask(view, &asks->asks[i], is_shown ? &columns : NULL);

        n_wired += json_is_true(json_object_get(document, "is_wired"));
        json_array_append_new(connections, document);
    }
    columns_print(&columns, "  ", out);
    weft_text_add(out,
                  "  %u of %u connections are asked of a NIC whose cable leads there\n",
                  n_wired, asks->n);
    columns_fini(&columns);
    return connections;
}

json_t *show_nccl(const struct view *view, bool merges_nics, struct weft_text *out)
{
    struct run_asks asks;
    struct weft_error error;
    json_t *connections = json_null();
    const char *why = NULL;
    json_t *document;

    weft_error_clear(&error);
    if (view->scenario->n_ranks > SHOW_RANKS_MAX) {
        return json_null();
    }
    if (run_asks_make(view->world, merges_nics, &asks, &error) != WEFT_OK) {
        why = error.message;
        weft_text_add(out, "\nwhat NCCL 2.25 would ask of the NICs: it gives up: %s\n",
                      why);
    } else if (asks.n > 0) {
        weft_text_add(out,
                      "\nwhat NCCL 2.25 would ask of the NICs (%s; %d channel%s before "
                      "doubling, crossNic %d)\n",
                      merges_nics ? "ports of a card merged, as net_ib does"
                                  : "each port by itself, as a plugin is asked",
                      asks.n_channels, asks.n_channels == 1 ? "" : "s", asks.cross_nic);
        json_decref(connections);
        connections = show_asks(view, &asks, out);
    }
    document =
        json_pack("{s:s, s:b, s:i, s:i, s:s?, s:o}", "version", "2.25", "merges_nics",
                  merges_nics, "channels", asks.n_channels, "cross_nic", asks.cross_nic,
                  "gives_up", why, "connections", connections);
    run_asks_fini(&asks);
    return document;
}
