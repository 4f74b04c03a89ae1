/* Finds this host's GPUs and ports in its own topology document. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "nccl/inside.h"
#include "nccl/load.h"

/* All elements of one name, in document order. */
struct found {
    struct xml_node **nodes; /* Owned [n] */
    uint32_t n;
};

static void find_all(struct xml_node *node, const char *name, struct found *out)
{
    if (strcmp(node->name, name) == 0) {
        out->nodes = weft_realloc(out->nodes, (out->n + 1) * sizeof(*out->nodes));
        out->nodes[out->n++] = node;
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        find_all(node->subs[i], name, out);
    }
}

static int dev_of(const struct xml_node *node)
{
    return load_get_int(node, "dev", INT32_MAX);
}

/* Sorts by number; elements without one come last, in document order. */
static void sort_by_dev(struct found *found)
{
    for (uint32_t i = 1; i < found->n; i++) {
        struct xml_node *node = found->nodes[i];
        uint32_t at = i;

        for (; at > 0 && dev_of(found->nodes[at - 1]) > dev_of(node); at--) {
            found->nodes[at] = found->nodes[at - 1];
        }
        found->nodes[at] = node;
    }
}

struct xml_node *inside_adopted_gpu(struct describing *describing, uint32_t local)
{
    struct found gpus = {NULL, 0};
    struct xml_node *gpu = NULL;

    find_all(describing->root, "gpu", &gpus);
    sort_by_dev(&gpus);
    for (uint32_t i = 0; i < gpus.n; i++) {
        if (i != local) {
            /* left by the job that wrote the document */
            xml_unset(gpus.nodes[i], "rank");
        }
    }
    if (local < gpus.n) {
        gpu = gpus.nodes[local];
        if (xml_get(gpu, "dev") == NULL) {
            xml_set_format(gpu, "dev", "%u", local);
        }
    }
    free(gpus.nodes);
    return gpu;
}

/* Assigns ports to elements by name. Ports whose names are not in the document get the
 * remaining elements in order. Elements without a port lose their number. */
static void adopt_nets(struct describing *describing)
{
    const struct io_machine *machine = describing->machine;
    struct found nets = {NULL, 0};
    uint32_t at = 0;

    find_all(describing->root, "net", &nets);
    sort_by_dev(&nets);
    for (uint32_t i = 0; i < machine->n_nets; i++) {
        for (uint32_t k = 0; k < nets.n && describing->nets[i] == NULL; k++) {
            const char *name =
                nets.nodes[k] != NULL ? xml_get(nets.nodes[k], "name") : NULL;

            if (name != NULL && strcmp(name, machine->nets[i].name) == 0) {
                describing->nets[i] = nets.nodes[k];
                nets.nodes[k] = NULL;
            }
        }
    }
    for (uint32_t i = 0; i < machine->n_nets; i++) {
        while (at < nets.n && nets.nodes[at] == NULL) {
            at++;
        }
        if (describing->nets[i] == NULL && at < nets.n) {
            describing->nets[i] = nets.nodes[at];
            nets.nodes[at++] = NULL;
        }
    }
    for (uint32_t i = 0; i < machine->n_nets; i++) {
        if (describing->nets[i] != NULL && !machine->nets[i].is_active) {
            xml_unset(describing->nets[i], "dev");
        }
    }
    for (uint32_t k = 0; k < nets.n; k++) {
        if (nets.nodes[k] != NULL) {
            xml_unset(nets.nodes[k], "dev");
        }
    }
    free(nets.nodes);
}

bool inside_adopt(struct describing *describing, struct weft_error *error)
{
    const char *foreign = load_foreign(describing->root);

    if (foreign != NULL) {
        xml_complain(describing->root, error, "%s", foreign);
        return false;
    }
    if (xml_sub(describing->root, "cpu") == NULL) {
        xml_complain(describing->root, error, "expected a system with a cpu");
        return false;
    }
    adopt_nets(describing);
    return true;
}
