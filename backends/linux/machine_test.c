/* Machines read from copies of sysfs that the test makes, and from a fake NVML. */
#define _GNU_SOURCE
#include "backends/linux/machine.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"

static char root[64];
static struct io_machine machine;

/* ---- trees ---- */

/* Creates every parent directory of `path`. */
static void make_way(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            mkdir(path, 0755);
            *at = '/';
        }
    }
}

static void put(const char *where, const char *name, const char *text)
{
    char path[400];
    FILE *out;

    weft_format(path, sizeof(path), "%s/%s/%s", root, where, name);
    make_way(path);
    out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    ck_assert_int_ge(fprintf(out, "%s\n", text), 0);
    ck_assert_int_eq(fclose(out), 0);
}

/* Creates a function at sys/devices/`place`, and its link on the bus. */
static void put_pci(const char *place, const char *class, const char *id,
                    const char *speed, const char *width, const char *numa)
{
    char directory[200], target[240], name[240];
    const char *bus_id = strrchr(place, '/') + 1;

    weft_format(directory, sizeof(directory), "sys/devices/%s", place);
    put(directory, "class", class);
    put(directory, "vendor", strncmp(class, "0x03", 4) == 0 ? "0x10de" : "0x15b3");
    put(directory, "device", id);
    put(directory, "max_link_speed", speed);
    put(directory, "max_link_width", width);
    put(directory, "current_link_speed", "8.0 GT/s PCIe");
    put(directory, "current_link_width", "2");
    put(directory, "numa_node", numa);
    weft_format(name, sizeof(name), "%s/sys/bus/pci/devices/%s", root, bus_id);
    make_way(name);
    weft_format(target, sizeof(target), "../../../devices/%s", place);
    ck_assert_int_eq(symlink(target, name), 0);
}

static void put_rdma(const char *device, const char *bus_id, const char *state)
{
    char directory[200], target[200], name[240];

    weft_format(directory, sizeof(directory), "sys/class/infiniband/%s", device);
    put(directory, "sys_image_guid", "e09d:7303:00c0:0001");
    weft_format(name, sizeof(name), "%s/%s/device", root, directory);
    weft_format(target, sizeof(target), "../../../bus/pci/devices/%s", bus_id);
    ck_assert_int_eq(symlink(target, name), 0);
    weft_format(directory, sizeof(directory), "sys/class/infiniband/%s/ports/1", device);
    put(directory, "state", state);
    put(directory, "rate", "200 Gb/sec (4X HDR)");
}

