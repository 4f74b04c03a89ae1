/* Finds a cable without carrier that separates two hosts, or that would join them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

/* Returns the first process of the machine; n_hosts if there is none, as for a switch. */
static uint32_t host_of(const struct diag_input *input, const char *name)
{
    uint32_t h = 0;

    while (h < input->n_hosts && !diag_is_same_machine(input->hosts[h].name, name)) {
        h++;
    }
    return h;
}

static bool was_down(const struct diag_input *input, uint32_t h, const char *name)
{
    const struct diag_host *host = &input->hosts[h];
    struct diag_ports ports;

    if (h >= input->n_hosts) {
        return false; /* a switch */
    }
    ports = diag_ports_of(input, host->name);
    return diag_was_down(host, diag_port_named(&ports, name)) == DIAG_YES;
}

/* Returns the number of a host as host_of(), otherwise that of a switch, which comes after those of
 * hosts: the number of the first end of a cable that leads to it. */
static uint32_t node_of(const struct diag_input *input, const char *name)
{
    uint32_t node = host_of(input, name);

    for (uint32_t i = 0; node == input->n_hosts && i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];

        if (strcmp(cable->from, name) == 0) {
            return input->n_hosts + 2 * i;
        }
        if (strcmp(cable->to, name) == 0) {
            return input->n_hosts + 2 * i + 1;
        }
    }
    return node;
}

/* A cable between two hosts or switches; `from` and `to` are numbers of node_of(). */
struct joint {
    const struct diag_cable *cable;
    uint32_t from, to;
    bool is_down;
    bool is_from_near; /* `from` is the end that the host reaches */
};

/* Returns the cables, and their number. The caller frees them. */
static struct joint *find_joints(const struct diag_input *input, uint32_t *out_n)
{
    struct joint *joints = weft_calloc((size_t)input->n_cables + 1, sizeof(*joints));

    *out_n = 0;
    for (uint32_t i = 0; i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];
        struct joint joint = {.cable = cable,
                              .from = node_of(input, cable->from),
                              .to = node_of(input, cable->to)};

        if (cable->from[0] == '\0' || cable->to[0] == '\0') {
            continue; /* it is unknown where this end leads */
        }
        joint.is_down = was_down(input, joint.from, cable->from_port) ||
                        was_down(input, joint.to, cable->to_port);
        joints[(*out_n)++] = joint;
    }
    return joints;
}

/* Marks the hosts and switches that cables join to `host`. Ignores cables without carrier unless
 * `with_down`. The caller frees the result. */
static bool *reach(const struct diag_input *input, const struct joint *joints, uint32_t n,
                   uint32_t host, bool with_down)
{
    bool *is_reached = weft_calloc(
        (size_t)input->n_hosts + 2 * (size_t)input->n_cables + 1, sizeof(*is_reached));
    bool any = true;

    is_reached[host] = true;
    while (any) {
        any = false;
        for (uint32_t i = 0; i < n; i++) {
            const struct joint *joint = &joints[i];

            if ((with_down || !joint->is_down) &&
                is_reached[joint->from] != is_reached[joint->to]) {
                any = is_reached[joint->from] = is_reached[joint->to] = true;
            }
        }
    }
    return is_reached;
}

/* Finds the cable without carrier from the hosts that `near` reaches to those that `far` reaches,
 * otherwise any from the former. Returns false if the hosts are not separated. */
static bool find_gap(const struct diag_input *input, const struct joint *joints,
                     uint32_t n, uint32_t near, uint32_t far, struct joint *out)
{
    bool *all = reach(input, joints, n, near, true);
    bool *here = reach(input, joints, n, near, false);
    bool *there = reach(input, joints, n, far, false);
    bool is_found = false, is_best = false;

    for (uint32_t i = 0; all[far] && !here[far] && i < n && !is_best; i++) {
        const struct joint *joint = &joints[i];

        if (here[joint->from] != here[joint->to]) {
            is_best = there[here[joint->from] ? joint->to : joint->from];
            if (!is_found || is_best) {
                *out = *joint;
                is_found = true;
            }
        }
    }
    if (is_found) {
        out->is_from_near = here[out->from];
    }
    free(all);
    free(here);
    free(there);
    return is_found;
}

