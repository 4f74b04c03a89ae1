/* Internal interface of diag/: a failure between two hosts, prepared for the rules, and the
 * functions that the rules share. */
#ifndef WEFT_DIAG_PRIVATE_H
#define WEFT_DIAG_PRIVATE_H

#include "base/policy.h"
#include "diag/diag.h"

/* Known ports of one host. */
struct diag_ports {
    const struct diag_port *items; /* [n]; NULL if none is known */
    uint32_t n;
};

/* One failure, with the observations of both ends. Pointers into the input. */
struct diag_case {
    const struct diag_input *input;
    const struct diag_host *host; /* the end that failed */
    const struct diag_error *failure;
    /* True if the peer reported the failure. `host` and `peer` are then swapped, so that `host` is
     * always the end that failed. */
    bool is_turned;
    /* True in the result of diag_case_from_far(): `host` is the end at fault, not the one that
     * failed. */
    bool is_seen_from_far;
    /* True if both hosts completed the job without the rail that failed. */
    bool is_left_out;
    /* If not NULL, the rules examine whether this rail caused the failure. */
    const struct diag_use *use;
    const struct diag_host *peer; /* NULL if there is none in the input */
    const char *peer_name;        /* "" if the failure concerns no peer */
    /* How `host` failed, even if its peer reported it. */
    weft_status status;
    enum weft_phase phase; /* WEFT_PHASE_NONE if unknown */
    int sys_errno, wc_status;
    struct diag_ports local, remote;
    const struct diag_port *local_port;  /* the port used; NULL if unknown */
    const struct diag_port *remote_port; /* the peer's port; NULL if unknown */
    bool has_local_gid, has_remote_gid;
    struct io_ip local_gid, remote_gid;
    const char *local_type, *remote_type; /* "RoCE v2"; NULL if unknown */
    int64_t path_mtu;                     /* bytes, or IO_UNKNOWN */
};

/* Returns true if a job timed out without a peer, an errno or a completion status. Every rail in
 * use is then a suspect. */
static inline bool diag_is_stall(const struct diag_case *c)
{
    return c->status == WEFT_ERR_TIMEOUT && c->peer_name[0] == '\0' &&
           c->sys_errno == 0 && c->wc_status == 0 && c->phase == WEFT_PHASE_JOBS;
}

/* ---- three-valued logic ---- */

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

/* ---- input.c ---- */

const struct diag_host *diag_find_host(const struct diag_input *input, const char *name);
/* Returns true if both names are processes of one machine, as "titanic" and "titanic/1". They have
 * the same ports. */
bool diag_is_same_machine(const char *a, const char *b);
/* Returns YES if that policy chose the ports of `host` (may be NULL). */
enum diag_known diag_has_policy(const struct diag_host *host, enum weft_policy policy);
/* Returns the ports of a host as it observed them, otherwise as it described them to another
 * host. */
struct diag_ports diag_ports_of(const struct diag_input *input, const char *name);
/* Returns the ports of the peer `name`, as the peer described them to `host`. */
struct diag_ports diag_ports_described(const struct diag_host *host, const char *name);
/* Returns NULL if there is none with that name, or if `name` is NULL. */
const struct diag_port *diag_port_named(const struct diag_ports *ports, const char *name);
/* Returns true if the error is the launcher's report that a process exited before it joined. */
bool diag_is_of_an_end(const struct weft_error *error);
/* Returns true if any host failed, hung, vanished or was not observed. Warnings about slow or
 * survived conditions are then suppressed. */
bool diag_has_failed(const struct diag_input *input);

/* ---- finding.c ---- */

/* Sets the place of a finding. An argument "" is omitted. */
void diag_name_place(struct diag_finding *out, const char *host, const char *port,
                     const char *peer);
void diag_evidence_text(struct diag_finding *out, const char *name, const char *text);
void diag_evidence_int(struct diag_finding *out, const char *name, int64_t number);
/* Adds a finding. */
void diag_add(struct diag_findings *out, const struct diag_finding *finding);
/* Adds a finding, unless the same cause was already reported for these two hosts. */
void diag_say(struct diag_findings *out, const struct diag_finding *finding);
/* Returns true if there is a finding with this code about the ends of `finding`. */
bool diag_is_about(const struct diag_findings *out, enum diag_code code,
                   const struct diag_finding *finding);

