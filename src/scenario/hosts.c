#include <string.h>

#include "base/check.h"
#include "scenario/arena.h"
#include "scenario/names.h"
#include "scenario/topology.h"

enum {
    KEY_PORTS,
    KEY_CAGES,
    KEY_GPUS,
    KEY_GPU,
    KEY_RANKS,
    KEY_PROFILE,
    KEY_OVERRIDE,
    KEY_PCIE,
    KEY_SYSCTL,
    KEY_FIREWALL,
    KEY_MEMLOCK,
    KEY_SHM,
    KEY_ENV,
    KEY_ADDRESSES,
    KEY_BONDS,
    KEY_ROUTES,
    KEY_START,
    KEY_KNOWN_AS,
    N_KEYS
};

static const struct walk_key host_keys[N_KEYS] = {
    [KEY_PORTS] = {.name = "ports"},
    [KEY_CAGES] = {.name = "cages"},
    [KEY_GPUS] = {.name = "gpus",
                  .type = WALK_U32,
                  .offset = offsetof(struct world_host, n_gpus),
                  .max = 64},
    [KEY_GPU] = {.name = "gpu"},
    [KEY_RANKS] = {.name = "ranks",
                   .type = WALK_U32,
                   .offset = offsetof(struct world_host, n_processes),
                   .max = 1024},
    [KEY_PROFILE] = {.name = "profile"},
    [KEY_OVERRIDE] = {.name = "profile_override"},
    [KEY_PCIE] = {.name = "pcie"},
    [KEY_SYSCTL] = {.name = "sysctl"},
    [KEY_FIREWALL] = {.name = "firewall"},
    [KEY_MEMLOCK] = {.name = "memlock"},
    [KEY_SHM] = {.name = "shm"},
    [KEY_ENV] = {.name = "env"},
    [KEY_ADDRESSES] = {.name = "addresses"},
    [KEY_BONDS] = {.name = "bonds"},
    [KEY_ROUTES] = {.name = "routes"},
    [KEY_START] = {.name = "start",
                   .type = WALK_TIME,
                   .offset = offsetof(struct world_host, start_ns)},
    [KEY_KNOWN_AS] = {.name = "known_as"},
};
const struct walk_table hosts_table = {"a node", host_keys, N_KEYS};

#define SYSCTL(field, highest)                                                           \
    {                                                                                    \
        .name = #field, .type = WALK_INT,                                                \
        .offset = offsetof(struct world_sysctl, field), .max = (highest)                 \
    }
static const struct walk_key sysctl_keys[] = {
    SYSCTL(rp_filter, 2),          SYSCTL(arp_ignore, 8),   SYSCTL(arp_announce, 2),
    SYSCTL(ip_forward, 1),         SYSCTL(accept_local, 1), SYSCTL(arp_filter, 1),
    SYSCTL(promote_secondaries, 1)};
static const struct walk_table sysctl_table = {"sysctl", sysctl_keys,
                                               WEFT_LENGTH(sysctl_keys)};

enum { KEY_FORWARD, KEY_INPUT_DROP };
static const struct walk_key firewall_keys[] = {
    [KEY_FORWARD] = {.name = "forward"}, [KEY_INPUT_DROP] = {.name = "input_drop"}};
static const struct walk_table firewall_table = {"firewall", firewall_keys,
                                                 WEFT_LENGTH(firewall_keys)};

enum { KEY_TOPOLOGY, KEY_PEER_ACCESS };
static const struct walk_key gpu_keys[] = {
    [KEY_TOPOLOGY] = {.name = "topology"}, [KEY_PEER_ACCESS] = {.name = "peer_access"}};
static const struct walk_table gpu_table = {"gpu", gpu_keys, WEFT_LENGTH(gpu_keys)};

#define SETTINGS_MAX 64u
#define INPUT_DROP_MAX 64u

static void read_profile(struct loader *loader, struct world_host *host,
                         const struct tree_node *node)
{
    unsigned index;
    if (read_choice(loader, node, "profile", weft_profile_names, WEFT_N_PROFILES,
                    &index)) {
        host->profile = (enum weft_profile)index;
    }
}

static void set_setting(struct world_setting *settings, uint32_t *n,
                        struct world_setting setting)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (strcmp(settings[i].name, setting.name) == 0) {
            settings[i] = setting;
            return;
        }
    }
    settings[(*n)++] = setting;
}