/* Returns the address of the rendezvous, "none" without one, or NULL. A host that was notified of
 * a failure does not record it. */
static const char *rendezvous_of(const struct diag_case *c)
{
    const char *found = diag_text(c, WEFT_VALUE_RENDEZVOUS);

    for (uint32_t i = 0; found == NULL && i < c->input->n_hosts; i++) {
        const struct diag_host *host = &c->input->hosts[i];

        for (uint32_t j = 0; found == NULL && j < host->n_errors; j++) {
            const struct weft_value *value =
                weft_error_value(&host->errors[j].error, WEFT_VALUE_RENDEZVOUS);

            found = value != NULL ? value->text : NULL;
        }
    }
    return found;
}

bool diag_is_boot_over_cables(const struct diag_case *c)
{
    const char *rendezvous = rendezvous_of(c);

    return c->phase == WEFT_PHASE_BOOT && rendezvous != NULL &&
           strcmp(rendezvous, "none") == 0;
}

/* Returns true if the failure does not concern a network besides the cables. */
static bool is_over_cables(const struct diag_case *c)
{
    return c->phase != WEFT_PHASE_BOOT || diag_is_boot_over_cables(c);
}

/* Returns true if a cable is known that joins the two hosts, or ports of theirs face each other. */
static bool are_neighbours(const struct diag_input *input, const char *a, const char *b)
{
    for (uint32_t i = 0; i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];

        if ((diag_is_same_machine(cable->from, a) &&
             diag_is_same_machine(cable->to, b)) ||
            (diag_is_same_machine(cable->from, b) &&
             diag_is_same_machine(cable->to, a))) {
            return true;
        }
    }
    return diag_any_facing(diag_ports_of(input, a), diag_ports_of(input, b)) == DIAG_YES;
}

/* Returns the failure of the host in boot because of that member, or NULL. */
static const struct weft_error *miss_of(const struct diag_host *host, const char *peer)
{
    for (uint32_t i = 0; i < host->n_errors; i++) {
        const struct weft_error *error = &host->errors[i].error;

        if (error->phase == WEFT_PHASE_BOOT &&
            (error->sys_errno == 0 || error->sys_errno == ETIMEDOUT) &&
            strcmp(host->errors[i].peer, peer) == 0) {
            return error;
        }
    }
    return NULL;
}

static bool missed(const struct diag_host *host, const char *peer)
{
    return miss_of(host, peer) != NULL;
}

/* Returns 1 if the announcements of that member reached the host without a gap, 0 if some did, and
 * -1 if none is known to have. */
static int64_t heard(const struct diag_host *host, const char *peer)
{
    const struct weft_error *error = miss_of(host, peer);
    const struct weft_value *value =
        error != NULL ? weft_error_value(error, WEFT_VALUE_HEARD) : NULL;

    return value != NULL ? value->number : -1;
}

/* Returns the rank of a host that failed in boot, -1 if it is unknown. */
static long rank_of(const struct diag_host *host)
{
    static const char before[] = "rank ";
    const size_t n = sizeof(before) - 1;

    for (uint32_t i = 0; i < host->n_errors; i++) {
        const struct weft_error *error = &host->errors[i].error;
        char *end;
        long rank;

        if (error->phase != WEFT_PHASE_BOOT || strncmp(error->object, before, n) != 0) {
            continue;
        }
        rank = strtol(error->object + n, &end, 10);
        if (end != error->object + n && rank >= 0) {
            return rank;
        }
    }
    return -1;
}

