#include "swarm/space.h"

#include <string.h>

#include "base/check.h"
#include "base/profile.h"
#include "base/rng.h"

enum {
    HOSTS_MAX = 12,
    CABLES_MAX = 40,
    PORTS_MAX = 12,
    FULL_HOSTS_MAX = 4,
    INSIDE_HOSTS_MAX = 4
};

/* A space: the probability, in percent, that a setting has a feature. */
struct swarm_space {
    const char *name, *help;
    uint8_t weight; /* weight in the space `all`; 0 if not part of it */
    uint8_t packet, cable, gid, verb, call, process, stranger; /* faults */
    uint8_t lasting;   /* faults that can end a job */
    uint8_t rare;      /* rare branches taken more often */
    uint8_t inside;    /* several ranks on a host */
    uint8_t profiles;  /* other profiles than mlx5, and overrides of their fields */
    uint8_t addresses; /* IPv6, VLANs, bonds, small subnets */
    uint8_t boot;      /* no management network, or one that is not used */
    uint8_t mesh;      /* more than two hosts */
    uint8_t policy;    /* other policies than weft */
    uint8_t big;       /* sizes from 32 KiB, instead of up to 8 KiB per rank */
    /* Cables with delays of milliseconds, so that a job lasts for seconds with few packets. */
    uint8_t slow;
};

/* Spaces that are cheap and have many faults have the largest weights. */
static const struct swarm_space spaces[] = {
    {.name = "all", .help = "each of the others in turn, by their weights"},
    {.name = "packets",
     .help = "loss, corruption, duplicates, reordering, single packets dropped",
     .weight = 28,
     .packet = 100,
     .cable = 10,
     .rare = 30,
     .profiles = 60,
     .addresses = 20,
     .boot = 10,
     .mesh = 25,
     .big = 8},
    {.name = "cables",
     .help = "cables that flap, pause, go slow or lose large packets",
     .weight = 20,
     .packet = 25,
     .cable = 100,
     .lasting = 10,
     .rare = 20,
     .profiles = 20,
     .addresses = 20,
     .boot = 25,
     .mesh = 60,
     .big = 8},
    {.name = "gids",
     .help = "addresses and GIDs that come, go and move",
     .weight = 8,
     .packet = 10,
     .cable = 30,
     .gid = 100,
     .lasting = 10,
     .rare = 10,
     .profiles = 40,
     .addresses = 60,
     .boot = 20,
     .mesh = 40,
     .big = 3},
    {.name = "calls",
     .help = "verbs and calls that fail, come late, are short or lost",
     .weight = 12,
     .packet = 10,
     .cable = 10,
     .verb = 60,
     .call = 80,
     .lasting = 30,
     .rare = 50,
     .inside = 20,
     .profiles = 50,
     .addresses = 10,
     .boot = 30,
     .mesh = 30,
     .big = 3},
    {.name = "processes",
     .help = "processes that stop, die or start late, and strangers",
     .weight = 6,
     .packet = 10,
     .cable = 20,
     .process = 60,
     .stranger = 30,
     .lasting = 40,
     .rare = 10,
     .inside = 20,
     .profiles = 20,
     .boot = 40,
     .mesh = 50,
     .big = 3},
    {.name = "inside",
     .help = "several ranks on a host, with and without peer access between their GPUs",
     .weight = 10,
     .packet = 10,
     .call = 15,
     .rare = 30,
     .inside = 100,
     .profiles = 20,
     .boot = 20,
     .mesh = 30,
     .big = 10},
    {.name = "meshes",
     .help = "larger meshes without faults: every collective, relays, every profile",
     .weight = 10,
     .packet = 10,
     .cable = 5,
     .rare = 10,
     .inside = 10,
     .profiles = 40,
     .addresses = 40,
     .boot = 40,
     .mesh = 90,
     .big = 10},
    {.name = "seconds",
     .help = "jobs that last for seconds, in which cables and addresses come and go",
     .weight = 8,
     .packet = 10,
     .cable = 100,
     .gid = 25,
     .lasting = 20,
     .rare = 10,
     .profiles = 15,
     .boot = 20,
     .mesh = 50,
     .slow = 100},
    {.name = "policies",
     .help = "policies of other programs, which give up where weft goes on",
     .weight = 6,
     .packet = 30,
     .cable = 20,
     .gid = 10,
     .profiles = 30,
     .addresses = 20,
     .mesh = 40,
     .policy = 100,
     .big = 3},
};

struct draw_cable {
    uint32_t hosts[2], ports[2];
    bool is_bonded; /* its ends are ports of bonds */
    bool is_plain;  /* its subnet is 192.168.`subnet`.0/24 */
    uint32_t subnet;
};

struct draw_host {
    uint32_t n_ports, n_ranks;
    uint32_t n_bonds;
};

struct draw {
    const struct swarm_space *space;
    struct weft_rng rng;
    struct weft_text *out;
    struct draw_host hosts[HOSTS_MAX];
    uint32_t n_hosts, n_ranks;
    struct draw_cable cables[CABLES_MAX];
    uint32_t n_cables, n_subnets;
    struct draw_cable *cable;            /* whose link is being written */
    const struct swarm_backend *backend; /* NULL: has everything */
    bool is_weft;
    bool is_slow;
    bool has_management;
};

/* ---- choices ---- */

static uint32_t below(struct draw *draw, uint32_t bound)
{
    return (uint32_t)weft_rng_below(&draw->rng, bound);
}

static bool percent(struct draw *draw, uint32_t share)
{
    return below(draw, 100) < share;
}

/* Returns a uniform number from `low` to `high`. */
static uint32_t between(struct draw *draw, uint32_t low, uint32_t high)
{
    return low + below(draw, high - low + 1);
}

static const char *one_of(struct draw *draw, const char *const *names, size_t n)
{
    return names[below(draw, (uint32_t)n)];
}
#define ONE_OF(draw, names) one_of(draw, names, WEFT_LENGTH(names))