static int remove_one(const char *path, const struct stat *status, int flag,
                      struct FTW *walk)
{
    (void)status;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void set_up(void)
{
    weft_format(root, sizeof(root), "/tmp/weft-machine-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void tear_down(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    io_machine_fini(&machine);
}

static void read_it(const struct linux_nvml *nvml)
{
    const struct linux_machine_config config = {.root = root, .nvml = nvml};

    linux_machine_read(&config, &machine);
}

static const struct io_pci *parent_of(const struct io_pci *pci)
{
    return pci->parent == IO_MACHINE_NONE ? NULL : &machine.pcis[pci->parent];
}

/* ---- an NVML with two GPUs: four links to each other and one to an unknown device ---- */

struct nvml_device {
    const char *bus_id, *other;
};
static struct nvml_device devices[] = {{"0000:03:00.0", "0000:83:00.0"},
                                       {"0000:83:00.0", "0000:03:00.0"}};

static int count(unsigned *out)
{
    *out = 2;
    return NVML_OK;
}

static int device(unsigned index, struct nvml_device **out)
{
    *out = &devices[index];
    return NVML_OK;
}

static int pci_info(struct nvml_device *from, struct nvml_pci_info *out)
{
    weft_format(out->bus_id, sizeof(out->bus_id), "%s", from->bus_id);
    return NVML_OK;
}

static int uuid(struct nvml_device *from, char *out, unsigned n_bytes)
{
    weft_format(out, n_bytes, "GPU-of-%s", from->bus_id);
    return NVML_OK;
}

static int capability(struct nvml_device *from, int *out_major, int *out_minor)
{
    (void)from;
    *out_major = 9;
    *out_minor = 0;
    return NVML_OK;
}

static int link_state(struct nvml_device *from, unsigned link, int *out)
{
    (void)from;
    (void)link;
    (void)out;
    ck_abort_msg("sm 90 tells the state of links by fields");
    return 1;
}

static int link_capability(struct nvml_device *from, unsigned link, int asked,
                           unsigned *out)
{
    (void)from;
    ck_assert_int_eq(asked, NVML_CAP_P2P_SUPPORTED);
    *out = 1;
    return link < 8 ? NVML_OK : 3;
}

static int link_remote(struct nvml_device *from, unsigned link, struct nvml_pci_info *out)
{
    weft_format(out->bus_id, sizeof(out->bus_id), "%s",
                link < 4 ? from->other : "FFFFFFF:FFFF:FF");
    return NVML_OK;
}

/* Links 0 to 4 are up; two of three C2C links work. */
static int fields(struct nvml_device *from, int n, struct nvml_field *field)
{
    (void)from;
    ck_assert_int_eq(n, 1);
    field->value.number = field->field == NVML_FIELD_NVLINK_STATE ? field->scope < 5
                          : field->field == NVML_FIELD_C2C_LINKS  ? 3
                          : field->field == NVML_FIELD_C2C_STATUS ? field->scope != 1
                                                                  : 44712;
    return NVML_OK;
}

/* Only the first GPU has joined the fabric. */
static int fabric(struct nvml_device *from, struct nvml_fabric *out)
{
    ck_assert_uint_eq(out->version, 0x02000024);
    *out = (struct nvml_fabric){
        .cluster = {0xab}, .clique = 7, .state = from == &devices[0] ? 3 : 2};
    return NVML_OK;
}

static const struct linux_nvml nvml = {.count = count,
                                       .device = device,
                                       .pci_info = pci_info,
                                       .uuid = uuid,
                                       .capability = capability,
                                       .link_state = link_state,
                                       .link_capability = link_capability,
                                       .link_remote = link_remote,
                                       .fields = fields,
                                       .fabric = fabric};

/* ---- tests ---- */

START_TEST(a_machine_without_anything_is_empty)
{
    read_it(NULL);
    ck_assert_uint_eq(machine.n_cpus + machine.n_pcis + machine.n_gpus + machine.n_nets,
                      0);
    ck_assert_str_eq(machine.arch, "aarch64");
}
END_TEST

START_TEST(a_gpu_is_in_a_fabric_once_it_has_joined)
{
    struct linux_nvml old = nvml;
    uint8_t cluster[16] = {0};
    uint32_t clique = 1;

    old.fabric = NULL;
    ck_assert(!linux_nvml_fabric(&old, "GPU-of-0000:03:00.0", cluster, &clique));
    ck_assert(!linux_nvml_fabric(&nvml, "GPU-of-0000:83:00.0", cluster, &clique));
    ck_assert(!linux_nvml_fabric(&nvml, "GPU-of-another", cluster, &clique));
    ck_assert_uint_eq(cluster[0] + clique, 1);
    ck_assert(linux_nvml_fabric(&nvml, "GPU-of-0000:03:00.0", cluster, &clique));
    ck_assert_uint_eq(cluster[0], 0xab);
    ck_assert_uint_eq(clique, 7);
}
END_TEST

START_TEST(two_sockets_with_a_switch_each)
{
    put("proc", "cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
        "model name\t: Xeon\n\nprocessor\t: 1\nmodel\t\t: 9");
    put("sys/devices/system/node/node1", "cpumap", "ff00");
    put("sys/devices/system/node/node0", "cpumap", "00ff");
    put("sys/module/nvidia_peermem", "refcnt", "0");
    put_pci("pci0000:00/0000:00:01.0", "0x060400", "0x1", "32.0 GT/s PCIe", "16", "0");
    put_pci("pci0000:00/0000:00:01.0/0000:01:00.0", "0x060400", "0x2", "32.0 GT/s PCIe",
            "16", "0");
    put_pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", "0x060400", "0x3",
            "16.0 GT/s PCIe", "8", "0");
    put_pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0", "0x030200",
            "0x2330", "32.0 GT/s PCIe", "16", "0");
    put_pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", "0x060400", "0x3",
            "16.0 GT/s PCIe", "16", "0");
    put_pci("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", "0x020700",
            "0x1021", "32.0 GT/s PCIe", "16", "0");
    put_pci("pci0000:80/0000:80:01.0", "0x060400", "0x1", "32.0 GT/s PCIe", "16", "1");
    put_pci("pci0000:80/0000:80:01.0/0000:83:00.0", "0x030200", "0x2330",
            "32.0 GT/s PCIe", "16", "1");
    put_rdma("mlx5_1", "0000:04:00.0", "4: ACTIVE");
    put_rdma("mlx5_0", "0000:04:00.0", "1: DOWN");
    read_it(&nvml);

    ck_assert_uint_eq(machine.n_cpus, 2);
    ck_assert_int_eq(machine.cpus[0].numa, 0);
    ck_assert_str_eq(machine.cpus[1].affinity, "ff00");
    ck_assert_str_eq(machine.arch, "x86_64");
    ck_assert_str_eq(machine.vendor, "GenuineIntel");
    ck_assert_int_eq(machine.family, 6);
    ck_assert_int_eq(machine.model, 143);
    ck_assert_uint_eq(machine.n_gpus, 2);
    const struct io_gpu_facts *gpu = &machine.gpus[0];
    const struct io_pci *pci = &machine.pcis[gpu->pci];
    ck_assert_str_eq(pci->bus_id, "0000:03:00.0");
    ck_assert_str_eq(pci->class, "0x030200");
    ck_assert_str_eq(parent_of(pci)->bus_id, "0000:02:00.0");
    ck_assert_str_eq(parent_of(pci)->max_link_speed, "16.0 GT/s PCIe");
    ck_assert_uint_eq(parent_of(pci)->max_link_width, 8);
    ck_assert_str_eq(pci->link_speed, "8.0 GT/s PCIe");
    ck_assert_uint_eq(pci->link_width, 2);
    ck_assert_str_eq(parent_of(parent_of(parent_of(pci)))->bus_id, "0000:00:01.0");
    ck_assert_ptr_null(parent_of(parent_of(parent_of(parent_of(pci)))));
    ck_assert_int_eq(gpu->sm, 90);
    ck_assert_str_eq(gpu->uuid, "GPU-of-0000:03:00.0");
    ck_assert_uint_eq(gpu->n_nvlinks, 2);
    ck_assert_str_eq(gpu->nvlinks[0].target, "0000:83:00.0");
    ck_assert_str_eq(gpu->nvlinks[0].tclass, "0x030200");
    ck_assert_uint_eq(gpu->nvlinks[0].count, 4);
    ck_assert_str_eq(gpu->nvlinks[1].target, "fffffff:ffff:ff");
    ck_assert_str_eq(gpu->nvlinks[1].tclass, "");
    ck_assert_uint_eq(gpu->nvlinks[1].count, 1);
    ck_assert_uint_eq(gpu->c2c_bw, 44712);
    ck_assert_uint_eq(gpu->c2c_count, 2);
    ck_assert_int_eq(machine.pcis[machine.gpus[1].pci].numa, 1);

    ck_assert_uint_eq(machine.n_nets, 2);
    ck_assert_str_eq(machine.nets[0].name, "mlx5_0");
    ck_assert(!machine.nets[0].is_active);
    ck_assert(machine.nets[1].is_active);
    ck_assert_uint_eq(machine.nets[1].speed_mbps, 200000);
    ck_assert_uint_eq(machine.nets[1].guid, UINT64_C(0x0100c00003739de0));
    ck_assert(machine.nets[1].gdr);
    ck_assert_uint_eq(machine.nets[0].pci, machine.nets[1].pci);
    ck_assert_uint_eq(machine.n_pcis, 8);
}
END_TEST

