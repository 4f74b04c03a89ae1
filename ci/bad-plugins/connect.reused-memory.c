/* Knows a connection by where its handle lies, for ever. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static struct {
    void *memory, *comm;
} known[1024];

static abi_status bad(void *context, int device, void *handle, void **out,
                      struct abi_device_handle **offload)
{
    abi_status status;
    int i;

    for (i = 0; i < 1024 && known[i].memory != NULL; i++) {
        if (known[i].memory == handle) {
            *out = known[i].comm;
            return ABI_SUCCESS;
        }
    }
    status = ref_connect(context, device, handle, out, offload);
    if (*out != NULL) {
        known[i].memory = handle;
        known[i].comm = *out;
    }
    return status;
}

SPOIL(net)
{
    net->connect = bad;
}
