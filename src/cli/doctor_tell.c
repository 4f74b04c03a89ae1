/* The report of `weft doctor`: printed as text or JSON, and read back. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/version.h"
#include "cli/doctor.h"
#include "report/tables.h"

void doctor_compare_ends(struct examination *all)
{
    struct diag_findings more = {NULL, 0};

    diag_preflight_ends(&all->input, &all->findings);
    diag(&all->input, &more);
    if (more.n > 0) {
        all->findings.items = weft_realloc(
            all->findings.items, (all->findings.n + more.n) * sizeof(*more.items));
        memcpy(all->findings.items + all->findings.n, more.items,
               more.n * sizeof(*more.items));
        all->findings.n += more.n;
    }
    diag_findings_fini(&more);
}

static void list_ports(const struct examination *all, struct weft_text *out)
{
    for (uint32_t i = 0; i < all->input.n_hosts; i++) {
        const struct diag_host *host = &all->input.hosts[i];

        for (uint32_t k = 0; k < host->n_ports; k++) {
            const struct diag_port *port = &host->ports[k];
            const char *separator = "  ";

            weft_text_add(out, "%s  %-16s %-4s mtu %lld", host->name, port->name,
                          port->is_up == DIAG_YES ? "up" : "down",
                          (long long)port->netdev_mtu);
            for (uint32_t g = 0; g < port->n_gids; g++) {
                char text[IO_IP_TEXT_BYTES];

                if (port->gids[g].type == 2 && port->gids[g].prefix_len > 0) {
                    weft_text_add(out, "%s%s/%d (GID %d)", separator,
                                  io_ip_format(&port->gids[g].ip, text, sizeof(text)),
                                  port->gids[g].prefix_len, port->gids[g].index);
                    separator = ", ";
                }
            }
            weft_text_add(out, "\n");
        }
    }
}

typedef void add_cable(void *to, const char *from, const char *from_port,
                       const char *node, const char *node_port);

/* Calls `add` for each two ports of different hosts that face each other. */
static void each_facing(const struct diag_input *input, add_cable *add, void *to)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t j = i + 1; j < input->n_hosts; j++) {
            const struct diag_host *a = &input->hosts[i], *b = &input->hosts[j];

            for (uint32_t k = 0; k < a->n_ports; k++) {
                for (uint32_t l = 0; l < b->n_ports; l++) {
                    if (diag_preflight_faces(&a->ports[k], &b->ports[l])) {
                        add(to, a->name, a->ports[k].name, b->name, b->ports[l].name);
                    }
                }
            }
        }
    }
}

/* Calls `add` for each cable: those of the scenario or, without one, those that the addresses
 * imply. */
static void each_cable(const struct diag_input *input, add_cable *add, void *to)
{
    for (uint32_t i = 0; i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];

        add(to, cable->from, cable->from_port, cable->to, cable->to_port);
    }
    if (input->n_cables == 0) {
        each_facing(input, add, to);
    }
}

static void add_line(void *to, const char *from, const char *from_port, const char *node,
                     const char *node_port)
{
    weft_text_add(to, "cable  %s %s to %s %s\n", from, from_port, node, node_port);
}

static void add_member(void *to, const char *from, const char *from_port,
                       const char *node, const char *node_port)
{
    json_array_append_new(to, json_pack("{s:s, s:s, s:s, s:s}", "from", from, "from_port",
                                        from_port, "to", node, "to_port", node_port));
}

json_t *doctor_document(const struct examination *all)
{
    json_t *findings = json_array();
    json_t *own = diag_findings_encode(&all->findings);
    json_t *document;

    if (all->told != NULL) {
        json_array_extend(findings, all->told);
    }
    json_array_extend(findings, own);
    json_decref(own);
    document =
        json_pack("{s:i, s:s, s:o, s:o, s:o}", "schema_version", 1, "weft", weft_version,
                  "hosts", json_array(), "cables", json_array(), "findings", findings);
    for (uint32_t i = 0; i < all->input.n_hosts; i++) {
        json_array_append_new(json_object_get(document, "hosts"),
                              diag_host_encode(&all->input.hosts[i]));
    }
    each_cable(&all->input, add_member, json_object_get(document, "cables"));
    return document;
}

bool doctor_tell(const struct cli_options *options, const struct examination *all,
                 const json_t *document)
{
    struct weft_text text = {0};
    bool ok = true;

    if (options->json != NULL) {
        return cli_write_json(options->json, document);
    }
    if (!options->quiet) {
        list_ports(all, &text);
        each_cable(&all->input, add_line, &text);
    }
    if (!options->quiet || doctor_verdict(document) != CLI_OK) {
        report_findings(document, &options->style, &text);
    }
    if (!options->quiet && json_array_size(json_object_get(document, "findings")) == 0) {
        weft_text_add(&text, "no findings\n");
    }
    if (text.n > 0) {
        ok = cli_print(text.bytes, text.n);
    }
    weft_text_fini(&text);
    return ok;
}

int doctor_verdict(const json_t *document)
{
    int code = CLI_OK;
    size_t i;
    json_t *finding;

    json_array_foreach(json_object_get(document, "findings"), i, finding)
    {
        const char *severity = json_string_value(json_object_get(finding, "severity"));

        if (severity != NULL && strcmp(severity, "error") == 0) {
            code = CLI_FAILED;
        }
    }
    return code;
}

static bool is_known(const struct examination *all, const char *name)
{
    for (uint32_t i = 0; i < all->input.n_hosts; i++) {
        if (strcmp(all->input.hosts[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

bool doctor_add_hosts(struct examination *all, const json_t *document, bool only_new,
                      struct weft_error *error)
{
    struct diag_input input = {.hosts = NULL};
    struct diag_host *hosts;

    if (diag_observations_decode(document, &input, error) != WEFT_OK) {
        diag_input_fini(&input);
        return false;
    }
    hosts = weft_realloc(all->input.hosts,
                         (all->input.n_hosts + input.n_hosts + 1) * sizeof(*hosts));
    all->input.hosts = hosts;
    for (uint32_t i = 0; i < input.n_hosts; i++) {
        if (only_new && is_known(all, input.hosts[i].name)) {
            diag_host_fini(&input.hosts[i]);
        } else {
            hosts[all->input.n_hosts++] = input.hosts[i]; /* takes over the contents */
        }
    }
    input.n_hosts = 0;
    diag_input_fini(&input);
    return true;
}
