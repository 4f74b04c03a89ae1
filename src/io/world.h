/* A world: hosts, NICs, cables and timed faults, built by a backend from a description in which all
 * numbers are resolved. src/run creates it; src/host lets its time pass. */
#ifndef WEFT_IO_WORLD_H
#define WEFT_IO_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "base/profile.h"
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
    const char *name; /* "p0", "c0.1" */
    /* Index of the RDMA device on the host; ports of a two-port profile share one. */
    uint32_t device;
    uint8_t port;       /* port of that device, from 1 */
    uint32_t pcie_root; /* index into world_host.pcie_root_bps */
    bool is_cage;       /* true for a function of a QSFP cage of a DGX Spark */
    uint64_t rate_bps;
    uint32_t mtu_bytes;                /* MTU of the netdev */
    const struct io_prefix *addresses; /* [n_addresses], in the order added */
    uint32_t n_addresses;
    /* Peer addresses [n_addresses]; zero if none. With a peer the prefix is the peer's, as in `ip
     * address add ADDRESS peer PEER/PREFIX`. NULL if no address has a peer. */
    const struct io_ip *peers;
    /* Number of addresses, from the first, that are on the port's VLAN, which has a netdev of its
     * own. */
    uint32_t n_vlan_addresses;
    uint16_t vlan_id; /* 1..4094; 0 if none */
};

/* A bond: several ports under one netdev with one MAC, one of them in use at a time
 * (active-backup). The ports have no `addresses` of their own. */
