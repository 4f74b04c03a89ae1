#include "run/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "host/loop.h"
#include "run/private.h"
#include "run/record.h"

/* Returns the member called `name`: "titanic", or "titanic/1" for a host's second rank. Returns
 * UINT32_MAX if there is none. */
static uint32_t member_of(const struct run *run, const char *name)
{
    for (uint32_t i = 0; i < run->n_members; i++) {
        const char *host = run->plan->spec.hosts[run->member_hosts[i]].name;
        uint32_t process = run->member_processes[i];
        char full[96];

        weft_format(full, sizeof(full), "%s/%u", host, process);
        if (strcmp(full, name) == 0 || (process == 0 && strcmp(host, name) == 0)) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* Returns the record of a member that could not create its world. */
static json_t *record_of_nothing(const char *name, const struct host_config *config,
                                 const struct weft_error *error)
{
    struct host *host = run_record_decode(NULL, name, config, 0, NULL);
    json_t *record;

    host->state = HOST_FAILED;
    host->failed_in = HOST_DISCOVER;
    host->error = *error;
    record = run_record_encode(host);
    run_record_free(host);
    return record;
}

/* Runs the host from its start to its end. */
static weft_status live(struct run *run, const struct run_node_options *options,
                        const struct host_config *config, json_t **out_record,
                        struct weft_error *error)
{
    struct host *host = host_create(run->world->ops->host_env(run->world, 0, 0), config);
    struct host_loop loop = {.hosts = &host,
                             .n_hosts = 1,
                             .world = run->world,
                             .is_asked = options->is_asked,
                             .report = options->report};
    weft_status status;

    loop.limit_ns = run->world->ops->now(run->world) + RUN_LIMIT_NS;
    status = host_loop_run(&loop, error);
    if (status == WEFT_OK && host->state != HOST_DONE) {
        *error = host->error;
        status = host->error.status;
    }
    *out_record = run_record_encode(host);
    host_destroy(host);
    return status;
}

/* Collects the results of the other members as far as they still report them. */
static void collect(struct run *run, uint32_t member, const struct host_config *config,
                    const struct weft_error *host_error, struct run_node_outcome *out)
{
    struct weft_error why = {0};
    char text[512];

    if (run_collect(run, member, out->record, host_error, config, out, &why) < 0) {
        weft_error_format(&why, text, sizeof(text));
        weft_log(run->options->log, WEFT_LOG_WARN, "no common result: %s", text);
    }
}

static weft_status run_member(struct run *run, uint32_t member,
                              const struct run_node_options *options,
                              struct run_options *run_options,
                              struct run_node_outcome *out, struct weft_error *error)
{
    struct host_config config;
    weft_status status;

    run_configure(run, &config);
    run_configure_member(run, member, &config);
    config.boot.rendezvous =
        options->has_rendezvous ? options->rendezvous : config.boot.rendezvous;
    config.boot.patience_ns =
        options->patience_ns != 0 ? options->patience_ns : config.boot.patience_ns;
    if (options->patience_ns != 0) {
        /* The wait that the user set covers the time to bring up a network or the peer. */
        config.boot.hopeless_ns = 0;
        config.boot.ignored_ns = 0;
    }
    status = options->world(&run->plan->spec, run->member_hosts[member],
                            run->member_processes[member], &run->world, error);
    if (status != WEFT_OK) {
        out->record = record_of_nothing(options->name, &config, error);
        return status;
    }
    run_options->backend = run->world->ops;
    run->origin_ns = run->world->ops->now(run->world);
    status = live(run, options, &config, &out->record, error);
    /* Lets a process with another clock convert the times. */
    json_object_set_new(out->record, "clock_ns",
                        json_integer(run->world->ops->now(run->world)));
    if (options->collects) {
        collect(run, member, &config, error, out);
    }
    return status;
}

/* Checks that a rank is not started as a relay, nor a relay as a rank. */
static weft_status check_role(const struct run *run, uint32_t member,
                              const struct run_node_options *options,
                              struct weft_error *error)
{
    if (member == UINT32_MAX) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_NODE,
                         "the scenario has no host %s", options->name);
    }
    if (options->is_relay && member < run->n_ranks) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_NODE,
                         "%s has a rank, which relays: start it with weft node",
                         options->name);
    }
    if (!options->is_relay && member >= run->n_ranks) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_NODE,
                         "%s has no rank: start its relay with weft relayd",
                         options->name);
    }
    return WEFT_OK;
}

void run_node_outcome_fini(struct run_node_outcome *outcome)
{
    json_decref(outcome->record);
    json_decref(outcome->document);
    json_decref(outcome->observations);
    *outcome = (struct run_node_outcome){0};
}

weft_status run_node(const struct scenario *scenario,
                     const struct run_node_options *options, struct run_node_outcome *out,
                     struct weft_error *error)
{
    struct run_options run_options = {.has_policy = options->has_policy,
                                      .policy = options->policy,
                                      .has_seed = options->has_seed,
                                      .seed = options->seed,
                                      .trace_level = WEFT_TRACE_STORY,
                                      .events = options->events,
                                      .events_context = options->events_context,
                                      .replay = options->replay,
                                      .secret = options->secret,
                                      .log = options->log};
    struct run run;
    weft_status status;
    uint32_t member = UINT32_MAX;

    *out = (struct run_node_outcome){0};
    weft_error_clear(error);
    run_init(&run, scenario, &run_options);
    if (options->events == NULL) {
        run_story_end(&run.story); /* the hash is not needed */
    }
    status = run_plan(&run, error);
    if (status == WEFT_OK) {
        member = member_of(&run, options->name);
        status = check_role(&run, member, options, error);
    }
    if (status == WEFT_OK) {
        status = run_member(&run, member, options, &run_options, out, error);
    }
    run_fini(&run);
    return status;
}
