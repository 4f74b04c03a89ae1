/* Set-up like that of NCCL's service thread: in rounds by distance. Each rank listens for a
 * whole round before its handles are sent, then calls connect and accept alternately until all
 * have a comm. The handles of each round are stored in the memory of the previous round. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "plugincheck/private.h"

#define GUARD 0x3c

static uint32_t service_of(const struct check_comm *comm)
{
    return 2 * comm->rank;
}

static void listen_one(struct check_comm *comm, struct check_stream *stream)
{
    const struct check *check = comm->check;
    abi_status check_call_status;
    uint8_t handle[CHECK_HANDLE_BYTES];

    memset(handle, GUARD, sizeof(handle));
    if (CHECK_CALL(check, service_of(comm), CALL_LISTEN,
                   check_net_listen(check->net, comm->context,
                                    (int)(stream->channel % (uint32_t)check->n_devices),
                                    handle, &stream->listener)) != ABI_SUCCESS ||
        stream->listener == NULL) {
        check_broken(
            check,
            check_blame(check, comm->n_listens > 0 ? "listen.several" : "listen.comm"),
            "listen gave %d and comm %p, after %llu others", check_call_status,
            stream->listener, (unsigned long long)comm->n_listens);
    }
    comm->n_listens++;
    for (size_t i = ABI_HANDLE_BYTES; i < sizeof(handle); i++) {
        if (handle[i] != GUARD) {
            check_broken(check, "listen.handle-size", "listen wrote byte %zu", i);
        }
    }
    memcpy(check->shared->handles[comm->index][comm->rank][stream->from][stream->channel],
           handle, ABI_HANDLE_BYTES);
    memset(handle, GUARD, sizeof(handle)); /* it was copied */
}

/* Calls connect once. Returns true once there is a comm. */
static bool connect_one(struct check_comm *comm, struct check_stream *stream)
{
    const struct check *check = comm->check;
    /* Any device, because NCCL chooses the best for this rank without asking where the peer is. */
    int device = (int)((stream->channel + comm->rank) % (uint32_t)check->n_devices);
    abi_status check_call_status;

    if (stream->comm != NULL) {
        return true;
    }
    if (CHECK_CALL(check, service_of(comm), CALL_CONNECT,
                   check_net_connect(check->net, comm->context, device, stream->handle,
                                     &stream->comm)) != ABI_SUCCESS) {
        check_broken(check, check_blame(check, "connect.result"),
                     "connect failed with %d", check_call_status);
    }
    for (size_t i = ABI_HANDLE_BYTES; i < CHECK_HANDLE_BYTES; i++) {
        if (stream->handle[i] != GUARD) {
            check_broken(check, "connect.handle-size", "connect wrote byte %zu", i);
        }
    }
    if (stream->comm == NULL) {
        return false;
    }
    check_moved(check);
    memset(stream->handle, 0xff, ABI_HANDLE_BYTES); /* the memory belongs to NCCL again */
    if (comm->closes_at_once) {
        check_comm_close_stream(comm, stream);
    }
    return true;
}

static void close_listener(struct check_comm *comm, struct check_stream *stream)
{
    const struct check *check = comm->check;
    abi_status check_call_status;

    if (stream->listener == NULL) {
        return;
    }
    if (CHECK_CALL(check, service_of(comm), CALL_CLOSE_LISTEN,
                   check->net->close_listen(stream->listener)) != ABI_SUCCESS) {
        check_broken(check, "close.result", "closeListen failed with %d",
                     check_call_status);
    }
    stream->listener = NULL;
}

static bool accept_one(struct check_comm *comm, struct check_stream *stream)
{
    const struct check *check = comm->check;
    struct abi_device_handle *none = NULL;
    abi_status check_call_status;

    if (stream->comm != NULL) {
        return true;
    }
    if (CHECK_CALL(check, service_of(comm), CALL_ACCEPT,
                   check->net->accept(stream->listener, &stream->comm, &none)) !=
        ABI_SUCCESS) {
        check_broken(check, check_blame(check, "accept.result"), "accept failed with %d",
                     check_call_status);
    }
    if (stream->comm == NULL) {
        return false;
    }
    check_moved(check);
    if (!comm->keeps_listeners) {
        close_listener(comm, stream);
    }
    if (comm->closes_at_once) {
        check_comm_close_stream(comm, stream);
    }
    return true;
}

static void register_one(struct check_comm *comm, struct check_stream *stream)
{
    const struct check *check = comm->check;
    abi_status check_call_status;

    stream->buffer = weft_calloc(1, CHECK_BUFFER_BYTES);
    if (CHECK_CALL(check, service_of(comm), CALL_REG_MR,
                   check->net->reg_mr(stream->comm, stream->buffer, CHECK_BUFFER_BYTES,
                                      ABI_PTR_HOST, &stream->mhandle)) != ABI_SUCCESS) {
        check_broken(check, "memory.result", "regMr failed with %d", check_call_status);
    }
}

