/* A gather over the mesh. It is complete when the blobs of all members are here and every neighbour
 * has what it lacked. If it does not complete in time, the missing members are named. */
#include "boot/mesh.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* ---- opening and closing ---- */

static void add_static(struct boot *boot, const struct boot_neighbour *neighbour)
{
    struct mesh_peer *peer = mesh_peer_of(boot, neighbour->member);

    for (uint32_t i = 0; peer != NULL && i < neighbour->n_endpoints &&
                         peer->n_candidates < MESH_CANDIDATES_MAX;
         i++) {
        peer->candidates[peer->n_candidates++] =
            (struct mesh_candidate){.at = neighbour->endpoints[i],
                                    .port = RECORD_PORT_NONE,
                                    .peer_port = RECORD_PORT_NONE,
                                    .heard_ns = WEFT_NEVER};
    }
}

static void identify(struct boot *boot)
{
    struct mesh *mesh = boot->mesh;
    struct io_env *env = boot->env;

    mesh->self = (struct record_self){
        .member = boot->config.rank,
        .n_ranks = boot->config.n_ranks,
        .n_members = boot->n_members,
        .identity.started_ns = (uint64_t)boot->opened_ns,
    };
    memcpy(mesh->self.identity.host_id, io_host_id(env),
           sizeof(mesh->self.identity.host_id));
    while (mesh->self.identity.nonce == 0) {
        env->ops->random(env, &mesh->self.identity.nonce,
                         sizeof(mesh->self.identity.nonce));
    }
}

weft_status mesh_open(struct boot *boot, struct weft_error *error)
{
    struct mesh *mesh = weft_calloc(1, sizeof(*mesh));
    weft_status status;

    boot->mesh = mesh;
    mesh->members = weft_calloc(boot->n_members, sizeof(*mesh->members));
    identify(boot);
    mesh_self(boot)->identity = mesh->self.identity;
    mesh_self(boot)->is_known = true;
    mesh_self(boot)->is_reached = true;
    mesh->n_known = 1;
    mesh->known_ns = boot->opened_ns;
    mesh_hear_open(boot);
    for (uint32_t i = 0;
         boot->config.mode == BOOT_STATIC && i < boot->config.n_neighbours; i++) {
        add_static(boot, &boot->config.neighbours[i]);
    }
    status =
        boot_door_open(boot, &mesh->door, &boot->config.control, &mesh->control, error);
    if (status == WEFT_OK) {
        mesh_links_update(boot);
    }
    return status;
}

void mesh_close(struct boot *boot)
{
    struct mesh *mesh = boot->mesh;

    for (uint32_t m = 0; m < boot->n_members; m++) {
        struct mesh_member *member = &mesh->members[m];

        if (member->peer != NULL) {
            struct frame_link *link = &member->peer->stream.link;

            if (boot->error.status == WEFT_OK && member->peer->state == MESH_UP &&
                frame_send(link, CODEC_BYE, NULL, 0) && frame_flush(link, NULL) < 0) {
                member->gone = MESH_DIED; /* the neighbour is gone */
            }
            mesh_peer_free(boot, member->peer);
        }
        free(member->entries);
        free(member->blobs[0].bytes);
        free(member->blobs[1].bytes);
    }
    mesh_hear_close(boot);
    boot_door_close(boot, &mesh->door);
    auth_forget(mesh->announce_key, sizeof(mesh->announce_key));
    free(mesh->members);
    free(mesh);
    boot->mesh = NULL;
}

/* ---- a gather ---- */

static const struct mesh_blob *blob_of(const struct boot *boot, uint32_t m)
{
    return &boot->mesh->members[m].blobs[boot->round & 1];
}

/* Returns true if the member's blob was received. One of another size is none: its member is at
 * fault, or absent. */
static bool has_blob(const struct boot *boot, uint32_t m)
{
    const struct mesh_blob *blob = blob_of(boot, m);

    return blob->round == boot->round && blob->each == boot->each && blob->whole;
}

void mesh_gather(struct boot *boot)
{
    struct mesh_blob *blob = &mesh_self(boot)->blobs[boot->round & 1];

    blob->round = boot->round;
    blob->each = boot->each;
    blob->received = boot->each;
    blob->whole = true;
    blob->bytes = weft_realloc(blob->bytes, (size_t)boot->each + 1);
    memcpy(blob->bytes, boot->mine, boot->each);
}

