/* Fuzzes the decoder of CUDA IPC messages with arbitrary bytes. Whatever decodes must encode to
 * the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "ipc/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t out[IPC_MESSAGE_MAX];
    struct ipc_message decoded;
    /* An exact copy, so that a read past the end is detected. */
    uint8_t *bytes = malloc(size > 0 ? size : 1);

    if (bytes == NULL || size > IPC_MESSAGE_MAX) {
        free(bytes);
        return 0;
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    if (ipc_decode(bytes, size, &decoded, NULL) == WEFT_OK) {
        weft_check(ipc_encode(&decoded, out) == size);
        weft_check(memcmp(out, bytes, size) == 0);
    }
    free(bytes);
    return 0;
}