/* Reads pairs of name and value. A later value replaces an earlier one from the defaults. */
static void read_settings(struct loader *loader, const struct tree_node *node,
                          const char *what, bool is_env,
                          const struct world_setting **settings, uint32_t *n)
{
    if (!read_map(loader, node, what)) {
        return;
    }
    if (node->n > SETTINGS_MAX) {
        complain(loader, node->mark, "%s: more than %u entries", what, SETTINGS_MAX);
        return;
    }
    walk_duplicates(loader, node, what);
    struct world_setting *grown =
        arena_grow(loader->arena, *settings, *n, *n + node->n, sizeof(grown[0]));
    *settings = grown;
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_pair *pair = &node->pairs[i];
        struct world_setting setting = {.name = pair->key->text};
        char quoted[DIAGNOSE_QUOTE_BYTES];
        if (!is_name(setting.name, 63, !is_env, "_")) {
            complain(loader, pair->key->mark, "%s: bad name '%s'; write %s", what,
                     diagnose_quote(setting.name, quoted),
                     is_env ? "letters, digits and _"
                            : "lower case letters, digits and _");
        } else if (read_scalar(loader, pair->value, setting.name, &setting.value)) {
            set_setting(grown, n, setting);
        }
    }
}

static bool is_port_range(const char *text)
{
    unsigned long first, last;
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 5 || (text[n] != '\0' && text[n] != '-')) {
        return false;
    }
    first = last = 0;
    for (size_t i = 0; i < n; i++) {
        first = 10 * first + (unsigned long)(text[i] - '0');
    }
    if (text[n] == '\0') {
        return first >= 1 && first <= 65535;
    }
    const char *rest = text + n + 1;
    n = strspn(rest, "0123456789");
    if (n == 0 || n > 5 || rest[n] != '\0') {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        last = 10 * last + (unsigned long)(rest[i] - '0');
    }
    return first >= 1 && first <= last && last <= 65535;
}

static bool is_drop_rule(const char *text)
{
    return (strncmp(text, "tcp:", 4) == 0 || strncmp(text, "udp:", 4) == 0) &&
           is_port_range(text + 4);
}

static void read_firewall(struct loader *loader, struct world_host *host,
                          const struct tree_node *node)
{
    static const char *const verdicts[] = {"accept", "drop"};
    struct walk_seen seen;
    unsigned verdict;
    if (!walk_keys(loader, node, &firewall_table, &seen)) {
        return;
    }
    if (seen.at[KEY_FORWARD] != NULL &&
        read_choice(loader, seen.at[KEY_FORWARD], "forward", verdicts, 2, &verdict)) {
        host->forward_accept = verdict == 0;
    }
    const struct tree_node *list = seen.at[KEY_INPUT_DROP];
    if (list == NULL || !read_list(loader, list, "input_drop", 0, INPUT_DROP_MAX)) {
        return;
    }
    const char **drop = arena_calloc(loader->arena, list->n, sizeof(drop[0]));
    host->input_drop = drop;
    host->n_input_drop = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const char *rule;
        if (!read_text(loader, list->items[i], "input_drop", &rule)) {
            continue;
        }
        if (is_drop_rule(rule)) {
            drop[host->n_input_drop++] = rule;
        } else {
            complain_type(loader, list->items[i], "input_drop",
                          "a rule such as tcp:1024-65535 or udp:4791");
        }
    }
}

static void read_memlock(struct loader *loader, struct world_host *host,
                         const struct tree_node *node)
{
    uint64_t bytes;
    if (node->kind == TREE_SCALAR && strcmp(node->text, "unlimited") == 0) {
        host->memlock_bytes = INT64_MAX;
    } else if (read_size(loader, node, "memlock", 0, WALK_SIZE_MAX, &bytes)) {
        host->memlock_bytes = (int64_t)bytes;
    }
}

static void read_gpu(struct loader *loader, struct world_host *host,
                     struct scenario_node *gpu, const struct tree_node *node)
{
    static const char *const choices[] = {"all", "none"};
    const struct tree_node *topology, *peer_access;
    struct walk_seen seen;
    unsigned index;
    if (!walk_keys(loader, node, &gpu_table, &seen)) {
        return;
    }
    topology = seen.at[KEY_TOPOLOGY];
    peer_access = seen.at[KEY_PEER_ACCESS];
    if (topology == NULL && peer_access == NULL) {
        complain(loader, node->mark, "gpu: 'topology' or 'peer_access' is missing");
    }
    if (topology != NULL && read_text(loader, topology, "topology", &gpu->gpu_topology)) {
        gpu->gpu_mark = topology->mark;
        if (gpu->gpu_topology[0] == '\0') {
            complain(loader, topology->mark, "topology: the file name is empty");
        }
    }
    if (peer_access != NULL &&
        read_choice(loader, peer_access, "peer_access", choices, 2, &index)) {
        host->has_no_peer_access = index == 1;
    }
}

