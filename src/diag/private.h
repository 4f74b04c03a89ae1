/* What the files of diag/ share: a failure between two hosts, laid out for the rules. */
#ifndef WEFT_DIAG_PRIVATE_H
#define WEFT_DIAG_PRIVATE_H

#include "diag/diag.h"

/* What one host knows of the ports of one, itself or another. */
struct diag_ports {
    const struct diag_port *items; /* NULL: nothing is known */
    uint32_t n;
};

/* One failure, with what both ends say about it. Pointers into the input. */
struct diag_case {
    const struct diag_input *input;
    const struct diag_host *host; /* who failed */
    const struct diag_error *failure;
    /* What was told of another's failure is turned round: `host` is that other. */
    bool is_turned;
    bool
        is_seen_from_far; /* `host` is whoever is at fault, which the failure is not told by */
    const struct diag_use *use; /* not NULL: whether it is to blame, is asked of a rail */
    const struct diag_host *peer; /* NULL: not in the input, or nobody */
    const char *peer_name;        /* "" if nobody */
    /* Of `host`: as it failed, whoever tells it. */
    weft_status status;
    const char *phase; /* "" unknown */
    int sys_errno, wc_status;
    struct diag_ports local, remote;
    const struct diag_port *local_port;  /* the one used; NULL: not known */
    const struct diag_port *remote_port; /* the one aimed at; NULL: not known */
    bool has_local_gid, has_remote_gid;
    struct io_ip local_gid, remote_gid;
    const char *local_type, *remote_type; /* "RoCE v2"; NULL: not known */
    int64_t path_mtu;                     /* or IO_UNKNOWN */
};

/* ---- three values ---- */

static inline enum diag_known diag_known_of(bool is_so)
{
    return is_so ? DIAG_YES : DIAG_NO;
}

static inline enum diag_known diag_and(enum diag_known a, enum diag_known b)
{
    if (a == DIAG_NO || b == DIAG_NO) {
        return DIAG_NO;
    }
    return a == DIAG_YES && b == DIAG_YES ? DIAG_YES : DIAG_UNKNOWN;
}

static inline enum diag_known diag_or(enum diag_known a, enum diag_known b)
{
    if (a == DIAG_YES || b == DIAG_YES) {
        return DIAG_YES;
    }
    return a == DIAG_NO && b == DIAG_NO ? DIAG_NO : DIAG_UNKNOWN;
}

static inline enum diag_known diag_not(enum diag_known a)
{
    return a == DIAG_UNKNOWN ? a : a == DIAG_YES ? DIAG_NO : DIAG_YES;
}

/* ---- evidence.c ---- */

void diag_case_init(struct diag_case *c, const struct diag_input *input,
                    const struct diag_host *host, const struct diag_error *failure);
/* The same failure, asked of one of the rails that `host` used. */
void diag_case_init_use(struct diag_case *c, const struct diag_input *input,
                        const struct diag_host *host, const struct diag_error *failure,
                        const struct diag_use *use);
const struct diag_host *diag_find_host(const struct diag_input *input, const char *name);
/* "titanic" and "titanic/1" are processes of one machine, with the same ports. */
bool diag_is_same_machine(const char *a, const char *b);
/* NULL: it has no port of that name, or `host` is NULL. */
const struct diag_port *diag_find_port(const struct diag_host *host, const char *name);
/* What is known of a host's ports: by itself, or by anybody whom it told. */
struct diag_ports diag_ports_of(const struct diag_input *input, const char *name);
/* A value of the failure, or NULL / IO_UNKNOWN. */
const char *diag_text(const struct diag_case *c, const char *name);
int64_t diag_number(const struct diag_case *c, const char *name);
/* Returns true if whoever started the processes saw one end before it came. */
bool diag_is_of_an_end(const struct weft_error *error);
/* The peer's process is gone, by what the others saw. */
enum diag_known diag_peer_died(const struct diag_case *c);

/* Somebody failed or is gone: what is slow or was lived through is not worth a word. */
bool diag_has_failed(const struct diag_input *input);

/* Says where a finding is; "" leaves one out. */
void diag_name_place(struct diag_finding *out, const char *host, const char *port,
                     const char *peer);
/* Starts a finding about `c`, with the evidence of both ends. */
void diag_describe(const struct diag_case *c, struct diag_finding *out);
void diag_evidence_text(struct diag_finding *out, const char *name, const char *text);
void diag_evidence_int(struct diag_finding *out, const char *name, int64_t number);

/* ---- facing.c ---- */

/* Is `ip` inside a subnet of `port`, by the prefixes of its addresses? Link-local addresses
 * are in everybody's subnet and decide nothing. */
