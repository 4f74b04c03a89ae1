#include "diag/preflight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

/* ---- findings ---- */

/* Returns the new finding, which is valid until the next one is added. */
static struct diag_finding *say(struct diag_findings *out, enum diag_code code,
                                enum diag_severity severity, const struct diag_host *host,
                                const struct diag_port *port)
{
    struct diag_finding *finding;

    out->items = weft_realloc(out->items, (out->n + 1) * sizeof(*out->items));
    finding = &out->items[out->n++];
    *finding = (struct diag_finding){.entry = diag_entry(code), .severity = severity};
    diag_name_place(finding, host->name, port != NULL ? port->name : "", "");
    return finding;
}

/* ---- ports ---- */

static bool has_usable_gid(const struct diag_port *port)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if (port->gids[i].type == 2 && port->gids[i].prefix_len > 0) {
            return true;
        }
    }
    return false;
}

/* Returns true if it is no mistake that the port has no address, because one port of a bond has the
 * GIDs of the bond's addresses, and the others have none. */
static bool may_be_bare(const struct diag_port *port)
{
    return port->is_bonded == DIAG_YES && port->n_addresses != 0;
}

static bool has_link(const struct diag_host *host)
{
    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (host->ports[i].is_up != DIAG_NO) {
            return true;
        }
    }
    return false;
}

static void look_at_port(const struct diag_host *host, const struct diag_port *port,
                         struct diag_findings *out)
{
    if (port->is_up == DIAG_NO) {
        /* A port without a cable is not an error, unless no port has a carrier. */
        say(out, DIAG_LINK_DOWN, has_link(host) ? DIAG_INFO : DIAG_ERROR, host, port);
        return;
    }
    if (port->is_up == DIAG_UNKNOWN || !port->has_gids) {
        return;
    }
    if (may_be_bare(port)) {
        /* No finding. */
    } else if (diag_is_without_gid(port) == DIAG_YES) {
        say(out, DIAG_GID_MISSING, DIAG_ERROR, host, port);
    } else if (diag_has_address(port) == DIAG_NO) {
        say(out, DIAG_ADDR_MISSING, DIAG_WARNING, host, port);
    } else if (!has_usable_gid(port) && !diag_may_lack_addresses(port)) {
        say(out, DIAG_GID_MISSING, DIAG_ERROR, host, port);
    }
    if (port->rp_filter == 1 && port->is_software == DIAG_YES) {
        diag_evidence_int(say(out, DIAG_HOST_RP_FILTER, DIAG_WARNING, host, port),
                          "rp_filter", port->rp_filter);
    }
}

/* Relations between the addresses of two ports of this host, in order of severity. FAR if one of
 * them is not usable. COARSE if they are in one subnet only as NCCL's subnet-aware routing compares
 * them. */
enum nearness { FAR, COARSE, IN_ONE_SUBNET, BOTH_LINK_LOCAL, SAME };

static enum nearness compare(const struct diag_gid *a, const struct diag_gid *b,
                             unsigned coarse_len)
{
    unsigned least =
        (unsigned)(a->prefix_len < b->prefix_len ? a->prefix_len : b->prefix_len);

    if (a->type != 2 || b->type != 2 || a->prefix_len <= 0 || b->prefix_len <= 0) {
        return FAR;
    }
    if (io_ip_is_v4(&a->ip) && io_ip_is_link_local(&a->ip) && io_ip_is_v4(&b->ip) &&
        io_ip_is_link_local(&b->ip)) {
        return BOTH_LINK_LOCAL;
    }
    if (io_ip_is_link_local(&a->ip) || io_ip_is_link_local(&b->ip)) {
        return FAR; /* an fe80:: address is valid on one interface only */
    }
    if (io_ip_equal(&a->ip, &b->ip)) {
        return SAME;
    }
    if (io_ip_same_subnet(&a->ip, &b->ip, least)) {
        return IN_ONE_SUBNET;
    }
    return io_ip_is_v4(&a->ip) && io_ip_same_subnet(&a->ip, &b->ip, coarse_len) ? COARSE
                                                                                : FAR;
}

