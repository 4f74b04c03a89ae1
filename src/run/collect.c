/* Produces one result for members that run on separate machines. A member that has ended meets the
 * others again. The first of them (rank 0 if it is left) receives all records, judges the run as
 * `weft run` does, and sends the verdict. A member that does not come to the meeting counts as
 * killed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/wire.h"
#include "conn/auth.h"
#include "diag/observations.h"
#include "host/meeting.h"
#include "run/private.h"
#include "run/record.h"

#define SECOND INT64_C(1000000000)
/* How long a member waits for others to come to the meeting. PATIENCE_NS: for rank 0, which can be
 * the last to end, within the deadlines of its peers. PATIENCE_OF_FIRST_NS: rank 0, or any member
 * over cables, after success; its peers closed with it, so they end soon. PATIENCE_OF_FAILED_NS:
 * the same after a failure, of which it has notified all that it can reach. */
#define PATIENCE_NS (100 * SECOND)
#define PATIENCE_OF_FIRST_NS (35 * SECOND)
#define PATIENCE_OF_FAILED_NS (6 * SECOND)
#define STEP_NS (30 * SECOND)
/* Size of a member's clock reading, taken when all members knew the lengths of all records. */
#define HEAD_BYTES 8

/* Returns the member whose stream ended without a message, or UINT32_MAX. */
static uint32_t find_dead(const struct weft_error *error)
{
    const struct weft_value *rank = weft_error_value(error, WEFT_VALUE_RANK);

    return rank != NULL && weft_error_value(error, WEFT_VALUE_STREAM_ENDED) != NULL
               ? (uint32_t)rank->number
               : UINT32_MAX;
}

/* Decodes a member's record. Clocks of different machines are related only by that reading, which
 * all take at nearly the same moment. */
static void take_record(struct run *run, uint32_t member, const struct weft_text *text,
                        weft_ns gathered_ns, weft_ns their_ns,
                        const struct host_config *base)
{
    const char *name = run->plan->spec.hosts[run->member_hosts[member]].name;
    struct host_config config = *base;
    struct weft_error ignored = {0};
    json_error_t where;
    json_t *record = text->n > 0 ? json_loadb(text->bytes, text->n, 0, &where) : NULL;

    run_configure_member(run, member, &config);
    run->hosts[member] = run_record_decode(
        record, name, &config, their_ns - (gathered_ns - run->origin_ns), &ignored);
    json_decref(record);
}

static void judge(struct run *run, const struct weft_text *records,
                  const struct weft_text *clocks, weft_ns gathered_ns,
                  const struct host_config *config, struct run_node_outcome *out)
{
    struct weft_error ignored = {0};

    for (uint32_t i = 0; i < run->n_members; i++) {
        weft_ns theirs = gathered_ns;

        if (clocks[i].n == HEAD_BYTES) {
            struct wire_reader reader = wire_reader_init(clocks[i].bytes, HEAD_BYTES);

            theirs = (weft_ns)wire_get_u64(&reader);
        }
        take_record(run, i, &records[i], gathered_ns, theirs, config);
    }
    run->are_records = true;
    run->ended_ns = gathered_ns - run->origin_ns;
    run_evaluate(run);
    out->verdict = run_result_of(run, &ignored);
    out->document = run_document(run);
    out->observations = diag_observations_encode(&run->observations);
}

/* Sends and receives the verdict. The judge's byte is 1 plus the verdict, all others' are 0. */
static weft_status send_verdict(struct meeting *meeting, struct run_node_outcome *out,
                                struct weft_error *error)
{
    uint8_t mine = out->document != NULL ? (uint8_t)(1 + out->verdict) : 0;
    const uint8_t *all;
    weft_status status = meeting_gather(meeting, &mine, 1, false, &all, error);
    uint32_t first = meeting_first(meeting);

