#include "boot/mesh_testing.h"

#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "base/check.h"
#include "base/text.h"

struct town_spec {
    struct world_spec spec;
    struct world_host hosts[TOWN_HOSTS_MAX];
    struct world_port ports[TOWN_HOSTS_MAX][TOWN_PORTS_MAX];
    struct io_prefix addresses[TOWN_HOSTS_MAX][TOWN_PORTS_MAX];
    struct world_cable cables[TOWN_CABLES_MAX];
    struct world_setting setting;
    uint64_t pcie_root_bps;
};

static const char *const host_names[] = {"h0", "h1", "h2", "h3", "h4",
                                         "h5", "h6", "h7", "h8"};
static const char *const port_names[] = {"p0", "p1", "p2", "p3"};

static void add_end(struct town *town, uint32_t cable, uint32_t end, uint32_t h)
{
    struct town_spec *spec = town->spec;
    struct world_host *host = &spec->hosts[h];
    uint32_t p = host->n_ports++;
    struct io_prefix *address = &spec->addresses[h][p];

    weft_check(p < TOWN_PORTS_MAX);
    address->ip = io_ip_v4(10, 1, (uint8_t)cable, (uint8_t)(end + 1));
    address->prefix_len = 24;
    spec->ports[h][p] = (struct world_port){.name = port_names[p],
                                            .device = p,
                                            .port = 1,
                                            .rate_bps = 100000000000,
                                            .mtu_bytes = 9000,
                                            .addresses = address,
                                            .n_addresses = town->config.no_ipv4 ? 0 : 1};
    spec->cables[cable].ends[end] = (struct world_end){.node = h, .port = p};
    town->ports[cable][end] = p;
}

static void describe(struct town *town)
{
    struct town_spec *spec = town->spec;
    const struct town_config *config = &town->config;

    for (uint32_t h = 0; h < config->n_hosts; h++) {
        spec->hosts[h] = (struct world_host){.name = host_names[h],
                                             .profile = WEFT_PROFILE_MLX5,
                                             .ports = spec->ports[h],
                                             .pcie_root_bps = &spec->pcie_root_bps,
                                             .n_pcie_roots = 1,
                                             .n_gpus = 1,
                                             .n_processes = config->n_processes,
                                             .memlock_bytes = INT64_MAX};
        if (config->tcp_chunk != NULL) {
            spec->setting = (struct world_setting){.name = "WEFT_SIM_TCP_CHUNK",
                                                   .value = config->tcp_chunk};
            spec->hosts[h].settings = &spec->setting;
            spec->hosts[h].n_settings = 1;
        }
    }
    for (uint32_t c = 0; c < config->n_cables; c++) {
        spec->cables[c] = (struct world_cable){.rate_bps = 100000000000,
                                               .delay_ps = 500000,
                                               .up = !config->cables[c].is_down};
        add_end(town, c, 0, config->cables[c].a);
        add_end(town, c, 1, config->cables[c].b);
    }
    spec->spec = (struct world_spec){.seed = 80,
                                     .hosts = spec->hosts,
                                     .n_hosts = config->n_hosts,
                                     .cables = spec->cables,
                                     .n_cables = config->n_cables};
}

void town_open(struct town *town, const struct town_config *config)
{
    uint32_t n_processes = config->n_processes == 0 ? 1 : config->n_processes;
    struct weft_error error = {0};
    weft_status status;

    *town = (struct town){.config = *config, .n_members = config->n_hosts * n_processes};
    town->spec = weft_calloc(1, sizeof(*town->spec));
    describe(town);
    status = backend_sim.create(&town->spec->spec, &town->world, &error);
    ck_assert_msg(status == WEFT_OK, "%s", error.message);
    town->loop = backend_sim.loop(town->world);
    for (uint32_t i = 0; i < town->n_members; i++) {
        struct town_member *member = &town->members[i];

        member->env = backend_sim.host_env(town->world, i / n_processes, i % n_processes);
        member->config = (struct boot_config){.mode = BOOT_NEIGHBOURS,
                                              .rank = i,
                                              .n_ranks = town->n_members,
                                              .patience_ns = 60 * TOWN_S,
                                              .step_ns = 20 * TOWN_S};
        memset(member->config.job_key, 7, sizeof(member->config.job_key));
    }
}

void town_close(struct town *town)
{
    for (uint32_t i = 0; i < town->n_members; i++) {
        town_member_close(town, i);
    }
    backend_sim.destroy(town->world);
    free(town->spec);
}

weft_ns town_now(const struct town *town)
{
    return backend_sim.now(town->world);
}

