/* Generates a scenario from the facts of the ranks' machines. */
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "run/site.h"

#define NAME_BYTES 64
/* Limits of docs/scenario.md. */
#define PORT_NAME_MAX 31
#define MTU_MIN 68
#define MTU_MAX 65535
#define RATE_MAX_BPS INT64_C(100000000000000)

struct site_host {
    const char *id;
    char name[NAME_BYTES]; /* unique */
    json_t *ports;         /* Not owned */
    uint32_t n_ranks;
};

/* One address of a port. */
struct site_end {
    uint32_t host;
    size_t port;
    const char *text; /* address with prefix length, such as "10.0.0.1/24" */
    struct io_prefix address;
    /* Leads to rank 0: this address, another one of its port, or one in this subnet. */
    bool leads;
    bool is_used; /* the port has its cable */
};

struct site {
    json_t **facts;          /* Owned [n_ranks], with the values */
    struct site_host *hosts; /* Owned [n_hosts] */
    uint32_t n_hosts, n_ranks;
    uint32_t *rank_hosts;  /* Owned [n_ranks] */
    struct site_end *ends; /* Owned [n_ends] */
    size_t n_ends;
};

/* ---- hosts ---- */

/* Names a host by its machine's name without domain, lower-cased and with other characters than
 * letters and digits replaced. Appends a number if the name is taken. */
static void name_host(struct site *site, const char *given)
{
    struct site_host *host = &site->hosts[site->n_hosts];
    char base[NAME_BYTES - 12];
    size_t n = 0;

    while (given[0] != '\0' && given[0] != '.' && !isalnum((unsigned char)given[0])) {
        given++; /* a name begins with a letter or digit */
    }
    for (; given[n] != '\0' && given[n] != '.' && n < sizeof(base) - 1; n++) {
        char c = (char)tolower((unsigned char)given[n]);

        base[n] = isalnum((unsigned char)c) ? c : '-';
    }
    base[n] = '\0';
    if (n == 0) {
        weft_format(base, sizeof(base), "host");
    }
    weft_format(host->name, sizeof(host->name), "%s", base);
    for (uint32_t i = 0, again = 2; i < site->n_hosts; i++) {
        if (strcmp(site->hosts[i].name, host->name) == 0) {
            weft_format(host->name, sizeof(host->name), "%s-%u", base, again++);
            i = UINT32_MAX; /* start again */
        }
    }
}

static bool add_rank(struct site *site, uint32_t rank, const struct weft_text *text)
{
    const char *name;
    const char *id;
    json_t *ports;
    uint32_t host = 0;

    site->facts[rank] = json_loadb(text->bytes, text->n, 0, NULL);
    if (json_unpack(site->facts[rank], "{s:s, s:s, s:o}", "name", &name, "id", &id,
                    "ports", &ports) != 0) {
        return false;
    }
    while (host < site->n_hosts && strcmp(site->hosts[host].id, id) != 0) {
        host++;
    }
    if (host == site->n_hosts) {
        name_host(site, name);
        site->hosts[host].id = id;
        site->hosts[host].ports = ports;
        site->n_hosts++;
    }
    site->hosts[host].n_ranks++;
    site->rank_hosts[rank] = host;
    return true;
}

/* ---- ends of cables ---- */

static json_t *port_at(const struct site *site, const struct site_end *end)
{
    return json_array_get(site->hosts[end->host].ports, end->port);
}

/* Returns true if a scenario can have a port with this name and MTU. */
static bool is_port(json_t *object)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    const char *name;
    json_int_t mtu;
    json_int_t rate;

    return json_unpack(object, "{s:s, s:I, s:I}", "name", &name, "mtu", &mtu, "rate",
                       &rate) == 0 &&
           name[0] != '\0' && name[0] != '.' && name[0] != '-' && name[0] != '_' &&
           strlen(name) <= PORT_NAME_MAX && strspn(name, letters) == strlen(name) &&
           mtu >= MTU_MIN;
}

