/* A world: hosts, NICs, cables and timed faults, built by a backend from a plain
 * description with all numbers resolved. The runner is its only user. */
#ifndef WEFT_IO_WORLD_H
#define WEFT_IO_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "base/trace.h"
#include "io/addr.h"
#include "io/env.h"

/* A name=value pair: an environment setting or a profile override ("max_inline" =
 * "0"). */
struct world_setting {
    const char *name;
    const char *value;
};

/* An RDMA port with its netdev. Device names within a host are unique. */
struct world_port {
    const char *name;   /* "p0", "c0.1" */
    uint32_t device;    /* index of the RDMA device on the host: ports of a
                                    * two-port profile share one */
    uint8_t port;       /* port of that device, from 1 */
    uint32_t pcie_root; /* index into world_host.pcie_root_bps */
    bool is_cage;       /* a function of a cage of a DGX Spark */
    uint64_t rate_bps;
    uint32_t mtu_bytes;                /* of the netdev */
    const struct io_prefix *addresses; /* [n_addresses], in the order added */
    uint32_t n_addresses;
    /* [n_addresses]; zero where there is none. With a peer the prefix is the peer's, as of
     * `ip address add ADDRESS peer PEER/PREFIX`. NULL: none at all. */
    const struct io_ip *peers;
    /* The first so many addresses are on a VLAN of the port, whose netdev is its own. */
    uint32_t n_vlan_addresses;
    uint16_t vlan_id; /* 1..4094; 0: no VLAN */
};

/* Ports of a host that one netdev with one MAC is over, of which one at a time carries it
 * (active-backup). Their own `addresses` are none. */
struct world_bond {
    const char *name;      /* "bond0" */
    const uint32_t *ports; /* [n_ports], indices; the first is active first */
    uint32_t n_ports;
    const struct io_prefix *addresses; /* [n_addresses], in the order added */
    uint32_t n_addresses;
};

/* A static route: `ip route add TO via VIA`. */
struct world_route {
    struct io_prefix to;
    struct io_ip via; /* a neighbour, in a subnet of one of the host's addresses */
};

struct world_sysctl {
    int rp_filter;
    int arp_ignore;
    int arp_announce;
    int ip_forward;
    int accept_local;
    int arp_filter;
    int promote_secondaries;
};

/* Ways between the memories of a host of n processes: place i is the memory of process i's GPU,
 * place n + i the host's near that GPU. A copy passes directed links, which it shares with others:
 * from place a to b those of links[first[w]] to before links[first[w + 1]], w = a * 2n + b; none:
 * as if within one memory. */
struct world_ways {
    const uint64_t *bytes_per_us; /* of each link [n_links] */
    uint32_t n_links;
    const uint32_t *first; /* [4 n n + 1] */
    const uint32_t *links;
};

struct world_host {
    const char *name;
    const char *profile; /* "mlx5" */
    /* of the profile, by field name; [n_overrides] */
    const struct world_setting *overrides;
    uint32_t n_overrides;
    const struct world_port *ports; /* [n_ports], in device order */
    uint32_t n_ports;
    const struct world_bond *bonds; /* [n_bonds] */
    uint32_t n_bonds;
    const uint64_t *pcie_root_bps; /* [n_pcie_roots]; 0: the profile's */
    uint32_t n_pcie_roots;
    uint32_t n_gpus;         /* fewer than processes: see world_host_gpu */
    bool has_no_peer_access; /* no GPU reaches another one's memory */
    /* An NCCL topology document for the inside of the host [n_gpu_document], and its file's name;
     * NULL: see io_machine_of_world. */
    const char *gpu_document;
    size_t n_gpu_document;
    const char *gpu_document_name;
    struct world_sysctl sysctl;
    const struct world_route *routes; /* [n_routes] */
    uint32_t n_routes;
    bool forward_accept;           /* firewall: forward policy */
    const char *const *input_drop; /* "tcp:1024-65535"; [n_input_drop] */
    uint32_t n_input_drop;
    int64_t memlock_bytes;                /* INT64_MAX: unlimited */
    const struct world_setting *settings; /* environment; [n_settings] */
    uint32_t n_settings;
    struct io_ip management_ip; /* zero: not on the management network */
    struct io_ip
        known_ip;     /* by which the others look for it there; zero: management_ip */
    weft_ns start_ns; /* when its processes start */
    /* 0 means 1. Processes of a host share NICs, addresses and TCP ports; each opens the
     * devices for itself and has a GPU and memory of its own. */
    uint32_t n_processes;
    bool has_private_shm; /* each process has a /dev/shm of its own, as containers do */
    const struct world_ways *ways; /* NULL: all memory is as near as the GPU's own */
};