    if (status == WEFT_OK && (all[first] == 0 || all[first] > 1 + RUN_TIMEOUT)) {
        status = weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_MEETING,
                           "rank %u judged nothing", first);
    }
    if (status == WEFT_OK) {
        out->verdict = (enum run_result)(all[first] - 1);
        out->has_verdict = true;
    }
    return status;
}

static weft_status gather_all(struct run *run, struct meeting *meeting, uint32_t member,
                              const json_t *record, const struct host_config *config,
                              struct run_node_outcome *out, struct weft_error *error)
{
    struct weft_text *records = weft_calloc(run->n_members, sizeof(*records));
    struct weft_text *clocks = weft_calloc(run->n_members, sizeof(*clocks));
    char *bytes = json_dumps(record, JSON_COMPACT);
    struct weft_text mine = {.bytes = bytes, .n = bytes == NULL ? 0 : strlen(bytes)};
    uint8_t head[HEAD_BYTES];
    struct weft_text clock = {.bytes = (char *)head, .n = HEAD_BYTES};
    weft_ns gathered_ns = 0;
    weft_ns ignored_ns;
    weft_status status =
        meeting_gather_texts(meeting, &mine, true, records, &gathered_ns, error);

    if (status == WEFT_OK) {
        struct wire_writer writer = wire_writer_init(head, sizeof(head));

        wire_put_u64(&writer, (uint64_t)gathered_ns);
        status = meeting_gather_texts(meeting, &clock, true, clocks, &ignored_ns, error);
    }
    if (status == WEFT_OK && member == meeting_first(meeting)) {
        judge(run, records, clocks, gathered_ns, config, out);
    }
    if (status == WEFT_OK) {
        status = send_verdict(meeting, out, error);
    }
    for (uint32_t i = 0; i < run->n_members; i++) {
        weft_text_fini(&records[i]);
        weft_text_fini(&clocks[i]);
    }
    free(records);
    free(clocks);
    free(bytes);
    return status;
}

static weft_ns patience_of(uint32_t member, enum boot_mode mode,
                           const struct weft_error *host_error)
{
    bool is_cut_off = host_error->phase == WEFT_PHASE_BOOT &&
                      host_error->status == WEFT_ERR_TIMEOUT &&
                      host_error->sys_errno == ETIMEDOUT;

    if (member != 0 && mode == BOOT_RENDEZVOUS && !is_cut_off) {
        return PATIENCE_NS;
    }
    return host_error->status == WEFT_OK ? PATIENCE_OF_FIRST_NS : PATIENCE_OF_FAILED_NS;
}

weft_status run_collect(struct run *run, uint32_t member, const json_t *record,
                        const struct weft_error *host_error,
                        const struct host_config *config,
                        struct run_node_outcome *outcome, struct weft_error *error)
{
    struct boot_config boot = config->boot;
    uint32_t dead = find_dead(host_error);
    struct meeting *meeting;
    weft_status status;

    boot.rank = config->rank;
    boot.n_ranks = run->n_ranks;
    boot.n_members = run->n_members;
    boot.may_miss = true;
    boot.patience_ns =
        timer_limit(patience_of(member, boot.mode, host_error), boot.patience);
    boot.step_ns = timer_limit(STEP_NS, boot.patience);
    if (boot.mode != BOOT_RENDEZVOUS) {
        auth_meeting_key(config->boot.job_key, boot.job_key);
    }
    if (dead == 0 && boot.mode == BOOT_RENDEZVOUS) {
        return weft_fail(error, WEFT_ERR_CLOSED, WEFT_PHASE_MEETING, "rank 0 is no more");
    }
    status = meeting_open(run->world, run->world->ops->host_env(run->world, 0, 0), &boot,
                          &meeting, error);
    if (status != WEFT_OK) {
        return status;
    }
    if (dead != UINT32_MAX && dead < run->n_members && dead != member) {
        meeting_ended(meeting, dead);
    }
    status = gather_all(run, meeting, member, record, config, outcome, error);
    meeting_close(meeting);
    return status;
}