/* Returns an index with a probability proportional to its weight. The sum of `weights` must not be
 * 0. */
static uint32_t weighed(struct draw *draw, const uint8_t *weights, size_t n)
{
    uint32_t sum = 0, at;

    for (size_t i = 0; i < n; i++) {
        sum += weights[i];
    }
    at = below(draw, sum);
    for (uint32_t i = 0;; i++) {
        if (at < weights[i]) {
            return i;
        }
        at -= weights[i];
    }
}

/* Returns 2^low to 2^(high + 1) nanoseconds, each power of two equally likely, and not a round
 * number. */
static uint64_t some_ns(struct draw *draw, uint32_t low, uint32_t high)
{
    uint64_t base = (uint64_t)1 << between(draw, low, high);

    return base + weft_rng_below(&draw->rng, base);
}

/* ---- what the backend can express ---- */

enum {
    /* Maximum number of draws until the backend can express one. */
    TRIES_MAX = 40
};

/* Places of a piece of text: in both nodes of a pair, whose links have no subnets with
 * PIECE_BOND; in one of its links; or at the end of the file, whose jobs are complete. */
enum piece { PIECE_NODE, PIECE_BOND, PIECE_LINK, PIECE_FAULT };

/* Writes a pair of hosts with `piece`. */
static void put_probe(struct weft_text *out, enum piece where, const char *piece)
{
    bool is_link = where == PIECE_LINK;

    weft_text_add(out, "name: probe\ntopology:\n  nodes:\n");
    for (int i = 0; i < 2; i++) {
        weft_text_add(out, "    h%d:\n      ports: [p0, p1]\n%s", i,
                      is_link ? "" : piece);
    }
    weft_text_add(out, "  links:\n");
    for (int i = 0; i < 2; i++) {
        const char *settings = is_link && i == 0 ? piece : "";
        bool has_subnet = where == PIECE_BOND || strstr(settings, "subnet: ") != NULL;

        weft_text_add(out, "    - {endpoints: [\"h0:p%d\", \"h1:p%d\"]%s", i, i,
                      settings);
        if (!has_subnet) {
            weft_text_add(out, ", subnet: 172.31.%d.0/24", i);
        }
        weft_text_add(out, "}\n");
    }
    weft_text_add(out, "jobs:\n  - barrier: {}\n");
}

static bool can_express(const struct draw *draw, enum piece where, const char *piece)
{
    const struct swarm_backend *backend = draw->backend;
    struct weft_text probe = {NULL, 0, 0};
    bool ok;

    if (backend == NULL) {
        return true;
    }
    if (where == PIECE_FAULT) {
        return backend->can_express(draw->out->bytes, draw->out->n, backend->context);
    }
    put_probe(&probe, where, piece);
    ok = backend->can_express(probe.bytes, probe.n, backend->context);
    weft_text_fini(&probe);
    return ok;
}

/* Removes what was written after the first `n` bytes. */
static void rewind_to(struct draw *draw, size_t n)
{
    draw->out->n = n;
    draw->out->bytes[n] = '\0';
}

/* Draws with `put` until the backend can express it. Returns false, and writes nothing, if that
 * never happens. */
static bool put_expressible(struct draw *draw, enum piece where,
                            void (*put)(struct draw *draw))
{
    size_t before = draw->out->n;

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        put(draw);
        if (can_express(draw, where, draw->out->bytes + before)) {
            return true;
        }
        rewind_to(draw, before);
    }
    return false;
}

/* ---- the mesh ---- */

static bool add_cable(struct draw *draw, uint32_t a, uint32_t b)
{
    struct draw_host *ends[2] = {&draw->hosts[a], &draw->hosts[b]};

    if (draw->n_cables == CABLES_MAX || a == b || ends[0]->n_ports == PORTS_MAX ||
        ends[1]->n_ports == PORTS_MAX) {
        return false;
    }
    draw->cables[draw->n_cables++] = (struct draw_cable){
        .hosts = {a, b}, .ports = {ends[0]->n_ports++, ends[1]->n_ports++}};
    return true;
}

static void lay_grid(struct draw *draw)
{
    uint32_t width = draw->n_hosts > 4 ? 3 : 2;

    for (uint32_t i = 0; i < draw->n_hosts; i++) {
        if (i % width != 0) {
            add_cable(draw, i - 1, i);
        }
        if (i >= width) {
            add_cable(draw, i - width, i);
        }
    }
}

/* Lays a random tree and some further cables. */
static void lay_irregular(struct draw *draw)
{
    for (uint32_t i = 1; i < draw->n_hosts; i++) {
        add_cable(draw, below(draw, i), i);
    }
    for (uint32_t i = 0; i < draw->n_hosts; i++) {
        if (percent(draw, 40)) {
            add_cable(draw, below(draw, draw->n_hosts), i);
        }
    }
}

static void lay_full(struct draw *draw)
{
    for (uint32_t i = 1; i < draw->n_hosts; i++) {
        for (uint32_t j = 0; j < i; j++) {
            add_cable(draw, j, i);
        }
    }
}

static void lay_line(struct draw *draw, bool is_ring)
{
    for (uint32_t i = 1; i < draw->n_hosts; i++) {
        add_cable(draw, i - 1, i);
    }
    if (is_ring && draw->n_hosts > 2) {
        add_cable(draw, draw->n_hosts - 1, 0);
    }
}

static void lay_star(struct draw *draw)
{
    for (uint32_t i = 1; i < draw->n_hosts; i++) {
        add_cable(draw, 0, i);
    }
}

enum mesh_shape { LINE, RING, STAR, GRID, FULL, IRREGULAR };