static inline uint32_t world_host_processes(const struct world_host *host)
{
    return host->n_processes == 0 ? 1 : host->n_processes;
}

/* The number of a process's GPU: each its own, or in turns where there are fewer GPUs. */
static inline uint32_t world_host_gpu(const struct world_host *host, uint32_t process)
{
    return host->n_gpus == 0 ? process : process % host->n_gpus;
}

/* One end of a cable: a host's port, or a switch's. */
struct world_end {
    bool is_switch;
    uint32_t node; /* host or switch index */
    uint32_t port; /* index into world_host.ports, or the switch's port from 0 */
};

/* Random impairments of one cable, applied per frame and direction, independently. */
struct world_impairment {
    uint32_t loss_ppb;
    uint32_t corrupt_ppb;
    uint32_t duplicate_ppb;
    uint32_t reorder_ppb;
    uint32_t ecn_ppb;
};

struct world_cable {
    struct world_end ends[2];
    uint64_t rate_bps;
    weft_ps delay_ps;          /* one way */
    uint32_t path_limit_bytes; /* larger IP packets vanish; 0: no limit */
    uint64_t queue_bytes;      /* per direction, then drop (or pause); 0: unlimited */
    bool pause;
    bool up;
    struct world_impairment impairment;
};

struct world_switch {
    const char *name;
    uint32_t n_ports;
};

struct world_management {
    bool exists;
    uint8_t prefix_len;
    uint64_t rate_bps;
    weft_ps delay_ps;
};

enum world_fault_kind {
    WORLD_FAULT_DOWN,
    WORLD_FAULT_UP,
    WORLD_FAULT_LOSS,
    WORLD_FAULT_CORRUPT,
    WORLD_FAULT_DUPLICATE,
    WORLD_FAULT_REORDER,
    WORLD_FAULT_ECN,
    WORLD_FAULT_DELAY,
    WORLD_FAULT_RATE,
    WORLD_FAULT_MTU,
    WORLD_FAULT_PATH_LIMIT,
    WORLD_FAULT_PAUSE,
    WORLD_FAULT_DROP,
    WORLD_FAULT_KILL,
    WORLD_FAULT_STOP,
    WORLD_FAULT_RESTART,
    WORLD_FAULT_CLOCK,
    WORLD_FAULT_GID_DELETE,
    WORLD_FAULT_GID_ADD,
    WORLD_FAULT_ADDR_ADD,
    WORLD_FAULT_ADDR_DEL,
    WORLD_FAULT_VERB_ERROR,
    WORLD_FAULT_VERB_SLOW,
    WORLD_FAULT_CALL_ERROR,
    WORLD_FAULT_CALL_SLOW,
    WORLD_FAULT_CALL_SHORT,
    WORLD_FAULT_CALL_LOST,
    WORLD_FAULT_DEVICE_FATAL,
    WORLD_FAULT_ASYNC_EVENT,
    WORLD_FAULT_STRANGER,
    WORLD_N_FAULTS
};

/* "down", "gid_delete" as in scenario files: static text, "?" for values out of range. */
const char *world_fault_name(enum world_fault_kind kind);
/* Of what a process asks of the waist, not of what is below: any backend can have it, and need
 * not know (backends/fault). */
bool world_fault_is_of_calls(enum world_fault_kind kind);

/* A call of the waist that may fail, for faults of calls. ALLOC_PD..DESTROY_QP are in the order
 * of enum io_op_kind. */
