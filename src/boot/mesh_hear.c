/* Announcements: sends this process's own on every link, and receives those of others. Datagrams
 * that are not sealed with the job's key are dropped at the cost of one hash. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "boot/mesh.h"
#include "io/oob.h"

static void add_port(struct mesh *mesh, uint32_t ifindex, uint8_t number)
{
    for (uint32_t i = 0; i < mesh->n_ports; i++) {
        if (mesh->ports[i].ifindex == ifindex) {
            return;
        }
    }
    if (mesh->n_ports < MESH_PORTS_MAX) {
        mesh->ports[mesh->n_ports++] =
            (struct mesh_port){.ifindex = ifindex, .number = number};
    }
}

void mesh_hear_open(struct boot *boot)
{
    const struct io_hostinfo *info = boot->env->ops->hostinfo(boot->env);
    struct mesh *mesh = boot->mesh;
    uint32_t number = 0;

    for (uint32_t d = 0; d < boot->env->n_devices; d++) {
        struct io_device *device = boot->env->devices[d];

        for (uint8_t p = 1; p <= device->n_ports; p++, number++) {
            uint32_t ifindex = 0;

            if (device->ops->port_netdev(device, p, &ifindex) == 0 && ifindex != 0 &&
                number < RECORD_PORT_NONE) {
                add_port(mesh, io_hostinfo_top(info, ifindex), (uint8_t)number);
            }
        }
    }
    add_port(mesh, 0, RECORD_PORT_NONE);
    record_announcement_key(boot->config.job_key, mesh->announce_key);
    mesh->announce_at_ns = io_now(boot->env);
    mesh->announced_ns = mesh->announce_at_ns - MESH_SECOND;
}

void mesh_hear_close(struct boot *boot)
{
    struct mesh *mesh = boot->mesh;

    for (uint32_t i = 0; i < mesh->n_ports; i++) {
        boot->env->oob->close_announcer(mesh->ports[i].announcer);
        mesh->ports[i].announcer = NULL;
    }
}

/* ---- receiving ---- */

bool mesh_candidate_is_fresh(const struct boot *boot,
                             const struct mesh_candidate *candidate)
{
    return candidate->heard_ns == WEFT_NEVER ||
           io_now(boot->env) - candidate->heard_ns < boot_limit(boot, MESH_FORGET_NS);
}

/* Returns the slot for a candidate: its own if it is known, or else a free one, or else that of the
 * candidate whose last announcement is the oldest. */
static struct mesh_candidate *place_for(struct mesh_peer *peer,
                                        const struct mesh_candidate *like)
{
    struct mesh_candidate *oldest = &peer->candidates[0];

    for (uint32_t i = 0; i < peer->n_candidates; i++) {
        struct mesh_candidate *candidate = &peer->candidates[i];

        if (candidate->nonce == like->nonce && candidate->at.port == like->at.port &&
            candidate->at.ifindex == like->at.ifindex &&
            io_ip_equal(&candidate->at.ip, &like->at.ip)) {
            return candidate;
        }
        oldest = candidate->heard_ns < oldest->heard_ns ? candidate : oldest;
    }
    return peer->n_candidates < MESH_CANDIDATES_MAX
               ? &peer->candidates[peer->n_candidates++]
               : oldest;
}

static void note(struct boot *boot, const struct mesh_port *port,
                 const struct record_announcement *announcement,
                 const struct io_endpoint *from)
{
    const struct record_self *other = &announcement->self;
    const struct record_self *self = &boot->mesh->self;
    struct mesh_candidate candidate = {.at = *from,
                                       .port = port->number,
                                       .peer_port = announcement->port,
                                       .nonce = other->identity.nonce,
                                       .heard_ns = io_now(boot->env)};
    struct mesh_candidate *place;
    struct mesh_peer *peer;

    if (other->n_members != self->n_members || other->n_ranks != self->n_ranks ||
        other->member == self->member) {
        boot->mesh->n_strange++;
        return;
    }
    peer = mesh_peer_of(boot, other->member);
    if (peer == NULL) {
        boot->mesh->n_strange++;
        return;
    }
    candidate.at.port = announcement->control;
    place = place_for(peer, &candidate);
    if (place->nonce != candidate.nonce) {
        mesh_announce_soon(boot);
    } else if (!mesh_candidate_is_fresh(boot, place)) {
        peer->has_lapsed = true;
    }
    *place = candidate;
}

static void hear_port(struct boot *boot, struct mesh_port *port)
{
    struct mesh *mesh = boot->mesh;
    uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES + 1];
    struct io_endpoint from;
    int error = 0;

    for (int n = 0; n < MESH_HEARD_MAX && error == 0 && port->announcer != NULL; n++) {
        struct record_announcement announcement;
        size_t n_bytes = 0;

        error =
            boot->env->oob->hear(port->announcer, bytes, sizeof(bytes), &n_bytes, &from);
        if (error != 0) {
            break;
        }
        if (n_bytes != RECORD_ANNOUNCEMENT_BYTES ||
            !record_announcement_is_ours(bytes, mesh->announce_key) ||
            record_decode_announcement(bytes, n_bytes, &announcement, NULL) != WEFT_OK) {
            mesh->n_strange++;
            continue;
        }
        note(boot, port, &announcement, &from);
    }
    if (error == 0 && port->announcer != NULL) {
        io_task_wake(&boot->task); /* receive the rest later; let other tasks run first */
    }
}

/* ---- sending ---- */

void mesh_announce_soon(struct boot *boot)
{
    struct mesh *mesh = boot->mesh;
    weft_ns at = mesh->announced_ns + MESH_SOON_NS;

    mesh->announce_at_ns = at < mesh->announce_at_ns ? at : mesh->announce_at_ns;
}

static void announce_on(struct boot *boot, struct mesh_port *port)
{
    struct mesh *mesh = boot->mesh;
    struct record_announcement announcement = {
        .self = mesh->self, .port = port->number, .control = mesh->control.port};
    uint16_t udp =
        boot->config.announce_port != 0 ? boot->config.announce_port : BOOT_ANNOUNCE_PORT;
    uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES];
    int error;

    if (port->announcer == NULL &&
        boot->env->oob->open_announcer(boot->env, port->ifindex, udp, &boot->task,
                                       &port->announcer) != 0) {
        port->announcer = NULL;
        return; /* retried next time, because the interface can still appear */
    }
    record_encode_announcement(&announcement, mesh->announce_key, bytes);
    error = boot->env->oob->announce(port->announcer, bytes, sizeof(bytes));
    if (error == ENODEV || error == ENXIO) {
        boot->env->oob->close_announcer(port->announcer);
        port->announcer = NULL;
    }
}

static weft_ns period(const struct boot *boot)
{
    const struct mesh *mesh = boot->mesh;

    if (io_now(boot->env) - boot->opened_ns < MESH_EAGER_FOR_NS) {
        return MESH_EAGER_NS;
    }
    return mesh->n_known < boot->n_members ? MESH_WAITING_NS : MESH_SECOND;
}

void mesh_hear(struct boot *boot)
{
    struct mesh *mesh = boot->mesh;
    weft_ns now = io_now(boot->env);

    for (uint32_t i = 0; i < mesh->n_ports; i++) {
        hear_port(boot, &mesh->ports[i]);
    }
    if (boot->config.mode == BOOT_NEIGHBOURS && now >= mesh->announce_at_ns) {
        mesh->announced_ns = now;
        mesh->announce_at_ns = now + period(boot);
        for (uint32_t i = 0; i < mesh->n_ports; i++) {
            announce_on(boot, &mesh->ports[i]);
        }
    }
}
