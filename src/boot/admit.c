/* Rank 0's door: strangers under limits, until they are ranks. */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "boot/private.h"

static void drop(struct boot *boot, struct client *client, const struct weft_error *error)
{
    weft_log(boot->env->log, WEFT_LOG_WARN, "rendezvous: a client was refused in %s: %s",
             error->phase, error->message);
    client_refuse(client, error);
}

static void admit(struct boot *boot, struct io_stream *stream)
{
    struct boot_server *server = boot->server;
    struct client *slot = &server->strangers[0];
    struct weft_error error = {0};

    for (size_t i = 0; i < BOOT_STRANGERS_MAX; i++) {
        struct client *client = &server->strangers[i];

        if (client->state == CLIENT_NONE) {
            slot = client;
            break;
        }
        slot = client->arrival < slot->arrival ? client : slot;
    }
    if (slot->state != CLIENT_NONE) {
        weft_fail(&error, WEFT_ERR_LIMIT, "limit", "too many clients wait");
        drop(boot, slot, &error);
    }
    client_start(slot, boot->env, stream, io_now(boot->env) + BOOT_AUTHENTICATE_NS);
    slot->arrival = ++server->arrivals;
}

/* The client proved that it knows the job key; its first word must be JOIN. */
static weft_status take_join(struct boot *boot, struct client *client,
                             struct weft_error *error)
{
    struct boot_server *server = boot->server;
    struct message_join join;
    struct frame frame;
    struct boot_stream *stream;
    weft_status status = frame_receive(&client->link, &frame, error);

    if (status != WEFT_OK) {
        return status;
    }
    if (frame.type != CODEC_JOIN) {
        return weft_fail(error, WEFT_ERR_PROTOCOL, "join", "a %s message instead of join",
                         codec_type_name(frame.type));
    }
    status = message_decode_join(frame.body, frame.n_bytes, boot->config.n_ranks, &join,
                                 error);
    if (status == WEFT_OK && server->ranks[join.rank].joined) {
        status = codec_bad_field(error, "join", "rank", join.rank, "is here already");
    }
    if (status != WEFT_OK) {
        return status;
    }
    stream = weft_calloc(1, sizeof(*stream));
    frame_move(&client->link, stream->rx, sizeof(stream->rx), stream->tx,
               sizeof(stream->tx));
    stream->link = client->link;
    client->link.stream = NULL;
    client_fini(client, false);
    server->ranks[join.rank].stream = stream;
    server->ranks[join.rank].joined = true;
    server->n_joined++;
    server->joined_ns = io_now(boot->env);
    weft_trace_event(boot->env->trace, server->joined_ns, boot->env->name, "boot", "join",
                     "rank=%u joined=%u", join.rank, server->n_joined);
    return WEFT_OK;
}

static void serve(struct boot *boot, struct client *client)
{
    struct weft_error error = {0};
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && client->state != CLIENT_FACTS &&
           client->state != CLIENT_NONE) {
        status = client_step(client, &boot->server->identity, &error);
    }
    if (status == WEFT_OK && client->state == CLIENT_FACTS) {
        status = take_join(boot, client, &error);
    }
    if (status == WEFT_AGAIN && io_now(boot->env) >= client->deadline_ns) {
        status = weft_fail(&error, WEFT_ERR_TIMEOUT, "authenticate",
                           "not authenticated in time");
    }
    if (status < 0) {
        drop(boot, client, &error);
    }
}

void boot_server_welcome(struct boot *boot)
{
    struct boot_server *server = boot->server;
    struct io_stream *stream = NULL;
    int result = 0;

    for (int n = 0; n < 256 && (result == 0 || result == ECONNABORTED || result == EINTR);
         n++) {
        result = boot->env->oob->accept(server->listener, &boot->task, &stream);
        if (result == 0) {
            admit(boot, stream);
        }
    }
    for (size_t i = 0; i < BOOT_STRANGERS_MAX; i++) {
        if (server->strangers[i].state != CLIENT_NONE) {
            serve(boot, &server->strangers[i]);
        }
    }
}
