/* The listener of boot: unauthenticated clients under limits, until they are members. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "boot/private.h"
#include "io/oob.h"

/* Limits logging, because a log whose reader is blocked would delay the refusals. */
#define LOG_EVERY_NS INT64_C(1000000000)

weft_status boot_door_open(struct boot *boot, struct boot_door *door,
                           const struct io_endpoint *at, struct io_endpoint *out_at,
                           struct weft_error *error)
{
    int result;

    door->n_strangers = BOOT_STRANGERS_MAX + boot->n_members;
    /* Slots that were never used are neither cleared nor read, because most listeners get few
     * clients. */
    door->strangers = weft_alloc(door->n_strangers * sizeof(*door->strangers));
    auth_boot_key(boot->config.job_key, door->identity.key);
    result =
        boot->env->oob->listen(boot->env, at, 128, &boot->task, &door->listener, out_at);
    if (result != 0) {
        char ip[IO_IP_TEXT_BYTES];

        return weft_fail_errno(error, result, WEFT_PHASE_BOOT, "listen on %s port %u",
                               io_ip_format(&at->ip, ip, sizeof(ip)), at->port);
    }
    return WEFT_OK;
}

static void log_refusal(struct boot *boot, struct boot_door *door,
                        const struct weft_error *error)
{
    weft_ns now = io_now(boot->env);

    if (now < door->next_log_ns) {
        door->n_unlogged++;
        return;
    }
    door->next_log_ns = now + LOG_EVERY_NS;
    weft_log(boot->env->log, WEFT_LOG_WARN,
             "boot: %s refused a client in %s: %s (%llu more since the last line)",
             boot->env->name, weft_phase_name(error->phase), error->message,
             (unsigned long long)door->n_unlogged);
    door->n_unlogged = 0;
}

void boot_door_refuse(struct boot *boot, struct boot_door *door, struct client *client,
                      const struct weft_error *error)
{
    if (error->status != WEFT_ERR_CLOSED) { /* a probe of a neighbour closes at once */
        log_refusal(boot, door, error);
    }
    client_refuse(client, error);
}

static void admit(struct boot *boot, struct boot_door *door, struct io_stream *stream)
{
    struct weft_error error = {0};
    struct io_endpoint source;
    struct client *client;

    if (door->n_used < door->n_strangers &&
        client_find(door->strangers, door->n_used, CLIENT_NONE) == NULL) {
        memset(&door->strangers[door->n_used++], 0, sizeof(*door->strangers));
    }
    boot->env->oob->endpoints(stream, NULL, &source);
    client = client_place(door->strangers, door->n_used, boot->env, &door->identity,
                          &source.ip);
    if (client == NULL) { /* every slot belongs to an authenticated client */
        boot->env->oob->close(stream, true);
        return;
    }
    if (client->state != CLIENT_NONE) {
        weft_fail(&error, WEFT_ERR_LIMIT, PROVE_NO_PLACE, "too many clients wait");
        boot_door_refuse(boot, door, client, &error);
    }
    client_start(client, boot->env, stream,
                 io_now(boot->env) + boot_limit(boot, BOOT_AUTHENTICATE_NS));
    /* Read what it has sent at once, because the next client can take its slot. */
    if (client_step(client, &door->identity, &error) < 0) {
        boot_door_refuse(boot, door, client, &error);
    }
}

void boot_door_welcome(struct boot *boot, struct boot_door *door)
{
    struct io_stream *stream = NULL;
    weft_ns now = io_now(boot->env);
    uint32_t n = 0;
    int result;

    if (now < door->resume_ns) {
        return;
    }
    door->resume_ns = 0;
    while ((result = client_accept(boot->env, door->listener, &boot->task, &n,
                                   &stream)) == 0) {
        door->short_errno = 0;
        admit(boot, door, stream);
    }
    door->short_errno = result == EAGAIN ? 0 : result;
    if (result != EAGAIN) {
        door->resume_ns = now + CLIENT_PAUSE_NS;
    }
}

/* Advances a client. Returns WEFT_OK once it has authenticated; `out` is then its first message. */
static weft_status serve(struct boot *boot, struct boot_door *door, struct client *client,
                         struct frame *out, struct weft_error *error)
{
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && client->state != CLIENT_FACTS) {
        status = client_step(client, &door->identity, error);
    }
    if (status == WEFT_OK) {
        status = frame_receive(&client->link, out, error);
    }
    if (status == WEFT_AGAIN && io_now(boot->env) >= client->deadline_ns) {
        status = weft_fail(error, WEFT_ERR_TIMEOUT, WEFT_PHASE_AUTHENTICATE,
                           "not authenticated in time");
    }
    return status;
}

struct client *boot_door_next(struct boot *boot, struct boot_door *door, uint32_t *at,
                              struct frame *out)
{
    while (*at < door->n_used) {
        struct client *client = &door->strangers[(*at)++];
        struct weft_error error = {0};
        weft_status status;

        if (client->state == CLIENT_NONE) {
            continue;
        }
        status = serve(boot, door, client, out, &error);
        if (status == WEFT_OK) {
            return client;
        }
        if (status < 0) {
            boot_door_refuse(boot, door, client, &error);
        }
    }
    return NULL;
}

void boot_door_hand_over(struct client *client, struct boot_stream *out)
{
    frame_move(&client->link, out->rx, sizeof(out->rx), out->tx, sizeof(out->tx));
    out->link = client->link;
    client->link.stream = NULL;
    client_fini(client, false);
}

weft_ns boot_door_deadline(const struct boot_door *door)
{
    weft_ns at = door->resume_ns != 0 ? door->resume_ns : WEFT_NEVER;

    for (size_t i = 0; i < door->n_used; i++) {
        const struct client *client = &door->strangers[i];

        if (client->state != CLIENT_NONE && client->deadline_ns < at) {
            at = client->deadline_ns;
        }
    }
    return at;
}

void boot_door_close(struct boot *boot, struct boot_door *door)
{
    for (size_t i = 0; i < door->n_used; i++) {
        if (door->strangers[i].state != CLIENT_NONE) {
            client_fini(&door->strangers[i], true);
        }
    }
    free(door->strangers);
    boot->env->oob->close_listener(door->listener);
    auth_forget(&door->identity, sizeof(door->identity));
}