/* ---- evidence.c ---- */

void diag_case_init(struct diag_case *c, const struct diag_input *input,
                    const struct diag_host *host, const struct diag_error *failure);
/* Starts a case that examines whether a rail that `host` used caused the failure. */
void diag_case_init_use(struct diag_case *c, const struct diag_input *input,
                        const struct diag_host *host, const struct diag_error *failure,
                        const struct diag_use *use);
/* Return a value of the failure, or NULL or IO_UNKNOWN. In a turned case LOCAL_ and REMOTE_ values
 * are swapped. */
const char *diag_text(const struct diag_case *c, enum weft_value_name name);
/* Returns the name of the phase, "unknown" if there is none. */
const char *diag_phase_name(const struct diag_case *c);

int64_t diag_number(const struct diag_case *c, enum weft_value_name name);
/* Returns YES if the peer's process exited, as observed by the launcher or by other hosts. */
enum diag_known diag_peer_died(const struct diag_case *c);
/* Returns true if a program could not connect to its peer, and did not print why. */
bool diag_is_of_no_connection(const struct weft_error *error);
/* Sets the place of a finding about `c` (an argument "" is omitted) and replaces its evidence by
 * the phase and the errno. */
void diag_describe_at(const struct diag_case *c, const char *host, const char *port,
                      const char *peer, struct diag_finding *out);
/* Places a finding about `c` at the end that failed and replaces its evidence by that of both
 * ends. */
void diag_describe(const struct diag_case *c, struct diag_finding *out);
/* Adds the GID slot that a setting selects, and what is in it: a GID, "empty" or "unknown". */
void diag_evidence_slot(struct diag_finding *out, const struct diag_port *port,
                        int64_t index);

/* ---- waits.c ---- */

/* Fills `behind` of all errors in `out`. A host is behind the first error that it leads to, and
 * behind none if an error names it. */
void diag_find_behind(const struct diag_input *input, struct diag_findings *out);
/* Returns true if the host that failed is in a circle of hosts that wait for each other: of servers
 * without a client, or of hosts that wait for data or buffers of one another and for nothing
 * else. */
bool diag_is_in_circle(const struct diag_case *c);
/* Places a finding of a circle at its first host, and adds all its waits. */
void diag_name_circle(const struct diag_case *c, struct diag_finding *out);

/* ---- facing.c ---- */

/* Returns YES if `ip` is inside a subnet of `port`, according to the prefix lengths of its
 * addresses. Returns UNKNOWN for a link-local IPv6 address, and for 169.254.0.0/16 if `port` has an
 * address in it, because every port can be in these subnets. */
enum diag_known diag_faces(const struct diag_port *port, const struct io_ip *ip);
/* Returns YES if a port other than `but` (may be NULL) faces `ip`. */
enum diag_known diag_any_faces(struct diag_ports ports, const struct diag_port *but,
                               const struct io_ip *ip);
/* Returns YES if each port has an address in the other's subnet. Ignores link-local addresses. */
enum diag_known diag_facing(const struct diag_port *a, const struct diag_port *b);
/* Returns YES if the ports have two addresses of which only one is in the other's subnet. Ignores
 * link-local addresses and those of diag_is_extra(). */
enum diag_known diag_facing_one_way(const struct diag_port *a, const struct diag_port *b);
/* Returns YES if any port of one host faces any port of the other. */
enum diag_known diag_any_facing(struct diag_ports local, struct diag_ports remote);
/* Returns YES if a GID of the port, other than one in fe80::/16, is an address of its netdev. */
enum diag_known diag_has_address(const struct diag_port *port);
/* Returns YES if `port` faces at least one of `ports`. */
enum diag_known diag_faces_one_of(const struct diag_port *port, struct diag_ports ports);
/* Returns true for an address with prefix length 32 (IPv6: 128) on a port that has another address
 * of that family with a shorter one. Such an address identifies a service and does not number the
 * cable. */
bool diag_is_extra(const struct diag_port *port, const struct diag_gid *gid);
/* Returns YES if a known cable joins the two ports, NO if one leads from either of them to another
 * port. Returns UNKNOWN for ports whose cable is unknown, or is one to a switch. */
enum diag_known diag_is_joined(const struct diag_input *input, const char *host,
                               const char *port, const char *peer, const char *other);
