/* The handle is an address, which only its own process can follow. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad_listen(void *context, int device, void *memory, void **out)
{
    struct handle *kept = malloc(ABI_HANDLE_BYTES);
    abi_status status = ref_listen(context, device, kept, out);

    memset(memory, 0, ABI_HANDLE_BYTES);
    memcpy(memory, &kept, sizeof(kept));
    return status;
}

static abi_status bad_connect(void *context, int device, void *memory, void **out,
                              struct abi_device_handle **offload)
{
    struct handle *kept;

    memcpy(&kept, memory, sizeof(kept));
    return ref_connect(context, device, kept, out, offload);
}

SPOIL(net)
{
    net->listen = bad_listen;
    net->connect = bad_connect;
}