/* Returns true if a port answers ARP requests for its own addresses only, so that no peer takes it
 * for another port of the host. */
static bool answers_for_itself(const struct diag_port *port)
{
    return port->arp_ignore != IO_UNKNOWN && port->arp_ignore > 0;
}

/* Returns the severity of a finding about two ports of a host. Ports in one subnet work if cables
 * join those that are paired, and each of them answers for itself. */
static enum diag_severity severity_of(enum nearness nearness, const struct diag_port *a,
                                      const struct diag_port *b)
{
    bool may_work =
        nearness == IN_ONE_SUBNET && answers_for_itself(a) && answers_for_itself(b);

    return nearness == COARSE || may_work ? DIAG_WARNING : DIAG_ERROR;
}

static void look_at_pair(const struct diag_host *host, const struct diag_port *a,
                         const struct diag_port *b, unsigned coarse_len,
                         struct diag_findings *out)
{
    static const enum diag_code codes[] = {
        [COARSE] = DIAG_ROUTE_PREFIX_COLLISION,
        [IN_ONE_SUBNET] = DIAG_ROUTE_GID_COLLISION,
        [BOTH_LINK_LOCAL] = DIAG_ROUTE_LINK_LOCAL,
        [SAME] = DIAG_ADDR_DUPLICATE,
    };
    enum nearness worst = FAR;
    const struct diag_gid *mine = NULL, *other = NULL;
    char text[IO_IP_TEXT_BYTES];
    struct diag_finding *finding;

    for (uint32_t i = 0; i < a->n_gids; i++) {
        for (uint32_t k = 0; k < b->n_gids; k++) {
            enum nearness nearness = compare(&a->gids[i], &b->gids[k], coarse_len);
            bool is_extra =
                diag_is_extra(a, &a->gids[i]) || diag_is_extra(b, &b->gids[k]);

            if (nearness > worst && (nearness == SAME || !is_extra)) {
                worst = nearness;
                mine = &a->gids[i];
                other = &b->gids[k];
            }
        }
    }
    if (worst == FAR) {
        return;
    }
    finding = say(out, codes[worst], severity_of(worst, a, b), host, a);
    diag_evidence_text(finding, "address", io_ip_format(&mine->ip, text, sizeof(text)));
    diag_evidence_int(finding, "prefix_len", mine->prefix_len);
    diag_evidence_text(finding, "other_port", b->name);
    diag_evidence_text(finding, "other_address",
                       io_ip_format(&other->ip, text, sizeof(text)));
    diag_evidence_int(finding, "other_prefix_len", other->prefix_len);
    if (worst == IN_ONE_SUBNET) {
        diag_evidence_int(finding, "arp_ignore", a->arp_ignore);
    }
}

static void look_at_ports(const struct diag_host *host, unsigned coarse_len,
                          struct diag_findings *out)
{
    if (host->n_ports == 0) {
        say(out, DIAG_HOST_NO_DEVICE, DIAG_ERROR, host, NULL);
    }
    for (uint32_t i = 0; i < host->n_ports; i++) {
        look_at_port(host, &host->ports[i], out);
        for (uint32_t k = i + 1; k < host->n_ports; k++) {
            look_at_pair(host, &host->ports[i], &host->ports[k], coarse_len, out);
        }
    }
}

/* ---- limits ---- */

static void look_at_limits(const struct diag_host *host,
                           const struct diag_preflight *more, struct diag_findings *out)
{
    if (host->memlock_bytes != IO_UNKNOWN && host->memlock_bytes < DIAG_MEMLOCK_MIN) {
        diag_evidence_int(say(out, DIAG_HOST_MEMLOCK, DIAG_WARNING, host, NULL),
                          "memlock_bytes", host->memlock_bytes);
    }
    if (more->cma_total_kib == 0 && more->cma_free_kib > 0) {
        struct diag_finding *finding =
            say(out, DIAG_HOST_KERNEL_MEMORY, DIAG_ERROR, host, NULL);

        diag_evidence_int(finding, "cma_total_kib", more->cma_total_kib);
        diag_evidence_int(finding, "cma_free_kib", more->cma_free_kib);
    }
}

