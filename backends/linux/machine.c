#define _GNU_SOURCE
#include "backends/linux/machine.h"

#include <byteswap.h>
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/check.h"
#include "base/text.h"

enum { PATH_BYTES = 600, BUS_ID_LENGTH = 12, MAX_QPS_OF_MLX5 = 131072 };

/* ---- files ---- */

/* Reads the first line of a file without its newline, truncated to fit. Returns false, and "", if
 * there is none. */
static bool read_line(const char *path, char *out, size_t out_bytes)
{
    FILE *file = fopen(path, "re");
    bool is_read;

    out[0] = '\0';
    if (file == NULL) {
        return false;
    }
    is_read = fgets(out, (int)out_bytes, file) != NULL;
    fclose(file);
    out[strcspn(out, "\n")] = '\0';
    return is_read;
}

static bool read_in(const char *directory, const char *name, char *out, size_t out_bytes)
{
    char path[PATH_BYTES];

    weft_format(path, sizeof(path), "%s/%s", directory, name);
    return read_line(path, out, out_bytes);
}

static long number_in(const char *directory, const char *name, long otherwise)
{
    char text[32];
    char *end = text;
    long value;

    read_in(directory, name, text, sizeof(text));
    value = strtol(text, &end, 0);
    return end == text ? otherwise : value;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the names in a directory, except hidden ones, sorted, because the kernel's order is
 * unspecified. */
static uint32_t list(const char *directory, char ***out)
{
    DIR *stream = opendir(directory);
    const struct dirent *entry;
    uint32_t n = 0;

    *out = NULL;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] != '.') {
            *out = weft_realloc(*out, (n + 1) * sizeof(**out));
            (*out)[n++] = weft_strdup(entry->d_name);
        }
    }
    if (stream != NULL) {
        closedir(stream);
    }
    if (n > 0) {
        qsort(*out, n, sizeof(**out), by_name);
    }
    return n;
}

static void free_list(char **names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
}

/* ---- CPUs ---- */

/* Returns the value of a line "name : value" of /proc/cpuinfo. */
static bool cpuinfo_value(const char *line, const char *name, char *out, size_t out_bytes)
{
    size_t n = strlen(name);

    if (strncmp(line, name, n) != 0 || line[n + strspn(line + n, " \t")] != ':') {
        return false;
    }
    line = strchr(line, ':') + 1;
    weft_format(out, out_bytes, "%s", line + strspn(line, " \t"));
    return true;
}