/* Returns YES if both ports have the same address, except link-local ones. Stores it in *out (may
 * be NULL). */
enum diag_known diag_share_address(const struct diag_port *a, const struct diag_port *b,
                                   struct io_ip *out);
/* Returns true if the port can have GIDs that gids[] does not contain. */
bool diag_may_lack_gids(const struct diag_port *port);
/* Returns true if these can include addresses. A table that was cut contains GIDs without an
 * address only after all others. */
bool diag_may_lack_addresses(const struct diag_port *port);
/* Returns the entry of `gid` in the table of `port`, or NULL. */
const struct diag_gid *diag_gid_of(const struct diag_port *port, bool has_gid,
                                   const struct io_ip *gid);
/* Returns YES if the GID is in fe80::/16, as the default GID that every port has for its MAC
 * address. Returns UNKNOWN unless `has_gid`. */
enum diag_known diag_is_default_gid(bool has_gid, const struct io_ip *ip);
/* Finds the slot of the GID of that type ("RoCE v2") in the table of `port`. Stores it in
 * *out_index, otherwise IO_UNKNOWN. Returns NO if the table does not contain it. */
enum diag_known diag_find_index(const struct diag_port *port, bool has_gid,
                                const struct io_ip *gid, const char *type,
                                int64_t *out_index);
/* Returns YES if a known cable joins the ports in use. */
enum diag_known diag_are_ends_joined(const struct diag_case *c);
/* Returns true if both ends used their default GIDs over one cable, where those are unique. */
bool diag_is_link_local_cable(const struct diag_case *c);
/* Returns true if small messages were exchanged, so that ports and addresses are right. */
bool diag_way_works(const struct diag_case *c);
/* Returns YES if an event reported that the device of the port failed. Returns UNKNOWN if an event
 * could be missing. */
enum diag_known diag_is_device_gone(const struct diag_host *host, const char *port);
/* Returns YES if the port lost its carrier, according to its state or an event, and its device did
 * not fail. `host` may be NULL. */
enum diag_known diag_was_down(const struct diag_host *host, const struct diag_port *port);
/* Returns true if GIDs of the port, or of any port if it is NULL, changed during the run. */
bool diag_was_renumbered(const struct diag_host *host, const struct diag_port *port);

/* Returns true if the ports in use do not face each other, and none of those that do have carrier.
 * Sets the ports of one such cable. */
bool diag_find_only_way_down(const struct diag_case *c,
                             const struct diag_port **out_local,
                             const struct diag_port **out_remote);
/* Returns true if known cables lead to other ports from all ports of the two hosts that face each
 * other. Sets the first two such ports. */
bool diag_find_misled(const struct diag_case *c, const struct diag_port **out_local,
                      const struct diag_port **out_remote);
/* Returns YES if the ports in use do not face each other, and the device of a port of a pair that
 * does failed. Stores `c` with that pair in *out, from the end of that device. */
enum diag_known diag_find_gone_way(const struct diag_case *c, struct diag_case *out);
/* Returns YES if a port of a machine other than that of `owner` has the address `ip`. */
enum diag_known diag_is_anothers(const struct diag_case *c, const struct io_ip *ip,
                                 const char *owner);

/* ---- tests of one end: is the cause, which could be at either end of a case, at this one? ---- */

enum diag_end { DIAG_NEAR, DIAG_FAR };

typedef enum diag_known diag_end_test(const struct diag_case *c, enum diag_end end);
typedef enum diag_known diag_port_test(const struct diag_port *port);

diag_end_test diag_fixed_index_at, diag_gid_link_local_at, diag_no_ipv4_at,
    diag_addr_missing_at, diag_hca_list_at, diag_bond_peers_at, diag_gid_lost_at,
    diag_gid_missing_at, diag_addr_changed_at, diag_firewall_roce_at, diag_rp_filter_at,
    diag_device_gone_at, diag_arp_ignored_at, diag_link_down_at, diag_flapping_at,
    diag_is_alone_at, diag_is_odd_family_at, diag_pauses_other_at, diag_is_cut_off_at,
    diag_is_short_at;
/* Returns the host without a management network because of which a round of all members, or a
 * connection of the two hosts, is not answered; NULL if there is none. */