/* ---- settings ---- */

/* Returns the first setting with that name. NULL if there is none, or if its value is empty. */
static const struct diag_setting *find(const struct diag_preflight *more,
                                       const char *name)
{
    for (uint32_t i = 0; i < more->n_settings; i++) {
        if (strcmp(more->settings[i].name, name) == 0) {
            return more->settings[i].value[0] == '\0' ? NULL : &more->settings[i];
        }
    }
    return NULL;
}

/* Returns the number that `setting` gives. As in NCCL's param.cc, any base is accepted, what
 * follows the number is ignored, text that is no number is 0, and a number out of range is the
 * default. */
static long number_of(const struct diag_setting *setting, long by_default)
{
    long number;

    if (setting == NULL) {
        return by_default;
    }
    errno = 0;
    number = strtol(setting->value, NULL, 0);
    return errno == ERANGE ? by_default : number;
}

static unsigned coarse_len(const struct diag_preflight *more)
{
    long len = number_of(find(more, "NCCL_IB_SUBNET_PREFIX_LEN"), DIAG_SUBNET_LEN);

    return len < 0 ? 0 : len > 32 ? 32 : (unsigned)len;
}

static struct diag_finding *say_setting(struct diag_findings *out, enum diag_code code,
                                        enum diag_severity severity,
                                        const struct diag_host *host,
                                        const struct diag_setting *setting)
{
    struct diag_finding *finding = say(out, code, severity, host, NULL);

    diag_evidence_text(finding, "setting", setting->name);
    diag_evidence_text(finding, "value", setting->value);
    diag_evidence_text(finding, "source", setting->source);
    return finding;
}

static bool is_mesh(const char *value)
{
    return strstr(value, "mesh") != NULL || strstr(value, "Mesh") != NULL ||
           strstr(value, "MESH") != NULL;
}

/* Returns true if a value contains a blank or a remark. NCCL takes those in nccl.conf as a part of
 * the plugin's name. */
static bool has_tail(const char *value)
{
    return strpbrk(value, " \t\r#") != NULL;
}

/* Checks the settings that select the network. NCCL opens a plugin that is named by its path
 * wherever it is. Scripts for NCCL's own network set NCCL_NET_PLUGIN=none. */
static void look_at_choice(const struct diag_host *host,
                           const struct diag_preflight *more, struct diag_findings *out)
{
    const struct diag_setting *plugin = find(more, "NCCL_NET_PLUGIN");
    const struct diag_setting *net = find(more, "NCCL_NET");

    if (plugin != NULL && !is_mesh(plugin->value)) {
        say_setting(out, DIAG_PLUGIN_NOT_CHOSEN, DIAG_ERROR, host, plugin);
    } else if (plugin == NULL && more->has_plugin == DIAG_YES) {
        say(out, DIAG_PLUGIN_NOT_CHOSEN, DIAG_INFO, host, NULL);
    } else if (plugin != NULL &&
               ((more->has_plugin == DIAG_NO && strchr(plugin->value, '/') == NULL) ||
                has_tail(plugin->value))) {
        say_setting(out, DIAG_PLUGIN_NOT_FOUND, DIAG_ERROR, host, plugin);
    }
    if (net != NULL && !is_mesh(net->value)) {
        say_setting(out, DIAG_PLUGIN_NOT_CHOSEN, DIAG_ERROR, host, net);
    }
}

/* Returns the first port that NCCL opens, that is up, and that has no RoCE v2 GID of an address at
 * that index, or NULL. */