enum world_call {
    WORLD_CALL_ANY, /* each of them */
    WORLD_CALL_QUERY_DEVICE,
    WORLD_CALL_QUERY_PORT,
    WORLD_CALL_QUERY_GID,
    WORLD_CALL_ALLOC_PD,
    WORLD_CALL_DEALLOC_PD,
    WORLD_CALL_REG_MR,
    WORLD_CALL_DEREG_MR,
    WORLD_CALL_CREATE_CQ,
    WORLD_CALL_DESTROY_CQ,
    WORLD_CALL_CREATE_QP,
    WORLD_CALL_MODIFY_QP,
    WORLD_CALL_DESTROY_QP,
    WORLD_CALL_POST_SEND,
    WORLD_CALL_POST_RECV,
    WORLD_CALL_POLL_CQ,
    WORLD_CALL_REQ_NOTIFY,
    WORLD_CALL_LISTEN,
    WORLD_CALL_ACCEPT,
    WORLD_CALL_CONNECT,
    WORLD_CALL_CONNECTED,
    WORLD_CALL_SEND,
    WORLD_CALL_RECV,
    WORLD_CALL_OPEN_ANNOUNCER,
    WORLD_CALL_ANNOUNCE,
    WORLD_CALL_HEAR,
    WORLD_CALL_ALLOC,
    WORLD_CALL_START,
    WORLD_CALL_SHM_CREATE,
    WORLD_CALL_SHM_ATTACH,
    WORLD_CALL_EXPORT_MEMORY,
    WORLD_CALL_IMPORT_MEMORY,
    WORLD_N_CALLS
};

/* "query_port", "any": static text, "?" for values out of range. */
const char *world_call_name(enum world_call call);

enum world_direction { WORLD_BOTH_WAYS, WORLD_OUTWARDS, WORLD_INWARDS };

/* What a fault's time counts from. */
enum world_moment_kind {
    WORLD_MOMENT_START, /* the world is made */
    WORLD_MOMENT_JOBS,  /* the first rank enters its jobs */
    WORLD_MOMENT_ROW,   /* the first rank begins a row of the result table */
    WORLD_MOMENT_SENT,  /* a host's processes have posted so many bytes (IO_STAGE_SENT) */
    WORLD_N_MOMENTS
};

/* A moment of the job. Of faults that a process meets by itself (backends/fault), each process
 * counts from its own: when it enters its jobs, begins the row, or has posted the bytes. */
struct world_moment {
    enum world_moment_kind kind;
    uint32_t row;   /* of ROW, from 1 */
    uint32_t host;  /* of SENT */
    uint64_t bytes; /* of SENT, at least 1 */
};

/* Returns true if a process that comes to `stage` with `n` has come to the moment; of SENT, `n` is
 * what the processes that count have posted together. */
bool world_moment_is_met(const struct world_moment *moment, enum io_stage stage,
                         uint64_t n);

/* A fault of a host or a port, from at_ns after its moment on. Which members count depends on
 * `kind`; the table is scenario.md's "Fault kinds and their keys". */
struct world_fault {
    struct world_moment moment;
    weft_ns at_ns;
    weft_ns for_ns; /* 0: for good */
    enum world_fault_kind kind;
    uint32_t host;
    bool has_port;
    uint32_t port; /* index into world_host.ports */
    enum world_direction direction;
    uint32_t share_ppb;
    weft_ns delay_ns, jitter_ns;
    uint64_t rate_bps;
    uint32_t size_bytes; /* mtu, path_limit */
    bool has_match;      /* one packet: the qp'th QP made on that port (from 1, in
                                  * order of creation), psn from the first, iteration'th
                                  * transmission (0: the first) */
    uint32_t match_qp, match_psn, match_iteration;
    bool
        icrc_is_good; /* corrupt: in the payload, by somebody who computes the ICRC again */
    struct io_prefix address;
    int verb; /* enum io_op_kind, or -1 for post_send, -2 for post_recv */
    enum world_call call;
    uint32_t nth;     /* from 1 */
    uint32_t n_calls; /* that meet a fault of calls, from the nth on; 0 means 1 */
    int error;        /* positive errno */
    weft_ns by_ns;    /* verb_slow, call_slow */
    int event;        /* async_event: enum ibv_event_type, n_calls times */
    weft_ns after_ns; /* restart */
    bool has_process; /* kill: only this one of the host */
    uint32_t process;
    uint32_t from;    /* stranger: the host that opens n_calls streams to each port */
    const char *send; /* stranger: sent on each, or NULL */
};