static void lay_cables(struct draw *draw)
{
    static const uint8_t weights[] = {[LINE] = 20, [RING] = 30, [STAR] = 15,
                                      [GRID] = 10, [FULL] = 10, [IRREGULAR] = 15};
    uint32_t n_first;

    switch ((enum mesh_shape)weighed(draw, weights, WEFT_LENGTH(weights))) {
    case LINE:
        lay_line(draw, false);
        break;
    case RING:
        lay_line(draw, true);
        break;
    case STAR:
        lay_star(draw);
        break;
    case GRID:
        lay_grid(draw);
        break;
    case FULL:
        if (draw->n_hosts <= FULL_HOSTS_MAX) {
            lay_full(draw);
        } else {
            lay_line(draw, true);
        }
        break;
    case IRREGULAR:
        lay_irregular(draw);
        break;
    }
    n_first = draw->n_cables;
    if (percent(draw, draw->n_hosts < 5 ? 40 : 15)) { /* twins */
        bool is_all = percent(draw, 50);

        for (uint32_t i = 0; i < n_first; i++) {
            if (is_all || percent(draw, 40)) {
                add_cable(draw, draw->cables[i].hosts[0], draw->cables[i].hosts[1]);
            }
        }
    }
}

static void draw_hosts(struct draw *draw)
{
    static const uint8_t sizes[] = {[3] = 60, [4] = 25, [5] = 6,  [6] = 4, [7] = 1,
                                    [8] = 1,  [9] = 1,  [10] = 1, [12] = 1};

    draw->n_hosts =
        percent(draw, draw->space->mesh) ? weighed(draw, sizes, WEFT_LENGTH(sizes)) : 2;
    for (uint32_t i = 0; i < draw->n_hosts; i++) {
        bool is_inside =
            percent(draw, i == 0 ? draw->space->inside : draw->space->inside / 2);

        /* Without a management network, ranks of one host that can only communicate over the
         * network do not discover each other (docs/swarm.md). */
        is_inside =
            is_inside && draw->has_management && draw->n_hosts <= INSIDE_HOSTS_MAX;
        draw->hosts[i].n_ranks = is_inside ? between(draw, 2, 3) : 1;
    }
    lay_cables(draw);
    /* Some hosts only relay; the first and the last keep their ranks. */
    for (uint32_t i = 1; i + 1 < draw->n_hosts; i++) {
        if (percent(draw, 15)) {
            draw->hosts[i].n_ranks = 0;
        }
    }
    for (uint32_t i = 0; i < draw->n_hosts; i++) {
        draw->n_ranks += draw->hosts[i].n_ranks;
    }
}

/* ---- nodes ---- */

/* Maximum number of IPv6 addresses in a handle (of IPv4 it is ten). */
#define HANDLE_CABLES_MAX 4
#define MORE_GIDS "gid_tbl_len: 16"

/* Writes a profile override. `minimal` also gets a larger GID table, because a deleted GID keeps
 * its slot while a queue pair uses it (ib_cache.c), so that two slots would not suffice when it
 * returns. */
static void put_any_override(struct draw *draw, bool is_minimal)
{
    static const char *const fields[] = {
        "window_packets: 2, ack_req_packets: 1",
        "window_packets: 3, ack_req_packets: 2",
        "window_packets: 5, ack_req_packets: 4",
        "window_packets: 33",
        "ack_req_packets: 1",
        "ack_req_packets: 2",
        "ack_req_packets: 7",
        "max_inline: 0",
        "max_inline: 16",
        "first_qpn: 70000",
        "first_qpn: 15728639",
        "foreign_gids: 3",
        "max_mtu: 256",
        "max_mtu: 512",
        "max_mtu: 1024",
        "max_mtu: 2048",
        "create_qp: 5ms",
        "modify_qp: 3ms",
        "reg_mr: 2ms",
        "write_spread: 3us",
        "gpu_visibility: 5us",
        "cqes_purged: false",
        "qpn_reuse: immediate",
        "qpn_reuse: cyclic",
        MORE_GIDS,
        "ack_delay: 2us",
        "rx_overhead: 3us",
        "has_ece: false",
        "gid_checked_per_packet: true",
        "acks_are_single: true",
        "nak_waits_for_ack: true",
        "flush_on_poll: true",
        "general_err_is_harmless: true, general_err_nth: 3",
        "destroy_qp: 4ms",
        "dereg_mr: 3ms",
        "tx_overhead: 2us",
        "cqe_overhead: 2us",
        "max_qp_wr: 64",
        "max_cqe: 512",
        "dereg_is_serialised: true",
        "post_check_strict: true",
    };

    const char *field = ONE_OF(draw, fields);
    bool is_short = is_minimal && strcmp(field, MORE_GIDS) != 0;

    weft_text_add(draw->out, "      profile_override: {%s%s}\n",
                  is_short ? MORE_GIDS ", " : "", field);
}

static void put_override(struct draw *draw)
{
    put_any_override(draw, false);
}

static void put_minimal_override(struct draw *draw)
{
    put_any_override(draw, true);
}

static void put_more_gids(struct draw *draw)
{
    weft_text_add(draw->out, "      profile_override: {" MORE_GIDS "}\n");
}

static void put_settings(struct draw *draw)
{
    static const char *const settings[] = {
        "WEFT_RELAY_BUFFERS: \"1\"",
        "WEFT_RELAY_BUFFERS: \"2\"",
        "WEFT_SIM_TCP_CHUNK: \"1\"",
        "WEFT_SIM_TCP_CHUNK: \"7\"",
        "WEFT_FIRST_PSN: \"16777215\"",
        "WEFT_FIRST_PSN: \"16777200\"",
        "WEFT_FIRST_PSN: \"8388600\"",
        "NCCL_P2P_DISABLE: \"1\"",
        "NCCL_SHM_DISABLE: \"1\"",
        "WEFT_IPC_SAME_GPU: \"0\"",
        "NCCL_BUFFSIZE: \"65536\"",
        "WEFT_GPU_DIRECT: \"0\"",
        "WEFT_IPC: \"off\"",
    };

    weft_text_add(draw->out, "      env: {%s}\n", ONE_OF(draw, settings));
}