static const struct diag_port *without_gid_at(const struct diag_host *host, long index)
{
    for (uint32_t i = 0; i < host->n_ports; i++) {
        const struct diag_port *port = &host->ports[i];
        bool is_there = false;

        for (uint32_t k = 0; k < port->n_gids; k++) {
            const struct diag_gid *gid = &port->gids[k];

            is_there = is_there ||
                       (gid->index == index && gid->type == 2 && gid->prefix_len > 0);
        }
        if (port->is_up == DIAG_YES && port->has_gids && !is_there &&
            port->is_opened != DIAG_NO && !may_be_bare(port) &&
            !diag_may_lack_addresses(port)) {
            return port;
        }
    }
    return NULL;
}

/* Reports NCCL_IB_HCA if the ports that it selects have no carrier, but others have. */
static void look_at_list(const struct diag_host *host, const struct diag_preflight *more,
                         struct diag_findings *out)
{
    const struct diag_setting *setting = find(more, "NCCL_IB_HCA");
    struct diag_finding *finding;
    struct weft_text others = {0};

    if (setting == NULL || diag_leaves_no_port((struct diag_ports){
                               host->ports, host->n_ports}) != DIAG_YES) {
        return;
    }
    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (host->ports[i].is_up == DIAG_YES) {
            weft_text_add(&others, "%s%s", others.n > 0 ? " " : "", host->ports[i].name);
        }
    }
    finding = say_setting(out, DIAG_HOST_HCA_LIST, DIAG_ERROR, host, setting);
    diag_evidence_text(finding, "ports_with_carrier", others.bytes);
    weft_text_fini(&others);
}

/* Checks NCCL_IB_GID_INDEX. */
static void look_at_index(const struct diag_host *host, const struct diag_preflight *more,
                          struct diag_findings *out)
{
    const struct diag_setting *setting = find(more, "NCCL_IB_GID_INDEX");
    const struct diag_port *port = NULL;
    struct diag_finding *finding;
    long index;

    if (setting == NULL) {
        return;
    }
    index = number_of(setting, -1);
    port = index >= 0 ? without_gid_at(host, index) : NULL;
    if (port != NULL) {
        finding = say(out, DIAG_GID_FIXED_INDEX, DIAG_WARNING, host, port);
        diag_evidence_slot(finding, port, index);
        diag_evidence_text(finding, "source", setting->source);
    }
}

/* Checks NCCL_SOCKET_IFNAME. NCCL ignores a value of one character. */
static void look_at_interface(const struct diag_host *host,
                              const struct diag_preflight *more,
                              struct diag_findings *out)
{
    const struct diag_setting *setting = find(more, "NCCL_SOCKET_IFNAME");
    const struct diag_setting *family = find(more, "NCCL_SOCKET_FAMILY");
    struct weft_text named = {0}, others = {0};
    struct diag_finding *finding;

    if (setting != NULL && setting->value[1] != '\0' && more->n_interfaces > 0 &&
        diag_interface_missing(more->interfaces, more->n_interfaces, setting->value,
                               family != NULL ? family->value : NULL, &named, &others)) {
        finding = say_setting(out, DIAG_HOST_NO_INTERFACE, DIAG_ERROR, host, setting);
        diag_evidence_text(finding, "named", named.n > 0 ? named.bytes : "none");
        diag_evidence_text(finding, "others", others.n > 0 ? others.bytes : "none");
        if (family != NULL) {
            diag_evidence_text(finding, "family", family->value);
        }
    }
    weft_text_fini(&named);
    weft_text_fini(&others);
}

