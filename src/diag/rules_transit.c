/* Rules about hosts without a common cable that reach each other by IP through a third host. Modify
 * to RTR succeeds, because the gateway answers. Later packets are lost if the third host does not
 * forward them. */
#include "diag/private.h"

/* Answers of all hosts between the two to one question. */
struct answers {
    enum diag_known any; /* YES if a host is between the two and answers yes */
    enum diag_known all; /* YES if no host between the two answers no or unknown */
};

static enum diag_known is_between(const struct diag_case *c, const struct diag_host *host)
{
    struct diag_ports ports = diag_ports_of(c->input, host->name);

    if (diag_is_same_machine(host->name, c->host->name) ||
        diag_is_same_machine(host->name, c->peer_name)) {
        return DIAG_NO;
    }
    return diag_and(diag_faces_one_of(c->local_port, ports),
                    diag_faces_one_of(c->remote_port, ports));
}

/* Evaluates forwarding on all hosts between the two. Unknown for IPv6, because ip_forward concerns
 * IPv4. */
static struct answers ask(const struct diag_case *c, bool forwards)
{
    struct answers answers = {.any = DIAG_NO, .all = DIAG_YES};

    for (uint32_t i = 0; i < c->input->n_hosts; i++) {
        const struct diag_host *host = &c->input->hosts[i];
        enum diag_known between = is_between(c, host);
        enum diag_known is_so =
            forwards ? host->forwards_ip : diag_not(host->forwards_ip);

        if (!c->has_local_gid || !io_ip_is_v4(&c->local_gid)) {
            is_so = DIAG_UNKNOWN;
        }
        answers.any = diag_or(answers.any, diag_and(between, is_so));
        answers.all = diag_and(answers.all, diag_or(diag_not(between), is_so));
    }
    return answers;
}

/* Requires the same answer from all hosts between the two, because the gateway among them is
 * unknown. */
static enum diag_known is_transit(const struct diag_case *c, bool forwards)
{
    struct answers answers = ask(c, forwards);
    enum diag_known is_sure = answers.all == DIAG_YES ? DIAG_YES : DIAG_UNKNOWN;

    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    return diag_and(diag_not(diag_any_facing(c->local, c->remote)),
                    diag_and(answers.any, is_sure));
}

enum diag_known diag_is_forward_off(const struct diag_case *c)
{
    return is_transit(c, false);
}

/* Returns YES if the third host forwards and both cables work, so that only its firewall can drop
 * the packets. */
enum diag_known diag_is_forward_blocked(const struct diag_case *c)
{
    enum diag_known damaged = diag_or(diag_is_corrupting(c), diag_is_paused(c));

    return diag_and(is_transit(c, true), diag_not(damaged));
}

const struct diag_host *diag_host_between(const struct diag_case *c)
{
    for (uint32_t i = 0; i < c->input->n_hosts; i++) {
        if (is_between(c, &c->input->hosts[i]) == DIAG_YES) {
            return &c->input->hosts[i];
        }
    }
    return NULL;
}
