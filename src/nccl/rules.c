#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/topo.h"

static const struct topo_rules all_rules[] = {
    {.name = "2.25", /* NCCL 2.25.1 */
     .has_c2c = false,
     .nvlink_sm100 = 40.0f,
     .intel_bw = {0, 6.0f, 10.0f},
     .intel_models = {0, 0, 0x55},
     .turns_back_on_climb = true,
     .flatten_from_1 = true,
     .trims_nets = true,
     .pxn_above = TOPO_PXB,
     .has_gdr_pci_flush = false,
     .has_sm100_steps = false,
     .doubles_split_rings = false,
     .refuses_apart = false,
     .starts_at_locals = false,
     .dumps_gpu_names = false},
    {.name = "2.28", /* NCCL 2.28.9 */
     .has_c2c = true,
     .nvlink_sm100 = 40.1f,
     .intel_bw = {0, 6.0f, 10.0f, 22.0f, 40.0f},
     .intel_models = {0, 0, 0x55, 0x8f, 0xcf},
     .turns_back_on_climb = false,
     .flatten_from_1 = false,
     .trims_nets = false,
     .pxn_above = TOPO_PXN,
     .has_gdr_pci_flush = true,
     .has_sm100_steps = true,
     .doubles_split_rings = true,
     .refuses_apart = true,
     .starts_at_locals = true,
     .dumps_gpu_names = true},
};

const struct topo_rules *topo_rules_find(const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(all_rules); i++) {
        if (strcmp(all_rules[i].name, name) == 0) {
            return &all_rules[i];
        }
    }
    return NULL;
}

const char *topo_type_name(enum topo_type type)
{
    static const char *const names[] = {"GPU", "PCI", "NVS", "CPU", "NIC", "NET"};

    return names[type];
}

const char *topo_link_name(enum topo_link_type type)
{
    static const char *const names[] = {"LOC", "NVL", "C2C", "PCI", "SYS", "NET"};

    return names[type];
}

static const char *const path_names[TOPO_N_PATH_TYPES] = {
    [TOPO_LOC] = "LOC", [TOPO_NVL] = "NVL", [TOPO_NVB] = "NVB",     [TOPO_C2C] = "C2C",
    [TOPO_PIX] = "PIX", [TOPO_PXB] = "PXB", [TOPO_P2C] = "P2C",     [TOPO_PXN] = "PXN",
    [TOPO_PHB] = "PHB", [TOPO_SYS] = "SYS", [TOPO_NETWORK] = "NET", [TOPO_DIS] = "DIS"};

const char *topo_path_name(enum topo_path_type type)
{
    return path_names[type];
}

bool topo_path_parse(const struct topo_rules *rules, const char *name,
                     enum topo_path_type *out)
{
    for (int i = 0; i < TOPO_N_PATH_TYPES; i++) {
        bool exists = rules->has_c2c || (i != TOPO_C2C && i != TOPO_P2C);

        if (exists && strcmp(path_names[i], name) == 0) {
            *out = (enum topo_path_type)i;
            return true;
        }
    }
    return false;
}

char *topo_node_name(const struct topo_node *node, char *out)
{
    weft_format(out, TOPO_NAME_BYTES, "%s/%x-%llx", topo_type_name(node->type),
                topo_system_of(node->id), (unsigned long long)topo_local_of(node->id));
    return out;
}

float topo_nvlink_bw(const struct topo_rules *rules, int sm)
{
    return sm >= 100  ? rules->nvlink_sm100
           : sm >= 90 ? 20.6f
           : sm == 86 ? 12.0f
           : sm >= 70 ? 20.0f
           : sm >= 60 ? 18.0f
                      : 20.0f;
}

int topo_path_number(const struct topo_rules *rules, enum topo_path_type type)
{
    int number = 0;

    for (int i = 0; i < (int)type; i++) {
        number += rules->has_c2c || (i != TOPO_C2C && i != TOPO_P2C);
    }
    return number;
}