static bool add_ends(struct site *site, uint32_t host, size_t port)
{
    json_t *object = json_array_get(site->hosts[host].ports, port);
    json_t *addresses;
    size_t i;
    json_t *value;
    int leads;

    if (!is_port(object) || json_unpack(object, "{s:o, s:b}", "addresses", &addresses,
                                        "leads", &leads) != 0) {
        return false;
    }
    json_array_foreach(addresses, i, value)
    {
        struct site_end end = {.host = host,
                               .port = port,
                               .text = json_string_value(value),
                               .leads = leads != 0};

        if (end.text == NULL || !io_prefix_parse(end.text, &end.address)) {
            return false;
        }
        site->ends = weft_realloc(site->ends, (site->n_ends + 1) * sizeof(*site->ends));
        site->ends[site->n_ends++] = end;
    }
    return true;
}

static bool are_together(const struct site_end *a, const struct site_end *b)
{
    return a->address.prefix_len == b->address.prefix_len &&
           io_ip_same_subnet(&a->address.ip, &b->address.ip, a->address.prefix_len);
}

static bool is_same_port(const struct site_end *a, const struct site_end *b)
{
    return a->host == b->host && a->port == b->port;
}

/* Excludes the ports of the management network, which shares the subnet that leads to rank 0 and
 * carries no data. Keeps them if there is no other cable. */
static void leave_management(struct site *site)
{
    bool any = false;

    for (size_t i = 0; i < site->n_ends; i++) {
        for (size_t j = 0; j < site->n_ends; j++) {
            site->ends[i].leads =
                site->ends[i].leads ||
                (site->ends[j].leads && are_together(&site->ends[i], &site->ends[j]));
        }
    }
    for (size_t i = 0; i < site->n_ends; i++) {
        for (size_t j = 0; j < site->n_ends; j++) {
            site->ends[i].leads =
                site->ends[i].leads ||
                (site->ends[j].leads && is_same_port(&site->ends[i], &site->ends[j]));
        }
    }
    for (size_t i = 0; i < site->n_ends; i++) {
        for (size_t j = 0; j < i; j++) {
            any = any || (!site->ends[i].leads && !site->ends[j].leads &&
                          site->ends[i].host != site->ends[j].host &&
                          are_together(&site->ends[i], &site->ends[j]));
        }
    }
    for (size_t i = 0; i < site->n_ends; i++) {
        site->ends[i].leads = site->ends[i].leads && any;
    }
}

/* ---- the file ---- */

static const char *port_name(const struct site *site, const struct site_end *end)
{
    return json_string_value(json_object_get(port_at(site, end), "name"));
}

static json_int_t port_number(const struct site *site, const struct site_end *end,
                              const char *key)
{
    return json_integer_value(json_object_get(port_at(site, end), key));
}

/* Returns the port's MTU, at most the maximum of a scenario, which a loopback interface exceeds. */
static json_int_t port_mtu(const struct site *site, const struct site_end *end)
{
    json_int_t mtu = port_number(site, end, "mtu");

    return mtu < MTU_MAX ? mtu : MTU_MAX;
}

/* Names are quoted, because YAML takes a machine's name such as 007 or no for another value. */
static void write_node(const struct site *site, uint32_t host, struct weft_text *out)
{
    const char *management = NULL;
    bool is_first = true;

    weft_text_add(out, "    \"%s\":\n      ports: [", site->hosts[host].name);
    for (size_t i = 0; i < site->n_ends; i++) {
        const struct site_end *end = &site->ends[i];

        if (end->host != host || (i > 0 && is_same_port(end, end - 1))) {
            continue;
        }
        if (end->leads) {
            management = port_name(site, end);
        } else {
            weft_text_add(out, "%s\"%s\"", is_first ? "" : ", ", port_name(site, end));
            is_first = false;
        }
    }
    weft_text_add(out, "]\n      gpus: %u\n", site->hosts[host].n_ranks);
    if (management != NULL) {
        weft_text_add(out, "      env: {WEFT_MANAGEMENT: \"%s\"}\n", management);
    }
}

