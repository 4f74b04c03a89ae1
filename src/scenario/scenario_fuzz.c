/* No text may make the loader crash, hang or leak. What it accepts must make a world. The
 * input can begin with --set arguments, each after a byte 0x01. */

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define SETS_MAX 4

static size_t take_sets(const uint8_t *data, size_t n_bytes, char texts[SETS_MAX][128],
                        size_t *out_n_sets)
{
    size_t at = 0;
    *out_n_sets = 0;
    while (at < n_bytes && data[at] == 1 && *out_n_sets < SETS_MAX) {
        char *text = texts[*out_n_sets];
        size_t n = 0;
        at++;
        while (at < n_bytes && data[at] != 1 && data[at] != '\n' && data[at] != 0 &&
               n < sizeof(texts[0]) - 1) {
            text[n++] = (char)data[at++];
        }
        text[n] = '\0';
        (*out_n_sets)++;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char texts[SETS_MAX][128];
    struct scenario_set sets[SETS_MAX];
    struct scenario_diagnostics diag;
    struct scenario *scenario;
    struct scenario_world *world;
    size_t n_sets;
    size_t at = take_sets(data, n_bytes, texts, &n_sets);
    for (size_t i = 0; i < n_sets; i++) {
        sets[i].text = texts[i];
    }
    weft_status status = scenario_load_text("fuzz.yaml", data + at, n_bytes - at, sets,
                                            n_sets, &scenario, &diag);
    weft_check((status == WEFT_OK) == (scenario != NULL));
    weft_check((status == WEFT_OK) == (diag.n == 0));
    if (status == WEFT_OK) {
        const char *key = NULL;
        weft_check(scenario_not_implemented(scenario, &key) == (key != NULL));
        weft_check(scenario_to_world(scenario, &world) == WEFT_OK);
        weft_check(world->spec.n_hosts > 0);
        scenario_world_free(world);
    }
    scenario_free(scenario);
    scenario_diagnostics_fini(&diag);
    return 0;
}
