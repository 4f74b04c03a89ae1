/* The reference plugin, which also opens a descriptor for each of some addresses that its host gets
 * one after the other, as a NIC in software does. A rank of three listens six times for a
 * communicator, so it has the last of them after the second of those that are made again. */
#define _GNU_SOURCE
#include "reference_setup.h"

#define ADDRESSES 5
#define LISTENS 6 /* between one address and the next */

static abi_status follow_listen(void *context, int device, void *memory, void **out)
{
    static _Atomic unsigned n_listens;
    unsigned n = ++n_listens;

    if (n % LISTENS == 0 && n / LISTENS <= ADDRESSES && open("/dev/null", O_RDONLY) < 0) {
        return ABI_SYSTEM_ERROR;
    }
    return ref_listen(context, device, memory, out);
}

#define ref_listen follow_listen
#include "reference.c"
