/* Builds a simulated fabric whose hosts are connected in both directions, for tests of xfer/ and
 * coll/. The test runs its single loop. */
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

/* A cable. The ports of a host are numbered in the order of its cables. */
struct fabric_cable {
    uint32_t a, b; /* hosts */
};

struct fabric_config {
    uint32_t n_hosts;
    /* Cables [n_cables], each with its own subnet; NULL for n_rails cables between each two
     * hosts. */
    const struct fabric_cable *cables;
    uint32_t n_cables;
    uint32_t n_rails;      /* default 1 */
    uint32_t qps_per_rail; /* default 2 */
    weft_ps delay_ps;      /* delay of a cable (default 1 us) */
    struct world_impairment impairment;
    enum weft_profile profile;
    uint64_t pcie_root_bps; /* rate of the PCIe root of a host's ports; 0 for no limit */
    const struct world_setting *overrides;
    uint32_t n_overrides;
    const struct world_fault *faults;
    uint32_t n_faults;
    bool one_way;       /* only host 0 connects to host 1 */
    bool no_management; /* no management network: streams use the cables only */
    /* If not NULL, takes each accepted connection, and the fabric itself connects no hosts. */
    void (*on_accept)(struct fabric *fabric, uint32_t host, struct conn *conn);
    /* Called when the task of a connection was woken; NULL if the fabric owns the connections. */
    void (*on_conn)(struct fabric *fabric, struct conn *conn);
    /* Called when the task of a host's struct rdma was woken, which async events do; or NULL. */
    void (*on_event)(struct fabric *fabric, uint32_t host);
    void *user;
    uint32_t send_wr_max, recv_wr_max; /* 0 for the defaults of conn_config_default() */
    enum weft_policy policy;           /* default WEFT_POLICY_WEFT */
    uint64_t seed;
};

/* Both ends of the connection in one direction between two hosts. */
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
    uint32_t idle_objects; /* verbs objects before the first connection */
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

/* Builds the test environment and waits until every connection is up. */
void fabric_open(struct fabric *fabric, const struct fabric_config *config);
/* Runs all tasks that are ready or, if none is, advances the time. Returns false at `until`. */
bool fabric_step(struct fabric *fabric, weft_ns until);
/* Steps for `for_ns`. */
void fabric_run(struct fabric *fabric, weft_ns for_ns);
weft_ns fabric_now(const struct fabric *fabric);
/* Closes every connection in order, checks that no verbs object is left, and frees the fabric. */
void fabric_close(struct fabric *fabric);
/* Frees the fabric without closing connections. */
void fabric_drop(struct fabric *fabric);

/* Host memory that is registered for one end of a link. */
struct fabric_memory {
    uint8_t *bytes;
    size_t n_bytes;
    struct xfer_memory registered;
};
void fabric_memory_open(struct fabric *fabric, uint32_t host, struct xfer *xfer,
                        size_t n_bytes, struct fabric_memory *out);
void fabric_memory_close(struct fabric *fabric, uint32_t host, struct xfer *xfer,
                         struct fabric_memory *memory);
/* Sends into the buffer with `tag` of the oldest group that has one without a message. Returns
 * WEFT_AGAIN if that group has no such buffer. */
weft_status fabric_isend(struct xfer *xfer, const void *data, size_t n_bytes,
                         uint32_t tag, const struct xfer_memory *memory,
                         struct xfer_request **out) WEFT_MUST_CHECK;

#endif