const struct diag_host *diag_host_off_management(const struct diag_case *c);
/* Returns YES if both ports of `host` are in one bond although their cables lead to different
 * hosts. Stores the names of the hosts at the other ends, NULL if unknown, in *out (may be
 * NULL). */
enum diag_known diag_bond_splits(const struct diag_input *input, const char *host,
                                 const struct diag_port *a, const struct diag_port *b,
                                 const char *out[2]);
/* Returns YES if the settings of the host forbid the use of all its ports with carrier, although it
 * has at least one. */
enum diag_known diag_leaves_no_port(struct diag_ports ports);
/* Return YES if the port has carrier but no address (diag_is_bare), or an address but no GID of it
 * (diag_is_without_gid). */
diag_port_test diag_is_bare, diag_is_without_gid;
/* Returns YES if the port has an IPv4 GID that is not its address, and none that is. Each of its
 * addresses can then name a peer (`ip address add ADDRESS peer PEER`). */
diag_port_test diag_has_peers_only;
/* Returns the same failure from the point of view of the other end. */
struct diag_case diag_case_from_far(const struct diag_case *c);

/* ---- hypotheses: each answers YES or NO only from positive evidence ---- */

typedef enum diag_known diag_test(const struct diag_case *c);

/* rules_route.c: which port, which address */
diag_test diag_is_merged_nic, diag_is_merged_one_end, diag_is_crossed_planes,
    diag_is_prefix_collision, diag_is_listener_blind, diag_is_wrong_nic,
    diag_is_link_local_route, diag_is_gid_collision, diag_is_no_cable, diag_is_rank_order,
    diag_is_addr_missing, diag_is_cable_bare, diag_is_prefix_mismatch,
    diag_is_no_facing_port, diag_is_renumbered, diag_is_cut_off, diag_is_addr_duplicate,
    diag_is_one_address, diag_is_anothers_listener, diag_is_only_way_down,
    diag_is_way_gone, diag_is_cable_apart, diag_is_misled, diag_is_one_family,
    diag_is_bare_at_all, diag_is_no_answer, diag_is_facing_down,
    diag_is_facing_without_v2, diag_is_gid_lost;
/* rules_gid.c: which GID, and whose address it is */
diag_test diag_is_peer_address, diag_is_fixed_index, diag_is_gid_link_local,
    diag_is_no_ipv4, diag_is_stale_index;
/* rules_link.c: cables, GID tables in use, filters */
diag_test diag_is_link_down, diag_is_down_at_rtr, diag_is_flapping, diag_is_gid_gone,
    diag_is_addr_changed, diag_is_agreed_gid_gone, diag_is_agreed_addr_changed,
    diag_is_type_mismatch, diag_is_mistyped_without_address, diag_is_mistyped_without_gid,
    diag_is_mtu_mismatch, diag_is_mtu_refused, diag_is_own_mtu_lesser,
    diag_is_mtu_of_another_port, diag_is_black_hole, diag_is_vlan_mismatch,
    diag_is_arp_ignored, diag_is_firewall_roce, diag_is_rp_filter, diag_is_corrupting,
    diag_is_one_way, diag_is_lossy, diag_is_paused, diag_is_pause_storm, diag_is_held,
    diag_is_gone, diag_is_arp_ignored_at_all, diag_are_vlans_apart,
    diag_are_vlans_different, diag_is_any_corrupting, diag_is_any_one_way,
    diag_is_any_lossy, diag_is_any_held, diag_is_left_out_flapping,
    diag_is_set_up_stopped, diag_is_left_out_down;
/* Finds a port of one of the two hosts that has a smaller MTU than the port that it faces, and less
 * than the path MTU in use. Stores `c` with the two in *out (may be NULL). */
enum diag_known diag_find_narrow_port(const struct diag_case *c, struct diag_case *out);
/* Copies `c` with the first pair of facing ports for which `is_so` returns YES. Returns false if
 * there is none. */
bool diag_find_rail(const struct diag_case *c, diag_test *is_so, struct diag_case *out);
bool diag_is_left_out_apart(const struct diag_case *c);
/* Returns true if policy weft called the peer over one cable, and an end of that has lost the
 * address of the call. */
bool diag_is_unaddressed(const struct diag_case *c);
/* rules_pause.c: pauses while a connection is set up */
diag_test diag_is_held_at_rtr;
/* Returns YES if pauses held an end of the rail for long. Returns NO if neither port counts
 * pauses. */
