/* Reads the NCCL topology documents of a scenario's hosts. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/diagnose.h"
#include "scenario/scenario.h"

#define DOCUMENT_BYTES_MAX (16u << 20)

/* Returns the path of `name` relative to the directory of `file`. */
static const char *path_beside(struct scenario_arena *arena, const char *file,
                               const char *name)
{
    const char *slash = strrchr(file, '/');
    size_t n = slash == NULL || name[0] == '/' ? 0 : (size_t)(slash - file) + 1;
    char *path = arena_calloc(arena, n + strlen(name) + 1, 1);

    memcpy(path, file, n);
    memcpy(path + n, name, strlen(name));
    return path;
}

static bool read_document(struct loader *loader, const struct scenario_node *node,
                          struct world_host *host)
{
    struct weft_text text = {NULL, 0, 0};
    int sys_errno =
        weft_text_add_file(&text, host->gpu_document_name, DOCUMENT_BYTES_MAX);
    char quoted[DIAGNOSE_QUOTE_BYTES];
    bool is_read = sys_errno == 0 && text.n <= DOCUMENT_BYTES_MAX;

    if (is_read) {
        host->gpu_document =
            arena_copy(loader->arena, text.n > 0 ? text.bytes : "", text.n);
        host->n_gpu_document = text.n;
    } else {
        complain(loader, node->gpu_mark, "topology: cannot read '%s': %s",
                 diagnose_quote(host->gpu_document_name, quoted),
                 sys_errno != 0 ? strerror(sys_errno) : "longer than 16 MiB");
    }
    weft_text_fini(&text);
    return is_read;
}

weft_status scenario_read_topologies(struct scenario *scenario,
                                     struct scenario_diagnostics *diag)
{
    struct loader loader = {.file = scenario->file,
                            .sets = scenario->sets,
                            .n_sets = scenario->n_sets,
                            .scenario = scenario,
                            .arena = scenario->arena,
                            .diag = diag};

    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        const struct scenario_node *node = &scenario->nodes[i];
        struct world_host *host = &scenario->hosts[i];

        if (node->gpu_topology == NULL) {
            continue;
        }
        host->gpu_document_name =
            path_beside(scenario->arena, scenario->file, node->gpu_topology);
        for (uint32_t k = 0; k < i && host->gpu_document == NULL; k++) {
            const struct world_host *other = &scenario->hosts[k];

            if (other->gpu_document_name != NULL &&
                strcmp(other->gpu_document_name, host->gpu_document_name) == 0) {
                host->gpu_document = other->gpu_document;
                host->n_gpu_document = other->n_gpu_document;
            }
        }
        if (host->gpu_document == NULL && !read_document(&loader, node, host)) {
            break; /* one complaint is enough; other hosts may name the same file */
        }
    }
    diagnose_sort(diag);
    return diag->n == 0 ? WEFT_OK : WEFT_ERR_INPUT;
}
