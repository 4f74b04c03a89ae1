/* Provides the fixture ("bed") for tests of conn/ and boot/: a simulated world of two or three
 * hosts with cables between them and a management network, run by one event loop. */
#ifndef WEFT_CONN_CONN_TESTING_H
#define WEFT_CONN_CONN_TESTING_H

#include "base/text.h"
#include "conn/conn.h"
#include "io/world.h"

#define BED_HOSTS_MAX 4
#define BED_CABLES_MAX 4
#define BED_PORTS_MAX 20
#define BED_CONNS_MAX 8
#define BED_MS 1000000LL
#define BED_S 1000000000LL

/* Kinds of the bed's tasks. A test numbers its own kinds from BED_KIND_TEST. */
enum bed_kind { BED_KIND_RDMA = 1, BED_KIND_LISTENER, BED_KIND_CONN, BED_KIND_TEST };

struct bed_config {
    uint32_t n_hosts;  /* set by bed_open(): 3 for a triangle or a line, else 2 */
    uint32_t n_cables; /* between hosts 0 and 1; 0 means 1 */
    uint32_t n_idle;   /* ports of each host before them, without cable and address */
    bool triangle;     /* three hosts; cables 0-1, 1-2 and 2-0 */
    bool line;         /* three hosts; cables 0-1 and 1-2 */
    enum weft_profile profile; /* of every host */
    const char *tcp_chunk;     /* value of WEFT_SIM_TCP_CHUNK on every host, or NULL */
    uint32_t mtu_bytes[BED_HOSTS_MAX]; /* of each host's netdevs; 0 means 9000 */
    uint32_t path_limit_bytes;
    bool no_management;
    int64_t management_delay_ps; /* delay of the management network; 0 means 50 us */
    const struct world_fault *faults;
    uint32_t n_faults;
    const struct world_setting *overrides; /* changes to the profile, on every host */
    uint32_t n_overrides;
    uint64_t seed;
};

struct bed_host {
    struct io_env *env;
    struct io_task task;
    struct rdma *rdma;
    struct conn_listener *listener;
    uint8_t handle[CONN_HANDLE_BYTES];
    struct conn *conns[BED_CONNS_MAX]; /* accepted and connected; an entry can be NULL */
    uint32_t n_conns;
    uint32_t idle_objects; /* number of PDs, CQs, MRs and QPs without any connection */
};

struct bed {
    struct bed_config config;
    struct world *world;
    struct io_loop *loop;
    struct bed_host hosts[BED_HOSTS_MAX];
    /* Configuration of the next listener or connection; bed_open() sets the defaults. */
    struct conn_config conn;
    struct weft_trace trace;
    /* Trace lines of connections, listeners and boots, without times. A connection's id is
     * replaced by "c". */
    struct weft_text story;
    /* Called for tasks of the test's own kinds. */
    void (*on_task)(struct bed *bed, struct io_task *task);
    void *user;
    struct bed_spec *spec; /* Owned */
};

/* Builds the world and runs it until all hosts have discovered their devices. */
void bed_open(struct bed *bed, const struct bed_config *config);
void bed_close(struct bed *bed);
weft_ns bed_now(const struct bed *bed);
void bed_listen(struct bed *bed, uint32_t host);
/* Connects host `from` to the listener of host `to`. Appends the connection to the conns of `from`
 * and returns it. */
struct conn *bed_connect(struct bed *bed, uint32_t from, uint32_t to);
/* Dispatches tasks until `done` returns true or `for_ns` has passed. Returns false if `done` is not
 * NULL and did not return true. Drops tasks of hosts that are not alive. */
bool bed_run(struct bed *bed, weft_ns for_ns, bool (*done)(const struct bed *bed));
/* Returns true if hosts 0 and 1 have connections and all connections of live hosts are UP. */
bool bed_all_up(const struct bed *bed);
/* Returns true if live hosts have a connection and all of theirs are UP, CLOSED or FAILED. */
bool bed_all_settled(const struct bed *bed);
/* Returns how many verbs objects a host has in addition to those without any connection. */
int bed_objects(const struct bed *bed, uint32_t host);
/* Returns the first connection of a host, which must exist. */
struct conn *bed_conn(const struct bed *bed, uint32_t host);

#endif
