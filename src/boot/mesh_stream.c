/* The state of the stream to one neighbour. */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "boot/mesh.h"

struct mesh_peer *mesh_peer_of(struct boot *boot, uint32_t m)
{
    struct mesh_member *member = &boot->mesh->members[m];
    struct mesh_peer *peer = member->peer;

    weft_check(m != boot->config.rank);
    if (peer == NULL && boot->mesh->n_peers < MESH_PEERS_MAX) {
        peer = weft_calloc(1, sizeof(*peer));
        peer->member = m;
        peer->port = RECORD_PORT_NONE;
        peer->peer_port = RECORD_PORT_NONE;
        peer->backoff_ns = BOOT_BACKOFF_NS;
        peer->links_told = weft_calloc(boot->n_members, sizeof(*peer->links_told));
        peer->absent_told = weft_calloc(boot->n_members, sizeof(*peer->absent_told));
        peer->known = weft_calloc(boot->n_members, sizeof(*peer->known));
        boot->env->ops->random(boot->env, &peer->id, sizeof(peer->id));
        member->peer = peer;
        boot->mesh->n_peers++;
    }
    return peer;
}

void mesh_peer_free(struct boot *boot, struct mesh_peer *peer)
{
    boot->mesh->members[peer->member].peer = NULL;
    boot->mesh->n_peers--;
    frame_close(&peer->stream.link, peer->state != MESH_UP);
    free(peer->links_told);
    free(peer->absent_told);
    free(peer->known);
    free(peer);
}

void mesh_peer_enter(struct boot *boot, struct mesh_peer *peer, enum mesh_state next)
{
    static const char *const names[] = {"idle", "tcp", "challenge", "greet", "up"};

    weft_check(next == MESH_IDLE || next == peer->state + 1 ||
               (next == MESH_UP && peer->state == MESH_IDLE));
    if (next == MESH_UP || peer->state == MESH_UP) {
        weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                         next == MESH_UP ? "linked" : "unlinked",
                         "rank=%u peer=%u port=%u peer_port=%u", boot->config.rank,
                         peer->member, peer->port, peer->peer_port);
    } else {
        weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                         names[next], "rank=%u peer=%u attempt=%u", boot->config.rank,
                         peer->member, peer->attempt);
    }
    peer->state = next;
}

/* ---- the end of a stream, or of an attempt ---- */

void mesh_peer_retry(struct boot *boot, struct mesh_peer *peer)
{
    frame_close(&peer->stream.link, true);
    if (peer->state != MESH_IDLE) {
        mesh_peer_enter(boot, peer, MESH_IDLE);
    }
    peer->resume_ns = io_now(boot->env) + peer->backoff_ns;
    peer->backoff_ns = 2 * peer->backoff_ns < BOOT_BACKOFF_MAX_NS ? 2 * peer->backoff_ns
                                                                  : BOOT_BACKOFF_MAX_NS;
}

/* Counts a stream that ends. The peer drops it a little earlier if it has heard nothing either. */
static void count_silenced(struct boot *boot, struct mesh_peer *peer)
{
    weft_ns silence = io_now(boot->env) - peer->heard_ns;
    bool is_silenced = peer->was_quick && peer->heard_ns - peer->up_ns < MESH_QUICK_NS &&
                       silence >= boot_limit(boot, MESH_SILENT_NS / 2);

    peer->n_silenced = is_silenced ? peer->n_silenced + 1 : 0;
}

void mesh_peer_drop(struct boot *boot, struct mesh_peer *peer,
                    const struct weft_error *why)
{
    bool was_up = peer->state == MESH_UP;

    if (was_up) {
        count_silenced(boot, peer);
        peer->backoff_ns = BOOT_BACKOFF_NS;
        peer->is_suspect = boot->mesh->members[peer->member].gone == MESH_HERE;
        peer->suspect_ns = io_now(boot->env);
        peer->was_ended = why != NULL && why->status == WEFT_ERR_CLOSED &&
                          (why->sys_errno == 0 || why->sys_errno == ECONNRESET ||
                           why->sys_errno == EPIPE);
    }
    mesh_peer_retry(boot, peer);
    if (was_up) {
        peer->resume_ns = io_now(boot->env);
        io_task_wake(&boot->task);
    }
}
