/* Completion queues and their wake-ups. A queue is in memory, but arming an event is a system
 * call, and reading the event another. So a request for a wake-up is only noted: the loop polls
 * such queues, and arms them before it sleeps. */
#include <errno.h>
#include <string.h>

#include "backends/verbs/device.h"

static struct verbs_cq *entry_of(struct ibv_cq *cq)
{
    return cq->cq_context;
}

static int poll(struct ibv_cq *cq, int n_max, struct ibv_wc *wc)
{
    return cq->context->ops.poll_cq(cq, n_max, wc);
}

int verbs_poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n)
{
    struct verbs_cq *entry = entry_of(cq);
    int n_kept = entry->n_wcs - entry->at_wc;
    int n = n_kept < n_max ? n_kept : n_max;
    int n_more;
    memcpy(wc, &entry->wcs[entry->at_wc], (size_t)n * sizeof *wc);
    entry->at_wc += n;
    n_more = n < n_max ? poll(cq, n_max - n, wc + n) : 0;
    *out_n = n_more < 0 ? n : n + n_more;
    /* ibv_poll_cq(3) fails with a negative value and no errno. Return earlier completions
     * first. */
    return n_more < 0 && n == 0 ? EIO : 0;
}

int verbs_req_notify(struct ibv_cq *cq, int solicited_only)
{
    struct verbs_cq *entry = entry_of(cq);
    int failure = entry->failure;
    entry->failure = 0;
    entry->cq = cq;
    entry->asks_solicited = solicited_only != 0;
    entry->is_asked = failure == 0;
    return failure;
}

static void wake(struct verbs_cq *entry)
{
    entry->is_asked = false;
    io_task_wake(entry->task);
}

/* Polls a queue whose user requested a wake-up. Wakes it and returns true if there is a
 * completion. */
static bool look(struct verbs_cq *entry)
{
    int n;
    if (!entry->is_asked || entry->is_muted || entry->asks_solicited) {
        return false;
    }
    if (entry->at_wc == entry->n_wcs) {
        n = poll(entry->cq, VERBS_STASH, entry->wcs);
        entry->at_wc = 0;
        entry->n_wcs = n < 0 ? 0 : n;
        if (n == 0) {
            return false;
        }
    }
    wake(entry); /* a failed poll will fail again for the user */
    return true;
}

bool verbs_look_at_cqs(void *context)
{
    struct verbs_device *device = context;
    bool any = false;
    for (struct verbs_cq *at = device->cqs; at != NULL; at = at->next) {
        any = look(at) || any;
    }
    return any;
}

/* Arms a queue, unless an event is already armed or unread. */
static void arm(struct verbs_cq *entry)
{
    if (!entry->is_asked || entry->is_muted ||
        (entry->is_armed && entry->armed_solicited <= entry->asks_solicited)) {
        return;
    }
    entry->failure = verbs_result(
        entry->cq->context->ops.req_notify_cq(entry->cq, entry->asks_solicited));
    if (entry->failure != 0) {
        wake(entry); /* the next req_notify returns the errno */
        return;
    }
    entry->device->n_armed += !entry->is_armed;
    entry->is_armed = true;
    entry->armed_solicited = entry->asks_solicited;
}

/* Polls after arming, because completions before arming raise no event (ibv_req_notify_cq(3)). */
bool verbs_arm_cqs(void *context)
{
    struct verbs_device *device = context;
    bool any = false;
    for (struct verbs_cq *at = device->cqs; at != NULL; at = at->next) {
        arm(at);
        any = at->failure != 0 || look(at) || any;
    }
    return any;
}

/* Wakes the tasks of CQs that got a completion while armed. Acknowledges each event at once,
 * because an unacknowledged one would block destroy_cq, on a worker, forever. An armed CQ raises
 * one event, so after the last one there is nothing to read. */
void verbs_on_completion(void *context)
{
    struct verbs_device *device = context;
    struct ibv_cq *cq;
    void *cq_context;
    while (device->library->get_cq_event(device->channel, &cq, &cq_context) == 0) {
        struct verbs_cq *entry = cq_context;
        device->library->ack_cq_events(cq, 1);
        device->n_armed -= entry->is_armed;
        entry->is_armed = false;
        if (entry->is_asked && !entry->is_muted) {
            wake(entry);
        }
        if (device->n_armed == 0) {
            break;
        }
    }
}