static void put_gpus(struct draw *draw, const struct draw_host *host)
{
    if (host->n_ranks < 2) {
        return;
    }
    weft_text_add(draw->out, "      ranks: %u\n", host->n_ranks);
    if (percent(draw, 30)) {
        weft_text_add(draw->out, "      gpus: %u\n", between(draw, 1, host->n_ranks));
    }
    if (percent(draw, 30)) {
        weft_text_add(draw->out, "      gpu: {peer_access: none}\n");
    }
    if (percent(draw, 15)) {
        weft_text_add(draw->out, "      shm: private\n");
    }
}

#define NO_PROFILE WEFT_N_PROFILES /* the default is not written */

static void put_node(struct draw *draw, uint32_t index, enum weft_profile profile)
{
    static const char *const sysctls[] = {"arp_ignore: 1", "arp_announce: 2",
                                          "arp_filter: 1", "rp_filter: 2",
                                          "arp_ignore: 1, arp_announce: 2"};
    const struct draw_host *host = &draw->hosts[index];
    bool is_minimal = profile == WEFT_PROFILE_MINIMAL;

    weft_text_add(draw->out, "    h%u:\n      ports: [", index);
    for (uint32_t i = 0; i < host->n_ports; i++) {
        weft_text_add(draw->out, "%sp%u", i > 0 ? ", " : "", i);
    }
    weft_text_add(draw->out, "]\n");
    if (host->n_ranks == 0) {
        weft_text_add(draw->out, "      ranks: 0\n");
    }
    if (profile != NO_PROFILE) {
        weft_text_add(draw->out, "      profile: %s\n", weft_profile_name(profile));
    }
    put_gpus(draw, host);
    if (percent(draw, draw->space->profiles / 2)) {
        put_expressible(draw, PIECE_NODE,
                        is_minimal ? put_minimal_override : put_override);
    } else if (is_minimal) {
        put_expressible(draw, PIECE_NODE, put_more_gids);
    }
    if (percent(draw, 15)) {
        weft_text_add(draw->out, "      sysctl: {%s}\n", ONE_OF(draw, sysctls));
    }
    if (percent(draw, 20)) {
        put_settings(draw);
    }
    if (percent(draw, draw->space->process > 0 ? 25 : 4)) {
        weft_text_add(draw->out, "      start: %lluns\n",
                      (unsigned long long)some_ns(draw, 10, 29));
    }
    if (host->n_bonds > 0) {
        weft_text_add(draw->out, "      bonds:\n");
    }
    for (uint32_t i = 0, bond = 0; i + 1 < draw->n_cables; i++) {
        const struct draw_cable *cable = &draw->cables[i];

        for (uint32_t end = 0; cable->is_bonded && end < 2; end++) {
            const struct draw_cable *next = &draw->cables[i + 1];

            if (cable->hosts[end] == index && next->is_bonded && i % 2 == 0) {
                weft_text_add(draw->out,
                              "        bond%u: {ports: [p%u, p%u], addresses: "
                              "[172.16.%u.%u/24]}\n",
                              bond++, cable->ports[end], next->ports[end], i, end + 1);
            }
        }
    }
}

static void draw_management(struct draw *draw)
{
    draw->has_management = !percent(draw, draw->space->boot / 2);
}

/* Makes a bond of two cables between two hosts, at both ends; such a mesh has no other cables. */
static void draw_bonds(struct draw *draw)
{
    if (draw->n_hosts != 2 || draw->n_cables != 2 || !draw->is_weft ||
        !percent(draw, draw->space->addresses) ||
        !can_express(draw, PIECE_BOND,
                     "      bonds:\n        bond0: {ports: [p0, p1]}\n")) {
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        draw->cables[i].is_bonded = true;
        draw->hosts[i].n_bonds = 1;
    }
}

static bool has_profile(const struct draw *draw, enum weft_profile profile)
{
    char line[64];

    if (profile == NO_PROFILE) {
        return true;
    }
    weft_format(line, sizeof(line), "      profile: %s\n", weft_profile_name(profile));
    return can_express(draw, PIECE_NODE, line);
}

static void put_nodes(struct draw *draw)
{
    static const enum weft_profile profiles[] = {
        WEFT_PROFILE_MLX5, WEFT_PROFILE_HNS_HIP08, WEFT_PROFILE_HNS_HIP09,
        WEFT_PROFILE_RXE,  WEFT_PROFILE_MINIMAL,   WEFT_PROFILE_SYNTH2PORT};
    enum weft_profile all = NO_PROFILE;
    bool are_mixed = percent(draw, draw->space->profiles / 3);

    if (percent(draw, draw->space->profiles)) {
        all = profiles[below(draw, WEFT_LENGTH(profiles))];
    }
    weft_text_add(draw->out, "  nodes:\n");
    for (uint32_t i = 0; i < draw->n_hosts; i++) {
        enum weft_profile profile =
            are_mixed ? profiles[below(draw, WEFT_LENGTH(profiles))] : all;

        /* A two-port device takes ports in pairs. */
        if (profile == WEFT_PROFILE_SYNTH2PORT &&
            (draw->hosts[i].n_ports % 2 != 0 || draw->hosts[i].n_bonds > 0)) {
            profile = NO_PROFILE;
        }
        /* Its few objects and GIDs suffice only for a small mesh with plain addresses. */
        if (profile == WEFT_PROFILE_MINIMAL &&
            (draw->n_ranks > 3 || draw->space->addresses > 0)) {
            profile = NO_PROFILE;
        }
        put_node(draw, i, has_profile(draw, profile) ? profile : NO_PROFILE);
    }
}

/* ---- links ---- */