START_TEST(without_nvml_the_device_id_tells_the_capability)
{
    put_pci("pci000f:00/000f:00:00.0", "0x060400", "0x22d1", "32.0 GT/s PCIe", "16", "0");
    put_pci("pci000f:00/000f:00:00.0/000f:01:00.0", "0x030000", "0x2e12", "2.5 GT/s PCIe",
            "16", "0");
    read_it(NULL);
    ck_assert_uint_eq(machine.n_gpus, 1);
    ck_assert_int_eq(machine.gpus[0].sm, 121);
    ck_assert(!machine.gpus[0].gdr);
    ck_assert_uint_eq(machine.gpus[0].n_nvlinks, 0);
}
END_TEST

START_TEST(this_machine_can_be_read)
{
    linux_machine_read_own(&machine);
    ck_assert_str_ne(machine.arch, "");
    for (uint32_t i = 0; i < machine.n_pcis; i++) {
        uint32_t parent = machine.pcis[i].parent;

        ck_assert(parent == IO_MACHINE_NONE || parent < i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("machine");
    TCase *tests = tcase_create("machine");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_machine_without_anything_is_empty);
    tcase_add_test(tests, a_gpu_is_in_a_fabric_once_it_has_joined);
    tcase_add_test(tests, two_sockets_with_a_switch_each);
    tcase_add_test(tests, without_nvml_the_device_id_tells_the_capability);
    tcase_add_test(tests, this_machine_can_be_read);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