/* Writes the addresses that no link has: those of ports without a cable, and additional ones. */
static void write_more_addresses(const struct site *site, uint32_t host,
                                 struct weft_text *out)
{
    const struct site_end *last = NULL;

    for (size_t i = 0; i < site->n_ends; i++) {
        const struct site_end *end = &site->ends[i];

        if (end->host != host || end->leads || end->is_used) {
            continue;
        }
        weft_text_add(out, "%s", last == NULL ? "      addresses:\n" : "");
        if (last == NULL || !is_same_port(last, end)) {
            weft_text_add(out, "        \"%s\":\n", port_name(site, end));
        }
        weft_text_add(out, "          - %s\n", end->text);
        last = end;
    }
}

static void write_facts(const struct site *site, const struct site_end *end,
                        struct weft_text *out)
{
    json_int_t rate = port_number(site, end, "rate");

    if (rate > 0 && rate <= RATE_MAX_BPS) {
        weft_text_add(out, ", rate: %lldbps", (long long)rate);
    }
    weft_text_add(out, "}\n");
}

static void write_link(const struct site *site, const struct site_end *a,
                       const struct site_end *b, struct weft_text *out)
{
    const char *a_host = site->hosts[a->host].name;
    const char *b_host = site->hosts[b->host].name;

    weft_text_add(
        out, "    - {endpoints: [\"%s:%s\", \"%s:%s\"], addresses: [\"%s\", \"%s\"]",
        a_host, port_name(site, a), b_host, port_name(site, b), a->text, b->text);
    weft_text_add(out, ", mtu: {\"%s:%s\": %lld, \"%s:%s\": %lld}", a_host,
                  port_name(site, a), (long long)port_mtu(site, a), b_host,
                  port_name(site, b), (long long)port_mtu(site, b));
    write_facts(site, a, out);
}

static void write_to_switch(const struct site *site, const struct site_end *end,
                            uint32_t index, uint32_t port, struct weft_text *out)
{
    const char *host = site->hosts[end->host].name;

    weft_text_add(out, "    - {endpoints: [\"%s:%s\", \"sw%u:%u\"], addresses: [\"%s\"]",
                  host, port_name(site, end), index, port, end->text);
    weft_text_add(out, ", mtu: {\"%s:%s\": %lld}", host, port_name(site, end),
                  (long long)port_mtu(site, end));
    write_facts(site, end, out);
}

/* Makes the port's other addresses additional ones. A port has one cable, in the first subnet that
 * it shares with another host. */
static void use_port(struct site *site, const struct site_end *end)
{
    for (size_t i = 0; i < site->n_ends; i++) {
        /* UINT8_MAX excludes it from find_subnet(). */
        if (is_same_port(&site->ends[i], end) && &site->ends[i] != end) {
            site->ends[i].address.prefix_len = UINT8_MAX;
        }
    }
}

/* Finds the ends in the subnet of `first`, including it. Returns true if they are on several
 * hosts. */
static bool find_subnet(struct site *site, size_t first, struct site_end **out,
                        size_t *out_n)
{
    bool is_of_several = false;

    *out_n = 0;
    for (size_t i = first; i < site->n_ends; i++) {
        struct site_end *end = &site->ends[i];
        bool is_known = false;

        if (end->address.prefix_len == UINT8_MAX || end->leads || end->is_used ||
            !are_together(&site->ends[first], end)) {
            continue;
        }
        for (size_t k = 0; k < *out_n; k++) {
            is_known = is_known || is_same_port(out[k], end);
        }
        if (is_known) {
            continue;
        }
        is_of_several = is_of_several || end->host != site->ends[first].host;
        out[(*out_n)++] = end;
    }
    return is_of_several;
}