static void put_other_subnet(struct draw *draw, uint32_t n)
{
    switch (below(draw, 5)) {
    case 0:
        weft_text_add(draw->out, ", subnet: \"fd00:%x::/64\"", n);
        break;
    case 1:
        weft_text_add(draw->out, ", subnet: \"fd00:%x::/127\"", n);
        break;
    case 2:
        weft_text_add(draw->out, ", subnet: 192.168.%u.0/31", n);
        break;
    case 3:
        weft_text_add(draw->out, ", subnet: 192.168.%u.0/30", n);
        break;
    default:
        weft_text_add(draw->out, ", subnet: 192.168.%u.0/24, vlan: %u", n,
                      between(draw, 1, 4094));
        break;
    }
}

static void put_subnet(struct draw *draw, struct draw_cable *cable)
{
    cable->is_plain = !percent(draw, draw->space->addresses);
    if (cable->is_plain) {
        weft_text_add(draw->out, ", subnet: 192.168.%u.0/24", cable->subnet);
    } else {
        put_other_subnet(draw, cable->subnet);
    }
}

/* Writes permanent impairments of a link. */
static void put_impairment(struct draw *draw)
{
    static const char *const kinds[] = {"loss", "corrupt", "duplicate", "reorder", "ecn"};
    static const char *const shares[] = {"0.1%", "0.5%", "1%", "2%", "3%"};

    for (size_t i = 0; i < WEFT_LENGTH(kinds); i++) {
        if (percent(draw, 30)) {
            weft_text_add(draw->out, ", %s: %s", kinds[i], ONE_OF(draw, shares));
        }
    }
}

/* Writes the rest of the link of `draw->cable`. */
static void put_link_settings(struct draw *draw)
{
    static const char *const rates[] = {"10Gbps", "25Gbps", "40Gbps", "200Gbps",
                                        "400Gbps"};
    static const char *const delays[] = {"0ns", "300ns", "700ns", "5us", "50us"};
    static const char *const slow[] = {"1ms", "2ms", "4ms"};
    static const char *const mtus[] = {"9000", "4200", "2200", "1500", "1200", "1280"};

    if (!draw->cable->is_bonded) {
        put_subnet(draw, draw->cable);
    }
    if (percent(draw, 25)) {
        weft_text_add(draw->out, ", rate: %s", ONE_OF(draw, rates));
    }
    if (draw->is_slow) {
        weft_text_add(draw->out, ", delay: %s", ONE_OF(draw, slow));
    } else if (percent(draw, 25)) {
        weft_text_add(draw->out, ", delay: %s", ONE_OF(draw, delays));
    }
    if (percent(draw, 30)) {
        weft_text_add(draw->out, ", mtu: %s", ONE_OF(draw, mtus));
    }
    if (percent(draw, draw->space->packet / 2)) {
        put_impairment(draw);
    }
}

static void put_link(struct draw *draw, struct draw_cable *cable)
{
    weft_text_add(draw->out, "    - {endpoints: [\"h%u:p%u\", \"h%u:p%u\"]",
                  cable->hosts[0], cable->ports[0], cable->hosts[1], cable->ports[1]);
    cable->subnet = cable->is_bonded ? 0 : draw->n_subnets++;
    draw->cable = cable;
    if (!put_expressible(draw, PIECE_LINK, put_link_settings) && !cable->is_bonded) {
        cable->is_plain = true;
        weft_text_add(draw->out, ", subnet: 192.168.%u.0/24", cable->subnet);
    }
    weft_text_add(draw->out, "}\n");
}

/* Returns true if a host has more cables than addresses fit in a handle (docs/wire.md), so that its
 * other neighbours cannot find it without a management network. */
static bool has_hub(const struct draw *draw)
{
    for (uint32_t i = 0; i < draw->n_hosts; i++) {
        if (draw->hosts[i].n_ports > HANDLE_CABLES_MAX) {
            return true;
        }
    }
    return false;
}

static void put_topology(struct draw *draw)
{
    static const char *const defaults[] = {"1500", "4200", "2200", "1300"};

    weft_text_add(draw->out, "topology:\n");
    if (!draw->has_management && !has_hub(draw)) {
        weft_text_add(draw->out, "  management: none\n");
    } else if (percent(draw, 10)) {
        weft_text_add(draw->out, "  management: {subnet: \"fd99::/64\"}\n");
    }
    if (percent(draw, 30)) {
        weft_text_add(draw->out, "  defaults: {mtu: %s}\n", ONE_OF(draw, defaults));
    }
    put_nodes(draw);
    weft_text_add(draw->out, "  links:\n");
    for (uint32_t i = 0; i < draw->n_cables; i++) {
        put_link(draw, &draw->cables[i]);
    }
}

/* ---- jobs ---- */

static const char *const algorithms_all_reduce[] = {"direct",   "ring",     "rings",
                                                    "exchange", "doubling", "halving",
                                                    "tree",     "trees",    "chain"};
static const char *const algorithms_scatter[] = {"direct",  "ring", "rings",
                                                 "halving", "tree", "trees"};
static const char *const algorithms_gather[] = {"direct",   "ring", "rings",
                                                "doubling", "tree", "trees"};
static const char *const algorithms_broadcast[] = {"direct", "doubling", "tree", "trees",
                                                   "chain"};
static const char *const algorithms_reduce[] = {"direct", "halving", "tree", "trees",
                                                "chain"};
static const char *const algorithms_other[] = {"direct"};

static const struct job_kind {
    const char *name;
    bool reduces, has_root, may_be_in_place;
    const char *const *algorithms;
    uint8_t n_algorithms;
} kinds_of_jobs[] = {
#define ALGORITHMS(list) list, WEFT_LENGTH(list)
    {"all_reduce", true, false, true, ALGORITHMS(algorithms_all_reduce)},
    {"reduce_scatter", true, false, true, ALGORITHMS(algorithms_scatter)},
    {"all_gather", false, false, true, ALGORITHMS(algorithms_gather)},
    {"broadcast", false, true, true, ALGORITHMS(algorithms_broadcast)},
    {"reduce", true, true, true, ALGORITHMS(algorithms_reduce)},
    {"all_to_all", false, false, false, ALGORITHMS(algorithms_other)},
    {"send_recv", false, false, false, ALGORITHMS(algorithms_other)},
#undef ALGORITHMS
};