/* Initializes the streams of one round, [2 * (CHECK_CHANNELS + 1)]: receives, then sends. */
static void round_of(struct check_comm *comm, struct check_stream *streams,
                     uint32_t distance)
{
    const struct check *check = comm->check;
    uint32_t n = check->n_ranks;
    uint32_t per_direction = CHECK_CHANNELS + 1;

    for (uint32_t i = 0; i < 2 * per_direction; i++) {
        bool is_sender = i >= per_direction;

        streams[i] = (struct check_stream){
            .check = check,
            .thread = service_of(comm),
            .from = is_sender ? comm->rank : (comm->rank + n - distance) % n,
            .to = is_sender ? (comm->rank + distance) % n : comm->rank,
            .channel = i % per_direction,
            .communicator = comm->index,
            .is_sender = is_sender,
            .is_quiet = i % per_direction == CHECK_CHANNELS,
        };
    }
}

static void connect_round(struct check_comm *comm, struct check_stream *streams,
                          uint8_t (*memory)[CHECK_HANDLE_BYTES])
{
    const struct check *check = comm->check;
    uint32_t per_direction = CHECK_CHANNELS + 1;
    struct check_patience patience = {0};
    bool all = false;

    for (uint32_t c = 0; c < per_direction; c++) {
        struct check_stream *stream = &streams[per_direction + c];

        memset(memory[c], GUARD, CHECK_HANDLE_BYTES);
        memcpy(memory[c], check->shared->handles[comm->index][stream->to][comm->rank][c],
               ABI_HANDLE_BYTES);
        stream->handle = memory[c];
    }
    /* Every rank calls connect before any rank calls accept. */
    for (uint32_t c = 0; c < per_direction; c++) {
        (void)connect_one(comm, &streams[per_direction + c]);
    }
    check_meet(check);
    while (!all) {
        all = true;
        for (uint32_t i = 0; i < 2 * per_direction; i++) {
            bool is_up = streams[i].is_sender ? connect_one(comm, &streams[i])
                                              : accept_one(comm, &streams[i]);

            all = all && is_up;
        }
        if (!all) {
            check_pause(check, &patience);
        }
    }
}

void check_comm_open(struct check_comm *comm)
{
    const struct check *check = comm->check;
    uint32_t per_direction = CHECK_CHANNELS + 1;
    uint8_t(*memory)[CHECK_HANDLE_BYTES] = weft_calloc(per_direction, CHECK_HANDLE_BYTES);

    atomic_store(&check->shared->is_setting_up, 1);
    check_init(check, service_of(comm), 1000 + comm->index, &comm->context);
    comm->streams = weft_calloc(CHECK_STREAMS, sizeof(*comm->streams));
    for (uint32_t distance = 1; distance < check->n_ranks; distance++) {
        struct check_stream *streams = &comm->streams[comm->n_streams];

        round_of(comm, streams, distance);
        for (uint32_t c = 0; c < per_direction; c++) {
            listen_one(comm, &streams[c]);
        }
        check_meet(check);
        if (distance > 1 && check_blame(check, NULL) == NULL) {
            /* From the second round on, the memory of handles is reused. */
            check_meet(check);
            atomic_store(&check->shared->blame, "connect.reused-memory");
        }
        connect_round(comm, streams, memory);
        comm->n_streams += 2 * per_direction;
        check_meet(check);
    }
    if (strcmp(check_blame(check, ""), "connect.reused-memory") == 0) {
        check_meet(check);
        atomic_store(&check->shared->blame, NULL);
    }
    for (uint32_t i = 0; i < comm->n_streams && !comm->closes_at_once; i++) {
        register_one(comm, &comm->streams[i]);
    }
    check_meet(check);
    atomic_store(&check->shared->is_setting_up, 0);
    free(memory);
}

void check_comm_close_listeners(struct check_comm *comm)
{
    for (uint32_t i = 0; i < comm->n_streams; i++) {
        close_listener(comm, &comm->streams[i]);
    }
    comm->keeps_listeners = false;
}

void check_comm_close_stream(struct check_comm *comm, struct check_stream *stream)
{
    const struct check *check = comm->check;
    bool is_sender = stream->is_sender;
    abi_status check_call_status;

    if (stream->buffer != NULL &&
        CHECK_CALL(check, service_of(comm), CALL_DEREG_MR,
                   check->net->dereg_mr(stream->comm, stream->mhandle)) != ABI_SUCCESS) {
        check_broken(check, "memory.result", "deregMr failed with %d", check_call_status);
    }
    if (CHECK_CALL(check, service_of(comm), is_sender ? CALL_CLOSE_SEND : CALL_CLOSE_RECV,
                   is_sender ? check->net->close_send(stream->comm)
                             : check->net->close_recv(stream->comm)) != ABI_SUCCESS) {
        check_broken(
            check, stream->is_quiet ? check_blame(check, "close.result") : "close.result",
            "close failed with %d", check_call_status);
    }
    free(stream->buffer);
    stream->buffer = NULL;
    stream->is_closed = true;
    check_moved(check);
}

void check_comm_close(struct check_comm *comm)
{
    const struct check *check = comm->check;
    abi_status check_call_status;

    for (uint32_t i = 0; i < comm->n_streams; i++) {
        if (!comm->streams[i].is_closed) {
            check_comm_close_stream(comm, &comm->streams[i]);
        }
    }
    free(comm->streams);
    comm->streams = NULL;
    comm->n_streams = 0;
    if (CHECK_CALL(check, service_of(comm), CALL_FINALIZE,
                   check_net_finalize(check->net, comm->context)) != ABI_SUCCESS) {
        check_broken(check, check_blame(check, "close.result"), "finalize failed with %d",
                     check_call_status);
    }
}