/* Everything in here outlives the world. */
struct world_spec {
    uint64_t seed;
    const struct world_host *hosts;
    uint32_t n_hosts;
    const struct world_switch *switches;
    uint32_t n_switches;
    const struct world_cable *cables;
    uint32_t n_cables;
    struct world_management management;
    const struct world_fault *faults;
    uint32_t n_faults;
    /* Memory of GPUs may hold no bytes: only when something happens counts, not what is
     * computed. Nothing may look at it; uploads and downloads do nothing. */
    bool is_timing_only;
    /* A simulator handles every packet by itself, also where many could be one event: slower,
     * the same result. */
    bool no_trains;
    /* Share of calls of the I/O interface at which a rare but legal outcome is chosen: short
     * reads, full queues, late and spurious wakes (backends/fault); 0: none. */
    uint32_t rare_ppb;
    struct weft_trace *trace; /* may be NULL */
    struct weft_log *log;     /* may be NULL */
};

/* The first cable between two hosts, and its ports at either end. False: there is none. */
bool world_facing(const struct world_spec *spec, uint32_t host, uint32_t peer,
                  uint32_t *out_port, uint32_t *out_peer_port);
/* The first of the port's addresses that is in a subnet of `near`'s (NULL: of none), else its
 * first; NULL: it has none. */
const struct io_ip *world_port_address(const struct world_port *port,
                                       const struct world_port *near);

/* A frame as a capture wants it. `comment` is NULL, or why it was dropped or injected. */
struct world_frame {
    int64_t at_ns;
    uint32_t host, port; /* whose interface; port indexes world_host.ports */
    bool is_outgoing;
    const uint8_t *bytes; /* from the Ethernet header on, without FCS; [n_bytes] */
    size_t n_bytes;
    const char *comment;
};

/* One thing that library, driver or device did for a control verb. */
struct world_nic_step {
    const char *who;   /* "driver" */
    const char *what;  /* "CQC" */
    const char *facts; /* "cqn=6 bank=2": blanks between, none within */
    const char *note;  /* or NULL */
};

/* A control verb that ended, and what happened inside the NIC. */
struct world_nic_verb {
    weft_ns began_ns, ended_ns;
    const char *verb;                   /* "modify_qp" */
    const char *object;                 /* "QP 96" */
    const char *change;                 /* "RESET to INIT", or "" */
    int error;                          /* positive errno or 0 */
    bool is_forgotten;                  /* nobody waited for its end */
    const struct world_nic_step *steps; /* [n_steps] */
    unsigned n_steps;
};

struct world_cable_stats {
    uint64_t bytes[2]; /* put on the wire by ends[0] and ends[1], headers included */
    uint64_t packets[2];
    uint64_t drops[2];
    weft_ps busy_ps[2]; /* time the wire was occupied */
};

/* Descriptors that a process of a host inherits. Where it writes its result, and its part of the
 * event story if it is asked for one; where it reads which members ended: numbers, one a line. */
#define WORLD_RESULT_FD 3
#define WORLD_STORY_FD 4
#define WORLD_NOTICES_FD 5
/* Where it writes which stages it reached, if a fault waits for one: such records, each whole. */
#define WORLD_STAGES_FD 6

struct world_stage_record {
    uint32_t process; /* over all hosts, as WEFT_STAGES says */
    uint32_t stage;   /* enum io_stage */
    uint64_t n;
    weft_ns at_ns; /* by the process's clock, which is also the world's */
};

/* What a process of a host runs. */
struct world_process {
    char *const *argv; /* this program's; ends with NULL */
    /* [n_input] for its standard input; only of worlds that are elsewhere */
    const char *input;
    size_t n_input;
};

/* How the process of a host ended, and what it left. */
struct world_ending {
    bool is_over;
    int exit_code;      /* -1: a signal ended it */
    int signal;         /* or 0 */
    const char *result; /* [n_bytes] as written so far; belongs to the world */
    size_t n_bytes;
    const char *story; /* [n_story] lines, the last may be half; belongs to the world */
    size_t n_story;
};

/* Objects of one host that exist, summed over its processes. */
struct world_objects {
    uint32_t pds, mrs, cqs, qps; /* of its devices */
    uint32_t verbs;              /* control verbs in progress */
    uint32_t streams, listeners; /* open on its TCP stack */
};

/* RoCE frames of one port, as its NIC and its cable counted them, each on its own. */
struct world_port_frames {
    uint64_t sent;       /* by the NIC of the port, over all its ports */
    uint64_t received;   /* by that NIC, over all its ports */
    uint64_t looped;     /* by the port to itself, part of `sent` */
    uint64_t dropped;    /* of those sent out of the port, by the port or its cable */
    uint64_t duplicated; /* of those sent out of the port, by an impairment */
    uint64_t oversize;   /* arrived at the port, larger than its MTU */
    uint64_t in_flight;  /* sent out of the port and not arrived yet */
};