/* Returns true if `rank` is in a list as "0,2,3". */
static bool is_listed(const char *list, long rank)
{
    char *end;

    for (const char *at = list; *at != '\0'; at = *end == ',' ? end + 1 : end) {
        if (strtol(at, &end, 10) == rank && end != at) {
            return true;
        }
        if (end == at) {
            return false;
        }
    }
    return false;
}

/* Returns true if the host missed the member in boot, and gave up because of it or of another
 * one. */
static bool also_missed(const struct diag_host *host, const struct diag_host *member)
{
    long rank = rank_of(member);

    for (uint32_t i = 0; i < host->n_waits; i++) {
        if (host->waits[i].what == WEFT_WAIT_ROUND &&
            strcmp(host->waits[i].peer, member->name) == 0) {
            return true;
        }
    }

    for (uint32_t i = 0; rank >= 0 && i < host->n_errors; i++) {
        const struct weft_error *error = &host->errors[i].error;
        const struct weft_value *missing = weft_error_value(error, WEFT_VALUE_MISSING);

        if (error->phase == WEFT_PHASE_BOOT && missing != NULL &&
            is_listed(missing->text, rank)) {
            return true;
        }
    }
    return missed(host, member->name);
}

bool diag_misses_neighbour(const struct diag_input *input, const struct diag_host *host,
                           const struct diag_host *member)
{
    return member != host && also_missed(host, member) &&
           are_neighbours(input, host->name, member->name);
}

/* Returns the first neighbour that the host missed in boot, and that `other` missed, too; NULL if
 * there is none. */
static const struct diag_host *missed_neighbour(const struct diag_input *input,
                                                const struct diag_host *host,
                                                const struct diag_host *other)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        const struct diag_host *member = &input->hosts[i];

        if (diag_misses_neighbour(input, host, member) && also_missed(other, member)) {
            return member;
        }
    }
    return NULL;
}

/* Returns true if the host failed over the cables because of a member that is not beside it. */
static bool is_missed_from_afar(const struct diag_case *c)
{
    return diag_is_boot_over_cables(c) && c->sys_errno == 0 && c->peer_name[0] != '\0' &&
           !are_neighbours(c->input, c->host->name, c->peer_name);
}

bool diag_turn_to_neighbour(struct diag_case *c)
{
    const struct diag_host *neighbour =
        is_missed_from_afar(c) && c->status == WEFT_ERR_TIMEOUT
            ? missed_neighbour(c->input, c->host, c->host)
            : NULL;

    if (neighbour == NULL) {
        return false;
    }
    c->peer = neighbour;
    c->peer_name = neighbour->name;
    c->remote = diag_ports_of(c->input, neighbour->name);
    return true;
}

bool diag_is_missed_by_neighbour(const struct diag_case *c)
{
    const struct diag_input *input = c->input;

    for (uint32_t i = 0; is_missed_from_afar(c) && i < input->n_hosts; i++) {
        const struct diag_host *host = &input->hosts[i];

        if ((missed(host, c->peer_name) &&
             are_neighbours(input, host->name, c->peer_name)) ||
            (host != c->host && missed_neighbour(input, host, c->host) != NULL)) {
            return true;
        }
    }
    return false;
}

bool diag_is_unheard_over_cable(const struct diag_case *c)
{
    int64_t here, there;

    if (!diag_is_boot_over_cables(c) || c->status != WEFT_ERR_TIMEOUT ||
        (c->sys_errno != 0 && c->sys_errno != ETIMEDOUT) || c->peer == NULL ||
        !also_missed(c->peer, c->host)) {
        return false;
    }
    here = heard(c->host, c->peer_name);
    there = heard(c->peer, c->host->name);
    /* A host that heard announcements of the other is its neighbour. */
    return (here != 1 || there != 1) &&
           (here >= 0 || there >= 0 ||
            are_neighbours(c->input, c->host->name, c->peer_name));
}

