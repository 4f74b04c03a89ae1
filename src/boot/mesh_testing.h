/* Fixture: simulated hosts with cables of any shape and no management network, and processes of one
 * or several jobs on each. */
#ifndef WEFT_BOOT_MESH_TESTING_H
#define WEFT_BOOT_MESH_TESTING_H

#include <check.h>

#include "boot/mesh.h"
#include "io/world.h"

#define TOWN_HOSTS_MAX 9
#define TOWN_PORTS_MAX 4
#define TOWN_CABLES_MAX 12
#define TOWN_PROCESSES_MAX 3
#define TOWN_MEMBERS_MAX (TOWN_HOSTS_MAX * TOWN_PROCESSES_MAX)
#define TOWN_KIND 7
#define TOWN_S ((weft_ns)1000000000)
#define TOWN_MS ((weft_ns)1000000)

struct town_cable {
    uint32_t a, b; /* hosts */
    bool is_down;  /* down from the start */
};

struct town_config {
    uint32_t n_hosts, n_cables, n_processes; /* n_processes is per host; 0 means 1 */
    const struct town_cable *cables;
    const char *tcp_chunk;
    bool no_ipv4; /* the netdevs have only link-local addresses */
};

/* A process with its boot. */
struct town_member {
    struct io_env *env;
    struct boot_config config;
    struct boot *boot; /* NULL if not open */
    weft_status status;
    struct weft_error error;
};

struct town {
    struct world *world;
    struct io_loop *loop;
    struct town_config config;
    /* By task index: hosts, then processes. */
    struct town_member members[TOWN_MEMBERS_MAX];
    uint32_t n_members;
    uint32_t ports[TOWN_CABLES_MAX][2]; /* port of each end of a cable, on its host */
    struct town_spec *spec;             /* Owned */
};

void town_open(struct town *town, const struct town_config *config);
void town_close(struct town *town);
weft_ns town_now(const struct town *town);
/* Opens the boot of process `i` with its config. */
void town_member_open(struct town *town, uint32_t i);
void town_member_close(struct town *town, uint32_t i);
void town_open_all(struct town *town);
/* Starts a gather; the blob is n_bytes times 16 * round + member. */
void town_gather(struct town *town, uint32_t i, uint8_t round, size_t n_bytes);
/* Returns true if `done` became true within `for_ns`. NULL only lets time pass. */
bool town_run(struct town *town, weft_ns for_ns, bool (*done)(const struct town *town));
/* Returns true if no gather is active. */
bool town_all_done(const struct town *town);
void town_check(const struct town *town, uint32_t i, uint8_t round, size_t n_bytes);
/* Runs a gather of all members of one job and checks the results. */
void town_round(struct town *town, uint8_t round, size_t n_bytes);
void town_inject(struct town *town, enum world_fault_kind kind, uint32_t cable);
/* Returns the pairs with a live stream, as seen by process `i`: "0-1 1-2". */
const char *town_pairs(const struct town *town, uint32_t i);
const char *town_missing(const struct town *town, uint32_t i);
int64_t town_rank_at_fault(const struct town *town, uint32_t i);

#endif