struct world;

struct world_ops {
    const char *name; /* "sim" */
    /* Cables are as fast as this machine makes them, not as the scenario says: bounds on
     * bandwidth and time mean nothing here. */
    bool is_unpaced;
    /* Its hosts are machines of their own: processes share no file and no clock with this one. They
     * read their scenario, and which members ended, from their standard input, and write their
     * part of the story and then their record, a line, to their standard output. */
    bool is_elsewhere;
    /* WEFT_ERR_ENVIRONMENT if this machine cannot; WEFT_ERR_UNSUPPORTED names what the
     * backend cannot express. `spec` outlives the world. */
    weft_status (*create)(const struct world_spec *spec, struct world **out,
                          struct weft_error *error);
    /* The environment of a host's process (from 0); belongs to the world. In the loop
     * processes count over all hosts, in the order of hosts: io_env.host. */
    struct io_env *(*host_env)(struct world *world, uint32_t host, uint32_t process);
    /* The loop that all host environments of this program share. */
    struct io_loop *(*loop)(struct world *world);
    weft_ns (*now)(struct world *world);
    /* A fault now, moment and at_ns ignored. EOPNOTSUPP where the backend cannot. */
    int (*inject)(struct world *world, const struct world_fault *fault);
    /* When fault number `fault` of the spec first began, by this world's clock; WEFT_NEVER: it has
     * not. NULL: the world does not know. */
    weft_ns (*fault_began)(const struct world *world, uint32_t fault);
    /* False once a kill fault took the host (until restarted): its machines are dead. */
    bool (*host_alive)(const struct world *world, uint32_t host);
    /* The same of one process of the host; NULL: they live and die together. */
    bool (*process_alive)(const struct world *world, uint32_t host, uint32_t process);
    /* Sends every frame to `tap` (NULL: stop). EOPNOTSUPP. */
    int (*tap)(struct world *world,
               void (*tap)(void *context, const struct world_frame *frame),
               void *context);
    /* Tells of every control verb on the device of a port, in the order of their ends; what
     * `tell` is given it may look at until it returns. EOPNOTSUPP where nobody can look into
     * a device; NULL is the same. */
    int (*watch_nic)(struct world *world, uint32_t host, uint32_t port,
                     void (*tell)(void *context, const struct world_nic_verb *verb),
                     void *context);
    /* Lets time pass until a task is ready, the loop's next deadline or `until`,
     * whichever is first, or a process dies or stops. WEFT_AGAIN: `until` was reached and
     * nothing is ready. */
    weft_status (*step)(struct world *world, weft_ns until);
    void (*cable_stats)(const struct world *world, uint32_t cable,
                        struct world_cable_stats *out);
    /* Report what exists on a host, and what a port counted, so that a run can be judged
     * (run/invariants.c). NULL where the world does not know. */
    void (*objects)(const struct world *world, uint32_t host, struct world_objects *out);
    void (*port_frames)(const struct world *world, uint32_t host, uint32_t port,
                        struct world_port_frames *out);
    /* Counters by name, for the report; `index` from 0, false past the end. */
    bool (*counter)(const struct world *world, uint32_t index, const char **out_name,
                    uint64_t *out_value);
    /* Gives every process that runs or will, by io_next_ended, the number of a member that
     * ended before the job did, as whoever started them knows it. NULL: nobody knows. */
    void (*tell_ended)(struct world *world, uint32_t member);
    /* Worlds whose hosts are processes of their own have these two, and neither host_env
     * nor loop; others have NULL. `launch` runs this very program as a process (from 0) of
     * `host`, whose devices and management netdev it finds in WEFT_DEVICES
     * ("p0=DEVICE,p1=DEVICE") and WEFT_MANAGEMENT. Its end wakes `step`. */
    weft_status (*launch)(struct world *world, uint32_t host, uint32_t process,
                          const struct world_process *what, struct weft_error *error);
    void (*ending)(struct world *world, uint32_t host, uint32_t process,
                   struct world_ending *out);
    /* Tears everything down; NULL is ignored. */
    void (*destroy)(struct world *world);
};

/* What backends derive from. */
struct world {
    const struct world_ops *ops;
};

#endif
