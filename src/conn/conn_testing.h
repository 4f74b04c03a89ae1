/* A small simulated world for tests of conn/ and boot/: a few hosts in a row, cables between
 * neighbours, everybody on a management network, one loop. */
#ifndef WEFT_CONN_CONN_TESTING_H
#define WEFT_CONN_CONN_TESTING_H

#include "base/text.h"
#include "conn/conn.h"
#include "io/world.h"

#define BED_HOSTS_MAX 4
#define BED_CABLES_MAX 4
#define BED_CONNS_MAX 8
#define BED_MS 1000000LL
#define BED_S 1000000000LL

/* What a task of the bed is; the tests' own start at BED_KIND_TEST. */
enum bed_kind { BED_KIND_RDMA = 1, BED_KIND_LISTENER, BED_KIND_CONN, BED_KIND_TEST };

struct bed_config {
    uint32_t n_hosts;  /* set by bed_open: 2, or 3 */
    uint32_t n_cables; /* between hosts 0 and 1; 1 unless told */
    bool triangle;     /* instead: 0-1, 1-2, 2-0 */
    bool line;         /* instead: 0-1, 1-2 */
    const char *profile;
    const char *tcp_chunk;             /* WEFT_SIM_TCP_CHUNK */
    uint32_t mtu_bytes[BED_HOSTS_MAX]; /* of the netdevs; 9000 unless told */
    uint32_t path_limit_bytes;
    bool no_management;
    int64_t management_delay_ps; /* 0: 50 us */
    const struct world_fault *faults;
    uint32_t n_faults;
    const struct world_setting *overrides; /* of every host's profile */
    uint32_t n_overrides;
    uint64_t seed;
};

struct bed_host {
    struct io_env *env;
    struct io_task task;
    struct rdma *rdma;
    struct conn_listener *listener;
    uint8_t handle[CONN_HANDLE_BYTES];
    struct conn *conns[BED_CONNS_MAX]; /* accepted and connected; NULL: gone */
    uint32_t n_conns;
    uint32_t idle_objects; /* PDs, CQs, MRs and QPs of a host at rest */
};

struct bed {
    struct bed_config config;
    struct world *world;
    struct io_loop *loop;
    struct bed_host hosts[BED_HOSTS_MAX];
    struct conn_config conn; /* for the next listener or connection; the defaults */
    struct weft_trace trace;
    struct weft_text
        story; /* lines of conn/ and boot/, without time, connections as "c" */
    void (*on_task)(struct bed *bed, struct io_task *task); /* kinds of the test's own */
    void *user;
    struct bed_spec *spec; /* Owned */
};

/* Builds the world and discovers all devices. */
void bed_open(struct bed *bed, const struct bed_config *config);
void bed_close(struct bed *bed);
weft_ns bed_now(const struct bed *bed);
void bed_listen(struct bed *bed, uint32_t host);
/* Connects `from` to the listener of `to`; conns[0] of a fresh host is the first. */
struct conn *bed_connect(struct bed *bed, uint32_t from, uint32_t to);
/* Dispatches until `done` (may be NULL) or until `for_ns` passed; true if done. */
bool bed_run(struct bed *bed, weft_ns for_ns, bool (*done)(const struct bed *bed));
/* Every connection of living hosts is UP / is UP, CLOSED or FAILED. */
bool bed_all_up(const struct bed *bed);
bool bed_all_settled(const struct bed *bed);
/* Live verbs objects of a host beyond those of a host at rest. */
int bed_objects(const struct bed *bed, uint32_t host);
/* The first connection of a host. */
struct conn *bed_conn(const struct bed *bed, uint32_t host);

#endif
