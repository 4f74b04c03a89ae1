/* Fixture: worlds of any shape with queue pairs between any two processes, without handshake or
 * scenario. For tests of fabrics, switches, roots and processes. */
#ifndef WEFT_BACKENDS_SIM_BED_TESTING_H
#define WEFT_BACKENDS_SIM_BED_TESTING_H

#include "base/text.h"
#include "io/verbs.h"
#include "io/world.h"

#define BED_HOSTS 4
#define BED_PORTS 4
#define BED_CABLES 8
#define BED_GBPS UINT64_C(1000000000)

struct bed {
    struct io_prefix addresses[BED_HOSTS][BED_PORTS][2];
    struct world_port ports[BED_HOSTS][BED_PORTS];
    uint64_t roots[BED_HOSTS][BED_PORTS];
    struct world_host hosts[BED_HOSTS];
    struct world_switch switches[2];
    struct world_cable cables[BED_CABLES];
    struct world_fault faults[4];
    struct world_spec spec;
    struct weft_trace trace;
    struct weft_text story;
    struct world *world;
};

/* One end of a connection: a process's device with a QP and 1 MiB. */
struct bed_end {
    struct bed *bed;
    struct io_env *env;
    struct io_device *device;
    struct io_ip ip;
    uint8_t port;
    int path_mtu; /* enum ibv_mtu; 0: the port's active one */
    struct io_task task;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    uint8_t *memory;
};

#define BED_BYTES (UINT32_C(1) << 20)

/* Initialises a bed without hosts and cables; tests add them before sim_bed_create(). */
void sim_bed_init(struct bed *bed);
void sim_bed_fini(struct bed *bed);
/* Adds a host ("h0", "h1" ...). Returns its index. */
uint32_t sim_bed_host(struct bed *bed);
/* Adds a port "pN" of 100 Gbit/s and MTU 9000 with an address ("10.0.0.1/24", or "fd00::1/127"),
 * behind a PCIe root. Returns its index. Every port is a device. */
uint32_t sim_bed_port(struct bed *bed, uint32_t host, const char *address, uint32_t root);
struct world_cable *sim_bed_cable(struct bed *bed, struct world_end a,
                                  struct world_end b);
void sim_bed_create(struct bed *bed);
/* Creates a world of one host with two processes, each with a GPU, and returns their
 * environments. Replaces the functions above. */
void sim_bed_pair_inside(struct bed *bed, struct io_env *out_envs[2]);
/* Runs the world until `until`. With an end, also stops at its next completion, and then returns
 * true. */
bool sim_bed_run(struct bed *bed, weft_ns until, const struct bed_end *end,
                 struct ibv_wc *wc);

/* Opens the end's device and creates its objects. */
void sim_bed_open(struct bed *bed, struct bed_end *end, uint32_t host, uint32_t process,
                  uint32_t port);
void sim_bed_close(struct bed_end *end);
/* Moves both QPs to RTS. Returns the errno of the first move to RTR that fails; both QPs are then
 * in INIT or RTR. */
int sim_bed_connect(struct bed_end *a, struct bed_end *b);
/* Posts `n` WRITEs of `n_bytes` each from `from` into `to`'s memory. */
void sim_bed_write(struct bed_end *from, const struct bed_end *to, uint32_t n_bytes,
                   uint32_t n);
/* Waits for `n` completions, which must succeed within 10 s. Returns the time of the last. */
weft_ns sim_bed_wait(struct bed_end *end, uint32_t n);
bool sim_bed_told(const struct bed *bed, const char *text);

#endif
