/* Fuzzes the decoder of recorded observations with any JSON, and diag() with its result. The
 * decoded observations are encoded, decoded and diagnosed again. */
#include "diag/observations.h"

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks that `input`, encoded and decoded again, gives the same findings. */
static void check_again(const struct diag_input *input, const json_t *findings)
{
    struct diag_input input_again = {.hosts = NULL};
    struct diag_findings found = {NULL, 0};
    struct weft_error error = {0};
    json_t *document = diag_observations_encode(input);
    weft_check(diag_observations_decode(document, &input_again, &error) == WEFT_OK);
    diag(&input_again, &found);
    json_t *findings_again = diag_findings_encode(&found);
    weft_check(json_equal(findings, findings_again));
    json_decref(findings_again);
    json_decref(document);
    diag_findings_fini(&found);
    diag_input_fini(&input_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diag_input input = {.hosts = NULL};
    struct weft_error error = {0};
    json_t *document = json_loadb((const char *)data, size, 0, NULL);
    if (document == NULL) {
        return 0;
    }
    if (diag_observations_decode(document, &input, &error) == WEFT_OK) {
        struct diag_findings found = {NULL, 0};
        diag(&input, &found);
        json_t *findings = diag_findings_encode(&found);
        check_again(&input, findings);
        json_decref(findings);
        diag_findings_fini(&found);
    }
    diag_input_fini(&input);
    json_decref(document);
    return 0;
}
