/* Decodes any JSON as a record that another process sent. */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "run/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct host_row rows[2] = {{.repeat = 1, .size_bytes = 8},
                                        {.repeat = 2, .size_bytes = 64}};
static const struct host_config config = {
    .rank = 1, .n_ranks = 2, .n_members = 3, .rows = rows, .n_rows = 2};

/* Decodes `record`. If it is valid, encodes the host and decodes it again. */
static void decode(const json_t *record)
{
    struct weft_error error = {0};
    struct host *host = run_record_decode(record, "iceberg", &config, 1000, &error);
    struct diag_host facts = {.name = ""};
    weft_check(host != NULL);
    if (error.status == WEFT_OK) {
        struct weft_error error_again = {0};
        json_t *encoded = run_record_encode(host);
        struct host *again =
            run_record_decode(encoded, "iceberg", &config, 0, &error_again);
        weft_check(error_again.status == WEFT_OK);
        run_record_free(again);
        json_decref(encoded);
    } else {
        weft_check(host->state == HOST_DEAD);
    }
    if (run_record_take_facts(host, &facts)) {
        diag_host_fini(&facts);
    }
    run_record_free(host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *record = json_loadb((const char *)data, size, 0, NULL);
    if (record != NULL) {
        decode(record);
    }
    json_decref(record);
    return 0;
}
