/* A fake host with scripted RDMA devices, for tests of rdma/ and of its users. Every verb can be
 * slow, fail or be abandoned, and every object is counted. There is no network. */
#ifndef WEFT_RDMA_TESTING_H
#define WEFT_RDMA_TESTING_H

#include "base/text.h"
#include "io/verbs.h"
#include "rdma/rdma.h"

#define FAKE_DEVICES_MAX 4
#define FAKE_PORTS_MAX 2
#define FAKE_SLOTS 16
#define FAKE_RULES_MAX 8
#define FAKE_WCS_MAX 64
#define FAKE_EVENTS_MAX 8

struct fake_gid {
    bool used;
    union ibv_gid gid;
    enum ibv_gid_type type;
};

struct fake_device {
    struct io_device device; /* used by the code under test */
    struct fake_host *host;
    struct io_device_attr attr;
    struct ibv_port_attr ports[FAKE_PORTS_MAX];
    uint32_t ifindex[FAKE_PORTS_MAX];
    struct fake_gid slots[FAKE_PORTS_MAX][FAKE_SLOTS];
    int query_failure; /* errno of query_device and query_port; 0 if they succeed */
    struct io_async_event events[FAKE_EVENTS_MAX];
    uint32_t n_events;
};

/* Changes the result of the nth operation of a kind, counted from 1. */
struct fake_rule {
    enum io_op_kind kind;
    uint32_t nth;
    int error;     /* errno of the operation */
    bool refused;  /* `error` is returned by submit, instead of by poll */
    uint32_t slow; /* number of polls that return EINPROGRESS first */
};

struct fake_host {
    struct io_env env;
    struct io_loop loop;
    struct weft_trace trace;
    struct weft_text story;
    struct io_hostinfo info;
    struct io_netdev netdevs[FAKE_DEVICES_MAX * FAKE_PORTS_MAX];
    struct io_prefix addresses[FAKE_DEVICES_MAX * FAKE_PORTS_MAX][4];
    struct io_device *device_list[FAKE_DEVICES_MAX];
    struct fake_device devices[FAKE_DEVICES_MAX];
    weft_ns now;
    struct fake_rule rules[FAKE_RULES_MAX];
    uint32_t n_rules;
    uint32_t n_ops[IO_OP_DESTROY_QP + 1]; /* number submitted, by kind */
    struct io_op *running[64];            /* operations that are not done */
    uint32_t n_running;
    int32_t n_live; /* PDs, MRs, CQs and QPs that exist */
    uint32_t next_qpn, next_key;
    struct weft_text verbs; /* log of the verbs, one line each: "modify_qp RTR ..." */
    struct ibv_wc wcs[FAKE_WCS_MAX]; /* completions that poll_cq returns next */
    int n_wcs;
    uint32_t n_armed, n_polled;
    int poll_failure, notify_failure;
    void (*on_arm)(struct fake_host *host); /* called by req_notify; may be NULL */
};

/* Initializes a host called "titanic" without devices. */
void fake_host_init(struct fake_host *host);
void fake_host_fini(struct fake_host *host);
/* Adds a device with `n_ports` active ports, of MTU 4096 and 100 Gbit/s and with empty GID tables.
 * Each has a netdev with IP MTU 9000. */
struct fake_device *fake_device_add(struct fake_host *host, const char *name,
                                    uint8_t n_ports);
/* Gives a port an address. Fills its first two free slots with v1, then v2, as the kernel does. */
void fake_address_add(struct fake_device *device, uint8_t port, const char *prefix);
/* Fills a slot, or empties it if `address` is NULL. */
void fake_slot_set(struct fake_device *device, uint8_t port, uint32_t slot,
                   const char *address, enum ibv_gid_type type);
void fake_rule_add(struct fake_host *host, enum io_op_kind kind, uint32_t nth, int error,
                   bool refused, uint32_t slow);
void fake_event_add(struct fake_device *device, enum ibv_event_type type, uint8_t port,
                    struct ibv_qp *qp);
union ibv_gid fake_gid_of(const char *address);

/* Opens rdma and calls rdma_progress until every PD exists. */
struct rdma *fake_open(struct fake_host *host);

#endif