/* Returns a size equal or close to a power of two, or to a power of two times the number of
 * ranks. */
static uint64_t draw_bytes(struct draw *draw)
{
    bool is_big = percent(draw, draw->space->big);
    uint64_t size;

    if (percent(draw, 6)) {
        return below(draw, 2);
    }
    size = (uint64_t)1 << (is_big          ? between(draw, 15, 17)
                           : draw->is_slow ? between(draw, 1, 9)
                                           : between(draw, 1, 13));
    if (!is_big && percent(draw, 30)) {
        size *= draw->n_ranks;
    }
    if (percent(draw, 15)) {
        return size + weft_rng_below(&draw->rng, size);
    }
    switch (below(draw, 4)) {
    case 0:
        return size + between(draw, 1, 9);
    case 1:
        return size - 1;
    default:
        return size;
    }
}

static void put_job(struct draw *draw)
{
    static const char *const dtypes[] = {"int8",    "uint8",    "int16",   "uint16",
                                         "int32",   "uint32",   "int64",   "uint64",
                                         "float16", "bfloat16", "float32", "float64"};
    static const char *const ops[] = {"sum", "prod", "min", "max", "avg"};
    const struct job_kind *kind = &kinds_of_jobs[below(draw, WEFT_LENGTH(kinds_of_jobs))];
    uint32_t n_sizes = draw->is_slow || percent(draw, 70) ? 1 : between(draw, 2, 3);

    if (percent(draw, 6)) {
        weft_text_add(draw->out, "  - barrier: {repeat: %u}\n", between(draw, 1, 4));
        return;
    }
    weft_text_add(draw->out, "  - %s: {bytes: [", kind->name);
    for (uint32_t i = 0; i < n_sizes; i++) {
        weft_text_add(draw->out, "%s%llu", i > 0 ? ", " : "",
                      (unsigned long long)draw_bytes(draw));
    }
    weft_text_add(draw->out, "], dtype: %s", ONE_OF(draw, dtypes));
    if (kind->reduces) {
        weft_text_add(draw->out, ", op: %s", ONE_OF(draw, ops));
    }
    if (kind->has_root) {
        weft_text_add(draw->out, ", root: %u", below(draw, draw->n_ranks));
    }
    if (kind->may_be_in_place && percent(draw, 40)) {
        weft_text_add(draw->out, ", in_place: true");
    }
    if (percent(draw, 50)) {
        weft_text_add(draw->out, ", algorithm: %s",
                      one_of(draw, kind->algorithms, kind->n_algorithms));
    }
    if (draw->is_slow) {
        weft_text_add(draw->out, ", repeat: %u", between(draw, 50, 200));
    } else if (percent(draw, 15)) {
        weft_text_add(draw->out, ", repeat: %u", between(draw, 2, 3));
    }
    weft_text_add(draw->out, "}\n");
}

/* ---- faults ---- */

/* Writes a time between the start of processes and the end of most jobs, and a duration if
 * `is_bounded`. */
static void put_when(struct draw *draw, bool is_bounded)
{
    uint32_t last = draw->is_slow ? 31 : 23;
    /* Real processes take a while to connect, and their jobs are over soon. */
    bool is_in_job = draw->backend != NULL && percent(draw, 60);

    weft_text_add(draw->out, "  - {at: %s%lluns", is_in_job ? "jobs+" : "",
                  percent(draw, 10)
                      ? 0ull
                      : (unsigned long long)some_ns(draw, draw->is_slow ? 22 : 14, last));
    if (is_bounded) {
        bool is_long = draw->is_slow || percent(draw, 20);

        weft_text_add(draw->out, ", for: %lluns",
                      (unsigned long long)some_ns(draw, 10, is_long ? 28 : 23));
    }
}

static void put_on_port(struct draw *draw, bool may_be_directed)
{
    const struct draw_cable *cable = &draw->cables[below(draw, draw->n_cables)];
    uint32_t end = below(draw, 2);
    const char *direction = "";

    if (may_be_directed && percent(draw, 40)) {
        direction = percent(draw, 50) ? "->" : "<-";
    }
    weft_text_add(draw->out, ", on: \"h%u:p%u%s\"", cable->hosts[end], cable->ports[end],
                  direction);
}

static void put_on_host(struct draw *draw)
{
    weft_text_add(draw->out, ", on: h%u", below(draw, draw->n_hosts));
}

/* Writes a fault of a single packet of one queue pair. */
static void put_match(struct draw *draw)
{
    static const char *const kinds[] = {"drop",      "drop",    "corrupt",
                                        "duplicate", "reorder", "ecn"};
    const char *kind = ONE_OF(draw, kinds);
    const struct draw_cable *cable = &draw->cables[below(draw, draw->n_cables)];
    uint32_t end = below(draw, 2);

    weft_text_add(draw->out, "  - {on: \"h%u:p%u%s\", kind: %s", cable->hosts[end],
                  cable->ports[end], percent(draw, 50) ? "->" : "<-", kind);
    weft_text_add(
        draw->out, ", match: {qp: %u, psn: %u, iteration: %u}}\n", between(draw, 1, 4),
        percent(draw, 70) ? below(draw, 12) : below(draw, 80), percent(draw, 80) ? 0 : 1);
}

