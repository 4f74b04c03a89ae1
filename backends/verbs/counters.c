/* Counters of a port, from the kernel's files, or through netlink where the files are not shown.
 * Drivers choose the names of hw_counters, so each counter is read by its names on mlx5, hns and
 * rxe, and unknown on others. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "backends/linux/statistic.h"
#include "backends/verbs/device.h"
#include "base/text.h"

/* The hw_counters of one port. */
struct hw_counters {
    const struct verbs_device *device; /* Not owned */
    uint8_t port;
    bool are_files;
    struct linux_statistics answer; /* if they are not files; n is 0 if there are none */
};

static int64_t read_number(const char *path)
{
    char line[64];
    char *end;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return IO_UNKNOWN;
    }
    bool got = fgets(line, (int)sizeof line, file) != NULL;
    fclose(file);
    long long number = got ? strtoll(line, &end, 10) : 0;
    return !got || end == line || number < 0 ? IO_UNKNOWN : (int64_t)number;
}

static int64_t read_counter(const struct verbs_device *device, uint8_t port,
                            const char *directory, const char *name)
{
    char path[400];
    weft_format(path, sizeof path, "%s/ports/%u/%s/%s", device->sysfs, port, directory,
                name);
    return read_number(path);
}

static void open_hw_counters(const struct verbs_device *device, uint8_t port,
                             struct hw_counters *out)
{
    char path[400];
    weft_format(path, sizeof path, "%s/ports/%u/hw_counters", device->sysfs, port);
    out->device = device;
    out->port = port;
    out->are_files = !device->asks_kernel || access(path, F_OK) == 0;
    out->answer.n = 0;
    if (!out->are_files) {
        (void)linux_statistics_read(device->kernel_name, port, &out->answer);
    }
}

static int64_t hw_counter(const struct hw_counters *in, const char *name)
{
    return in->are_files ? read_counter(in->device, in->port, "hw_counters", name)
                         : linux_statistic_in(&in->answer, name);
}

/* Returns the first of two counters that exists. */
static int64_t hw_counter_of(const struct hw_counters *in, const char *name,
                             const char *other)
{
    int64_t number = hw_counter(in, name);
    return number != IO_UNKNOWN ? number : hw_counter(in, other);
}

/* Returns IPReversePathFilter of /proc/net/netstat in the current namespace. The file has pairs
 * of lines, "TcpExt: ...", with names and with numbers. */
static int64_t read_rp_filter_drops(void)
{
    char names[4096], numbers[4096];
    FILE *file = fopen("/proc/thread-self/net/netstat", "re");
    bool got = file != NULL && fgets(names, (int)sizeof names, file) != NULL &&
               fgets(numbers, (int)sizeof numbers, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    char *name_rest, *number_rest;
    char *name = got ? strtok_r(names, " \n", &name_rest) : NULL;
    char *number = got ? strtok_r(numbers, " \n", &number_rest) : NULL;
    while (name != NULL && number != NULL) {
        if (strcmp(name, "IPReversePathFilter") == 0) {
            return strtoll(number, NULL, 10);
        }
        name = strtok_r(NULL, " \n", &name_rest);
        number = strtok_r(NULL, " \n", &number_rest);
    }
    return IO_UNKNOWN;
}

/* Reads the counters of the netdev of an rxe device. The file `parent` names it. */
static void read_frames(const struct verbs_device *device, struct io_port_counters *out)
{
    size_t n = strlen(device->sysfs) - strlen(device->kernel_name);
    char path[400], name[32] = "";
    weft_format(path, sizeof path, "%s/parent", device->sysfs);
    FILE *file = fopen(path, "re");
    bool got = file != NULL && fgets(name, (int)sizeof name, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    if (!got) {
        return;
    }
    name[strcspn(name, "\n")] = '\0';
    weft_format(path, sizeof path, "%.*s../net/%s/statistics/rx_packets", (int)n,
                device->sysfs, name);
    out->rx_frames = read_number(path);
    weft_format(path, sizeof path, "%.*s../net/%s/statistics/tx_packets", (int)n,
                device->sysfs, name);
    out->tx_frames = read_number(path);
    out->tx_queue_drops = linux_qdisc_drops(name);
}

int verbs_port_counters(struct io_device *io, uint8_t port, struct io_port_counters *out)
{
    const struct verbs_device *device = verbs_device_of(io);
    if (port == 0 || port > io->n_ports) {
        return EINVAL;
    }
    struct hw_counters hw;
    open_hw_counters(device, port, &hw);
    *out = (struct io_port_counters){
        .tx_packets = hw_counter(&hw, "sent_pkts"),
        .rx_packets = hw_counter(&hw, "rcvd_pkts"),
        .retransmits = hw_counter(&hw, "completer_retry_err"),
        .timeouts = hw_counter(&hw, "local_ack_timeout_err"),
        .out_of_sequence = hw_counter_of(&hw, "out_of_sequence", "out_of_seq_request"),
        .rnr_naks_sent = hw_counter(&hw, "send_rnr_err"),
        .icrc_errors = hw_counter(&hw, "rx_icrc_encapsulated"),
        .rx_unclaimed = IO_UNKNOWN,
        .rx_filtered_source = IO_UNKNOWN,
        .rx_filtered_port = IO_UNKNOWN,
        .rx_oversize = IO_UNKNOWN,
        .tx_queue_drops = IO_UNKNOWN,
        .rx_pauses = IO_UNKNOWN,
        .rx_pause_ns = IO_UNKNOWN,
        .rx_frames = IO_UNKNOWN,
        .rx_duplicates = hw_counter(&hw, "duplicate_request"),
        .tx_frames = IO_UNKNOWN,
    };
    if (strcmp(device->profile, "rxe") == 0) {
        out->rx_filtered_source = read_rp_filter_drops();
        read_frames(device, out);
    }
    /* rxe counts only packets accepted by queue pairs here, mlx5 all that arrived. Both count
     * packets, unlike the data counters, which count words of 4 bytes. */
    if (out->tx_packets == IO_UNKNOWN) {
        out->tx_packets = read_counter(device, port, "counters", "port_xmit_packets");
        out->rx_packets = read_counter(device, port, "counters", "port_rcv_packets");
    }
    return 0;
}
