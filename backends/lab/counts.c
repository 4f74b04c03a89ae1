#include "backends/lab/counts.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"

static int64_t number_in(const char *path)
{
    struct weft_text text = {NULL, 0, 0};
    bool ok = weft_text_add_file(&text, path, 64) == 0 && text.n > 0;
    int64_t number = ok ? strtoll(text.bytes, NULL, 10) : IO_UNKNOWN;

    weft_text_fini(&text);
    return number;
}

int64_t lab_count(const char *device, enum world_program_count count)
{
    static const char *const files[] = {
        [WORLD_PROGRAM_SENT] = "sent_pkts",
        [WORLD_PROGRAM_RECEIVED] = "rcvd_pkts",
        [WORLD_PROGRAM_RETRIED] = "completer_retry_err",
        [WORLD_PROGRAM_OUT_OF_SEQUENCE] = "out_of_seq_request",
        [WORLD_PROGRAM_NOT_READY] = "send_rnr_err",
        [WORLD_PROGRAM_RETRY_EXCEEDED] = "retry_exceeded_err",
        [WORLD_PROGRAM_RNR_EXCEEDED] = "retry_rnr_exceeded_err",
    };
    char path[400];

    _Static_assert(WEFT_LENGTH(files) == WORLD_PROGRAM_N_COUNTS, "one file each");
    weft_format(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
                device, files[count]);
    return number_in(path);
}

int64_t lab_count_losses(const char *netdev)
{
    char path[256];

    weft_format(path, sizeof(path), "/sys/class/net/%s/carrier_down_count", netdev);
    return number_in(path);
}