static void read_known_as(struct loader *loader, struct world_host *host,
                          const struct tree_node *node)
{
    const char *text;
    if (read_text(loader, node, "known_as", &text) &&
        !io_ip_parse(text, &host->known_ip)) {
        complain_type(loader, node, "known_as", "an address such as 127.0.0.1");
    }
}

/* A run ends after 4 hours (run.c), so a host that starts later than this has too little time. */
#define START_MAX_S 10800

static void check_start(struct loader *loader, const struct tree_node *node,
                        const struct world_host *host)
{
    if (host->start_ns > START_MAX_S * INT64_C(1000000000)) {
        complain(loader, node->mark,
                 "start: %s is more than %us, as a run ends after 4 hours", node->text,
                 START_MAX_S);
    }
}

/* Reads keys that both nodes and defaults can have. The node's are read last and override the
 * defaults. */
static void read_common(struct loader *loader, const struct walk_seen *seen,
                        struct world_host *host, struct scenario_node *node)
{
    struct walk_seen ignored;
    walk_values(loader, &hosts_table, seen, host);
    if (seen->at[KEY_START] != NULL) {
        check_start(loader, seen->at[KEY_START], host);
    }
    if (seen->at[KEY_GPU] != NULL) {
        read_gpu(loader, host, node, seen->at[KEY_GPU]);
    }
    if (seen->at[KEY_PROFILE] != NULL) {
        read_profile(loader, host, seen->at[KEY_PROFILE]);
    }
    if (seen->at[KEY_OVERRIDE] != NULL) {
        read_settings(loader, seen->at[KEY_OVERRIDE], "profile_override", false,
                      &host->overrides, &host->n_overrides);
    }
    if (seen->at[KEY_SYSCTL] != NULL) {
        walk_map(loader, seen->at[KEY_SYSCTL], &sysctl_table, &ignored, &host->sysctl);
    }
    if (seen->at[KEY_FIREWALL] != NULL) {
        read_firewall(loader, host, seen->at[KEY_FIREWALL]);
    }
    if (seen->at[KEY_MEMLOCK] != NULL) {
        read_memlock(loader, host, seen->at[KEY_MEMLOCK]);
    }
    if (seen->at[KEY_SHM] != NULL) {
        static const char *const choices[] = {"shared", "private"};
        unsigned index;

        if (read_choice(loader, seen->at[KEY_SHM], "shm", choices, 2, &index)) {
            host->has_private_shm = index == 1;
        }
    }
    if (seen->at[KEY_KNOWN_AS] != NULL) {
        read_known_as(loader, host, seen->at[KEY_KNOWN_AS]);
    }
    if (seen->at[KEY_ENV] != NULL) {
        read_settings(loader, seen->at[KEY_ENV], "env", true, &host->settings,
                      &host->n_settings);
    }
}

static void see_defaults(const struct topology *topology, struct walk_seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    for (unsigned i = 0; i < N_KEYS; i++) {
        if (i != KEY_ADDRESSES && i != KEY_BONDS && i != KEY_ROUTES) {
            seen->at[i] = tree_get(topology->defaults, host_keys[i].name);
        }
    }
}

static const struct tree_node *either(const struct walk_seen *own,
                                      const struct walk_seen *defaults, unsigned key)
{
    return own->at[key] != NULL ? own->at[key] : defaults->at[key];
}

static void start_host(struct world_host *host)
{
    host->n_gpus = 1;
    host->profile = WEFT_PROFILE_MLX5;
    host->forward_accept = true;
    host->sysctl.promote_secondaries = 1; /* default of systemd */
    host->memlock_bytes = INT64_MAX;
}

static void read_host(struct topology *topology, const struct tree_pair *pair,
                      struct world_host *host, struct scenario_node *node,
                      struct topology_host *extra)
{
    struct loader *loader = topology->loader;
    struct walk_seen own, defaults;
    start_host(host);
    host->name = pair->key->text;
    node->mark = pair->key->mark;
    see_defaults(topology, &defaults);
    read_common(loader, &defaults, host, node);
    extra->has_bad_ports = !walk_keys(loader, pair->value, &hosts_table, &own);
    if (extra->has_bad_ports) {
        return;
    }
    read_common(loader, &own, host, node);
    ports_read(topology, host, node, extra, either(&own, &defaults, KEY_PORTS),
               either(&own, &defaults, KEY_CAGES));
    if (defaults.at[KEY_PCIE] != NULL && !extra->has_bad_ports) {
        pcie_read(topology, host, extra, defaults.at[KEY_PCIE]);
    }
    if (own.at[KEY_PCIE] != NULL && !extra->has_bad_ports) {
        pcie_read(topology, host, extra, own.at[KEY_PCIE]);
    }
    extra->addresses = own.at[KEY_ADDRESSES];
    extra->bonds = own.at[KEY_BONDS];
    extra->routes = own.at[KEY_ROUTES];
    extra->has_ranks = either(&own, &defaults, KEY_RANKS) != NULL;
    if (!extra->has_ranks) {
        host->n_processes = host->n_gpus > 0 ? host->n_gpus : 1;
    } else if (either(&own, &defaults, KEY_GPUS) == NULL && host->n_processes > 1) {
        host->n_gpus = host->n_processes; /* ranks share GPUs only if `gpus` is given */
    }
}