diag_test diag_is_port_held;
/* Returns true if pauses of the port lasted a second each on average, which flow control never
 * does. */
bool diag_is_stopped(const struct diag_port *port);
/* Returns true if pauses stopped an end of the rail for longer than flow control does: for a second
 * each on average, or 100 ms if a probe failed, which waits no longer. */
bool diag_is_rail_stopped(const struct diag_case *c);
/* rules_program.c: what a program sends to its peer */
diag_test diag_is_qpn_truncated, diag_is_loopback;
/* rules_transit.c: IP forwarding by a third host */
diag_test diag_is_forward_off, diag_is_forward_blocked;
/* Returns a host that both ports face, or NULL. */
const struct diag_host *diag_host_between(const struct diag_case *c);
/* rules_host.c: processes, limits and settings */
diag_test diag_is_hca_list, diag_is_bond_peers, diag_is_peer_short, diag_may_be_foreign,
    diag_has_peer_no_route, diag_is_memlock, diag_is_peer_late, diag_is_own_lateness,
    diag_is_late_there, diag_is_unanswered, diag_is_filtered, diag_is_management_down,
    diag_is_certain, diag_is_unsure; /* always YES, always UNKNOWN */
/* Finds a host that came too late for a rendezvous over the cables, so that the peer, which is
 * behind it, was not heard of either. Returns false if there is none, or if it is the peer. */
bool diag_find_latecomer(const struct diag_case *c, struct diag_case *out);

/* Returns YES if `host` (may be NULL) failed with this errno when it connected to `name`. Considers
 * only phases boot and tcp. */
enum diag_known diag_failed_to_reach(const struct diag_host *host, const char *name,
                                     int sys_errno);

/* Returns the number of frames that `from` sent and `to` did not receive, or IO_UNKNOWN. Assumes
 * that the ports exchange frames only with each other. Returns 0 if `to` counted more, or if the
 * host of `from` dropped them, because the answers of `to` are lost. */
int64_t diag_lost_frames(const struct diag_port *from, const struct diag_port *to);
/* Returns YES if `to` received damaged packets. rxe does not count them. Then returns NO if no
 * packet was lost, or if most of the lost ones did not arrive: the netdev of `to` received fewer
 * other frames than that, or fewer frames than that of `from` sent. */
enum diag_known diag_damages(const struct diag_input *input, const struct diag_port *from,
                             const struct diag_port *to);
/* Counts the rails of all processes that begin (DIAG_NEAR) or end (DIAG_FAR) at the card of a
 * machine's port. */
uint32_t diag_count_rails(const struct diag_input *input, const char *machine,
                          const char *port, enum diag_end end);
/* Returns YES if the ports face each other and no other port faces `a`, or faced it when it was
 * used, so that one cable joins them. */
enum diag_known diag_is_one_cable(const struct diag_input *input,
                                  const struct diag_port *a, const struct diag_port *b);

/* Returns YES if the ports are in one subnet, on different machines, or are the same port. */
enum diag_known diag_is_in_subnet(const struct diag_host *host,
                                  const struct diag_port *port,
                                  const struct diag_host *other,
                                  const struct diag_port *other_port);
/* Returns the sum of a counter over `port` of `host` and all ports in its subnet, or IO_UNKNOWN if
 * one that may be among them does not count it. */
int64_t diag_sum_in_subnet(const struct diag_input *input, const struct diag_host *host,
                           const struct diag_port *port, enum diag_counter counter);

/* ---- survived.c ---- */

/* Returns how often a port lost its carrier while the job ran, or IO_UNKNOWN. If events are
 * missing, returns how often at least, if that is more than once. */
int64_t diag_carrier_losses(const struct diag_host *host, const char *port);
/* Adds warnings about lost frames, lost carriers and failed devices that a job survived. Adds none
 * if a host failed. */
void diag_inspect_survived(const struct diag_input *input, struct diag_findings *out);
/* Returns YES if a switch between three or more ports dropped frames, and the port with the most
 * packets out of sequence, if any, is one of these two hosts. The direction is then unknown,
 * because a port does not count frames by their sender. Returns NO if that is unknown. */
diag_test diag_is_lossy_segment;

/* ---- place.c ---- */