enum diag_known diag_faces(const struct diag_port *port, const struct io_ip *ip);
/* Does any other port than `but` (may be NULL) face `ip`? */
enum diag_known diag_any_faces(struct diag_ports ports, const struct diag_port *but,
                               const struct io_ip *ip);
/* Do the two ports have addresses that face each other, both ways? */
enum diag_known diag_facing(const struct diag_port *a, const struct diag_port *b);
/* Only one of the two finds the other in its subnet. */
enum diag_known diag_facing_one_way(const struct diag_port *a, const struct diag_port *b);
/* Does any pair of ports of both hosts? */
enum diag_known diag_any_facing(struct diag_ports local, struct diag_ports remote);
/* The port has an address that is not link-local. */
enum diag_known diag_has_address(const struct diag_port *port);
/* Does `port` face some port of `ports`? */
enum diag_known diag_faces_one_of(const struct diag_port *port, struct diag_ports ports);
/* Returns true for an address that is a subnet by itself (/32, /128) on a port that has another one
 * of that family, as hosts have for a service: no cable is addressed by it. */
bool diag_is_extra(const struct diag_port *port, const struct diag_gid *gid);
/* Do both ports have the same address, which is then in *out (may be NULL)? */
enum diag_known diag_share_address(const struct diag_port *a, const struct diag_port *b,
                                   struct io_ip *out);
/* What `port`'s table says of `gid`, or NULL. */
const struct diag_gid *diag_gid_of(const struct diag_port *port, bool has_gid,
                                   const struct io_ip *gid);
/* A link-local GID, as every port has one by its MAC address. */
enum diag_known diag_is_default_gid(bool has_gid, const struct io_ip *ip);
/* Where `port`'s table has the GID of that type ("RoCE v2"): in *out_index. NO: nowhere. */
enum diag_known diag_find_index(const struct diag_port *port, bool has_gid,
                                const struct io_ip *gid, const char *type,
                                int64_t *out_index);
/* Small messages went there and back: the way itself is right. */
bool diag_way_works(const struct diag_case *c);
/* `host` has heard that the device of its port is gone. UNKNOWN: an event may be missing. */
enum diag_known diag_is_device_gone(const struct diag_host *host, const char *port);
/* The cable of the port went down, by its state or an event; `host` may be NULL. */
enum diag_known diag_was_down(const struct diag_host *host, const struct diag_port *port);

/* Does anybody's port, but those of `owner`'s machine, have the address `ip`? */
enum diag_known diag_is_anothers(const struct diag_case *c, const struct io_ip *ip,
                                 const char *owner);

/* ---- ends: of what may be wrong at either end of a case, whether it is at this one ---- */

enum diag_end { DIAG_NEAR, DIAG_FAR };

typedef enum diag_known diag_end_test(const struct diag_case *c, enum diag_end end);
typedef enum diag_known diag_port_test(const struct diag_port *port);

diag_end_test diag_fixed_index_at, diag_gid_link_local_at, diag_no_ipv4_at,
    diag_addr_missing_at, diag_hca_list_at, diag_bond_peers_at, diag_gid_lost_at,
    diag_gid_missing_at, diag_addr_changed_at, diag_firewall_roce_at, diag_rp_filter_at,
    diag_device_gone_at, diag_arp_ignored_at, diag_link_down_at, diag_is_alone_at;
/* Are both ports of `host` in one bond although their cables lead to different hosts? The hosts at
 * the other ends, NULL if not known, are in *out (may be NULL). */
enum diag_known diag_bond_splits(const struct diag_input *input, const char *host,
                                 const struct diag_port *a, const struct diag_port *b,
                                 const char *out[2]);
/* Do the settings of the host with these ports leave it none with carrier, although it has one? */
enum diag_known diag_leaves_no_port(struct diag_ports ports);
/* A port with carrier and without an address, or with one that no GID is of. */
diag_port_test diag_is_bare, diag_is_without_gid;
/* The same failure as the other end would put it. */
struct diag_case diag_case_from_far(const struct diag_case *c);

/* ---- hypotheses: each answers from positive evidence only ---- */

typedef enum diag_known diag_test(const struct diag_case *c);

/* rules_route.c: which port, which address */
diag_test diag_is_merged_nic, diag_is_merged_one_end, diag_is_crossed_planes,
    diag_is_prefix_collision, diag_is_listener_blind, diag_is_wrong_nic,
    diag_is_link_local_route, diag_is_gid_collision, diag_is_no_cable, diag_is_rank_order,
    diag_is_addr_missing, diag_is_prefix_mismatch, diag_is_no_facing_port,
    diag_is_addr_duplicate, diag_is_one_address, diag_is_peer_address, diag_is_one_family,
    diag_is_fixed_index, diag_is_gid_link_local, diag_is_no_ipv4, diag_is_no_answer,
    diag_is_facing_down, diag_is_facing_without_v2, diag_is_stale_index, diag_is_gid_lost;