/* Returns true if the neighbour is connected, or can reconnect soon. A neighbour ends a stream on
 * which it hears nothing, so the end of a stream alone is not the end of its process. That is
 * waited for in the last round only, because after other rounds this process does not exit. */
static bool is_there(const struct boot *boot, const struct mesh_peer *peer)
{
    weft_ns verdict = mesh_peer_verdict_ns(boot, peer);
    weft_ns until = mesh_peer_awaited_ns(boot, peer);

    if (boot->is_last && verdict != WEFT_NEVER && verdict > until) {
        until = verdict;
    }
    return peer->state == MESH_UP || io_now(boot->env) < until;
}

/* Returns true if every connected neighbour has the whole round too. This process can then exit
 * without cutting off members that are reached only through it. Otherwise `*out_late` is a
 * neighbour that lacks the round. */
static bool has_handed_out(const struct boot *boot, uint32_t *out_late)
{
    for (uint32_t m = 0; m < boot->n_members; m++) {
        const struct mesh_member *member = &boot->mesh->members[m];

        if (member->peer != NULL && is_there(boot, member->peer) &&
            member->gone == MESH_HERE && !member->is_absent &&
            member->peer->has_round < boot->round) {
            *out_late = m;
            return false;
        }
    }
    return true;
}

/* Notes whether the present round is whole. It ceases to be so if the process of a member is
 * replaced by a later one, whose blob is still to come. */
static void count_whole(struct boot *boot)
{
    uint32_t m = 0;

    if (!boot->is_active) {
        return;
    }
    while (m < boot->n_members &&
           (has_blob(boot, m) || boot->mesh->members[m].is_absent)) {
        m++;
    }
    boot->mesh->whole_round = m == boot->n_members ? boot->round : boot->round - 1;
}

static void complete(struct boot *boot)
{
    for (uint32_t m = 0; m < boot->n_members; m++) {
        uint8_t *out = boot->result + (size_t)m * boot->each;

        if (has_blob(boot, m)) {
            memcpy(out, blob_of(boot, m)->bytes, boot->each);
        } else {
            memset(out, 0, boot->each);
        }
    }
}

/* ---- missing members ---- */

bool mesh_needs_all(const struct boot *boot)
{
    return boot->is_active && !boot->is_last && !boot->config.may_miss &&
           boot->mesh->whole_round < boot->round;
}

static bool is_missing(const struct boot *boot, uint32_t m)
{
    const struct mesh *mesh = boot->mesh;

    if (mesh->members[m].is_absent) {
        return false;
    }
    return mesh->n_known < boot->n_members ? !mesh->members[m].is_known
                                           : !has_blob(boot, m);
}

bool mesh_awaits(const struct boot *boot, uint32_t member)
{
    return is_missing(boot, member);
}

static void list_missing(struct boot *boot)
{
    struct weft_text text = {0};
    char missing[64];

    for (uint32_t m = 0; m < boot->n_members; m++) {
        if (is_missing(boot, m)) {
            weft_text_add(&text, "%s%u", text.n > 0 ? "," : "", m);
        }
    }
    weft_format(missing, sizeof(missing), "%s", text.bytes);
    weft_text_fini(&text);
    weft_error_text(&boot->error, WEFT_VALUE_MISSING, missing);
}

/* Returns true if streams to the neighbour come up and then fall silent, again and again. */
static bool is_silenced(const struct boot *boot, uint32_t m)
{
    const struct mesh_peer *peer = boot->mesh->members[m].peer;

    return peer != NULL && mesh_peer_silenced(peer) >= MESH_SILENCED_MIN;
}

/* Returns true if a member is missing, but no own neighbour is missing or out of reach. Another
 * member has lost a stream then, or its data, and can name the place. */
static bool is_far_from_gap(const struct boot *boot)
{
    bool any = false;

    for (uint32_t m = 0; m < boot->n_members; m++) {
        const struct mesh_member *member = &boot->mesh->members[m];

        if (is_silenced(boot, m)) {
            return false;
        }
        if (member->is_absent || member->gone != MESH_HERE ||
            (member->is_reached && !is_missing(boot, m))) {
            continue;
        }
        if (member->peer != NULL) {
            return false;
        }
        any = any || is_missing(boot, m);
    }
    return any && !boot->config.may_miss;
}

/* Returns when the present round fails. A member that is far from the gap waits a little longer, so
 * that the one beside it reports first. */