static void put_packet_fault(struct draw *draw)
{
    static const char *const kinds[] = {"loss", "corrupt", "duplicate", "reorder", "ecn"};
    static const char *const shares[] = {"1%", "3%", "10%", "30%"};
    const char *kind = ONE_OF(draw, kinds);

    if (percent(draw, 60)) {
        put_match(draw);
        return;
    }
    if (percent(draw, 15)) {
        put_when(draw, percent(draw, 70));
        put_on_port(draw, true);
        weft_text_add(draw->out, ", kind: delay, delay: %uns, jitter: %uns}\n",
                      between(draw, 0, 20000), between(draw, 0, 5000));
        return;
    }
    put_when(draw, true);
    put_on_port(draw, true);
    weft_text_add(draw->out, ", kind: %s, share: %s}\n", kind, ONE_OF(draw, shares));
}

static void put_cable_fault(struct draw *draw)
{
    static const char *const mtus[] = {"1500", "1280", "1000", "600"};
    static const uint8_t weights[] = {50, 15, 10, 10, 5, 10};
    uint32_t kind = weighed(draw, weights, WEFT_LENGTH(weights));
    bool is_bounded = !percent(draw, draw->space->lasting);

    put_when(draw, is_bounded);
    if (is_bounded && percent(draw, 20) && kind < 2) {
        /* `for` is less than 2^29 ns, so `every` is at least twice as long. */
        weft_text_add(draw->out, ", every: %lluns, times: %u",
                      (unsigned long long)some_ns(draw, 30, 30), between(draw, 2, 4));
    }
    put_on_port(draw, kind < 2);
    switch (kind) {
    case 0:
        weft_text_add(draw->out, ", kind: down}\n");
        break;
    case 1:
        weft_text_add(draw->out, ", kind: pause}\n");
        break;
    case 2:
        weft_text_add(draw->out, ", kind: rate, rate: %uGbps}\n", between(draw, 1, 50));
        break;
    case 3:
        weft_text_add(draw->out, ", kind: path_limit, size: %s}\n", ONE_OF(draw, mtus));
        break;
    case 4:
        weft_text_add(draw->out, ", kind: mtu, mtu: %s}\n", ONE_OF(draw, mtus));
        break;
    default:
        weft_text_add(draw->out, ", kind: loss, share: 100%%}\n");
        break;
    }
}

static void put_gid_fault(struct draw *draw)
{
    static const char *const kinds[] = {"addr_add", "addr_add", "addr_add", "addr_del"};
    static const char *const own[] = {"gid_delete", "addr_del"};
    const char *kind = ONE_OF(draw, kinds);
    const struct draw_cable *cable = &draw->cables[below(draw, draw->n_cables)];
    uint32_t end = below(draw, 2);

    put_when(draw, !percent(draw, draw->space->lasting));
    if (cable->is_plain && percent(draw, 50)) {
        weft_text_add(draw->out, ", on: \"h%u:p%u\", kind: %s, address: 192.168.%u.%u}\n",
                      cable->hosts[end], cable->ports[end], ONE_OF(draw, own),
                      cable->subnet, end + 1);
        return;
    }
    put_on_port(draw, false);
    weft_text_add(draw->out, ", kind: %s, address: 10.200.%u.%u/24}\n", kind,
                  below(draw, 250), between(draw, 1, 250));
}

static const char *const slow_verbs[] = {"reg_mr",     "create_cq", "create_qp",
                                         "modify_qp",  "post_send", "post_recv",
                                         "destroy_qp", "dereg_mr"};
static const char *const error_verbs[] = {
    "alloc_pd",  "reg_mr",   "create_cq",  "create_qp",  "modify_qp", "post_send",
    "post_recv", "dereg_mr", "destroy_cq", "destroy_qp", "dealloc_pd"};
static const uint8_t errnos[] = {4, 11, 12, 16, 22};

static void put_verb_fault(struct draw *draw)
{
    bool is_error = percent(draw, draw->space->lasting);

    put_when(draw, false);
    put_on_host(draw);
    if (is_error) {
        weft_text_add(draw->out, ", kind: verb_error, verb: %s, nth: %u, errno: %u}\n",
                      ONE_OF(draw, error_verbs), between(draw, 1, 6),
                      errnos[below(draw, WEFT_LENGTH(errnos))]);
    } else {
        weft_text_add(draw->out, ", kind: verb_slow, verb: %s, nth: %u, by: %lluns}\n",
                      ONE_OF(draw, slow_verbs), between(draw, 1, 12),
                      (unsigned long long)some_ns(draw, 10, 22));
    }
}

static void put_call_fault(struct draw *draw)
{
    static const char *const slow[] = {"poll_cq", "recv",      "accept",    "send",
                                       "hear",    "create_qp", "modify_qp", "reg_mr"};
    static const char *const shorts[] = {"send", "recv"};
    static const char *const errors[] = {
        "connect", "listen",     "accept", "query_port", "query_gid", "send",
        "recv",    "req_notify", "alloc",  "post_recv",  "post_send", "any"};
    static const char *const events[] = {"port_active", "gid_change", "lid_change",
                                         "sm_change", "pkey_change"};

    put_when(draw, false);
    put_on_host(draw);
    if (percent(draw, draw->space->lasting / 2)) {
        weft_text_add(draw->out, ", kind: call_error, call: %s, nth: %u, errno: %u}\n",
                      ONE_OF(draw, errors), between(draw, 1, 30),
                      errnos[below(draw, WEFT_LENGTH(errnos))]);
        return;
    }
    switch (below(draw, 4)) {
    case 0:
        weft_text_add(draw->out,
                      ", kind: call_slow, call: %s, nth: %u, count: %u, by: %lluns}\n",
                      ONE_OF(draw, slow), between(draw, 1, 30), between(draw, 1, 4),
                      (unsigned long long)some_ns(draw, 10, 21));
        break;
    case 1:
    case 2:
        weft_text_add(draw->out,
                      ", kind: call_short, call: %s, bytes: %u, nth: %u, count: %u}\n",
                      ONE_OF(draw, shorts), between(draw, 1, 40), between(draw, 1, 20),
                      percent(draw, 50) ? 1000 : between(draw, 1, 9));
        break;
    default:
        weft_text_add(draw->out, ", kind: async_event, event: %s, count: %u}\n",
                      ONE_OF(draw, events), between(draw, 1, 3));
        break;
    }
}