/* Completes the place of a finding whose code is decided: the end at fault and the ports
 * concerned. */
void diag_place(const struct diag_case *c, struct diag_finding *out);

/* ---- rules_severed.c ---- */

/* Returns YES if the cables that lost their carrier separate the two hosts, so that not even relays
 * join them. Returns NO if the cables are unknown, and for a failure of the rendezvous. */
diag_test diag_is_severed;
/* Returns YES if known cables join the two hosts, none of them has carrier, and no port of one host
 * faces one of the other. */
diag_test diag_is_dark;
/* Returns true if the failure is one of boot, where no rendezvous was and the members met over the
 * cables. */
bool diag_is_boot_over_cables(const struct diag_case *c);
/* Returns true if the host missed that neighbour in boot. */
bool diag_misses_neighbour(const struct diag_input *input, const struct diag_host *host,
                           const struct diag_host *member);
/* If the members met over the cables, and the host gave up because of a member that is not its
 * neighbour, but also missed a neighbour, makes that one the peer of the failure and returns true.
 * The host reaches all others through its neighbours. */
bool diag_turn_to_neighbour(struct diag_case *c);
/* Returns true if the members met over the cables, the host missed a member that is not its
 * neighbour, and a neighbour of that member missed it, too, or another host missed its own
 * neighbour, which this host missed as well. */
bool diag_is_missed_by_neighbour(const struct diag_case *c);
/* Returns true if the members met over the cables, and of two neighbours that ran at least one did
 * not hear the other without a gap. */
bool diag_is_unheard_over_cable(const struct diag_case *c);
enum diag_known diag_is_silenced(const struct diag_case *c);
/* Places the finding at a cable whose loss separates the two hosts. Returns false if none does. */
bool diag_name_severed(const struct diag_case *c, struct diag_finding *out);
/* Places the finding at the first cable of the two hosts. Returns false unless diag_is_dark(). */
bool diag_name_dark(const struct diag_case *c, struct diag_finding *out);

/* ---- apart.c ---- */

/* Finds a cable between the two hosts of `c` whose ends have addresses in different subnets.
 * Returns false if none is known. */
bool diag_find_apart(const struct diag_case *c, const struct diag_port **out_local,
                     const struct diag_port **out_remote);
/* Adds both ends of each cable whose ends have addresses in different subnets, if no host failed.
 * They are warnings after a job that ran without the cable, errors before a run. */
void diag_inspect_apart(const struct diag_input *input, struct diag_findings *out);

/* ---- dark.c ---- */

/* Adds a warning for each cable that could not carry data in a job that succeeded without it. */
void diag_inspect_dark(const struct diag_input *input, struct diag_findings *out);

/* ---- slots.c, shared_slot.c ---- */

/* Returns the rate of a PCIe link in bit/s, in one direction, or IO_UNKNOWN. */
int64_t diag_pcie_rate(int64_t lanes, int64_t mts);
/* Adds a warning for each pair of hosts whose rails share a PCIe link that is too slow for them,
 * although a port of another card between them is idle. Adds none if a host failed. */
void diag_inspect_shared_slots(const struct diag_input *input, struct diag_findings *out);
/* Adds a warning for each host that has ports whose PCIe link runs below its maximum and below the
 * rate of the port. */
void diag_inspect_slots(const struct diag_input *input, struct diag_findings *out);

/* ---- slow_rail.c ---- */

/* Adds a warning for each pair of hosts with a rail that moved far less than its rate while it was
 * busy, if nothing else explains that. Adds none if a host failed. */
void diag_inspect_slow_rails(const struct diag_input *input, struct diag_findings *out);

/* ---- slow_lane.c ---- */

/* Adds a warning for each pair of hosts that used a slow cable although an idle one between them is
 * at least twice as fast. Adds none if a host failed or a rail was left out. */
void diag_inspect_lanes(const struct diag_input *input, struct diag_findings *out);

/* ---- left_out.c ---- */

/* Adds warnings about rails and routes that were left out of a job. Adds none if a host failed. */
void diag_inspect_left_out(const struct diag_input *input, struct diag_findings *out);

/* ---- rules.c ---- */

/* Decides the cause of `c`: a code, or `undetermined` with its candidates. */
void diag_judge(const struct diag_case *c, struct diag_finding *out);

#endif