/* rules_link.c: cables, GID tables in use, filters */
diag_test diag_is_link_down, diag_is_down_at_rtr, diag_is_flapping, diag_is_gid_gone,
    diag_is_addr_changed, diag_is_type_mismatch, diag_is_mtu_mismatch,
    diag_is_own_mtu_lesser, diag_is_black_hole, diag_is_vlan_mismatch,
    diag_is_arp_ignored, diag_is_firewall_roce, diag_is_rp_filter, diag_is_corrupting,
    diag_is_one_way, diag_is_lossy, diag_is_paused, diag_is_pause_storm, diag_is_gone,
    diag_is_arp_ignored_at_all, diag_is_any_corrupting, diag_is_any_one_way,
    diag_is_any_lossy;
/* Copies `c` with the first pair of ports that face each other and that `is_so`. Returns false if
 * there is none. */
bool diag_find_rail(const struct diag_case *c, diag_test *is_so, struct diag_case *out);
/* rules_program.c: what a program tells its peer */
diag_test diag_is_qpn_truncated, diag_is_loopback;
/* rules_transit.c: over a third host */
diag_test diag_is_forward_off, diag_is_forward_blocked;
/* A host that both ports lead to, or NULL. */
const struct diag_host *diag_host_between(const struct diag_case *c);
/* rules_host.c: processes, limits and settings */
diag_test diag_is_hca_list, diag_is_bond_peers, diag_has_peer_no_route, diag_is_memlock,
    diag_is_peer_late, diag_is_own_lateness, diag_is_late_there, diag_is_unanswered,
    diag_is_filtered, diag_is_certain;

/* Was it this errno that `host` (may be NULL) failed with, reaching `name` while connections are
 * made? */
enum diag_known diag_failed_to_reach(const struct diag_host *host, const char *name,
                                     int sys_errno);

/* The share of frames lost between two ports that have only each other, from `from` to `to`:
 * how many, or IO_UNKNOWN. Less than nothing is nothing. */
int64_t diag_lost_frames(const struct diag_port *from, const struct diag_port *to);
/* Nobody else's port is in their subnet. */
enum diag_known diag_is_one_cable(const struct diag_input *input,
                                  const struct diag_port *a, const struct diag_port *b);

/* ---- diag.c, survived.c ---- */

/* Adds a finding. */
void diag_add(struct diag_findings *out, const struct diag_finding *finding);
/* Adds a finding, unless its cause was told of these two hosts. */
void diag_say(struct diag_findings *out, const struct diag_finding *finding);
/* Returns how often a port lost its carrier while the job ran, or IO_UNKNOWN. */
int64_t diag_carrier_losses(const struct diag_host *host, const char *port);
/* Warnings of what a job lived through; none where something failed. */
void diag_inspect_survived(const struct diag_input *input, struct diag_findings *out);

/* ---- place.c ---- */

/* Adds to a finding whose code is decided what it knows of its place. */
void diag_place(const struct diag_case *c, struct diag_finding *out);

/* ---- apart.c ---- */

/* Finds a cable between the two hosts of `c` whose ends are numbered apart. Returns false if none
 * is known. */
bool diag_find_apart(const struct diag_case *c, const struct diag_port **out_local,
                     const struct diag_port **out_remote);
/* Adds both ends of each cable that is numbered apart, if nothing failed: warnings where a job went
 * on without the cable, errors before one ran. */
void diag_inspect_apart(const struct diag_input *input, struct diag_findings *out);

/* ---- dark.c ---- */

/* Adds a warning for each cable that could not carry anything in a job that went on without it. */
void diag_inspect_dark(const struct diag_input *input, struct diag_findings *out);

/* ---- slots.c ---- */

/* Cards whose PCIe link is narrower or slower than it could be, and than their ports. */
void diag_inspect_slots(const struct diag_input *input, struct diag_findings *out);

/* ---- slow_lane.c ---- */

/* Pairs of hosts whose fastest cable carries nothing; none where something failed. */
void diag_inspect_lanes(const struct diag_input *input, struct diag_findings *out);

/* ---- left_out.c ---- */

/* Rails that were left out; none where something failed. */
void diag_inspect_left_out(const struct diag_input *input, struct diag_findings *out);

/* ---- rules.c ---- */

/* What `c` was caused by: a code, or `undetermined` with its candidates. */
void diag_judge(const struct diag_case *c, struct diag_finding *out);
/* The failure names no peer and no port: every rail in use is a suspect. */
bool diag_is_stall(const struct diag_case *c);

#endif
