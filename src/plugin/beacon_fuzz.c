/* Fuzzes the beacon decoder with arbitrary bytes, unchanged and with a valid MAC. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "plugin/beacon.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks that a beacon encodes to the same bytes again. */
static void decode(const uint8_t *bytes, size_t n, const uint8_t key[AUTH_KEY_BYTES])
{
    uint8_t again[IO_ANNOUNCEMENT_MAX];
    struct beacon beacon;
    if (beacon_decode(bytes, n, key, &beacon) != WEFT_OK) {
        return;
    }
    weft_check(beacon_encode(&beacon, key, again) == n);
    weft_check(memcmp(bytes, again, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t key[AUTH_KEY_BYTES];
    beacon_key(NULL, key);
    if (size > IO_ANNOUNCEMENT_MAX) {
        return 0; /* datagrams of this size are not passed on */
    }
    /* Exactly this size, so that a read past the end is detected. */
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    weft_check(bytes != NULL);
    memcpy(bytes, data, size);
    decode(bytes, size, key);
    if (size > AUTH_MAC_BYTES) {
        size_t n = size - AUTH_MAC_BYTES;
        auth_prove(key, AUTH_ANNOUNCEMENT, bytes, n, NULL, 0, bytes + n);
        decode(bytes, size, key);
    }
    free(bytes);
    return 0;
}
