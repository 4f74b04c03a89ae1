/* Generates a scenario from any texts instead of the facts of machines. A NUL separates the texts
 * of two ranks. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "run/site.h"
#include "scenario/scenario.h"

enum { RANKS_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks that a generated file is a valid scenario, or that its errors have a place. */
static void check_file(const struct weft_text *file)
{
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    weft_status status = scenario_load_text("site.yaml", file->bytes, file->n, NULL, 0,
                                            &scenario, &diagnostics);
    weft_check(status == WEFT_OK || diagnostics.n > 0);
    scenario_diagnostics_fini(&diagnostics);
    scenario_free(scenario);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_text facts[RANKS_MAX] = {{0}};
    struct weft_text file = {0};
    struct weft_error error = {0};
    uint32_t n_ranks = 0;
    for (size_t at = 0; at <= size && n_ranks < RANKS_MAX;) {
        const uint8_t *end = at < size ? memchr(data + at, '\0', size - at) : NULL;
        size_t n = end != NULL ? (size_t)(end - data) - at : size - at;
        weft_text_add_bytes(&facts[n_ranks++], (const char *)data + at, n);
        at += n + 1;
    }
    if (run_site_file(facts, n_ranks, &file, &error) == WEFT_OK) {
        check_file(&file);
    }
    weft_text_fini(&file);
    for (uint32_t i = 0; i < n_ranks; i++) {
        weft_text_fini(&facts[i]);
    }
    return 0;
}