static bool write_links(struct site *site, struct weft_text *links,
                        uint32_t *switch_ports, uint32_t *out_n_switches)
{
    struct site_end **group = weft_calloc(site->n_ends + 1, sizeof(struct site_end *));
    bool any = false;
    size_t n;

    for (size_t i = 0; i < site->n_ends; i++) {
        if (site->ends[i].is_used || site->ends[i].leads ||
            site->ends[i].address.prefix_len == UINT8_MAX ||
            !find_subnet(site, i, group, &n)) {
            continue;
        }
        any = true;
        for (size_t k = 0; k < n; k++) {
            group[k]->is_used = true;
            use_port(site, group[k]);
        }
        if (n == 2) {
            write_link(site, group[0], group[1], links);
            continue;
        }
        for (size_t k = 0; k < n; k++) {
            write_to_switch(site, group[k], *out_n_switches, (uint32_t)k, links);
        }
        switch_ports[(*out_n_switches)++] = (uint32_t)n;
    }
    free(group);
    return any;
}

static weft_status write_file(struct site *site, struct weft_text *out,
                              struct weft_error *error)
{
    uint32_t *switch_ports = weft_calloc(site->n_ends + 1, sizeof(*switch_ports));
    struct weft_text links = {NULL, 0, 0};
    uint32_t n_switches = 0;
    bool any = write_links(site, &links, switch_ports, &n_switches);

    if (any || site->n_hosts == 1) {
        weft_text_add(out,
                      "# Made of what the ranks found on their machines.\nname: site\n"
                      "description: %u ranks on %u machines, as they are\ntopology:\n"
                      "  management: {subnet: 198.18.0.0/15}\n  nodes:\n",
                      site->n_ranks, site->n_hosts);
        for (uint32_t i = 0; i < site->n_hosts; i++) {
            write_node(site, i, out);
            write_more_addresses(site, i, out);
        }
        weft_text_add(out, "%s", n_switches > 0 ? "  switches:\n" : "");
        for (uint32_t i = 0; i < n_switches; i++) {
            weft_text_add(out, "    sw%u: {ports: %u}\n", i, switch_ports[i]);
        }
        weft_text_add(out, "%s%s", any ? "  links:\n" : "", any ? links.bytes : "");
        weft_text_add(out, "ranks: [");
        for (uint32_t i = 0; i < site->n_ranks; i++) {
            weft_text_add(out, "%s\"%s\"", i == 0 ? "" : ", ",
                          site->hosts[site->rank_hosts[i]].name);
        }
        weft_text_add(out, "]\njobs:\n  - all_reduce: {bytes: [8, 64KiB, 1MiB, 16MiB]}\n"
                           "expect: {data: exact}\n");
    }
    weft_text_fini(&links);
    free(switch_ports);
    return any || site->n_hosts == 1
               ? WEFT_OK
               : weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_SITE,
                           "no two machines have ports in one subnet: there is no cable");
}

weft_status run_site_file(const struct weft_text *facts, uint32_t n_ranks,
                          struct weft_text *out, struct weft_error *error)
{
    struct site site = {.facts = weft_calloc(n_ranks, sizeof(json_t *)),
                        .hosts = weft_calloc(n_ranks, sizeof(struct site_host)),
                        .rank_hosts = weft_calloc(n_ranks, sizeof(uint32_t)),
                        .n_ranks = n_ranks};
    weft_status status = WEFT_OK;

    for (uint32_t rank = 0; rank < n_ranks && status == WEFT_OK; rank++) {
        if (!add_rank(&site, rank, &facts[rank])) {
            status = weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_SITE,
                               "rank %u sent an invalid description", rank);
        }
    }
    for (uint32_t host = 0; host < site.n_hosts && status == WEFT_OK; host++) {
        for (size_t port = 0; port < json_array_size(site.hosts[host].ports); port++) {
            if (!add_ends(&site, host, port)) {
                status = weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_SITE,
                                   "%s described an invalid port", site.hosts[host].name);
            }
        }
    }
    if (status == WEFT_OK) {
        leave_management(&site);
        status = write_file(&site, out, error);
    }
    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        json_decref(site.facts[rank]);
    }
    free(site.facts);
    free(site.hosts);
    free(site.rank_hosts);
    free(site.ends);
    return status;
}
