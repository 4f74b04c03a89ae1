#include "run/choices.h"

#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/text.h"
#include "rdma/policy.h"
#include "run/private.h"

/* Time limit for opening devices, in time of the world. */
#define OPEN_NS INT64_C(1000000000)

struct member {
    struct rdma *rdma;
    struct io_task task;
    struct rdma_gid_rule gid;
    bool splits_nics;
};

/* Steps the world until the host's devices are open. */
static weft_status open_devices(const struct run *run, uint32_t rank,
                                struct member *member, struct weft_error *error)
{
    const struct world_ops *ops = run->world->ops;
    struct io_env *env =
        ops->host_env(run->world, run->member_hosts[rank], run->member_processes[rank]);
    weft_ns until = ops->now(run->world) + OPEN_NS;
    weft_status status;

    io_task_init(&member->task, env->loop, env->host, 0);
    if (env->n_devices == 0) {
        member->rdma = rdma_open_none(env, &member->task);
        return WEFT_OK;
    }
    status = rdma_open(env, &member->task, &member->rdma, error);
    while (status == WEFT_OK || status == WEFT_AGAIN) {
        while (io_loop_pop(env->loop) != NULL) {
        }
        status = rdma_progress(member->rdma, error);
        if (status != WEFT_AGAIN) {
            break;
        }
        if (ops->step(run->world, until) < 0 || ops->now(run->world) >= until) {
            return weft_fail(error, WEFT_ERR_TIMEOUT, WEFT_PHASE_DISCOVER,
                             "%s's devices do not open", env->name);
        }
    }
    return status;
}

static void take_facts(const struct run *run, uint32_t rank, struct member *member,
                       struct run_choices *out)
{
    struct conn_config config;

    conn_config_default(&config);
    config.policy = run->policy;
    run_choose_nic(run, rank, &config);
    out->n_facts[rank] = conn_local_facts(member->rdma, out->facts[rank], RUN_PORTS_MAX);
    for (uint32_t i = 0; i < out->n_facts[rank]; i++) {
        const struct rdma_port *port = &member->rdma->ports[i];

        if (!conn_opens(member->rdma->env, run->policy, port)) {
            out->facts[rank][i].is_active = false; /* treat as absent */
        }
        for (uint32_t k = 0; k < config.n_chosen; k++) {
            out->facts[rank][i].is_chosen =
                out->facts[rank][i].is_chosen ||
                (out->facts[rank][i].is_active &&
                 config.chosen[k].device == port->device_index &&
                 config.chosen[k].port == port->port);
        }
    }
    conn_choice_settings(member->rdma->env, run->policy, &member->gid,
                         &member->splits_nics);
}

static weft_status choose(const struct run *run, const struct run_choices *choices,
                          const struct member *member, uint32_t self, uint32_t peer,
                          bool is_connector, struct run_choice_end *out,
                          struct weft_error *error)
{
    struct rdma_choice_input input = {
        .policy = run->policy,
        .local = choices->facts[self],
        .n_local = choices->n_facts[self],
        .remote = choices->facts[peer],
        .n_remote = choices->n_facts[peer],
        .is_connector = is_connector,
        .gid = member->gid,
        .splits_nics = member->splits_nics,
    };
    weft_status status =
        rdma_choose(&input, out->rails, CONN_RAILS_MAX, &out->n_rails, error);

    if (status == WEFT_OK) {
        out->n_reasons = rdma_reasons(&input, out->rails, out->n_rails, out->reasons);
    }
    return status;
}

static void turn(const struct run_choice_end *from, struct run_choice_end *out)
{
    *out = *from;
    for (uint32_t i = 0; i < from->n_rails; i++) {
        const struct rdma_rail *rail = &from->rails[i];

        out->rails[i] = (struct rdma_rail){.local_port = rail->remote_port,
                                           .remote_port = rail->local_port,
                                           .local_gid = rail->remote_gid,
                                           .remote_gid = rail->local_gid,
                                           .path_mtu = rail->path_mtu};
    }
}

static void choose_pair(const struct run *run, const struct member *members,
                        uint32_t from, uint32_t to, struct run_choices *out)
{
    struct run_choice *choice = &out->items[out->n++];
    weft_status status;

    *choice = (struct run_choice){.from = from, .to = to};
    status = choose(run, out, &members[from], from, to, true, &choice->connector,
                    &choice->error);
    if (status == WEFT_OK && run->policy == WEFT_POLICY_WEFT) {
        turn(&choice->connector, &choice->acceptor);
        choice->acceptor.n_reasons = 0; /* same as the connector's */
    } else if (status == WEFT_OK) {
        status = choose(run, out, &members[to], to, from, false, &choice->acceptor,
                        &choice->error);
    }
}

static weft_status choose_all(struct run *run, struct run_choices *out,
                              struct weft_error *error)
{
    uint32_t n = run->n_ranks;
    struct member *members = weft_calloc((size_t)n + 1, sizeof(*members));
    weft_status status = WEFT_OK;
    uint32_t n_open = 0;

    out->n_ranks = n;
    out->facts = weft_calloc((size_t)n + 1, sizeof(*out->facts));
    out->n_facts = weft_calloc((size_t)n + 1, sizeof(*out->n_facts));
    out->items = weft_calloc((size_t)n * n + 1, sizeof(*out->items));
    while (n_open < n && status == WEFT_OK) {
        status = open_devices(run, n_open, &members[n_open], error);
        if (status == WEFT_OK) {
            take_facts(run, n_open, &members[n_open], out);
        }
        n_open++;
    }
    for (uint32_t a = 0; a < n && status == WEFT_OK; a++) {
        for (uint32_t b = 0; b < n; b++) {
            if (run->member_hosts[a] != run->member_hosts[b]) {
                choose_pair(run, members, a, b, out);
            }
        }
    }
    for (uint32_t i = 0; i < n_open; i++) {
        rdma_close(members[i].rdma);
        io_task_fini(&members[i].task);
    }
    free(members);
    return status;
}

weft_status run_choices_make(const struct scenario *scenario,
                             const struct run_options *options, struct run_choices *out,
                             struct weft_error *error)
{
    struct run run;
    weft_status status;

    *out = (struct run_choices){.n = 0};
    weft_error_clear(error);
    run_init(&run, scenario, options);
    out->policy = run.policy;
    status = run_plan(&run, error);
    if (status == WEFT_OK) {
        status = backend_create(options->backend, &run.plan->spec, &run.world, error);
    }
    if (status == WEFT_OK) {
        status = choose_all(&run, out, error);
        out->hosts = weft_calloc((size_t)run.n_ranks + 1, sizeof(*out->hosts));
        memcpy(out->hosts, run.member_hosts, run.n_ranks * sizeof(*out->hosts));
    }
    if (run.world != NULL) {
        run.world->ops->destroy(run.world);
        run.world = NULL;
    }
    out->plan = run.plan;
    run.plan = NULL;
    run_fini(&run);
    return status;
}

void run_choices_fini(struct run_choices *choices)
{
    free(choices->items);
    free(choices->facts);
    free(choices->n_facts);
    free(choices->hosts);
    scenario_world_free(choices->plan);
    *choices = (struct run_choices){.n = 0};
}