static void put_process_fault(struct draw *draw)
{
    put_when(draw, false);
    if (percent(draw, draw->space->lasting)) {
        put_on_host(draw);
        weft_text_add(draw->out, ", kind: kill}\n");
    } else {
        weft_text_add(draw->out, ", for: %lluns",
                      (unsigned long long)some_ns(draw, 10, 27));
        put_on_host(draw);
        weft_text_add(draw->out, ", kind: stop}\n");
    }
}

static void put_stranger(struct draw *draw)
{
    uint32_t at = below(draw, draw->n_hosts);

    put_when(draw, false);
    weft_text_add(draw->out,
                  ", for: %lluns, on: h%u, kind: stranger, from: h%u, send: \"%s\", "
                  "count: %u}\n",
                  (unsigned long long)some_ns(draw, 16, 26), at, (at + 1) % draw->n_hosts,
                  percent(draw, 50) ? "GET / HTTP/1.1" : "x", between(draw, 1, 5));
}

static void put_faults(struct draw *draw)
{
    const struct swarm_space *space = draw->space;
    const struct {
        uint8_t share;
        void (*put)(struct draw *draw);
    } families[] = {
        {space->packet, put_packet_fault}, {space->cable, put_cable_fault},
        {space->gid, put_gid_fault},       {space->verb, put_verb_fault},
        {space->call, put_call_fault},     {space->process, put_process_fault},
        {space->stranger, put_stranger}};
    size_t before = draw->out->n;
    bool any = false;

    weft_text_add(draw->out, "faults:\n");
    for (size_t i = 0; i < WEFT_LENGTH(families); i++) {
        uint32_t n = percent(draw, families[i].share) ? between(draw, 1, 4) : 0;

        for (; n > 0; n--) {
            any = put_expressible(draw, PIECE_FAULT, families[i].put) || any;
        }
    }
    if (!any) {
        rewind_to(draw, before);
    }
}

/* ---- all of it ---- */

static const struct swarm_space *choose_space(struct draw *draw,
                                              const struct swarm_space *space)
{
    uint8_t weights[WEFT_LENGTH(spaces)];

    if (space != &spaces[0]) {
        return space;
    }
    for (size_t i = 0; i < WEFT_LENGTH(spaces); i++) {
        weights[i] = spaces[i].weight;
    }
    return &spaces[weighed(draw, weights, WEFT_LENGTH(spaces))];
}

static void put_head(struct draw *draw, uint64_t seed)
{
    static const char *const policies[] = {"nccl-2.25", "nccl-2.30-subnet-aware",
                                           "mesh-plugin-2026-01", "mooncake-2026-06",
                                           "nccl-2.29-port-recovery"};
    static const char *const boots[] = {"neighbours", "static"};
    static const char *const rares[] = {"1%", "5%", "20%"};

    weft_text_add(draw->out, "name: swarm-%s\n", draw->space->name);
    weft_text_add(draw->out, "description: seed %llu of space %s%s%s\n",
                  (unsigned long long)seed, draw->space->name,
                  draw->backend != NULL ? " for " : "",
                  draw->backend != NULL ? draw->backend->name : "");
    weft_text_add(draw->out, "seed: %llu\n", (unsigned long long)seed);
    draw->is_weft = !percent(draw, draw->space->policy);
    if (!draw->is_weft) {
        weft_text_add(draw->out, "policy: %s\n", ONE_OF(draw, policies));
    } else if (percent(draw, draw->space->boot)) {
        weft_text_add(draw->out, "boot: %s\n", ONE_OF(draw, boots));
    }
    if (percent(draw, draw->space->rare)) {
        weft_text_add(draw->out, "rare: %s\n", ONE_OF(draw, rares));
    }
}

/* Writes the expectations. Only some settings judge the wire, because a capture disables packet
 * trains. */
static void put_expect(struct draw *draw)
{
    static const char most[] =
        "data, ends, recovery, time, explained, counters, objects, economy";
    bool has_drill = percent(draw, 50);

    if (percent(draw, 50)) {
        weft_text_add(draw->out, "expect: {result: any, invariants: [%s%s, wire]}\n",
                      most, has_drill ? ", verbs" : "");
    } else {
        weft_text_add(draw->out, "expect: {result: any, invariants: [%s%s%s]}\n", most,
                      has_drill ? ", verbs" : "", percent(draw, 40) ? ", trains" : "");
    }
}

void swarm_draw(const struct swarm_space *space, uint64_t seed,
                const struct swarm_backend *backend, struct weft_text *out)
{
    struct draw draw = {.out = out, .backend = backend};
    uint32_t n_jobs;

    weft_rng_init(&draw.rng, seed, "swarm");
    draw.space = choose_space(&draw, space);
    draw.is_slow = percent(&draw, draw.space->slow);
    put_head(&draw, seed);
    draw_management(&draw);
    draw_hosts(&draw);
    draw_bonds(&draw);
    put_topology(&draw);
    weft_text_add(out, "jobs:\n");
    n_jobs = between(&draw, 1, 3);
    for (uint32_t i = 0; i < n_jobs; i++) {
        put_job(&draw);
    }
    put_faults(&draw);
    put_expect(&draw);
}

const struct swarm_space *swarm_space_at(unsigned index)
{
    return index < WEFT_LENGTH(spaces) ? &spaces[index] : NULL;
}

const struct swarm_space *swarm_space_find(const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(spaces); i++) {
        if (strcmp(spaces[i].name, name) == 0) {
            return &spaces[i];
        }
    }
    return NULL;
}

const char *swarm_space_name(const struct swarm_space *space)
{
    return space->name;
}

const char *swarm_space_help(const struct swarm_space *space)
{
    return space->help;
}
