/* The reference plugin's second part: messages. A receiver grants groups, a sender answers each
 * buffer of one with a header and its bytes, all on the one stream of the connection. */
#ifndef REFERENCE_DATA_H
#define REFERENCE_DATA_H

#include "reference_setup.h"

/* Moves up to n - *done bytes; -1: the connection failed, 0: not all yet, 1: all. */
static int pump(int fd, bool out, void *bytes, size_t n, size_t *done)
{
    while (*done < n) {
        ssize_t moved = out ? send(fd, (char *)bytes + *done, n - *done, MSG_NOSIGNAL)
                            : recv(fd, (char *)bytes + *done, n - *done, 0);

        if (moved == 0 || (moved < 0 && !would_block())) {
            return -1;
        }
        if (moved < 0) {
            return 0;
        }
        *done += (size_t)moved;
    }
    return 1;
}

static int progress_sender(struct comm *comm)
{
    int result = 1;

    while (result == 1 && comm->last - comm->first < GROUPS) {
        result =
            pump(comm->fd, false, &comm->incoming, sizeof(comm->incoming), &comm->n_read);
        if (result == 1) {
            comm->groups[comm->last++ % GROUPS] = (struct group){.grant = comm->incoming};
            comm->n_read = 0;
        }
    }
    while (result >= 0 && comm->queue != NULL) {
        struct request *request = comm->queue;
        size_t head = sizeof(request->header), at;

        result = 1;
        if (request->written < head) {
            result = pump(comm->fd, true, &request->header, head, &request->written);
        }
        if (result == 1) {
            at = request->written - head;
            result = pump(comm->fd, true, request->data[0], request->size[0], &at);
            request->written = head + at;
        }
        if (result != 1) {
            break;
        }
        request->is_done = true;
        comm->queue = request->next;
    }
    return result;
}

static int progress_receiver(struct comm *comm)
{
    size_t head = sizeof(comm->header);
    int result = 1;

    while (result == 1 && comm->grants_out != comm->last) {
        result = pump(comm->fd, true, &comm->grants[comm->grants_out % GROUPS],
                      sizeof(struct grant), &comm->grant_written);
        if (result == 1) {
            comm->grant_written = 0;
            comm->grants_out++;
        }
    }
    while (result >= 0) {
        struct request *request;
        size_t at;

        result = 1;
        if (comm->n_read < head) {
            result = pump(comm->fd, false, &comm->header, head, &comm->n_read);
        }
        if (result != 1) {
            break;
        }
        request = comm->receives[comm->header.group % GROUPS];
        at = comm->n_read - head;
        result = pump(comm->fd, false, request->data[comm->header.index],
                      comm->header.size, &at);
        comm->n_read = head + at;
        if (result == 1) {
            request->size[comm->header.index] = comm->header.size;
            request->is_done = ++request->n_in == request->n;
            comm->n_read = 0;
        }
    }
    return result;
}

static abi_status progress(struct comm *comm)
{
    int result = comm->is_sender ? progress_sender(comm) : progress_receiver(comm);

    return result < 0 ? ABI_REMOTE_ERROR : ABI_SUCCESS;
}

static struct request *take_request(struct comm *comm)
{
    for (int i = 0; i < REQUESTS; i++) {
        if (!comm->requests[i].is_used) {
            comm->requests[i] = (struct request){.is_used = true, .comm = comm};
            return &comm->requests[i];
        }
    }
    return NULL;
}

static abi_status ref_isend(void *opaque, void *data, size_t size, int tag, void *mhandle,
                            void *event, void **out)
{
    struct comm *comm = opaque;
    struct request *request;
    abi_status status;

    (void)mhandle, (void)event;
    *out = NULL;
    pthread_mutex_lock(&comm->lock);
    status = progress(comm);
    if (status == ABI_SUCCESS && comm->first != comm->last) {
        struct group *group = &comm->groups[comm->first % GROUPS];

        for (uint32_t i = 0; i < group->grant.n; i++) {
            if (group->is_matched[i] || group->grant.tags[i] != tag ||
                (request = take_request(comm)) == NULL) {
                continue;
            }
            group->is_matched[i] = true;
            request->data[0] = data;
            request->n = 1;
            request->size[0] =
                size < group->grant.sizes[i] ? size : group->grant.sizes[i];
            request->header = (struct header){comm->first, i, request->size[0]};
            if (comm->queue == NULL) {
                comm->queue = request;
            } else {
                comm->queue_end->next = request;
            }
            comm->queue_end = request;
            *out = request;
            if (++group->n_matched == group->grant.n) {
                comm->first++;
            }
            break;
        }
    }
    pthread_mutex_unlock(&comm->lock);
    return status;
}

static abi_status ref_irecv(void *opaque, int n, void **data, size_t *sizes, int *tags,
                            void **mhandles, void **events, void **out)
{
    struct comm *comm = opaque;
    struct request *request = NULL;

    (void)mhandles, (void)events;
    *out = NULL;
    pthread_mutex_lock(&comm->lock);
    while (comm->first != comm->last && comm->receives[comm->first % GROUPS] == NULL) {
        comm->first++;
    }
    if (comm->last - comm->first < GROUPS) {
        request = take_request(comm);
    }
    if (request != NULL) {
        struct grant *grant = &comm->grants[comm->last % GROUPS];

        memset(grant, 0, sizeof(*grant));
        grant->n = (uint32_t)n;
        request->n = n;
        for (int i = 0; i < n; i++) {
            grant->tags[i] = tags[i];
            grant->sizes[i] = sizes[i];
            request->data[i] = data[i];
            request->posted[i] = sizes[i];
        }
        comm->receives[comm->last++ % GROUPS] = request;
        *out = request;
    }
    pthread_mutex_unlock(&comm->lock);
    return ABI_SUCCESS;
}

static abi_status ref_iflush(void *opaque, int n, void **data, int *sizes,
                             void **mhandles, void **out)
{
    struct comm *comm = opaque;
    struct request *request;

    (void)n, (void)data, (void)sizes, (void)mhandles;
    pthread_mutex_lock(&comm->lock);
    request = take_request(comm);
    if (request != NULL) {
        request->is_done = request->is_flush = true;
    }
    pthread_mutex_unlock(&comm->lock);
    *out = request;
    return ABI_SUCCESS;
}

static abi_status ref_test(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;
    struct comm *comm = request->comm;
    abi_status status;

    *done = 0;
    pthread_mutex_lock(&comm->lock);
    status = progress(comm);
    if (request->is_done) {
        for (int i = 0; i < request->n && sizes != NULL; i++) {
            sizes[i] = (int)request->size[i];
        }
        for (uint32_t g = 0; g < GROUPS && !comm->is_sender && !request->is_flush; g++) {
            if (comm->receives[g] == request) {
                comm->receives[g] = NULL;
            }
        }
        request->is_used = false;
        *done = 1;
        status = ABI_SUCCESS;
    }
    pthread_mutex_unlock(&comm->lock);
    return status;
}

#endif