static weft_ns limit(const struct boot *boot)
{
    const struct mesh *mesh = boot->mesh;
    weft_ns grace = is_far_from_gap(boot) ? boot_limit(boot, MESH_GRACE_NS) : 0;
    /* The lowest present member decides which members are absent. The others wait twice as long, so
     * that they decide only if it is silent. */
    int times = boot->config.may_miss && boot_first(boot) != boot->config.rank ? 2 : 1;

    if (mesh->n_known < boot->n_members) {
        return boot->opened_ns + times * boot->config.patience_ns + grace;
    }
    if (!boot->is_active) {
        return WEFT_NEVER;
    }
    return (boot->started_ns > mesh->known_ns ? boot->started_ns : mesh->known_ns) +
           times * boot->config.step_ns + grace;
}

/* may_miss: marks the members absent that the round waits for. */
static weft_status miss_late(struct boot *boot)
{
    uint32_t late = boot->n_members;
    bool any = false;

    for (uint32_t m = 0; m < boot->n_members; m++) {
        if (is_missing(boot, m)) {
            mesh_miss(boot, m);
            any = true;
        }
    }
    if (!any && !has_handed_out(boot, &late)) {
        mesh_miss(boot, late);
    }
    return WEFT_AGAIN;
}

/* Returns the first missing member that no control stream leads to, because those that are reached
 * can wait for it; otherwise the first missing one; n_members if none is. */
static uint32_t first_missing(const struct boot *boot)
{
    uint32_t first = boot->n_members;

    for (uint32_t m = boot->n_members; m > 0; m--) {
        if (is_missing(boot, m - 1) &&
            (first == boot->n_members || !boot->mesh->members[m - 1].is_reached ||
             boot->mesh->members[first].is_reached)) {
            first = m - 1;
        }
    }
    return first;
}

/* Returns true if the member was a neighbour of one that control streams lead to. */
static bool borders_reached(const struct boot *boot, uint32_t m)
{
    const struct mesh_member *member = &boot->mesh->members[m];
    bool any = member->peer != NULL;

    for (uint32_t i = 0; i < member->n_entries; i++) {
        any = any || boot->mesh->members[member->entries[i].member].is_reached;
    }
    return any;
}

/* Returns the first neighbour whose streams fall silent; n_members if there is none. What is
 * missing can have to come from it, or through it. */
static uint32_t first_silenced(const struct boot *boot)
{
    uint32_t m = 0;

    while (m < boot->n_members && !is_silenced(boot, m)) {
        m++;
    }
    return m;
}

/* Returns the member to be named if `m` is missing. If no control stream leads to `m`, that is the
 * first lost member on the way to it, because the members behind that one only share its fate. A
 * neighbour whose streams fall silent comes first. */
static uint32_t at_fault(const struct boot *boot, uint32_t m)
{
    uint32_t silenced = first_silenced(boot);

    if (silenced < boot->n_members) {
        return silenced;
    }
    for (uint32_t i = 0; !boot->mesh->members[m].is_reached && i < boot->n_members; i++) {
        const struct mesh_member *member = &boot->mesh->members[i];

        if ((member->is_known || member->peer != NULL) && !member->is_reached &&
            !member->is_absent && member->gone != MESH_LEFT && borders_reached(boot, i)) {
            return i;
        }
    }
    return m;
}

/* Returns true if the last round can end without the missing members: no control stream leads to
 * any of them, and either this process or all of them have no rank. They have no result to give,
 * and cannot relay for each other. */
static bool is_dispensable(const struct boot *boot)
{
    bool is_relay = boot->config.rank >= boot->config.n_ranks;
    bool is_so = boot->is_active && boot->is_last, any = false;

    for (uint32_t m = 0; is_so && m < boot->n_members; m++) {
        if (is_missing(boot, m)) {
            any = true;
            is_so = !boot->mesh->members[m].is_reached &&
                    (is_relay || m >= boot->config.n_ranks);
        }
    }
    return is_so && any;
}

/* Returns true if the others have ended the last round: a neighbour has left with its blob given,
 * or the process of one that a relay was cut off from has exited. The launcher, or the neighbours
 * that still need it, name a process that died instead. */
static bool is_over_elsewhere(const struct boot *boot)
{
    bool is_relay = boot->config.rank >= boot->config.n_ranks;

    for (uint32_t m = 0; is_dispensable(boot) && m < boot->n_members; m++) {
        enum mesh_gone gone = boot->mesh->members[m].gone;

        if ((gone == MESH_LEFT && has_blob(boot, m)) || (gone == MESH_DIED && is_relay)) {
            return true;
        }
    }
    return false;
}