static bool is_known(const struct diag_preflight *more, const char *name)
{
    for (uint32_t i = 0; i < more->n_known; i++) {
        if (strcmp(more->known[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Reports settings with the plugin's prefix that the plugin does not know, because they belong to
 * another plugin or are misspelt. */
static void look_at_names(const struct diag_host *host, const struct diag_preflight *more,
                          struct diag_findings *out)
{
    for (uint32_t i = 0; i < more->n_settings; i++) {
        const struct diag_setting *setting = &more->settings[i];

        if (strncmp(setting->name, "NCCL_MESH_", 10) == 0 && more->n_known > 0 &&
            !is_known(more, setting->name)) {
            say_setting(out, DIAG_PLUGIN_SETTING, DIAG_WARNING, host, setting);
        }
    }
}

void diag_preflight(const struct diag_host *host, const struct diag_preflight *more,
                    struct diag_findings *out)
{
    look_at_ports(host, coarse_len(more), out);
    look_at_limits(host, more, out);
    look_at_choice(host, more, out);
    look_at_list(host, more, out);
    look_at_index(host, more, out);
    look_at_interface(host, more, out);
    look_at_names(host, more, out);
    diag_sort(out);
}

/* ---- both ends ---- */

bool diag_preflight_faces(const struct diag_port *a, const struct diag_port *b)
{
    return a->is_up == DIAG_YES && b->is_up == DIAG_YES && diag_facing(a, b) == DIAG_YES;
}

static bool share_an_address(const struct diag_port *a, const struct diag_port *b)
{
    for (uint32_t i = 0; i < a->n_gids; i++) {
        for (uint32_t k = 0; k < b->n_gids; k++) {
            if (compare(&a->gids[i], &b->gids[k], DIAG_SUBNET_LEN) == SAME) {
                return true;
            }
        }
    }
    return false;
}

/* Finds two addresses that face each other and are in different VLANs. Returns false if there are
 * none, or if two others are in one. */
static bool find_vlans(const struct diag_port *port, const struct diag_port *other,
                       int vlans[2])
{
    bool any = false;

    for (uint32_t i = 0; i < port->n_gids; i++) {
        for (uint32_t k = 0; k < other->n_gids; k++) {
            const struct diag_gid *a = &port->gids[i], *b = &other->gids[k];
            enum nearness nearness = compare(a, b, DIAG_SUBNET_LEN);

            if (nearness != IN_ONE_SUBNET) {
                continue;
            }
            if (a->vlan_id == IO_UNKNOWN || b->vlan_id == IO_UNKNOWN ||
                a->vlan_id == b->vlan_id) {
                return false;
            }
            any = true;
            vlans[0] = a->vlan_id;
            vlans[1] = b->vlan_id;
        }
    }
    return any;
}

static void look_at_vlans(const struct diag_input *input, const struct diag_host *host,
                          const struct diag_port *port, const struct diag_host *peer,
                          const struct diag_port *other, struct diag_findings *out)
{
    struct diag_finding *finding;
    int vlans[2];

    if (!diag_preflight_faces(port, other) ||
        diag_is_joined(input, host->name, port->name, peer->name, other->name) ==
            DIAG_NO ||
        !find_vlans(port, other, vlans)) {
        return;
    }
    finding = say(out, DIAG_LINK_VLAN_MISMATCH, DIAG_ERROR, host, port);
    diag_name_place(finding, host->name, port->name, peer->name);
    diag_evidence_text(finding, "local_port", port->name);
    diag_evidence_int(finding, "local_vlan_id", vlans[0]);
    diag_evidence_text(finding, "remote_port", other->name);
    diag_evidence_int(finding, "remote_vlan_id", vlans[1]);
}

/* If the ports of a cable have only the GID of an address that names the other end as its peer,
 * they are not without a GID: replaces what was said of each port by itself. */
static void look_at_peer_addresses(const struct diag_input *input,
                                   const struct diag_cable *cable,
                                   struct diag_findings *out)
{
    const struct diag_host *ends[2] = {diag_find_host(input, cable->from),
                                       diag_find_host(input, cable->to)};
    const struct diag_port *ports[2] = {diag_find_port(ends[0], cable->from_port),
                                        diag_find_port(ends[1], cable->to_port)};

    if (diag_has_peers_only(ports[0]) != DIAG_YES ||
        diag_has_peers_only(ports[1]) != DIAG_YES) {
        return;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        struct diag_finding *said = &out->items[i];

        for (int k = 0; k < 2; k++) {
            if (said->entry->id == DIAG_GID_MISSING &&
                strcmp(said->host, ends[k]->name) == 0 &&
                strcmp(said->port, ports[k]->name) == 0) {
                said->entry = diag_entry(DIAG_GID_PEER_ADDRESS);
                diag_name_place(said, ends[k]->name, ports[k]->name, ends[1 - k]->name);
            }
        }
    }
}

static void look_at_ends(const struct diag_host *host, const struct diag_port *port,
                         const struct diag_host *peer, const struct diag_port *other,
                         struct diag_findings *out)
{
    struct diag_finding *finding = NULL;

    if (share_an_address(port, other)) {
        finding = say(out, DIAG_ADDR_DUPLICATE, DIAG_ERROR, host, port);
    } else if (diag_facing_one_way(port, other) == DIAG_YES) {
        finding = say(out, DIAG_ADDR_PREFIX_MISMATCH, DIAG_ERROR, host, port);
    }
    if (finding != NULL) {
        diag_name_place(finding, host->name, port->name, peer->name);
        diag_evidence_text(finding, "local_port", port->name);
        diag_evidence_text(finding, "remote_port", other->name);
    }
}

/* Reports the first bond of a host that has cables to different hosts. */
static void look_at_bonds(const struct diag_input *input, const struct diag_host *host,
                          struct diag_findings *out)
{
    for (uint32_t i = 0; i < host->n_ports; i++) {
        for (uint32_t k = i + 1; k < host->n_ports; k++) {
            const char *peers[2];
            struct diag_finding *finding;
            char text[2 * DIAG_NAME_BYTES + 1];

            if (diag_bond_splits(input, host->name, &host->ports[i], &host->ports[k],
                                 peers) != DIAG_YES) {
                continue;
            }
            finding = say(out, DIAG_HOST_BOND_PEERS, DIAG_ERROR, host, NULL);
            weft_format(text, sizeof(text), "%s %s", peers[0], peers[1]);
            diag_evidence_text(finding, "bond", host->ports[i].master);
            diag_evidence_text(finding, "cables_lead_to", text);
            return;
        }
    }
}

void diag_preflight_ends(const struct diag_input *input, struct diag_findings *out)
{
    for (uint32_t i = 0; i < input->n_cables; i++) {
        look_at_peer_addresses(input, &input->cables[i], out);
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        look_at_bonds(input, &input->hosts[i], out);
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t j = i + 1; j < input->n_hosts; j++) {
            const struct diag_host *a = &input->hosts[i], *b = &input->hosts[j];

            if (diag_is_same_machine(a->name, b->name)) {
                continue; /* its ports were compared with each other */
            }
            for (uint32_t k = 0; k < a->n_ports; k++) {
                for (uint32_t l = 0; l < b->n_ports; l++) {
                    look_at_ends(a, &a->ports[k], b, &b->ports[l], out);
                    look_at_vlans(input, a, &a->ports[k], b, &b->ports[l], out);
                }
            }
        }
    }
    diag_sort(out);
}

/* ---- errors that are predicted ---- */

/* Removes the warnings of that code at that host. */
static void drop_warnings(struct diag_findings *out, const struct diag_finding *cause)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < out->n; i++) {
        const struct diag_finding *said = &out->items[i];

        if (said->severity != DIAG_WARNING || said->entry != cause->entry ||
            !diag_is_same_machine(said->host, cause->host)) {
            out->items[n++] = *said;
        }
    }
    out->n = n;
}

void diag_preflight_errors(const struct diag_input *input, struct diag_findings *out)
{
    struct diag_findings causes = {NULL, 0};

    diag(input, &causes);
    for (uint32_t i = 0; i < causes.n; i++) {
        struct diag_finding *cause = &causes.items[i];
        const struct diag_host *host = diag_find_host(input, cause->host);

        if (cause->severity == DIAG_ERROR && cause->entry->id != DIAG_UNDETERMINED) {
            diag_evidence_text(cause, "policy", host != NULL ? host->policy : "unknown");
            drop_warnings(out, cause);
            diag_add(out, cause);
        }
    }
    diag_findings_fini(&causes);
    diag_sort(out);
}
