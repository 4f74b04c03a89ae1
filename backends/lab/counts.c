#include "backends/lab/counts.h"

#include <stdlib.h>
#include <string.h>

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

/* Reads a file of port 1 of the device, without its newline; "" if it cannot be read. */
static void read_of_port(const char *device, const char *name, char *out, size_t n_bytes)
{
    struct weft_text text = {NULL, 0, 0};
    char path[400];

    weft_format(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/%s", device, name);
    weft_format(out, n_bytes, "%s",
                weft_text_add_file(&text, path, 64) == 0 && text.n > 0 ? text.bytes : "");
    out[strcspn(out, "\n")] = '\0';
    weft_text_fini(&text);
}

bool lab_is_active(const char *device)
{
    char state[64];

    read_of_port(device, "state", state, sizeof(state));
    return strcmp(state, "4: ACTIVE") == 0;
}

bool lab_gid(const char *device, int index, struct io_ip *out, int *out_type)
{
    char name[64], text[64];

    weft_format(name, sizeof(name), "gids/%d", index);
    read_of_port(device, name, text, sizeof(text));
    if (!io_ip_parse(text, out)) {
        return false;
    }
    weft_format(name, sizeof(name), "gid_attrs/types/%d", index);
    read_of_port(device, name, text, sizeof(text));
    *out_type = strcmp(text, "RoCE v2") == 0 ? 2 : text[0] != '\0' ? 1 : 0;
    return true;
}