/* Reads the kind of the first processor only; NCCL does not support several kinds, either. */
static void learn_cpu_kind(const char *root, struct io_machine *machine)
{
    char path[PATH_BYTES], line[256], value[32];
    FILE *file;

    weft_format(path, sizeof(path), "%s/proc/cpuinfo", root);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL && line[0] != '\n') {
        line[strcspn(line, "\n")] = '\0';
        if (cpuinfo_value(line, "vendor_id", value, sizeof(value))) {
            weft_format(machine->vendor, sizeof(machine->vendor), "%.15s", value);
        } else if (cpuinfo_value(line, "cpu family", value, sizeof(value))) {
            machine->family = (int)strtol(value, NULL, 10);
        } else if (cpuinfo_value(line, "model", value, sizeof(value))) {
            machine->model = (int)strtol(value, NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static int by_numa(const void *a, const void *b)
{
    return ((const struct io_cpu *)a)->numa - ((const struct io_cpu *)b)->numa;
}

static void learn_cpus(const char *root, struct io_machine *machine)
{
    char path[PATH_BYTES], node[PATH_BYTES];
    char **names;
    uint32_t n;

    weft_format(path, sizeof(path), "%s/sys/devices/system/node", root);
    n = list(path, &names);
    for (uint32_t i = 0; i < n; i++) {
        if (strncmp(names[i], "node", 4) == 0 && isdigit((unsigned char)names[i][4])) {
            struct io_cpu *cpu = io_machine_add_cpu(machine);

            cpu->numa = (int)strtol(names[i] + 4, NULL, 10);
            weft_format(node, sizeof(node), "%s/%s", path, names[i]);
            read_in(node, "cpumap", cpu->affinity, sizeof(cpu->affinity));
        }
    }
    free_list(names, n);
    if (machine->n_cpus > 0) {
        qsort(machine->cpus, machine->n_cpus, sizeof(*machine->cpus), by_numa);
    }
    learn_cpu_kind(root, machine);
}

/* ---- PCI ---- */

/* Returns true if the text is exactly a bus id such as "0000:01:00.0". */
static bool is_bus_id(const char *text, size_t n)
{
    static const char shape[] = "xxxx:xx:xx.x";

    for (size_t i = 0; i < BUS_ID_LENGTH && i < n; i++) {
        if (shape[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != shape[i]) {
            return false;
        }
    }
    return n == BUS_ID_LENGTH;
}

static uint32_t read_pci(struct io_machine *machine, const char *directory,
                         const char *bus_id, uint32_t parent)
{
    struct io_pci *pci = io_machine_add_pci(machine);
    long width = number_in(directory, "max_link_width", 0);

    pci->parent = parent;
    pci->numa = (int)number_in(directory, "numa_node", -1);
    pci->max_link_width = width > 0 ? (uint32_t)width : 0;
    width = number_in(directory, "current_link_width", 0);
    pci->link_width = width > 0 ? (uint32_t)width : 0;
    weft_format(pci->bus_id, sizeof(pci->bus_id), "%.15s", bus_id);
    read_in(directory, "class", pci->class, sizeof(pci->class));
    read_in(directory, "vendor", pci->vendor, sizeof(pci->vendor));
    read_in(directory, "device", pci->device, sizeof(pci->device));
    read_in(directory, "subsystem_vendor", pci->subsystem_vendor,
            sizeof(pci->subsystem_vendor));
    read_in(directory, "subsystem_device", pci->subsystem_device,
            sizeof(pci->subsystem_device));
    read_in(directory, "max_link_speed", pci->max_link_speed,
            sizeof(pci->max_link_speed));
    read_in(directory, "current_link_speed", pci->link_speed, sizeof(pci->link_speed));
    return machine->n_pcis - 1;
}

/* Adds the function at this sysfs path, after the PCI ports above it. */
static uint32_t learn_path(struct io_machine *machine, char *path)
{
    char *slash = strrchr(path, '/');
    uint32_t parent, index;

    if (slash == NULL || !is_bus_id(slash + 1, strlen(slash + 1))) {
        return IO_MACHINE_NONE;
    }
    index = io_machine_find_pci(machine, slash + 1);
    if (index != IO_MACHINE_NONE) {
        return index;
    }
    *slash = '\0';
    parent = learn_path(machine, path);
    *slash = '/';
    return read_pci(machine, path, slash + 1, parent);
}

static uint32_t learn_pci(struct io_machine *machine, const char *link)
{
    char *path = realpath(link, NULL);
    uint32_t index = path != NULL ? learn_path(machine, path) : IO_MACHINE_NONE;

    free(path);
    return index;
}

static uint32_t learn_bus_id(struct io_machine *machine, const char *root,
                             const char *bus_id)
{
    char link[PATH_BYTES];

    weft_format(link, sizeof(link), "%s/sys/bus/pci/devices/%s", root, bus_id);
    return learn_pci(machine, link);
}

/* ---- GPUs ---- */

/* Returns the compute capability (times 10) of a PCI device id, by the architecture in pci.ids; 0
 * if unknown. */
static int sm_of_device(long device)
{
    static const struct {
        long from, to;
        int sm;
    } chips[] = {
        {0x1580, 0x15ff, 60},  /* GP100 */
        {0x1b00, 0x1d7f, 61},  /* GP10x */
        {0x1d80, 0x1dff, 70},  /* GV100 */
        {0x1e00, 0x1fff, 75},  /* TU10x */
        {0x2080, 0x20ff, 80},  /* GA100 */
        {0x2180, 0x21ff, 75},  /* TU116 */
        {0x2200, 0x22ff, 86},  /* GA102 */
        {0x2300, 0x237f, 90},  /* GH100 */
        {0x2400, 0x25ff, 86},  /* GA104 to GA107 */
        {0x2680, 0x28ff, 89},  /* AD10x */
        {0x2900, 0x293f, 100}, /* GB100, GB200 */
        {0x2b80, 0x2d7f, 120}, /* GB20x */
        {0x2e00, 0x2eff, 121}, /* GB10 */
    };

    for (size_t i = 0; i < WEFT_LENGTH(chips); i++) {
        if (device >= chips[i].from && device <= chips[i].to) {
            return chips[i].sm;
        }
    }
    return 0;
}

/* Returns false for GB10, whose GPU shares the CPU's memory, so there is no GPU memory for a NIC
 * to reach. */
static bool may_have_gdr(int sm)
{
    return sm != 121;
}

static void find_targets(struct io_machine *machine, const char *root)
{
    for (uint32_t g = 0; g < machine->n_gpus; g++) {
        struct io_gpu_facts *gpu = &machine->gpus[g];

        for (uint32_t i = 0; i < gpu->n_nvlinks; i++) {
            char directory[PATH_BYTES];

            weft_format(directory, sizeof(directory), "%s/sys/bus/pci/devices/%s", root,
                        gpu->nvlinks[i].target);
            read_in(directory, "class", gpu->nvlinks[i].tclass,
                    sizeof(gpu->nvlinks[i].tclass));
        }
    }
}

static void ask_gpus(const struct linux_nvml *nvml, const char *root,
                     struct io_machine *machine)
{
    unsigned n = 0;

    if (nvml->count(&n) != NVML_OK) {
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        struct io_gpu_facts facts = {.pci = IO_MACHINE_NONE};
        char bus_id[16];

        if (linux_nvml_gpu(nvml, i, bus_id, &facts)) {
            facts.pci = learn_bus_id(machine, root, bus_id);
            facts.gdr = may_have_gdr(facts.sm);
            *io_machine_add_gpu(machine) = facts;
        }
    }
    find_targets(machine, root);
}

static void look_for_gpus(const char *root, struct io_machine *machine)
{
    char path[PATH_BYTES], device[PATH_BYTES], class[16];
    char **names;
    uint32_t n;

    weft_format(path, sizeof(path), "%s/sys/bus/pci/devices", root);
    n = list(path, &names);
    for (uint32_t i = 0; i < n; i++) {
        weft_format(device, sizeof(device), "%s/%s", path, names[i]);
        read_in(device, "class", class, sizeof(class));
        if (number_in(device, "vendor", 0) == 0x10de &&
            (strncmp(class, "0x0300", 6) == 0 || strncmp(class, "0x0302", 6) == 0)) {
            uint32_t pci = learn_pci(machine, device);
            struct io_gpu_facts *gpu = io_machine_add_gpu(machine);

            gpu->pci = pci;
            gpu->dev = (int)machine->n_gpus - 1;
            gpu->sm = sm_of_device(number_in(device, "device", 0));
            gpu->gdr = may_have_gdr(gpu->sm);
        }
    }
    free_list(names, n);
}

/* ---- RDMA ports ---- */

/* Reads "e09d:7303:00c0:0001". NCCL reads these bytes as a number of this machine
 * (little-endian). */
static uint64_t guid_in(const char *directory, const char *name)
{
    char text[32];
    uint64_t guid = 0;

    read_in(directory, name, text, sizeof(text));
    for (const char *at = text; *at != '\0'; at++) {
        if (isxdigit((unsigned char)*at)) {
            int digit = isdigit((unsigned char)*at)
                            ? *at - '0'
                            : tolower((unsigned char)*at) - 'a' + 10;

            guid = guid << 4 | (unsigned)digit;
        }
    }
    return bswap_64(guid);
}

/* Reads a rate such as "200 Gb/sec (4X HDR)" in Mbit/s. */
static uint32_t rate_in(const char *directory)
{
    char text[64];
    char *end = text;
    double rate;

    read_in(directory, "rate", text, sizeof(text));
    rate = strtod(text, &end);
    return end == text || rate <= 0 || rate > 4e6 ? 0 : (uint32_t)(rate * 1000);
}

/* Returns true if one of the modules that let NICs access GPU memory is loaded. */
static bool has_peer_memory(const char *root)
{
    static const char *const modules[] = {"nvidia_peermem", "nv_peer_mem",
                                          "nvidia_peer_mem"};
    char path[PATH_BYTES], text[16];
    bool has = false;

    for (size_t i = 0; i < WEFT_LENGTH(modules); i++) {
        weft_format(path, sizeof(path), "%s/sys/module/%s/refcnt", root, modules[i]);
        has = read_line(path, text, sizeof(text)) || has;
    }
    return has;
}

static void learn_ports(struct io_machine *machine, const char *device, const char *name,
                        uint32_t index, bool has_gdr)
{
    char path[PATH_BYTES], port[PATH_BYTES], state[32];
    char **ports;
    uint32_t n, pci;

    weft_format(path, sizeof(path), "%s/device", device);
    pci = learn_pci(machine, path);
    weft_format(path, sizeof(path), "%s/ports", device);
    n = list(path, &ports);
    for (uint32_t i = 0; i < n; i++) {
        struct io_net_facts *net = io_machine_add_net(machine);

        weft_format(port, sizeof(port), "%s/%s", path, ports[i]);
        read_in(port, "state", state, sizeof(state));
        weft_format(net->name, sizeof(net->name), "%s", name);
        net->pci = pci;
        net->device = index;
        net->port = (uint8_t)strtol(ports[i], NULL, 10);
        net->is_active = strstr(state, "ACTIVE") != NULL;
        net->speed_mbps = rate_in(port);
        net->guid = guid_in(device, "sys_image_guid");
        net->max_conns = MAX_QPS_OF_MLX5; /* not in sysfs */
        net->gdr = has_gdr && pci != IO_MACHINE_NONE;
    }
    free_list(ports, n);
}

static void learn_nets(const char *root, struct io_machine *machine)
{
    char path[PATH_BYTES], device[PATH_BYTES];
    bool has_gdr = has_peer_memory(root);
    char **names;
    uint32_t n;

    weft_format(path, sizeof(path), "%s/sys/class/infiniband", root);
    n = list(path, &names);
    for (uint32_t i = 0; i < n; i++) {
        weft_format(device, sizeof(device), "%s/%s", path, names[i]);
        learn_ports(machine, device, names[i], i, has_gdr);
    }
    free_list(names, n);
}

/* ---- all facts ---- */

void linux_machine_read(const struct linux_machine_config *config, struct io_machine *out)
{
    struct utsname name;

    *out = (struct io_machine){0};
    learn_cpus(config->root, out);
    if (config->root[0] != '\0') { /* root is a copy; only x86 has a vendor_id */
        weft_format(out->arch, sizeof(out->arch), "%s",
                    out->vendor[0] != '\0' ? "x86_64" : "aarch64");
    } else if (uname(&name) == 0) {
        weft_format(out->arch, sizeof(out->arch), "%.15s", name.machine);
    }
    if (config->nvml != NULL) {
        ask_gpus(config->nvml, config->root, out);
    } else {
        look_for_gpus(config->root, out);
    }
    learn_nets(config->root, out);
}

void linux_machine_read_own(struct io_machine *out)
{
    struct linux_nvml nvml;
    bool has_nvml = linux_nvml_open(&nvml);
    const struct linux_machine_config config = {.root = "",
                                                .nvml = has_nvml ? &nvml : NULL};

    linux_machine_read(&config, out);
    if (has_nvml) {
        linux_nvml_close(&nvml);
    }
}