void town_member_open(struct town *town, uint32_t i)
{
    struct town_member *member = &town->members[i];

    weft_error_clear(&member->error);
    member->status = WEFT_AGAIN;
    ck_assert_int_eq(
        boot_open(member->env, &member->config, TOWN_KIND, &member->boot, &member->error),
        WEFT_OK);
}

void town_member_close(struct town *town, uint32_t i)
{
    boot_close(town->members[i].boot);
    town->members[i].boot = NULL;
}

void town_open_all(struct town *town)
{
    for (uint32_t i = 0; i < town->n_members; i++) {
        town_member_open(town, i);
    }
}

void town_gather(struct town *town, uint32_t i, uint8_t round, size_t n_bytes)
{
    struct town_member *member = &town->members[i];
    uint8_t *mine = weft_alloc(n_bytes + 1);

    memset(mine, (int)(uint8_t)(16 * round + member->config.rank), n_bytes);
    member->status = WEFT_AGAIN;
    boot_gather(member->boot, mine, n_bytes);
    free(mine);
}

bool town_run(struct town *town, weft_ns for_ns, bool (*done)(const struct town *town))
{
    weft_ns until = town_now(town) + for_ns;

    for (;;) {
        struct io_task *task;

        while ((task = io_loop_pop(town->loop)) != NULL) {
            struct town_member *member = &town->members[task->host];

            if (task->kind == TOWN_KIND && member->boot != NULL) {
                weft_error_clear(&member->error);
                member->status = boot_progress(member->boot, &member->error);
            }
        }
        if (done != NULL && done(town)) {
            return true;
        }
        if (backend_sim.step(town->world, until) != WEFT_OK) {
            return done == NULL;
        }
    }
}

bool town_all_done(const struct town *town)
{
    for (uint32_t i = 0; i < town->n_members; i++) {
        if (town->members[i].boot != NULL && town->members[i].status == WEFT_AGAIN) {
            return false;
        }
    }
    return true;
}

void town_check(const struct town *town, uint32_t i, uint8_t round, size_t n_bytes)
{
    const struct town_member *member = &town->members[i];
    uint32_t n_members =
        member->config.n_members != 0 ? member->config.n_members : member->config.n_ranks;
    const uint8_t *result;

    ck_assert_msg(member->status == WEFT_OK, "%u: %s", i, member->error.message);
    result = boot_result(member->boot);
    for (size_t j = 0; j < n_members * n_bytes; j++) {
        if (result[j] != (uint8_t)(16u * round + j / n_bytes)) {
            ck_abort_msg("%u: byte %zu is %u", i, j, result[j]);
        }
    }
}

void town_round(struct town *town, uint8_t round, size_t n_bytes)
{
    for (uint32_t i = 0; i < town->n_members; i++) {
        if (town->members[i].boot != NULL) {
            town_gather(town, i, round, n_bytes);
        }
    }
    ck_assert(town_run(town, 10 * TOWN_S, town_all_done));
    for (uint32_t i = 0; i < town->n_members; i++) {
        if (town->members[i].boot != NULL) {
            town_check(town, i, round, n_bytes);
        }
    }
}

void town_inject(struct town *town, enum world_fault_kind kind, uint32_t cable)
{
    struct world_fault fault = {.kind = kind,
                                .host = town->config.cables[cable].a,
                                .has_port = true,
                                .port = town->ports[cable][0]};

    ck_assert_int_eq(backend_sim.inject(town->world, &fault), 0);
}

const char *town_pairs(const struct town *town, uint32_t i)
{
    static char out[512];
    struct boot_link links[128];
    uint32_t n = boot_links(town->members[i].boot, links, WEFT_LENGTH(links));
    struct weft_text text = {0};

    ck_assert_uint_le(n, WEFT_LENGTH(links));
    weft_text_add(&text, "%s", "");
    for (uint32_t j = 0; j < n; j++) {
        if (links[j].carries) {
            weft_text_add(&text, "%s%u-%u", text.n > 0 ? " " : "", links[j].a,
                          links[j].b);
        }
    }
    weft_format(out, sizeof(out), "%s", text.bytes);
    weft_text_fini(&text);
    return out;
}

const char *town_missing(const struct town *town, uint32_t i)
{
    const struct weft_value *value =
        weft_error_value(&town->members[i].error, WEFT_VALUE_MISSING);

    return value == NULL ? "" : value->text;
}

int64_t town_rank_at_fault(const struct town *town, uint32_t i)
{
    const struct weft_value *value =
        weft_error_value(&town->members[i].error, WEFT_VALUE_RANK);

    ck_assert_msg(value != NULL, "%u: %s", i, town->members[i].error.message);
    return value->number;
}