/* Returns since when no control stream leads to any rank; WEFT_NEVER if one does. */
static weft_ns alone_since(const struct boot *boot)
{
    weft_ns since = boot->opened_ns;

    for (uint32_t m = 0; m < boot->config.n_ranks; m++) {
        const struct mesh_member *member = &boot->mesh->members[m];
        weft_ns lost_ns = member->is_reached ? WEFT_NEVER : member->since_ns;

        since = lost_ns > since ? lost_ns : since;
    }
    return since;
}

/* Returns when the last round ends without missing members, if that is before its limit: at once
 * if others have ended it, and at a relay after it reached no rank for the limit of any other
 * round. */
static weft_ns spare_ns(const struct boot *boot)
{
    weft_ns since;

    if (!is_dispensable(boot)) {
        return WEFT_NEVER;
    }
    if (is_over_elsewhere(boot)) {
        return boot->opened_ns;
    }
    since = boot->config.rank < boot->config.n_ranks ? WEFT_NEVER : alone_since(boot);
    return since == WEFT_NEVER ? since : since + boot->config.step_ns;
}

/* Returns true if announcements of the neighbour arrive now. */
static bool is_heard(const struct boot *boot, const struct mesh_peer *peer)
{
    bool any = false;

    for (uint32_t i = 0; peer != NULL && i < peer->n_candidates; i++) {
        any = any || (peer->candidates[i].heard_ns != WEFT_NEVER &&
                      mesh_candidate_is_fresh(boot, &peer->candidates[i]));
    }
    return any;
}

/* Returns what is said of a missing member. */
static const char *describe_missing(const struct boot *boot, uint32_t m)
{
    const struct mesh_member *member = &boot->mesh->members[m];

    if (!member->is_known && is_heard(boot, member->peer)) {
        return member->peer->last_errno != 0 ? "was heard, but cannot be reached"
                                             : "was heard, but does not connect";
    }
    if (!member->is_known) {
        return "was never heard of: no neighbour knows it";
    }
    if (is_silenced(boot, m)) {
        return "connects, but no data comes from it";
    }
    return member->is_reached ? "is late" : "is cut off: no control stream leads to it";
}

/* Adds to the failure what this process knows of a neighbour that was heard. */
static void add_reason(struct boot *boot, uint32_t m)
{
    const struct mesh_member *member = &boot->mesh->members[m];

    if (!member->is_known && is_heard(boot, member->peer)) {
        boot->error.sys_errno = member->peer->last_errno;
        weft_error_int(&boot->error, WEFT_VALUE_HEARD, !member->peer->has_lapsed);
    }
    if (is_silenced(boot, m)) {
        weft_error_int(&boot->error, WEFT_VALUE_SILENCED,
                       mesh_peer_silenced(member->peer));
    }
}

/* Fails because of the missing member `first`, or ends the last round of a relay without it. */
static weft_status miss(struct boot *boot, uint32_t first)
{
    uint32_t m = at_fault(boot, first);
    weft_status status;

    if (is_dispensable(boot)) {
        weft_log(boot->env->log, WEFT_LOG_WARN,
                 "boot: ends without rank %u: no control stream leads to it", m);
        complete(boot);
        return WEFT_OK;
    }
    status = mesh_blame(boot, WEFT_ERR_TIMEOUT, m, describe_missing(boot, m));
    list_missing(boot);
    add_reason(boot, m);
    return status;
}

weft_status mesh_miss_silenced(struct boot *boot)
{
    uint32_t m = first_silenced(boot);
    bool any_missing = boot->is_active && first_missing(boot) < boot->n_members;

    return any_missing && m < boot->n_members ? miss(boot, m) : WEFT_AGAIN;
}

static weft_status check_limit(struct boot *boot)
{
    uint32_t first;

    if (io_now(boot->env) < limit(boot) && io_now(boot->env) < spare_ns(boot)) {
        return WEFT_AGAIN;
    }
    if (boot->config.may_miss) {
        return miss_late(boot);
    }
    first = first_missing(boot);
    if (first == boot->n_members) {
        (void)has_handed_out(boot, &first);
        return mesh_blame(boot, WEFT_ERR_TIMEOUT, first,
                          "is late: it lacks what others gave");
    }
    return miss(boot, first);
}

static enum mesh_gone gone_now(struct boot *boot, uint32_t m)
{
    struct mesh_member *member = &boot->mesh->members[m];

    if (member->peer != NULL &&
        io_now(boot->env) >= mesh_peer_verdict_ns(boot, member->peer)) {
        member->gone = MESH_DIED;
    }
    return member->gone;
}

