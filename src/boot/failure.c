/* Failures and absent members: what all parts of the rendezvous and of the mesh report. */
#include "base/text.h"
#include "boot/mesh.h"

weft_status boot_fail(struct boot *boot, weft_status status, uint32_t rank,
                      const char *message)
{
    char ip[IO_IP_TEXT_BYTES] = "none";

    if (boot->config.mode == BOOT_RENDEZVOUS) {
        io_ip_format(&boot->config.rendezvous.ip, ip, sizeof(ip));
    }
    weft_fail(&boot->error, status, WEFT_PHASE_BOOT, "rank %u %s", rank, message);
    weft_error_object(&boot->error, "rank %u of %u", boot->config.rank,
                      boot->config.n_ranks);
    weft_error_int(&boot->error, WEFT_VALUE_RANK, rank);
    weft_error_text(&boot->error, WEFT_VALUE_RENDEZVOUS, ip);
    return boot->error.status;
}

void boot_own_errno(struct boot *boot, const struct weft_error *why)
{
    if (frame_failed_here(why)) {
        boot->error.sys_errno = why->sys_errno;
    }
}

uint32_t boot_first(const struct boot *boot)
{
    uint32_t first = 0;

    while (boot->mesh != NULL && boot->mesh->members[first].is_absent) {
        first++; /* this process is never absent */
    }
    return first;
}

void mesh_give_up(struct boot *boot, uint32_t m, const char *reason)
{
    struct message_give_up give_up = {.rank = m};
    uint8_t body[CODEC_BODY_MAX];
    size_t n_bytes;

    weft_format(give_up.reason, sizeof(give_up.reason), "%s", reason);
    n_bytes = message_encode_give_up(&give_up, body);
    for (uint32_t i = 0; i < boot->n_members; i++) {
        struct mesh_peer *peer = boot->mesh->members[i].peer;

        if (peer != NULL && peer->state == MESH_UP &&
            frame_send(&peer->stream.link, CODEC_GIVE_UP, body, n_bytes) &&
            frame_flush(&peer->stream.link, NULL) < 0) {
            peer->is_suspect = true; /* the neighbour is gone */
        }
    }
}

void mesh_miss(struct boot *boot, uint32_t m)
{
    struct mesh *mesh = boot->mesh;
    struct mesh_member *member = &mesh->members[m];

    if (member->is_absent) {
        return;
    }
    member->is_absent = true;
    mesh->n_known += member->is_known ? 0 : 1;
    /* The limit of the remaining members counts from now. */
    mesh->known_ns = io_now(boot->env);
    weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                     "absent", "rank=%u", m);
    io_task_wake(&boot->task);
}

weft_status mesh_blame(struct boot *boot, weft_status status, uint32_t m,
                       const char *what)
{
    if (boot->config.may_miss && m != boot->config.rank) {
        mesh_miss(boot, m);
        return WEFT_AGAIN;
    }
    mesh_give_up(boot, m, what);
    return boot_fail(boot, status, m, what);
}