/* Returns true if streams from that peer came up and then fell silent, again and again. */
static bool was_silenced(const struct diag_host *host, const char *peer)
{
    const struct weft_error *error = host != NULL ? miss_of(host, peer) : NULL;
    const struct weft_value *value =
        error != NULL ? weft_error_value(error, WEFT_VALUE_SILENCED) : NULL;

    return value != NULL && value->number > 1;
}

/* Returns YES if streams of the rendezvous over the cable came up at once, so that no small frame
 * was lost, and then no data arrived, again and again. A connection between the two hosts waits for
 * the end that has not met the others. */
enum diag_known diag_is_silenced(const struct diag_case *c)
{
    return diag_known_of(was_silenced(c->host, c->peer_name) ||
                         was_silenced(c->peer, c->host->name));
}

static bool find(const struct diag_case *c, struct joint *out)
{
    const struct diag_input *input = c->input;
    uint32_t near = host_of(input, c->host->name), far = host_of(input, c->peer_name), n;
    struct joint *joints;
    bool is_found;

    if (far == input->n_hosts || near == far || !is_over_cables(c)) {
        return false;
    }
    joints = find_joints(input, &n);
    is_found = find_gap(input, joints, n, near, far, out);
    free(joints);
    return is_found;
}

enum diag_known diag_is_severed(const struct diag_case *c)
{
    struct joint joint;

    return diag_known_of(find(c, &joint));
}

/* Names the two ends of the cable, first the one that the host reaches, unless it is a switch's. */
static void name_joint(const struct diag_case *c, const struct joint *joint,
                       struct diag_finding *out)
{
    const struct diag_cable *cable = joint->cable;
    const struct diag_host *hosts = c->input->hosts;
    uint32_t n = c->input->n_hosts;
    bool is_from_first =
        joint->is_from_near ? joint->from < n || joint->to >= n : joint->to >= n;
    uint32_t first = is_from_first ? joint->from : joint->to;
    uint32_t other = is_from_first ? joint->to : joint->from;

    diag_describe_at(c, first < n ? hosts[first].name : "",
                     is_from_first ? cable->from_port : cable->to_port,
                     other < n ? hosts[other].name : "", out);
    diag_evidence_text(out, "local_port", out->port);
    if (other < n) {
        diag_evidence_text(out, "remote_port",
                           is_from_first ? cable->to_port : cable->from_port);
    }
}

bool diag_name_severed(const struct diag_case *c, struct diag_finding *out)
{
    struct joint joint;

    if (!find(c, &joint)) {
        return false;
    }
    name_joint(c, &joint, out);
    diag_evidence_text(out, "unreached", c->peer_name);
    return true;
}

/* Finds the first cable of the two hosts if none of their cables has carrier. Returns false if one
 * has, or if ports of the hosts face each other, by which these are found. */
static bool find_dark(const struct diag_case *c, struct joint *out)
{
    const struct diag_input *input = c->input;
    uint32_t near = host_of(input, c->host->name), far = host_of(input, c->peer_name), n;
    bool is_found = false, all_down = true;
    struct joint *joints;

    if (far == input->n_hosts || near == far ||
        diag_any_facing(c->local, c->remote) != DIAG_NO) {
        return false;
    }
    joints = find_joints(input, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct joint *joint = &joints[i];

        joint->is_from_near = joint->from == near;
        if ((joint->from == near && joint->to == far) ||
            (joint->from == far && joint->to == near)) {
            *out = is_found ? *out : *joint;
            is_found = true;
            all_down = all_down && joint->is_down;
        }
    }
    free(joints);
    return is_found && all_down;
}

enum diag_known diag_is_dark(const struct diag_case *c)
{
    struct joint joint;

    return diag_known_of(find_dark(c, &joint));
}

bool diag_name_dark(const struct diag_case *c, struct diag_finding *out)
{
    struct joint joint;
    bool is_found = find_dark(c, &joint);

    if (is_found) {
        name_joint(c, &joint, out);
    }
    return is_found;
}
