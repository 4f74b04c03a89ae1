#include "run/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topo/paths.h"

void run_inside_make(const struct scenario_world *world, uint32_t host, bool merges_nics,
                     struct run_inside *out)
{
    uint32_t n = 0;

    *out = (struct run_inside){.ranks = weft_calloc(world->n_ranks + 1, sizeof(int))};
    io_machine_of_spec(&world->spec, host, &out->machine);
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        if (world->ranks[i].host == host) {
            out->ranks[world->ranks[i].local_rank] = (int)i;
            n++;
        }
    }
    out->inside = (struct topo_inside){.machine = &out->machine,
                                       .host_hash = host + 1,
                                       .ranks = out->ranks,
                                       .n_ranks = n,
                                       .merges_nics = merges_nics};
}

void run_inside_fini(struct run_inside *inside)
{
    io_machine_fini(&inside->machine);
    free(inside->ranks);
    inside->ranks = NULL;
}

static const char *no_setting(void *context, const char *name)
{
    (void)context;
    (void)name;
    return NULL;
}

/* GB/s to bytes per microsecond; where there is no path, what PCIe 3.0 x16 would give. */
static uint64_t rate_of(const struct topo_path *path)
{
    return path == NULL || path->bw <= 0 ? 12000 : (uint64_t)((double)path->bw * 1000);
}

static void fill_rates(const struct topo_system *system, const struct topo_inside *inside,
                       uint64_t *out)
{
    uint32_t n = inside->n_ranks;

    for (uint32_t i = 0; i < n; i++) {
        const struct topo_node *from = topo_gpu_of(system, inside->ranks[i]);
        const struct topo_node *cpu = topo_local_cpu(system, from);

        for (uint32_t k = 0; k < n; k++) {
            const struct topo_node *to =
                i == k ? cpu : topo_gpu_of(system, inside->ranks[k]);

            out[i * n + k] = rate_of(to == NULL ? NULL : topo_path(from, to));
        }
    }
}

/* NULL: nobody knows what is inside. */
static uint64_t *rates_of_host(const struct scenario_world *world, uint32_t host)
{
    const struct topo_rules *rules = topo_rules_find("2.25");
    struct topo_settings settings;
    struct topo_view view = {.settings = &settings};
    struct weft_error ignored = {0};
    struct run_inside inside;
    uint64_t *rates = NULL;

    run_inside_make(world, host, false, &inside);
    topo_settings_read(rules, no_setting, NULL, &settings);
    if (inside.inside.n_ranks > 1 &&
        topo_of_host(&inside.inside, rules, &view.system, &ignored) == WEFT_OK) {
        uint32_t n = inside.inside.n_ranks;

        if (topo_compute_paths(&view, &ignored) == WEFT_OK) {
            rates = weft_calloc((size_t)n * n, sizeof(*rates));
            fill_rates(view.system, &inside.inside, rates);
        }
        topo_free(view.system);
    }
    run_inside_fini(&inside);
    return rates;
}

uint64_t **run_inside_rates(struct scenario_world *world)
{
    uint32_t n = world->spec.n_hosts;
    uint64_t **rates = weft_calloc((size_t)n + 1, sizeof(uint64_t *));
    struct world_host *hosts = weft_calloc((size_t)n + 1, sizeof(*hosts));
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        hosts[i] = world->spec.hosts[i];
        if (world_host_processes(&hosts[i]) > 1) {
            rates[i] = rates_of_host(world, i);
            hosts[i].gpu_bytes_per_us = rates[i];
            any = any || rates[i] != NULL;
        }
    }
    if (any) {
        scenario_world_hosts(world, hosts);
    }
    free(hosts);
    return rates;
}

static bool check_host(const struct scenario *scenario,
                       const struct scenario_world *world, uint32_t host,
                       struct weft_text *out)
{
    const struct topo_rules *rules = topo_rules_find("2.25");
    const struct scenario_host *from = &scenario->hosts[host];
    struct run_inside inside;
    struct topo_system *system = NULL;
    struct weft_error why;
    char where[300];
    bool is_good;

    weft_error_clear(&why);
    run_inside_make(world, host, false, &inside);
    if (inside.inside.n_ranks > 0) {
        is_good = topo_of_host(&inside.inside, rules, &system, &why) == WEFT_OK;
    } else { /* it only relays: nobody asks, but it must be a topology */
        is_good = topo_load(from->gpu_document, from->n_gpu_document, rules, &system,
                            &why) == WEFT_OK;
    }
    if (!is_good) {
        weft_text_add(out, "%stopology: %s:%s\n",
                      scenario_where(scenario, from->gpu_mark, where, sizeof(where)),
                      from->gpu_path, why.message);
    }
    topo_free(system);
    run_inside_fini(&inside);
    return is_good;
}

bool run_check_documents(const struct scenario *scenario, struct weft_text *out)
{
    struct scenario_world *world = NULL;
    bool has_any = false, is_good = true;

    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        has_any = has_any || scenario->hosts[i].gpu_document != NULL;
    }
    if (!has_any || scenario_to_world(scenario, &world) != WEFT_OK) {
        return true;
    }
    for (uint32_t i = 0; i < scenario->n_hosts && is_good; i++) {
        is_good = scenario->hosts[i].gpu_document == NULL ||
                  check_host(scenario, world, i, out);
    }
    scenario_world_free(world);
    return is_good;
}