struct world_bond {
    const char *name;      /* "bond0" */
    const uint32_t *ports; /* [n_ports], indices; the first is the initially active one */
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

/* Routes between the memories of a host with n processes. Memory i is that of process i's GPU,
 * memory n + i is the host memory near that GPU. A copy occupies directed links, shared with other
 * copies: from memory a to b it uses links[first[w]] to before links[first[w + 1]], with w = a * 2n
 * + b. With no link it is as fast as within one memory. */
struct world_ways {
    const uint64_t *bytes_per_us; /* bandwidth of each link [n_links] */
    uint32_t n_links;
    const uint32_t *first; /* [4 n n + 1] */
    const uint32_t *links;
};

struct world_host {
    const char *name;
    enum weft_profile profile;
    /* Overrides of the profile, by field name [n_overrides]. */
    const struct world_setting *overrides;
    uint32_t n_overrides;
    const struct world_port *ports; /* [n_ports], in device order */
    uint32_t n_ports;
    const struct world_bond *bonds; /* [n_bonds] */
    uint32_t n_bonds;
    const uint64_t *pcie_root_bps; /* [n_pcie_roots]; 0 for the profile's rate */
    uint32_t n_pcie_roots;
    /* 0 if each process has its own; fewer than n_processes are shared in turn (world_host_gpu). */
    uint32_t n_gpus;
    bool has_no_peer_access; /* no GPU can access another one's memory */
    /* NCCL topology document for the inside of the host [n_gpu_document], and the name of its file;
     * NULL for the default of io_machine_of_world. */
    const char *gpu_document;
    size_t n_gpu_document;
    const char *gpu_document_name;
    struct world_sysctl sysctl;
    const struct world_route *routes; /* [n_routes] */
    uint32_t n_routes;
    bool forward_accept;           /* firewall: the forward policy is accept */
    const char *const *input_drop; /* "tcp:1024-65535"; [n_input_drop] */
    uint32_t n_input_drop;
    int64_t memlock_bytes;                /* INT64_MAX if unlimited */
    const struct world_setting *settings; /* environment; [n_settings] */
    uint32_t n_settings;
    struct io_ip management_ip; /* zero if not on the management network */
    /* Address at which other hosts look for it there; zero if management_ip. */
    struct io_ip known_ip;
    weft_ns start_ns; /* time at which its processes start */
    /* 0 means 1. Processes of a host share NICs, addresses and TCP ports; each opens the devices
     * itself and has its own memory and, if there are enough, its own GPU. */
    uint32_t n_processes;
    bool has_private_shm; /* each process has its own /dev/shm, as containers do */
    const struct world_ways *ways; /* NULL if all memory is as fast as the GPU's own */
};

static inline uint32_t world_host_processes(const struct world_host *host)
{
    return host->n_processes == 0 ? 1 : host->n_processes;
}

/* Returns the number of a process's GPU. Processes share GPUs in turn if there are fewer GPUs. */
static inline uint32_t world_host_gpu(const struct world_host *host, uint32_t process)
{
    return host->n_gpus == 0 ? process : process % host->n_gpus;
}

/* One end of a cable: a port of a host or of a switch. */
struct world_end {
    bool is_switch;
    uint32_t node; /* host or switch index */
    uint32_t port; /* index into world_host.ports, or the switch's port from 0 */
};

/* Random impairments of one cable, applied to each frame independently, in both directions. */
struct world_impairment {
    uint32_t loss_ppb;
    uint32_t corrupt_ppb;
    uint32_t duplicate_ppb;
    uint32_t reorder_ppb;
    uint32_t ecn_ppb;
};

struct world_cable {
    struct world_end ends[2];
    bool is_rate_assumed; /* the file gives none; real ports can have another rate */
    uint64_t rate_bps;
    weft_ps delay_ps;          /* one-way delay */
    uint32_t path_limit_bytes; /* larger IP packets are dropped silently; 0 if no limit */
    /* Per direction; a full queue drops (or pauses); 0 if unlimited. */
    uint64_t queue_bytes;
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

/* Returns "down", "gid_delete", ... as in scenario files: static text, "?" for values out of
 * range. */
const char *world_fault_name(enum world_fault_kind kind);
/* Returns true for faults of calls of the I/O interface, which are injected above any backend
 * (backends/fault). */
bool world_fault_is_of_calls(enum world_fault_kind kind);

struct world_fault;
/* Returns true if the fault is one of a port, of a cable or of the management network. */
bool world_fault_is_of_link(const struct world_fault *fault);
/* A call of the I/O interface that can fail, for faults of calls. ALLOC_PD..DESTROY_QP are in the
 * order of enum io_op_kind. */
enum world_call {
    WORLD_CALL_ANY, /* every call */
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

/* Returns "query_port", "any", ...: static text, "?" for values out of range. */
const char *world_call_name(enum world_call call);

enum world_direction { WORLD_BOTH_WAYS, WORLD_OUTWARDS, WORLD_INWARDS };

/* The event from which the time of a fault counts. */
enum world_moment_kind {
    WORLD_MOMENT_START, /* the world is created */
    WORLD_MOMENT_JOBS,  /* the first rank enters its jobs */
    WORLD_MOMENT_ROW,   /* the first rank begins a row of the result table */
    /* A host's processes have posted a number of bytes (IO_STAGE_SENT). */
    WORLD_MOMENT_SENT,
    WORLD_MOMENT_RTS, /* programs: a port's queue pairs have been modified to RTS n times */
    WORLD_MOMENT_PACKET, /* programs: a port has sent its n'th packet of RoCE */
    WORLD_N_MOMENTS
};

/* Returns true if only programs (io/programs.h) have moments of this kind. */
bool world_moment_is_of_programs(enum world_moment_kind kind);

/* A moment of the job. For faults that act within a process (backends/fault), each process counts
 * from its own moment: when it enters its jobs, begins the row, or has posted the bytes. */
struct world_moment {
    enum world_moment_kind kind;
    uint32_t row;   /* for ROW, from 1 */
    uint32_t host;  /* for SENT, RTS and PACKET */
    uint64_t bytes; /* for SENT, at least 1 */
    uint32_t port;  /* for RTS and PACKET, index into world_host.ports */
    uint32_t n;     /* for RTS and PACKET, from 1 */
};

/* Returns true if a process that reaches `stage` with `n` has reached the moment. For SENT, `n` is
 * the sum over all processes that count. */
bool world_moment_is_met(const struct world_moment *moment, enum io_stage stage,
                         uint64_t n);

/* A fault of a host or a port, which begins at_ns after its moment. The members in use depend on
 * `kind`; see "Fault kinds and their keys" in docs/scenario.md. */
struct world_fault {
    struct world_moment moment;
    weft_ns at_ns;
    weft_ns for_ns; /* duration; 0 if it never ends */
    enum world_fault_kind kind;
    uint32_t host;
    bool has_port;
    uint32_t port; /* index into world_host.ports */
    bool
        on_management; /* down, up: the host's port of the management network; !has_port */
    enum world_direction direction;
    uint32_t share_ppb;
    weft_ns delay_ns, jitter_ns;
    uint64_t rate_bps;
    uint32_t size_bytes; /* for mtu and path_limit */
    /* The fault applies to one packet: of the match_qp'th QP created on that port (from 1), the PSN
     * match_psn after its first, in its transmission match_iteration (0 for the first). */
    bool has_match;
    uint32_t match_qp, match_psn, match_iteration;
    bool icrc_is_good; /* corrupt: damages the payload and recomputes the ICRC */
    struct io_prefix address;
    enum world_call call; /* verb_error, verb_slow: ALLOC_PD to POST_RECV */
    uint32_t nth;         /* from 1 */
    uint32_t n_calls;     /* number of calls affected, from the nth on; 0 means 1 */
    int error;            /* positive errno */
    weft_ns by_ns;        /* for verb_slow and call_slow */
    int event;            /* async_event: enum ibv_event_type, raised n_calls times */
    weft_ns after_ns;     /* for restart */
    bool has_process;     /* kill: only this process of the host */
    uint32_t process;
    uint32_t from;    /* stranger: host that opens n_calls streams to each port */
    const char *send; /* stranger: text sent on each stream, or NULL */
};

/* Returns where on its host the fault is, for the event log: a port, "management" or "host". */
const char *world_fault_place(const struct world_host *host,
                              const struct world_fault *fault);

/* The description of a world. All pointers must outlive the world. */
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
    /* GPU memory may have no storage, because only times matter, not results. It must not be
     * accessed; uploads and downloads do nothing. */
    bool is_timing_only;
    /* The simulator handles every packet by itself, also where one event could stand for several;
     * slower, with the same result. */
    bool no_trains;
    /* Share of calls of the I/O interface for which a rare but legal outcome is chosen: short
     * reads, full queues, late and spurious wakes (backends/fault); 0 for none. */
    uint32_t rare_ppb;
    struct weft_trace *trace; /* may be NULL */
    struct weft_log *log;     /* may be NULL */
};

/* Finds the first cable between two hosts, and its ports at both ends. Returns false if there is
 * none. */
bool world_facing(const struct world_spec *spec, uint32_t host, uint32_t peer,
                  uint32_t *out_port, uint32_t *out_peer_port);
/* Returns the index of the host's port with that name, or n_ports if there is none. */
uint32_t world_port_index(const struct world_host *host, const char *name);
/* Returns the first address of the port that is in a subnet of `near` (NULL for none), or else its
 * first one; NULL if it has none. */
const struct io_ip *world_port_address(const struct world_port *port,
                                       const struct world_port *near);

/* A captured frame. `comment` is NULL, or why it was dropped or injected. */
struct world_frame {
    int64_t at_ns;
    uint32_t host, port; /* interface of the capture; port indexes world_host.ports */
    bool is_outgoing;
    const uint8_t *bytes; /* from the Ethernet header on, without FCS; [n_bytes] */
    size_t n_bytes;
    const char *comment;
};

/* One action of the library, driver or device for a control verb. */
struct world_nic_step {
    const char *who;   /* "driver" */
    const char *what;  /* "CQC" */
    const char *facts; /* "cqn=6 bank=2": separated by blanks, with none within */
    const char *note;  /* or NULL */
};

/* A completed control verb, and what happened inside the NIC. */
struct world_nic_verb {
    weft_ns began_ns, ended_ns;
    const char *verb;                   /* "modify_qp" */
    const char *object;                 /* "QP 96" */
    const char *change;                 /* "RESET to INIT", or "" */
    int error;                          /* positive errno or 0 */
    bool is_forgotten;                  /* true if its caller did not wait for its end */
    const struct world_nic_step *steps; /* [n_steps] */
    unsigned n_steps;
};

struct world_cable_stats {
    uint64_t bytes[2]; /* sent by ends[0] and ends[1], headers included */
    uint64_t packets[2];
    uint64_t drops[2];
    weft_ps busy_ps[2]; /* time the wire was occupied */
};

/* File descriptors that a process of a host inherits: to write its result; to write its part of the
 * event log, if one is requested; to read which members ended, as one number per line. */
#define WORLD_RESULT_FD 3
#define WORLD_STORY_FD 4
#define WORLD_NOTICES_FD 5
/* File descriptor to write the stages it reached, if a fault waits for one. Each is a struct
 * world_stage_record, written atomically. */
#define WORLD_STAGES_FD 6

struct world_stage_record {
    uint32_t process; /* number over all hosts, from WEFT_STAGES */
    uint32_t stage;   /* enum io_stage */
    uint64_t n;
    weft_ns at_ns; /* by the clock of the process, which is also the world's */
};

/* A program to run as a process of a host. */
struct world_process {
    char *const *argv; /* arguments of this very program; NULL-terminated */
    /* Its standard input [n_input]; only if the world is elsewhere (world_ops). */
    const char *input;
    size_t n_input;
};

/* The end of a host's process, and its output. */
struct world_ending {
    bool is_over;
    bool is_stopped;    /* a signal stopped it (SIGSTOP), and it has not been continued */
    int exit_code;      /* -1 if a signal terminated it */
    int signal;         /* or 0 */
    const char *result; /* [n_bytes] written so far; owned by the world */
    size_t n_bytes;
    /* Event log [n_story], the last line possibly incomplete; owned by the world. */
    const char *story;
    size_t n_story;
};

/* Number of existing objects of one host, summed over its processes. */
struct world_objects {
    uint32_t pds, mrs, cqs, qps; /* objects of its devices */
    uint32_t verbs;              /* control verbs in progress */
    uint32_t streams, listeners; /* open on its TCP stack */
};

/* RoCE frames of one port, counted independently by its NIC and its cable. */
struct world_port_frames {
    uint64_t sent;       /* by the port's NIC, summed over all its ports */
    uint64_t received;   /* by that NIC, summed over all its ports */
    uint64_t looped;     /* by the port to itself; included in `sent` */
    uint64_t dropped;    /* frames sent by the port that it or its cable dropped */
    uint64_t duplicated; /* copies added by an impairment to frames sent by the port */
    uint64_t oversize;   /* arrived at the port and larger than its MTU */
    uint64_t in_flight;  /* sent by the port and not arrived yet */
};

struct world;

struct world_ops {
    const char *name; /* "sim" */
    /* Cables run at the speed of this machine instead of the scenario's rates, so bounds on
     * bandwidth and time do not apply. */
    bool is_unpaced;
    /* Hosts are other machines, whose processes share no file and no clock with this one. They read
     * their scenario, and which members ended, from standard input, and write their part of the
     * event log, followed by their record on one line, to standard output. */
    bool is_elsewhere;
    /* Creates a world. `spec` must outlive it. WEFT_ERR_ENVIRONMENT if this machine lacks
     * something; WEFT_ERR_UNSUPPORTED names what the backend cannot provide. */
    weft_status (*create)(const struct world_spec *spec, struct world **out,
                          struct weft_error *error);
    /* Returns the environment of a host's process (from 0); owned by the world. In the loop,
     * processes are numbered over all hosts, in the order of hosts: io_env.host. */
    struct io_env *(*host_env)(struct world *world, uint32_t host, uint32_t process);
    /* Returns the loop that all host environments of this program share. */
    struct io_loop *(*loop)(struct world *world);
    weft_ns (*now)(struct world *world);
    /* Starts a fault now, ignoring its moment and at_ns. EOPNOTSUPP if the backend does not support
     * it. */
    int (*inject)(struct world *world, const struct world_fault *fault);
    /* Returns when fault number `fault` of the spec first began, by this world's clock; WEFT_NEVER
     * if it has not. NULL if the world does not know. */
    weft_ns (*fault_began)(const struct world *world, uint32_t fault);
    /* Returns false once a kill fault has hit the host (until it is restarted); none of its
     * machines runs then. */
    bool (*host_alive)(const struct world *world, uint32_t host);
    /* Like host_alive, for one process of the host. NULL if all processes of a host live and die
     * together. */
    bool (*process_alive)(const struct world *world, uint32_t host, uint32_t process);
    /* Passes every frame to `tap` (NULL to stop). EOPNOTSUPP. */
    int (*tap)(struct world *world,
               void (*tap)(void *context, const struct world_frame *frame),
               void *context);
    /* Reports every control verb on the device of a port, in the order of completion; `verb` is
     * valid until `tell` returns. EOPNOTSUPP, or NULL, if the backend cannot look into a device. */
    int (*watch_nic)(struct world *world, uint32_t host, uint32_t port,
                     void (*tell)(void *context, const struct world_nic_verb *verb),
                     void *context);
    /* Lets time pass until a task is ready, the loop's next deadline or `until`, whichever comes
     * first, or until a process exits or stops. WEFT_AGAIN if `until` was reached and no task is
     * ready. */
    weft_status (*step)(struct world *world, weft_ns until);
    void (*cable_stats)(const struct world *world, uint32_t cable,
                        struct world_cable_stats *out);
    /* Report the objects on a host and the frames of a port, so that a run can be judged
     * (run/invariants.c). NULL if the world does not know them. */
    void (*objects)(const struct world *world, uint32_t host, struct world_objects *out);
    void (*port_frames)(const struct world *world, uint32_t host, uint32_t port,
                        struct world_port_frames *out);
    /* Returns the counter number `index` (from 0) for the report; false past the last. */
    bool (*counter)(const struct world *world, uint32_t index, const char **out_name,
                    uint64_t *out_value);
    /* Reports to every process that runs or will run, through io_next_ended, that `member` ended
     * before the job did. NULL if no program knows this. */
    void (*report_ended)(struct world *world, uint32_t member);
    /* The next two are implemented by worlds whose hosts are separate processes, and NULL in
     * others; such worlds have neither host_env nor loop. `launch` runs this very program as a
     * process (from 0) of `host`. The process finds its devices and management netdev in
     * WEFT_DEVICES ("p0=DEVICE,p1=DEVICE") and WEFT_MANAGEMENT. Its exit wakes `step`. */
    weft_status (*launch)(struct world *world, uint32_t host, uint32_t process,
                          const struct world_process *what, struct weft_error *error);
    void (*ending)(struct world *world, uint32_t host, uint32_t process,
                   struct world_ending *out);
    /* Destroys the world and all that it owns. NULL is ignored. */
    void (*destroy)(struct world *world);
};

/* The base of every backend's world. */
struct world {
    const struct world_ops *ops;
};

#endif
