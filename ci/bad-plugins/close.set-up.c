/* Gives an accepted connection away some looks after it came, if its peer is still there. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

#define LOOKS 20
#define HELD 256

static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *listener;
    struct comm *comm;
    int n_looks;
} held[HELD];

/* With the lock: the place of `listener`, or a free one. */
static int place_of(void *listener)
{
    int place = 0;

    for (int i = 0; i < HELD; i++) {
        if (held[i].comm == NULL) {
            place = i;
        } else if (held[i].listener == listener) {
            return i;
        }
    }
    return place;
}

static abi_status bad(void *listener, void **out, struct abi_device_handle **offload)
{
    abi_status status = ABI_SUCCESS;
    char byte;
    int place;

    *out = NULL;
    pthread_mutex_lock(&held_lock);
    place = place_of(listener);
    if (held[place].comm == NULL) {
        void *comm = NULL;

        status = ref_accept(listener, &comm, offload);
        held[place].listener = listener;
        held[place].comm = comm;
        held[place].n_looks = 0;
    } else if (recv(held[place].comm->fd, &byte, 1, MSG_PEEK) == 0) {
        status = ABI_REMOTE_ERROR;
    } else if (++held[place].n_looks == LOOKS) {
        *out = held[place].comm;
        held[place].comm = NULL;
    }
    pthread_mutex_unlock(&held_lock);
    return status;
}

SPOIL(net)
{
    net->accept = bad;
}
