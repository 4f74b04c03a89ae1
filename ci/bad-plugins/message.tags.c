/* Fills the buffers of a group in order, whatever the tags. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque, void *data, size_t size, int tag, void *mhandle,
                      void *event, void **out)
{
    struct comm *comm = opaque;

    if (comm->first != comm->last) {
        struct group *group = &comm->groups[comm->first % GROUPS];

        for (uint32_t i = group->grant.n; i-- > 0;) {
            tag = group->is_matched[i] ? tag : group->grant.tags[i];
        }
    }
    return ref_isend(comm, data, size, tag, mhandle, event, out);
}

SPOIL(net)
{
    net->isend = bad;
}
