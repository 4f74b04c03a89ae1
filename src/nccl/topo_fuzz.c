/* No document may make the loader, the search or a query crash, hang or leak. */
#include <stdint.h>

#include "base/text.h"
#include "nccl/dump.h"
#include "nccl/paths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char *no_setting(void *context, const char *name)
{
    (void)context;
    (void)name;
    return NULL;
}

static void run(const char *text, size_t n_bytes, const char *version)
{
    const struct topo_rules *rules = topo_rules_find(version);
    struct topo_settings settings;
    struct topo_system *system;
    struct weft_error error = {.status = WEFT_OK};
    struct weft_text out = {NULL, 0, 0};

    if (topo_load(text, n_bytes, rules, &system, &error) != WEFT_OK) {
        return;
    }
    topo_settings_read(rules, no_setting, NULL, &settings);
    struct topo_view view = {.system = system, .settings = &settings};
    if (system->n[TOPO_GPU] > 0 && system->n[TOPO_GPU] < 32 && system->n[TOPO_NET] < 32 &&
        topo_compute_paths(&view, &error) == WEFT_OK) {
        topo_dump_system(system, &out);
        topo_dump_paths(system, &out);
        topo_dump_queries(&view, &out);
    }
    weft_text_fini(&out);
    topo_free(system);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    run((const char *)data, n_bytes, "2.25");
    run((const char *)data, n_bytes, "2.28");
    return 0;
}
