/* The listener of a process for streams from the other processes of its host. Anyone can connect,
 * so clients wait here until they have proved that they know the job's key. client_place() chooses
 * the client that is refused when there are too many. */
#include <errno.h>

#include "base/check.h"
#include "base/text.h"
#include "io/oob.h"
#include "transport/inside_private.h"

#define STRANGERS_MAX 32u /* places besides one for each process of the host */

/* Returns an address at which processes of this host can connect: one of the management network,
 * if there is one. */
static bool own_address(struct io_env *env, struct io_ip *out)
{
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    bool found = false;

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        const struct io_netdev *netdev = &info->netdevs[i];

        for (uint32_t k = 0; k < netdev->n_addresses; k++) {
            const struct io_ip *ip = &netdev->addresses[k].ip;

            if (!io_ip_is_link_local(ip) && (!found || netdev->is_management)) {
                *out = *ip;
                found = true;
                if (netdev->is_management) {
                    return true;
                }
            }
        }
    }
    return found;
}

weft_status inside_listen(struct inside *inside, struct weft_error *error)
{
    struct io_env *env = inside->env;
    struct io_endpoint at = {.port = 0};
    int sys_errno;

    if (!own_address(env, &at.ip)) {
        return WEFT_OK; /* peers cannot connect, so they use the network */
    }
    inside->n_strangers = STRANGERS_MAX + inside->n_locals;
    inside->strangers = weft_calloc(inside->n_strangers, sizeof(*inside->strangers));
    sys_errno =
        env->oob->listen(env, &at, 64, &inside->door, &inside->listener, &inside->at);
    return sys_errno == 0 ? WEFT_OK
                          : weft_fail_errno(error, sys_errno, WEFT_PHASE_INSIDE,
                                            "the proxy of rank %u cannot listen",
                                            inside->config.rank);
}

/* Advances authentication of a client. Once it is authenticated, its link becomes a stream. */
static void serve(struct inside *inside, struct client *client)
{
    struct weft_error why = {0};
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && client->state != CLIENT_FACTS) {
        status = client_step(client, &inside->identity, &why);
    }
    if (status == WEFT_AGAIN && io_now(inside->env) >= client->deadline_ns) {
        status = weft_fail(&why, WEFT_ERR_TIMEOUT, PROVE_TOO_LATE, "not in time");
    }
    if (status == WEFT_OK) {
        if (inside_stream_take_over(inside, client)) {
            client_fini(client, false);
            return;
        }
        status = weft_fail(&why, WEFT_ERR_LIMIT, PROVE_NO_PLACE, "too many streams");
    }
    if (status < 0) {
        client_refuse(client, &why);
    }
}

static void admit(struct inside *inside, struct io_stream *stream)
{
    struct io_env *env = inside->env;
    struct weft_error why = {0};
    struct io_endpoint source;
    struct client *client;

    env->oob->endpoints(stream, NULL, &source);
    client = client_place(inside->strangers, inside->n_strangers, env, &inside->identity,
                          &source.ip);
    weft_check(client != NULL); /* an authenticated client leaves its place at once */
    if (client->state != CLIENT_NONE) {
        weft_fail(&why, WEFT_ERR_LIMIT, PROVE_NO_PLACE, "too many clients wait");
        client_refuse(client, &why);
    }
    client_start(client, env, stream, io_now(env) + inside_prove_ns(inside));
    /* Read what it has sent at once, because the next client may take its place. */
    serve(inside, client);
}

/* Accepts waiting connections. Returns when to retry after an error. */
static weft_ns accept_all(struct inside *inside)
{
    struct io_env *env = inside->env;
    struct io_stream *stream = NULL;
    uint32_t n = 0;
    int result;

    while ((result = client_accept(env, inside->listener, &inside->door, &n, &stream)) ==
           0) {
        admit(inside, stream);
    }
    return result == EAGAIN ? WEFT_NEVER : io_now(env) + CLIENT_PAUSE_NS;
}

void inside_welcome(struct inside *inside)
{
    weft_ns next = accept_all(inside);

    for (uint32_t i = 0; i < inside->n_strangers; i++) {
        struct client *client = &inside->strangers[i];

        if (client->state != CLIENT_NONE) {
            serve(inside, client);
        }
        if (client->state != CLIENT_NONE && client->deadline_ns < next) {
            next = client->deadline_ns;
        }
    }
    io_task_deadline(&inside->door, next);
}

void inside_door_close(struct inside *inside)
{
    for (uint32_t i = 0; inside->listener != NULL && i < inside->n_strangers; i++) {
        if (inside->strangers[i].state != CLIENT_NONE) {
            client_fini(&inside->strangers[i], true);
        }
    }
    if (inside->listener != NULL) {
        inside->env->oob->close_listener(inside->listener);
        inside->listener = NULL;
    }
}