void hosts_check_defaults(struct topology *topology)
{
    struct world_host host = {0};
    struct scenario_node node = {0};
    struct topology_host extra = {0};
    struct walk_seen seen;
    start_host(&host);
    see_defaults(topology, &seen);
    read_common(topology->loader, &seen, &host, &node);
    ports_read(topology, &host, &node, &extra, seen.at[KEY_PORTS], seen.at[KEY_CAGES]);
}

static bool is_node_name(struct loader *loader, const struct tree_node *key,
                         const char *what)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];
    if (tree_scalar_kind(key) != TREE_TEXT) {
        return complain_type(loader, key, what, "a name");
    }
    return is_name(key->text, 63, true, "-") ||
           complain(loader, key->mark, "%s: bad name '%s'; write [a-z0-9-]+, at most 63",
                    what, diagnose_quote(key->text, quoted));
}

void hosts_read(struct topology *topology, const struct tree_node *node)
{
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    if (!read_map(loader, node, "nodes")) {
        return;
    }
    if (node->n == 0 || node->n > TOPOLOGY_HOSTS_MAX) {
        complain(loader, node->mark, "nodes: expected 1..%u nodes, got %u",
                 TOPOLOGY_HOSTS_MAX, node->n);
        return;
    }
    walk_duplicates(loader, node, "nodes");
    s->hosts = arena_calloc(loader->arena, node->n, sizeof(s->hosts[0]));
    s->nodes = arena_calloc(loader->arena, node->n, sizeof(s->nodes[0]));
    topology->hosts = arena_calloc(loader->arena, node->n, sizeof(topology->hosts[0]));
    s->n_hosts = node->n;
    uint64_t n_ports = 0;
    for (uint32_t i = 0; i < node->n; i++) {
        is_node_name(loader, node->pairs[i].key, "nodes");
        read_host(topology, &node->pairs[i], &s->hosts[i], &s->nodes[i],
                  &topology->hosts[i]);
        n_ports += s->hosts[i].n_ports;
        if (n_ports > TOPOLOGY_ALL_PORTS_MAX) {
            complain(loader, node->pairs[i].key->mark, "nodes: more than %u ports in all",
                     TOPOLOGY_ALL_PORTS_MAX);
            s->n_hosts = 0;
            return;
        }
    }
}

void switches_read(struct topology *topology, const struct tree_node *node)
{
    static const struct walk_key keys[] = {
        {.name = "ports",
         .type = WALK_U32,
         .offset = offsetof(struct world_switch, n_ports),
         .min = 1,
         .max = 4096}};
    static const struct walk_table table = {"a switch", keys, WEFT_LENGTH(keys)};
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    if (!read_map(loader, node, "switches")) {
        return;
    }
    if (node->n > TOPOLOGY_SWITCHES_MAX) {
        complain(loader, node->mark, "switches: more than %u", TOPOLOGY_SWITCHES_MAX);
        return;
    }
    walk_duplicates(loader, node, "switches");
    s->switches = arena_calloc(loader->arena, node->n, sizeof(s->switches[0]));
    s->switch_marks = arena_calloc(loader->arena, node->n, sizeof(s->switch_marks[0]));
    s->n_switches = node->n;
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_pair *pair = &node->pairs[i];
        struct walk_seen seen;
        s->switches[i].name = pair->key->text;
        s->switch_marks[i] = pair->key->mark;
        s->switches[i].n_ports = 1;
        is_node_name(loader, pair->key, "switches");
        if (walk_map(loader, pair->value, &table, &seen, &s->switches[i]) &&
            seen.at[0] == NULL) {
            char quoted[DIAGNOSE_QUOTE_BYTES];
            complain(loader, pair->key->mark, "switch '%s': 'ports' is missing",
                     diagnose_quote(pair->key->text, quoted));
        }
    }
}
