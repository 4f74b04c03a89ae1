/* No topology document of a scenario may make the description crash, hang or leak. */
#include <stdint.h>

#include "nccl/describe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void describe(const uint8_t *data, size_t n_bytes, bool merges_nics)
{
    static const int ranks[] = {3, 1};
    static const char *const names[] = {"mlx5_0", "p0", "p1"};
    struct io_machine machine = {.document = (const char *)data, .n_document = n_bytes};
    const struct topo_inside inside = {
        .machine = &machine, .ranks = ranks, .n_ranks = 2, .merges_nics = merges_nics};
    struct topo_system *system = NULL;
    struct weft_error error = {.status = WEFT_OK};
    struct weft_text text = {NULL, 0, 0};

    for (uint32_t i = 0; i < 3; i++) {
        struct io_net_facts *net = io_machine_add_net(&machine);

        net->device = i / 2; /* the first two are ports of one card */
        net->port = (uint8_t)(i % 2 + 1);
        net->is_active = true;
        weft_format(net->name, sizeof(net->name), "%s", names[i]);
    }
    topo_describe(&inside, &text, &error);
    topo_of_host(&inside, topo_rules_find("2.25"), &system, &error);
    topo_free(system);
    weft_text_fini(&text);
    io_machine_fini(&machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    describe(data, n_bytes, false);
    describe(data, n_bytes, true);
    return 0;
}
