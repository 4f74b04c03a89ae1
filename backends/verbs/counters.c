/* Counters of a port, from the kernel's files. Drivers choose the names of hw_counters, so each
 * counter is read by its names on mlx5, hns and rxe, and unknown on others. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/verbs/device.h"
#include "base/text.h"

static int64_t read_counter(const struct verbs_device *device, uint8_t port,
                            const char *directory, const char *name)
{
    char path[400];
    char line[64];
    char *end;
    weft_format(path, sizeof path, "%s/ports/%u/%s/%s", device->sysfs, port, directory,
                name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return IO_UNKNOWN;
    }
    bool got = fgets(line, (int)sizeof line, file) != NULL;
    fclose(file);
    long long number = got ? strtoll(line, &end, 10) : 0;
    return !got || end == line || number < 0 ? IO_UNKNOWN : (int64_t)number;
}

/* Returns the first of two counters that exists. */
static int64_t hw_counter(const struct verbs_device *device, uint8_t port,
                          const char *name, const char *other)
{
    int64_t number = read_counter(device, port, "hw_counters", name);
    return number != IO_UNKNOWN || other == NULL
               ? number
               : read_counter(device, port, "hw_counters", other);
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

int verbs_port_counters(struct io_device *io, uint8_t port, struct io_port_counters *out)
{
    const struct verbs_device *device = verbs_device_of(io);
    if (port == 0 || port > io->n_ports) {
        return EINVAL;
    }
    *out = (struct io_port_counters){
        .tx_packets = hw_counter(device, port, "sent_pkts", NULL),
        .rx_packets = hw_counter(device, port, "rcvd_pkts", NULL),
        .retransmits = hw_counter(device, port, "completer_retry_err", NULL),
        .timeouts = hw_counter(device, port, "local_ack_timeout_err", NULL),
        .out_of_sequence =
            hw_counter(device, port, "out_of_sequence", "out_of_seq_request"),
        .rnr_naks_sent = hw_counter(device, port, "send_rnr_err", NULL),
        .icrc_errors = hw_counter(device, port, "rx_icrc_encapsulated", NULL),
        .rx_unclaimed = IO_UNKNOWN,
        .rx_filtered_source = IO_UNKNOWN,
        .rx_filtered_port = IO_UNKNOWN,
        .rx_oversize = IO_UNKNOWN,
        .tx_queue_drops = IO_UNKNOWN,
        .rx_pauses = IO_UNKNOWN,
        .rx_pause_ns = IO_UNKNOWN,
    };
    if (strcmp(device->profile, "rxe") == 0) {
        out->rx_filtered_source = read_rp_filter_drops();
    }
    /* rxe counts only packets accepted by queue pairs here, mlx5 all that arrived. Both count
     * packets, unlike the data counters, which count words of 4 bytes. */
    if (out->tx_packets == IO_UNKNOWN) {
        out->tx_packets = read_counter(device, port, "counters", "port_xmit_packets");
        out->rx_packets = read_counter(device, port, "counters", "port_rcv_packets");
    }
    return 0;
}
