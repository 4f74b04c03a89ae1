/* A simulated fabric with proven connections in both directions between chosen hosts, for
 * tests of xfer/ and coll/: one loop, run by the test. */
#ifndef WEFT_XFER_FABRIC_TESTING_H
#define WEFT_XFER_FABRIC_TESTING_H

#include "base/text.h"
#include "io/world.h"
#include "xfer/xfer.h"

#define FABRIC_HOSTS_MAX 8
#define FABRIC_PORTS_MAX 8
#define FABRIC_CABLES_MAX 16
#define FABRIC_MS INT64_C(1000000)
#define FABRIC_S INT64_C(1000000000)

enum fabric_kind { FABRIC_RDMA = 1, FABRIC_LISTENER, FABRIC_CONN, FABRIC_USER };

struct fabric;

struct fabric_cable {
    uint32_t a, b; /* hosts; their ports are numbered in the order of their cables */
};

struct fabric_config {
    uint32_t n_hosts; /* every pair has n_rails cables, each its own subnet ... */
    const struct fabric_cable *cables; /* ... or these, n_cables, if not NULL */
    uint32_t n_cables;
    uint32_t n_rails;      /* 1 unless told */
    uint32_t qps_per_rail; /* 2 unless told */
    weft_ps delay_ps;      /* 1 us unless told */
    struct world_impairment impairment;
    const char *profile; /* "mlx5" unless told */
    uint64_t
        pcie_root_bps; /* of the one that all ports of a host share; the ports' own */
    const struct world_setting *overrides;
    uint32_t n_overrides;
    const struct world_fault *faults;
    uint32_t n_faults;
    bool one_way;       /* only host 0 connects to host 1 */
    bool no_management; /* streams have nothing but the cables */
    /* No connections: these take what listeners accept, and what tasks of connections and of
     * rdma (async events) are woken for. */
    void (*on_accept)(struct fabric *fabric, uint32_t host, struct conn *conn);
    void (*on_conn)(struct fabric *fabric, struct conn *conn);
    void (*on_event)(struct fabric *fabric, uint32_t host);
    void *user;
    uint32_t send_wr_max, recv_wr_max; /* conn's defaults unless told */
    enum rdma_policy policy;           /* weft unless told */
    uint64_t seed;
};

/* One direction between two hosts: both ends of one connection. */
struct fabric_link {
    struct conn *sender, *receiver;
    struct xfer *out, *in; /* NULL until up */
};

struct fabric_host {
    struct io_env *env;
    struct io_task rdma_task;
    struct io_task task; /* the test's own, kind FABRIC_USER */
    struct rdma *rdma;
    struct conn_listener *listener;
    uint8_t handle[CONN_HANDLE_BYTES];
    uint32_t idle_objects;
};

struct fabric_spec;

struct fabric {
    struct fabric_config config;
    struct world *world;
    struct io_loop *loop;
    struct fabric_host hosts[FABRIC_HOSTS_MAX];
    struct fabric_link links[FABRIC_HOSTS_MAX][FABRIC_HOSTS_MAX]; /* [from][to] */
    struct fabric_spec *spec;                                     /* Owned */
    uint32_t woken; /* bit h: a task of host h ran since the test last cleared it */
};

/* Builds the world and brings every connection up. */
void fabric_open(struct fabric *fabric, const struct fabric_config *config);
/* Lets every ready task run once and, if none was, time pass; false at `until`. */
bool fabric_step(struct fabric *fabric, weft_ns until);
/* Steps for `for_ns`. */
void fabric_run(struct fabric *fabric, weft_ns for_ns);
weft_ns fabric_now(const struct fabric *fabric);
/* Closes every connection in order, checks that no verbs object is left, ends the world. */
void fabric_close(struct fabric *fabric);
/* Ends the world without an orderly close. */
void fabric_drop(struct fabric *fabric);

/* Memory of a host, registered for one end of a link. */
struct fabric_memory {
    uint8_t *bytes;
    size_t n_bytes;
    struct xfer_memory registered;
};
void fabric_memory_open(struct fabric *fabric, uint32_t host, struct xfer *xfer,
                        size_t n_bytes, struct fabric_memory *out);
void fabric_memory_close(struct fabric *fabric, uint32_t host, struct xfer *xfer,
                         struct fabric_memory *memory);

#endif