/* Returns true if the present round fails without the member, which has gone. Once it has given its
 * blob, the round can still complete, but none after it can. */
static bool is_needed(const struct boot *boot, uint32_t m, enum mesh_gone gone)
{
    return !has_blob(boot, m) || (gone == MESH_DIED && mesh_needs_all(boot));
}

/* Fails if a neighbour has gone that is needed, or if a member gathers another size. */
static weft_status check_members(struct boot *boot)
{
    weft_status status = WEFT_OK;

    for (uint32_t m = 0; m < boot->n_members && status >= 0; m++) {
        const struct mesh_blob *blob = blob_of(boot, m);
        enum mesh_gone gone = gone_now(boot, m);

        if (boot->mesh->members[m].is_absent ||
            (gone == MESH_DIED && is_over_elsewhere(boot))) {
            continue;
        }
        if (blob->round == boot->round && blob->each != boot->each) {
            status =
                mesh_blame(boot, WEFT_ERR_PROTOCOL, m, "gathers blobs of another size");
        } else if (gone != MESH_HERE && is_needed(boot, m, gone)) {
            status = mesh_blame(boot, WEFT_ERR_CLOSED, m,
                                gone == MESH_LEFT ? "left" : "died: its stream ended");
            if (status < 0 && gone == MESH_DIED) {
                weft_error_int(&boot->error, WEFT_VALUE_STREAM_ENDED, 1);
            }
        }
    }
    return status;
}

static weft_status judge(struct boot *boot)
{
    uint32_t late;
    weft_status status;

    if (!boot->is_active) {
        return check_limit(boot);
    }
    status = check_members(boot);
    if (status != WEFT_OK) {
        return status;
    }
    if (boot->mesh->whole_round == boot->round && has_handed_out(boot, &late)) {
        complete(boot);
        return WEFT_OK;
    }
    return check_limit(boot);
}

/* ---- progress ---- */

static weft_status let_in(struct boot *boot)
{
    struct boot_door *door = &boot->mesh->door;
    struct client *client;
    struct frame frame;
    uint32_t at = 0;

    boot_door_welcome(boot, door);
    while ((client = boot_door_next(boot, door, &at, &frame)) != NULL) {
        struct weft_error error = {0};
        weft_status status = mesh_peer_accept(boot, client, &frame, &error);

        if (boot->error.status != WEFT_OK) {
            client_fini(client, true);
            return boot->error.status;
        }
        if (status != WEFT_OK) {
            boot_door_refuse(boot, door, client, &error);
        }
    }
    return WEFT_OK;
}

weft_status mesh_progress(struct boot *boot)
{
    struct mesh *mesh = boot->mesh;
    weft_status status;

    mesh_hear(boot);
    status = let_in(boot);
    for (uint32_t m = 0; m < boot->n_members && status == WEFT_OK; m++) {
        if (mesh->members[m].peer != NULL) {
            status = mesh_peer_step(boot, mesh->members[m].peer);
        }
    }
    if (status != WEFT_OK) {
        return status;
    }
    mesh_links_update(boot);
    mesh_graph_update(boot);
    count_whole(boot);
    for (uint32_t m = 0; m < boot->n_members; m++) {
        if (mesh->members[m].peer != NULL) {
            mesh_peer_pump(boot, mesh->members[m].peer);
        }
    }
    return judge(boot);
}

weft_ns mesh_deadline(const struct boot *boot)
{
    const struct mesh *mesh = boot->mesh;
    weft_ns at = limit(boot), spare = spare_ns(boot);
    weft_ns door = boot_door_deadline(&mesh->door);

    at = spare < at ? spare : at;
    at = door < at ? door : at;
    if (boot->config.mode == BOOT_NEIGHBOURS && mesh->announce_at_ns < at) {
        at = mesh->announce_at_ns;
    }
    for (uint32_t m = 0; m < boot->n_members; m++) {
        if (mesh->members[m].peer != NULL) {
            weft_ns peer = mesh_peer_deadline(boot, mesh->members[m].peer);
            weft_ns verdict = mesh_peer_verdict_ns(boot, mesh->members[m].peer);
            weft_ns awaited = mesh_peer_awaited_ns(boot, mesh->members[m].peer);

            at = peer < at ? peer : at;
            at = boot->is_active && verdict < at ? verdict : at;
            at = boot->is_active && awaited > io_now(boot->env) && awaited < at ? awaited
                                                                                : at;
        }
    }
    return at;
}
