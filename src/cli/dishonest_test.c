/* Runs jobs in which one member has the job's secret but breaks the protocol. The member changes
 * one message: a field, its length, its type, its order or its number. The linker's --wrap puts the
 * change where messages are passed to the layer that seals them, so that every seal is valid. Each
 * other member must end within its limits: done with the right data, or failed with a typed error.
 *
 *   dishonest_test CASES [SEED [FIRST [KIND [CHANGE]]]]    prints a table of the outcomes
 *
 * Case i of a seed depends on (seed, i) only: `dishonest_test 1 SEED i` repeats it. VERBOSE in the
 * environment prints every case, EVENTS the events of its job. KIND and CHANGE select some of the
 * cases, for example `cts flood`. */
#define _GNU_SOURCE /* memmem */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/registry.h"
#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "boot/private.h"
#include "boot/record.h"
#include "conn/frame.h"
#include "conn/private.h"
#include "host/host.h"
#include "host/loop.h"
#include "run/run.h"
#include "sim/nic_objects.h"
#include "transport/steps.h"
#include "xfer/private.h"

#define SECOND INT64_C(1000000000)
#define CASES 608 /* in `make test` */
#define CASES_OF_A_PROCESS 100
/* More than a hundred times what a case in any setting needs. */
#define DISPATCHES_MAX 20000000u

/* ---- worlds ---- */

#define PAIR_NODES "  links: [{endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24}]\n"
#define TRIANGLE_LINKS                                                                   \
    "  links:\n"                                                                         \
    "    - {endpoints: ['a:p0', 'b:p1'], subnet: 10.1.0.0/24}\n"                         \
    "    - {endpoints: ['b:p0', 'c:p1'], subnet: 10.2.0.0/24}\n"                         \
    "    - {endpoints: ['c:p0', 'a:p1'], subnet: 10.3.0.0/24}\n"
#define TWO_PORTS "  defaults: {ports: [p0, p1]}\n  nodes: {a: {}, b: {}, c: {}}\n"
#define JOBS                                                                             \
    "jobs: [{all_to_all: {bytes: 48KiB, repeat: 2}}, {all_reduce: {bytes: [8, "          \
    "96KiB]}}]\n"

struct setting {
    const char *name, *text;
    uint32_t n_members;
    bool
        is_direct; /* each pair shares a cable or a host, so that no relay handles data */
};

static const struct setting settings[] = {
    {"rendezvous", "name: t\nboot: rendezvous\ntopology:\n" TWO_PORTS TRIANGLE_LINKS JOBS,
     3, true},
    {"neighbours", "name: t\nboot: neighbours\ntopology:\n" TWO_PORTS TRIANGLE_LINKS JOBS,
     3, true},
    {"twins",
     "name: t\ntopology:\n  defaults: {ports: [p0, p1]}\n  nodes: {a: {}, b: {}}\n"
     "  links:\n"
     "    - {endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24}\n"
     "    - {endpoints: ['a:p1', 'b:p1'], subnet: 10.2.0.0/24}\n"
     "jobs: [{all_to_all: {bytes: 4MiB, repeat: 2}}, {all_reduce: {bytes: 4MiB}}]\n"
     "faults: [{at: 6ms, link: 'a:p0', down_for: 2ms}]\n",
     2, true},
    {"line",
     "name: t\nboot: neighbours\ntopology:\n"
     "  nodes: {a: {ports: [p0]}, b: {ports: [p0, p1]}, c: {ports: [p0]}}\n"
     "  links:\n"
     "    - {endpoints: ['a:p0', 'b:p0'], subnet: 10.1.0.0/24}\n"
     "    - {endpoints: ['b:p1', 'c:p0'], subnet: 10.2.0.0/24}\n"
     "jobs: [{all_to_all: {bytes: 600KiB, repeat: 2}}, {all_reduce: {bytes: [8, "
     "96KiB]}}]\n",
     3, false},
    {"inside",
     "name: t\ntopology:\n  defaults: {ports: [p0]}\n"
     "  nodes: {a: {ranks: 2, gpus: 2}, b: {}}\n" PAIR_NODES JOBS,
     3, true},
    {"shared",
     "name: t\ntopology:\n  nodes: {a: {ranks: 3, gpus: 3, gpu: {peer_access: none}}}\n"
     "jobs: [{all_to_all: {bytes: 600KiB, repeat: 2}}, {all_reduce: {bytes: [8, "
     "96KiB]}}]\n",
     3, true},
};
#define N_SETTINGS ((uint32_t)(sizeof(settings) / sizeof(settings[0])))
#define MEMBERS_MAX 3u

/* Kinds of messages: numbers of frame types, then messages that are not frames. */
enum {
    KIND_CTS = 40, /* clear-to-send: entries and immediate */
    KIND_DATA,     /* data WRITEs: their immediate, place and length, not their bytes */
    KIND_NOTICE,
    KIND_OTHER_POST, /* beats, flushes */
    KIND_ANNOUNCEMENT,
    KIND_STEPS, /* shared memory of two processes */
    N_KINDS
};

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"cts",        "data",         "notice",
                                        "beat/flush", "announcement", "steps"};

    return kind >= KIND_CTS ? names[kind - KIND_CTS] : codec_type_name(kind);
}

enum change {
    CHANGE_SET,      /* a field */
    CHANGE_TRUNCATE, /* the body */
    CHANGE_LENGTHEN,
    CHANGE_DROP,
    CHANGE_REPEAT,
    CHANGE_FLOOD,  /* 200 times */
    CHANGE_SWAP,   /* exchanged with the next */
    CHANGE_REPLAY, /* the body of the first of its kind replaces its own */
    CHANGE_RETYPE, /* another type, the same body */
    CHANGE_INSERT, /* another message before it */
    CHANGE_FORGE,  /* an ABORT before it, with a wrong seal */
    CHANGE_MUTE,   /* this message and all that follow */
    N_CHANGES
};
static const char *const change_names[N_CHANGES] = {
    "set",  "truncate", "lengthen", "drop",   "repeat", "flood",
    "swap", "replay",   "retype",   "insert", "forge",  "mute"};

struct mutation {
    uint32_t setting, member;
    uint32_t kind, nth; /* index among the messages of that kind that the member sends */
    enum change change;
    uint32_t offset, width, value; /* for SET; value: index in value_of() */
    uint64_t random;
};

/* ---- the member's messages ---- */

struct past {
    uint8_t body[CODEC_BODY_MAX];
    size_t n_bytes;
    bool is_there;
};

static struct liar {
    struct mutation plan;
    bool is_on, has_acted;
    /* Nothing was changed, or the message was held back and none followed it. */
    bool is_same;
    uint32_t member;
    char host[8]; /* its name */
    uint32_t counts[N_KINDS];
    uint32_t lengths[N_KINDS]; /* length of the longest message */
    struct past first[N_KINDS], held;
    enum codec_type held_type;
    struct frame_link *held_link;
    bool is_mute;
    bool was_noticed;  /* a connection failed with WEFT_ERR_PROTOCOL or WEFT_ERR_AUTH */
    bool is_immediate; /* the immediate of a data WRITE was changed */
    bool was_released; /* the message was sent after a later one of the handshake */
    char what[160];    /* what was changed */
} liar;

static uint32_t current = UINT32_MAX; /* the member being dispatched */
static uint64_t n_dispatches;

static uint64_t value_of(const struct mutation *plan, uint64_t old, uint32_t bits)
{
    uint64_t max = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    uint64_t values[] = {0,       1,       max,     old - 1,
                         old + 1, old * 2, max / 2, old ^ (UINT64_C(1) << (bits - 1)),
                         2,       3,       16,      plan->random};

    return values[plan->value % WEFT_LENGTH(values)] & max;
}

/* Sets the big-endian number of plan->width bytes at plan->offset, modulo what fits. */
static void set_bytes(uint8_t *bytes, size_t n_bytes)
{
    const struct mutation *plan = &liar.plan;
    uint32_t width = plan->width > n_bytes ? 1 : plan->width;
    uint32_t offset;
    uint64_t old = 0, now;

    if (n_bytes == 0) {
        liar.is_same = true;
        return;
    }
    offset = plan->offset % (uint32_t)(n_bytes - width + 1);
    for (uint32_t i = 0; i < width; i++) {
        old = old << 8 | bytes[offset + i];
    }
    now = value_of(plan, old, width * 8);
    liar.is_same = now == old;
    for (uint32_t i = 0; i < width; i++) {
        bytes[offset + i] = (uint8_t)(now >> (8 * (width - 1 - i)));
    }
    weft_format(liar.what, sizeof(liar.what), "%u bytes at %u of %zu: %llx -> %llx",
                width, offset, n_bytes, (unsigned long long)old, (unsigned long long)now);
}

/* Counts a message of the member. Returns true if it is the one to change. */
static bool is_the_one(uint32_t kind, size_t n_bytes)
{
    uint32_t nth = liar.counts[kind]++;

    if (n_bytes > liar.lengths[kind]) {
        liar.lengths[kind] = (uint32_t)n_bytes;
    }
    if (!liar.is_on || liar.has_acted || liar.plan.kind != kind || liar.plan.nth != nth) {
        return false;
    }
    liar.has_acted = true;
    return true;
}

/* ---- frames ---- */

bool __real_frame_send(struct frame_link *link, enum codec_type type, const uint8_t *body,
                       size_t n_bytes);
bool __wrap_frame_send(struct frame_link *link, enum codec_type type, const uint8_t *body,
                       size_t n_bytes);

/* Returns true if proofs are made over the frame as it was queued. */
static bool is_proof(enum codec_type type)
{
    return type == CODEC_HELLO || type == CODEC_CHALLENGE || type == CODEC_AUTH;
}

static bool send_raw(struct frame_link *link, enum codec_type type, const uint8_t *body,
                     size_t n_bytes)
{
    size_t seal = link->sealed ? AUTH_MAC_BYTES : 0;

    if (n_bytes + seal > CODEC_BODY_MAX) {
        n_bytes = CODEC_BODY_MAX - seal;
    }
    return __real_frame_send(link, type, body, n_bytes);
}

static bool is_handshake(uint32_t kind)
{
    return kind >= CODEC_FACTS && kind <= CODEC_PROBED;
}

#define FORGED "forged"

static const enum codec_type types[] = {
    CODEC_HELLO,   CODEC_CHALLENGE, CODEC_AUTH,  CODEC_FACTS, CODEC_META,  CODEC_READY,
    CODEC_PROBED,  CODEC_CLOSE,     CODEC_ABORT, CODEC_JOIN,  CODEC_BLOB,  CODEC_BYE,
    CODEC_GIVE_UP, CODEC_MEMBER,    CODEC_LINKS, CODEC_PIECE, CODEC_ALIVE, CODEC_CALL,
    CODEC_ANSWER,  CODEC_IPC,       CODEC_BUSY};

/* Queues an ABORT with a wrong seal, as a process without the session's key would send it. */
static void forge_abort(struct frame_link *link)
{
    const struct codec_abort abort = {.phase = FORGED, .status = WEFT_ERR_NOMEM};
    uint8_t body[CODEC_BODY_MAX];

    liar.is_same = !link->sealed;
    if (link->sealed &&
        __real_frame_send(link, CODEC_ABORT, body, codec_encode_abort(&abort, body))) {
        link->tx[link->tx_n - 1] ^= 1;
    }
}

static bool change_frame(struct frame_link *link, enum codec_type type,
                         const uint8_t *body, size_t n_bytes)
{
    const struct mutation *plan = &liar.plan;
    enum codec_type other = types[plan->random % WEFT_LENGTH(types)];
    uint8_t copy[2 * CODEC_BODY_MAX] = {0};
    bool sent = true;

    if (n_bytes > 0) {
        memcpy(copy, body, n_bytes);
    }
    switch (plan->change) {
    case CHANGE_SET:
        set_bytes(copy, n_bytes);
        return send_raw(link, type, copy, n_bytes);
    case CHANGE_TRUNCATE:
        liar.is_same = n_bytes == 0;
        n_bytes =
            plan->value % 2 == 0 ? n_bytes - (n_bytes > 0) : plan->offset % (n_bytes + 1);
        return send_raw(link, type, copy, n_bytes);
    case CHANGE_LENGTHEN:
        n_bytes += plan->value % 3 == 0 ? 1 : 1 + plan->offset % CODEC_BODY_MAX;
        return send_raw(link, type, copy, n_bytes);
    case CHANGE_DROP:
        return true;
    case CHANGE_REPEAT:
        sent = send_raw(link, type, copy, n_bytes);
        send_raw(link, type, copy, n_bytes);
        return sent;
    case CHANGE_FLOOD:
        for (int i = 0; i < 200; i++) {
            sent = send_raw(link, type, copy, n_bytes) && sent;
            if (frame_flush(link, NULL) < 0) {
                break;
            }
        }
        return true;
    case CHANGE_SWAP:
        liar.held = (struct past){.n_bytes = n_bytes, .is_there = true};
        memcpy(liar.held.body, copy, n_bytes);
        liar.held_type = type;
        liar.held_link = link;
        return true;
    case CHANGE_REPLAY:
        liar.is_same =
            liar.first[type].n_bytes == n_bytes &&
            (n_bytes == 0 || memcmp(liar.first[type].body, body, n_bytes) == 0);
        return send_raw(link, type, liar.first[type].body, liar.first[type].n_bytes);
    case CHANGE_RETYPE:
        liar.is_same = other == type;
        return send_raw(link, other, copy, n_bytes);
    case CHANGE_INSERT:
        if (plan->value % 3 == 0) { /* complete, as it was sent before */
            send_raw(link, other, liar.first[other].body, liar.first[other].n_bytes);
        } else {
            send_raw(link, other, copy, plan->value % 3 == 1 ? 0 : n_bytes);
        }
        return send_raw(link, type, copy, n_bytes);
    case CHANGE_FORGE:
        forge_abort(link);
        return send_raw(link, type, copy, n_bytes);
    case CHANGE_MUTE:
        liar.is_mute = true;
        return true;
    case N_CHANGES:
        break;
    }
    return sent;
}

bool __wrap_frame_send(struct frame_link *link, enum codec_type type, const uint8_t *body,
                       size_t n_bytes)
{
    bool sent;

    if (link->env->host != liar.member) {
        return __real_frame_send(link, type, body, n_bytes);
    }
    if (liar.is_mute && !is_proof(type)) {
        return true;
    }
    if (!liar.first[type].is_there) {
        liar.first[type] = (struct past){.n_bytes = n_bytes, .is_there = true};
        if (n_bytes > 0) {
            memcpy(liar.first[type].body, body, n_bytes);
        }
    }
    if (is_the_one(type, n_bytes)) {
        return change_frame(link, type, body, n_bytes);
    }
    sent = __real_frame_send(link, type, body, n_bytes);
    if (liar.held.is_there && liar.held_link == link && !is_proof(type)) {
        liar.held.is_there = false;
        liar.was_released = type != liar.held_type && is_handshake(type);
        send_raw(link, liar.held_type, liar.held.body, liar.held.n_bytes);
    }
    return sent;
}

/* ---- what crosses queue pairs ---- */

weft_status __real_xfer_post(struct xfer *xfer, uint32_t q, struct ibv_send_wr *chain);
weft_status __wrap_xfer_post(struct xfer *xfer, uint32_t q, struct ibv_send_wr *chain);

static uint32_t kind_of_post(const struct ibv_send_wr *wr)
{
    if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        struct xfer_imm imm = xfer_imm_decode(xfer_network_order(wr->imm_data));

        return imm.kind == XFER_IMM_CTS    ? KIND_CTS
               : imm.kind == XFER_IMM_DATA ? KIND_DATA
                                           : KIND_NOTICE;
    }
    return wr->opcode == IBV_WR_RDMA_WRITE && wr->num_sge > 0 && wr->sg_list->length > 8
               ? KIND_DATA
               : KIND_OTHER_POST;
}

struct field {
    const char *name;
    uint32_t shift, bits;
};

static void set_immediate(struct ibv_send_wr *wr)
{
    static const struct field fields[] = {
        {"kind", 30, 2},     {"slot", 25, 5},   {"n or index", 22, 3},
        {"group", 0, 22},    {"parts", 18, 4},  {"pieces", 10, 8},
        {"sequence", 0, 10}, {"notice", 0, 21}, {"notice", 0, 30},
    };
    const struct field *field = &fields[liar.plan.offset / 4 % WEFT_LENGTH(fields)];
    uint32_t mask = (UINT32_C(1) << field->bits) - 1;
    uint32_t imm = xfer_network_order(wr->imm_data);
    uint32_t old = imm >> field->shift & mask;
    uint32_t now = (uint32_t)value_of(&liar.plan, old, field->bits);

    liar.is_same = now == old;
    liar.is_immediate = imm >> 30 == XFER_IMM_DATA && !liar.is_same;
    wr->imm_data =
        xfer_network_order((imm & ~(mask << field->shift)) | now << field->shift);
    weft_format(liar.what, sizeof(liar.what), "immediate %08x, %s: %u -> %u", imm,
                field->name, old, now);
}

/* Changes address, key, length or opcode. */
static void set_request(struct ibv_send_wr *wr)
{
    uint64_t old, now;

    switch (liar.plan.offset / 4 % 4) {
    case 0:
        old = wr->wr.rdma.remote_addr;
        now = liar.plan.random % 2 == 0 ? old + (UINT64_C(64) << liar.plan.value)
                                        : value_of(&liar.plan, old, 64);
        wr->wr.rdma.remote_addr = now;
        weft_format(liar.what, sizeof(liar.what), "address %llx -> %llx",
                    (unsigned long long)old, (unsigned long long)now);
        break;
    case 1:
        old = wr->wr.rdma.rkey;
        now = value_of(&liar.plan, old, 32);
        wr->wr.rdma.rkey = (uint32_t)now;
        weft_format(liar.what, sizeof(liar.what), "rkey %llx -> %llx",
                    (unsigned long long)old, (unsigned long long)now);
        break;
    case 2:
        if (wr->num_sge > 0) {
            old = wr->sg_list->length;
            now = value_of(&liar.plan, old, 32);
            wr->sg_list->length = (uint32_t)(now > old ? now % (old + 1) : now);
            weft_format(liar.what, sizeof(liar.what), "length %llu -> %u",
                        (unsigned long long)old, wr->sg_list->length);
        }
        break;
    default: {
        static const enum ibv_wr_opcode opcodes[] = {
            IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
            IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ};

        wr->opcode = opcodes[liar.plan.random % WEFT_LENGTH(opcodes)];
        wr->send_flags &=
            ~(wr->opcode == IBV_WR_RDMA_READ ? (unsigned)IBV_SEND_INLINE : 0);
        weft_format(liar.what, sizeof(liar.what), "opcode %d", (int)wr->opcode);
    }
    }
}

static void repeat_post(struct xfer *xfer, uint32_t q, const struct ibv_send_wr *wr,
                        int n)
{
    struct conn *conn = xfer->conn;
    struct io_device *device = conn->rails[q % conn->n_rails].port->device;
    struct ibv_send_wr *bad;

    for (int i = 0; i < n; i++) {
        struct ibv_send_wr copy = *wr;

        copy.next = NULL;
        copy.send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
        if (device->ops->post_send(conn->qps[q].qp, &copy, &bad) != 0) {
            break;
        }
    }
}

/* Grants more groups than may be open at a time. Each entry is valid by itself. */
static void grant_ahead(struct xfer *xfer, const struct ibv_send_wr *wr)
{
    struct conn *conn = xfer->conn;
    struct xfer_imm imm = xfer_imm_decode(xfer_network_order(wr->imm_data));
    struct ibv_sge sge = *wr->sg_list;
    struct ibv_send_wr copy = *wr;
    struct xfer_cts cts;

    if (!xfer_cts_decode((const uint8_t *)(uintptr_t)sge.addr, &cts)) {
        return;
    }
    copy.sg_list = &sge;
    for (uint32_t i = 0; i < XFER_SLOTS + 8; i++) {
        uint64_t offset;

        cts.group++;
        cts.slot = (uint8_t)(cts.group % XFER_SLOTS);
        imm.group = cts.group & XFER_IMM_GROUP_MASK;
        imm.slot = cts.slot;
        offset = (uint64_t)cts.slot * XFER_MULTI_MAX * XFER_CTS_BYTES;
        sge.addr = (uintptr_t)conn->window + offset;
        copy.wr.rdma.remote_addr = conn->rails[0].remote_window + offset;
        copy.imm_data = xfer_network_order(xfer_imm_encode(&imm));
        xfer_cts_encode(&cts, (uint8_t *)(uintptr_t)sge.addr);
        repeat_post(xfer, 0, &copy, 1);
    }
}

static void change_post(struct xfer *xfer, uint32_t q, uint32_t kind,
                        struct ibv_send_wr *wr)
{
    switch (liar.plan.change) {
    case CHANGE_SET:
        if (kind == KIND_CTS && liar.plan.value % 2 == 0) {
            set_bytes((uint8_t *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
        } else if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && liar.plan.width < 4) {
            set_immediate(wr);
        } else {
            set_request(wr);
        }
        break;
    case CHANGE_TRUNCATE:
        if (wr->num_sge > 0) {
            wr->sg_list->length = liar.plan.offset % (wr->sg_list->length + 1);
        }
        break;
    case CHANGE_DROP:
    case CHANGE_MUTE:
    case CHANGE_FORGE:
    case CHANGE_REPLAY:
        liar.is_mute = liar.plan.change == CHANGE_MUTE;
        /* Without data, because a completion is expected. */
        wr->opcode = IBV_WR_RDMA_WRITE;
        wr->num_sge = 0;
        break;
    case CHANGE_REPEAT:
    case CHANGE_LENGTHEN:
    case CHANGE_RETYPE:
    case CHANGE_INSERT:
    case CHANGE_SWAP:
        repeat_post(xfer, q, wr, 1);
        break;
    case CHANGE_FLOOD:
        if (kind == KIND_CTS && wr->num_sge > 0) {
            grant_ahead(xfer, wr);
            liar.is_mute = true; /* otherwise the next valid one is rejected as well */
        } else {
            repeat_post(xfer, q, wr, 40);
        }
        break;
    case N_CHANGES:
        break;
    }
}

weft_status __wrap_xfer_post(struct xfer *xfer, uint32_t q, struct ibv_send_wr *chain)
{
    struct io_env *env = conn_env(xfer->conn);

    if (env->host != liar.member) {
        return __real_xfer_post(xfer, q, chain);
    }
    for (struct ibv_send_wr *wr = chain; wr != NULL; wr = wr->next) {
        uint32_t kind = kind_of_post(wr);

        if (is_the_one(kind, wr->num_sge > 0 ? wr->sg_list->length : 0)) {
            change_post(xfer, q, kind, wr);
        } else if (liar.is_mute) {
            wr->opcode = IBV_WR_RDMA_WRITE;
            wr->num_sge = 0;
        }
    }
    return __real_xfer_post(xfer, q, chain);
}

/* ---- announcements ---- */

void __real_record_encode_announcement(const struct record_announcement *announcement,
                                       const uint8_t key[AUTH_KEY_BYTES],
                                       uint8_t out[RECORD_ANNOUNCEMENT_BYTES]);
void __wrap_record_encode_announcement(const struct record_announcement *announcement,
                                       const uint8_t key[AUTH_KEY_BYTES],
                                       uint8_t out[RECORD_ANNOUNCEMENT_BYTES]);

void __wrap_record_encode_announcement(const struct record_announcement *announcement,
                                       const uint8_t key[AUTH_KEY_BYTES],
                                       uint8_t out[RECORD_ANNOUNCEMENT_BYTES])
{
    struct record_announcement copy = *announcement;
    struct record_self *self = &copy.self;
    const struct mutation *plan = &liar.plan;

    if (current == liar.member && is_the_one(KIND_ANNOUNCEMENT, sizeof(copy))) {
        switch (plan->offset % 8) {
        case 0:
            self->member = (uint32_t)value_of(plan, self->member, 32);
            break;
        case 1:
            self->n_ranks = (uint32_t)value_of(plan, self->n_ranks, 32);
            break;
        case 2:
            self->n_members = (uint32_t)value_of(plan, self->n_members, 32);
            break;
        case 3:
            self->identity.nonce = value_of(plan, self->identity.nonce, 64);
            break;
        case 4:
            self->identity.started_ns = value_of(plan, self->identity.started_ns, 64);
            break;
        case 5:
            self->identity.host_id[plan->random % 16] ^= 1;
            break;
        case 6:
            copy.port = (uint8_t)value_of(plan, copy.port, 8);
            break;
        default:
            copy.control = (uint16_t)value_of(plan, copy.control, 16);
        }
        weft_format(liar.what, sizeof(liar.what), "field %u", plan->offset % 8);
    }
    __real_record_encode_announcement(&copy, key, out);
}

/* ---- shared memory ---- */

void __real_steps_progress(struct steps *steps);
void __wrap_steps_progress(struct steps *steps);

/* Changes a word that this end of the ring may write. */
static void change_steps(struct steps *steps)
{
    struct steps_control *control = steps->config.control;
    struct doorbell_counter *own =
        steps->config.is_sender ? &control->tail : &control->head;
    const struct mutation *plan = &liar.plan;
    uint32_t slot = plan->offset % STEPS_N;
    uint64_t old;

    switch (plan->change == CHANGE_SET ? plan->width % 4 : plan->change % 4) {
    case 0:
        old = atomic_load(&own->value);
        doorbell_publish(own, value_of(plan, old, 64));
        break;
    case 1:
        if (steps->config.is_sender) {
            old = atomic_load(&control->pieces[slot]);
            atomic_store(&control->pieces[slot], value_of(plan, old, 64));
        } else {
            atomic_store(&control->answers[slot], (uint32_t)value_of(plan, 1, 32));
        }
        break;
    case 2:
        set_bytes(control->offers[slot], sizeof(control->offers[slot]));
        break;
    default:
        atomic_store(&control->sleeper[!steps->config.is_sender].sleeps,
                     (uint32_t)value_of(plan, 1, 32));
    }
    weft_format(liar.what, sizeof(liar.what), "slot %u of a %s", slot,
                steps->config.is_sender ? "sender" : "receiver");
}

void __wrap_steps_progress(struct steps *steps)
{
    __real_steps_progress(steps);
    if (current == liar.member && is_the_one(KIND_STEPS, 8)) {
        change_steps(steps);
    }
}

/* ---- members ---- */

/* Outcomes of a case, from good to bad; the worst one counts. */
enum outcome {
    OUTCOME_UNUSED, /* the message was not sent in this run */
    OUTCOME_NONE,   /* all members done with the right data */
    /* All members done with the right data; a connection failed and was replaced. */
    OUTCOME_HEALED,
    OUTCOME_TYPED,   /* the others failed with typed errors, and one names the member */
    OUTCOME_GARBAGE, /* wrong data came from the dishonest member itself */
    OUTCOME_UNNAMED, /* the others failed with typed errors, none of which names the member */
    OUTCOME_ACCEPTED, /* a forbidden message went unnoticed */
    OUTCOME_LATE,
    OUTCOME_LEAK, /* verbs objects */
    OUTCOME_UNTYPED,
    OUTCOME_WRONG, /* wrong data between honest members */
    OUTCOME_HANG,
    OUTCOME_SPIN,
    OUTCOME_CRASH,
    N_OUTCOMES
};
static const char *const outcome_names[N_OUTCOMES] = {
    "unused", "none", "healed",  "typed", "garbage", "unnamed", "accepted",
    "late",   "leak", "untyped", "wrong", "hang",    "spin",    "crash"};
#define IS_BUG(outcome) ((outcome) > OUTCOME_UNNAMED)

struct verdict {
    enum outcome outcome;
    uint32_t named, failed; /* named: failed members that name the dishonest one */
    char story[4000];
};
static struct verdict verdict;

static void worse(enum outcome outcome)
{
    if (outcome > verdict.outcome) {
        verdict.outcome = outcome;
    }
}

static void tell(const char *format, ...) WEFT_PRINTF(1, 2);
static void tell(const char *format, ...)
{
    size_t n = strlen(verdict.story);
    va_list args;

    va_start(args, format);
    vsnprintf(verdict.story + n, sizeof(verdict.story) - n, format, args);
    va_end(args);
}

void __real_host_dispatch(struct host *host, struct io_task *task);
void __wrap_host_dispatch(struct host *host, struct io_task *task);
void __real_host_destroy(struct host *host);
void __wrap_host_destroy(struct host *host);

void __wrap_host_dispatch(struct host *host, struct io_task *task)
{
    current = host->env->host;
    if (current == liar.member) {
        weft_format(liar.host, sizeof(liar.host), "%s", host->env->name);
    }
    n_dispatches++;
    if (liar.is_on && n_dispatches > DISPATCHES_MAX) {
        _exit(OUTCOME_SPIN);
    }
    __real_host_dispatch(host, task);
    current = UINT32_MAX;
}

static uint32_t count_objects(struct io_env *env)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < env->n_devices; d++) {
        const struct sim_nic *nic =
            weft_container_of(env->devices[d], struct sim_device, io)->nic;

        n += nic->n_pds + nic->n_cqs + nic->n_mrs + nic->n_qps;
    }
    return n;
}

/* Returns true if the wrong data came from the dishonest member. Row 0 is the all-to-all, where a
 * part comes from one member; in other rows it passes through all members. */
static bool is_own_garbage(const struct host *host, uint32_t row, uint32_t dishonest)
{
    const struct host_row_result *result = &host->results[row];
    uint64_t part = host->config.rows[row].coll.count / host->config.n_ranks;

    if (!settings[liar.plan.setting].is_direct || row > 0) {
        return true;
    }
    return result->n_wrong <= part && result->first_wrong >= dishonest * part &&
           result->first_wrong < (dishonest + 1) * part;
}

static void judge_data(const struct host *host, uint32_t dishonest)
{
    for (uint32_t row = 0; host->results != NULL && row < host->config.n_rows; row++) {
        const struct host_row_result *result = &host->results[row];

        if (!result->is_done || result->n_wrong == 0) {
            continue;
        }
        tell(" [row %u: %llu wrong from %llu]", row, (unsigned long long)result->n_wrong,
             (unsigned long long)result->first_wrong);
        worse(is_own_garbage(host, row, dishonest) ? OUTCOME_GARBAGE : OUTCOME_WRONG);
    }
}

/* Returns true if the error names the rank as its origin or as the one waited for. */
static bool names_rank(const struct host *host, uint32_t rank, const char *text)
{
    static const enum weft_value_name numbers[] = {WEFT_VALUE_RANK, WEFT_VALUE_TOLD_BY,
                                                   WEFT_VALUE_RELAY};
    const struct weft_value *awaited =
        weft_error_value(&host->error, WEFT_VALUE_WAITS_FOR);
    const struct weft_value *peer = weft_error_value(&host->error, WEFT_VALUE_PEER);
    char word[24];

    for (size_t i = 0; i < WEFT_LENGTH(numbers); i++) {
        const struct weft_value *value = weft_error_value(&host->error, numbers[i]);

        if (value != NULL && value->number == rank) {
            return true;
        }
    }
    weft_format(word, sizeof(word), "rank %u", rank);
    return host->error_peer == rank || strstr(text, word) != NULL ||
           (awaited != NULL && strchr(awaited->text, (char)('0' + rank)) != NULL) ||
           (peer != NULL && strcmp(peer->text, liar.host) == 0);
}

/* Returns the latest time at which a member may fail in a state. Members and listeners are waited
 * for 900 s, and a round of the rendezvous takes up to 30 s (docs/wire.md). */
static weft_ns bound_ns(enum host_state failed_in)
{
    return failed_in == HOST_BOOT      ? 905 * SECOND
           : failed_in <= HOST_BARRIER ? 965 * SECOND
                                       : 100 * SECOND;
}

static void judge_error(const struct host *host, uint32_t dishonest)
{
    const struct weft_error *error = &host->error;
    char text[300];

    weft_error_format(error, text, sizeof(text));
    tell(" %s/%s, peer %d%s: %s", weft_status_name(error->status),
         host_state_name(host->failed_in), (int)host->error_peer,
         host->error_is_hearsay ? " (hearsay)" : "", text);
    tell(" <%s", error->object);
    for (unsigned i = 0; i < error->n_values; i++) {
        const struct weft_value *value = &error->values[i];

        if (weft_value_kind(value->name) == WEFT_KIND_TEXT) {
            tell(" %s=%s", weft_value_name(value->name), value->text);
        } else {
            tell(" %s=%lld", weft_value_name(value->name), (long long)value->number);
        }
    }
    tell(">");
    if (error->status >= 0 || error->phase == WEFT_PHASE_NONE ||
        error->message[0] == '\0') {
        worse(OUTCOME_UNTYPED);
    }
    if (strstr(text, FORGED) != NULL) {
        tell(" [believed]");
        worse(OUTCOME_ACCEPTED);
    }
    verdict.failed++;
    verdict.named += names_rank(host, dishonest, text);
    if (host->error_ns > bound_ns(host->failed_in)) {
        worse(OUTCOME_LATE);
    }
}

void __wrap_host_destroy(struct host *host)
{
    uint32_t place = host->env->host;

    if (liar.is_on) {
        tell("\n      member %u%s %s", host->config.rank,
             place == liar.member ? " (dishonest)" : "", host_state_name(host->state));
        if (host->state == HOST_FAILED) {
            tell(" at %.3f s", (double)host->error_ns / 1e9);
        }
        if (place != liar.member) {
            if (!host_is_over(host) || host->has_hung) {
                worse(OUTCOME_HANG);
            }
            if (host->state == HOST_FAILED) {
                judge_error(host, liar.member);
            }
            judge_data(host, liar.member);
            if (host->flows.failovers > 0) {
                worse(OUTCOME_HEALED);
            }
        } else if (host->state == HOST_FAILED) {
            char text[300];

            weft_error_format(&host->error, text, sizeof(text));
            tell(" %s", text);
        }
        if (host_is_over(host) && !host->has_hung && count_objects(host->env) > 0) {
            tell(" [%u objects]", count_objects(host->env));
            worse(OUTCOME_LEAK);
        }
    }
    __real_host_destroy(host);
}

/* ---- runs ---- */

static bool is_within(const char *line, size_t n_bytes, const char *word)
{
    return memmem(line, n_bytes, word, strlen(word)) != NULL;
}

/* Searches the event log for failed connections, because a flow replaces them if it has another
 * route. */
static void take_line(void *context, const char *line, size_t n_bytes)
{
    (void)context;
    if (liar.has_acted && (is_within(line, n_bytes, "status=protocol") ||
                           is_within(line, n_bytes, "status=auth"))) {
        liar.was_noticed = true;
        worse(OUTCOME_HEALED);
    }
    if (getenv("EVENTS") != NULL) {
        fwrite(line, 1, n_bytes, stdout);
    }
}

static void run_setting(uint32_t setting)
{
    const char *text = settings[setting].text;
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    struct run_options options = {.backend = backend_find("sim"),
                                  .trace_level = WEFT_TRACE_STORY,
                                  .replay = "dishonest_test"};
    options.events = liar.is_on ? take_line : NULL;
    struct weft_error error = {0};
    json_t *document = NULL;
    enum run_result result;

    if (scenario_load_text("t.yaml", text, strlen(text), NULL, 0, &scenario,
                           &diagnostics) != WEFT_OK) {
        fprintf(stderr, "%s\n", diagnostics.n > 0 ? diagnostics.items[0].text : "?");
        abort();
    }
    n_dispatches = 0;
    result = run_scenario(scenario, &options, &document, NULL, &error);
    if (result == RUN_TIMEOUT) {
        worse(OUTCOME_HANG);
    }
    weft_check(result != RUN_ERROR && result != RUN_ENVIRONMENT);
    weft_check(liar.is_on || result == RUN_PASS);
    json_decref(document);
    scenario_free(scenario);
    scenario_diagnostics_fini(&diagnostics);
}

/* Number and largest size of the messages of each kind that an honest member sends. */
static struct {
    uint32_t counts[N_KINDS], lengths[N_KINDS];
} honest[N_SETTINGS][MEMBERS_MAX];

static void count_honest(void)
{
    for (uint32_t s = 0; s < N_SETTINGS; s++) {
        for (uint32_t m = 0; m < settings[s].n_members; m++) {
            liar = (struct liar){.member = m};
            run_setting(s);
            memcpy(honest[s][m].counts, liar.counts, sizeof(liar.counts));
            memcpy(honest[s][m].lengths, liar.lengths, sizeof(liar.lengths));
        }
    }
}

static struct mutation draw(uint64_t seed, uint32_t index)
{
    static const enum change changes[] = {
        CHANGE_SET,      CHANGE_SET,      CHANGE_SET,    CHANGE_SET,
        CHANGE_TRUNCATE, CHANGE_LENGTHEN, CHANGE_DROP,   CHANGE_REPEAT,
        CHANGE_FLOOD,    CHANGE_SWAP,     CHANGE_REPLAY, CHANGE_RETYPE,
        CHANGE_INSERT,   CHANGE_INSERT,   CHANGE_FORGE,  CHANGE_MUTE};
    static const uint32_t widths[] = {1, 2, 4, 8};
    struct mutation plan = {0};
    struct weft_rng rng;
    char name[32];
    const uint32_t *counts;

    weft_format(name, sizeof(name), "case:%u", index);
    weft_rng_init(&rng, seed, name);
    plan.setting = (uint32_t)weft_rng_below(&rng, N_SETTINGS);
    plan.member = (uint32_t)weft_rng_below(&rng, settings[plan.setting].n_members);
    counts = honest[plan.setting][plan.member].counts;
    do {
        plan.kind = (uint32_t)weft_rng_below(&rng, N_KINDS);
    } while (counts[plan.kind] == 0);
    plan.nth = (uint32_t)weft_rng_below(&rng, counts[plan.kind]);
    plan.change = changes[weft_rng_below(&rng, WEFT_LENGTH(changes))];
    if (plan.kind <= CODEC_AUTH) {
        plan.change = CHANGE_SET; /* proofs are computed over these as they were queued */
    }
    plan.offset = (uint32_t)weft_rng_below(
        &rng, honest[plan.setting][plan.member].lengths[plan.kind] + 8);
    plan.width = widths[weft_rng_below(&rng, WEFT_LENGTH(widths))];
    plan.value = (uint32_t)weft_rng_below(&rng, 12);
    plan.random = weft_rng_next(&rng);
    return plan;
}

static void describe(const struct mutation *plan, uint32_t index, char *out, size_t n)
{
    weft_format(out, n, "case %u: %s, member %u: %s of %s %u", index,
                settings[plan->setting].name, plan->member, change_names[plan->change],
                kind_name(plan->kind), plan->nth);
}

/* Returns true if the receiver must detect the change: messages of the handshake in another order,
 * number or size, and immediates of data, in which no bit is unused. */
static bool is_forbidden(const struct mutation *plan)
{
    bool in_handshake = is_handshake(plan->kind);

    switch (plan->change) {
    case CHANGE_SET:
        return liar.is_immediate;
    case CHANGE_TRUNCATE:
    case CHANGE_LENGTHEN:
    case CHANGE_RETYPE:
    case CHANGE_INSERT:
        return in_handshake;
    case CHANGE_REPEAT:
        return in_handshake || plan->kind == KIND_CTS;
    case CHANGE_FLOOD:
        return in_handshake || plan->kind == KIND_CTS || plan->kind == KIND_DATA;
    case CHANGE_SWAP:
        return in_handshake && liar.was_released;
    case CHANGE_FORGE:
        /* Other streams of the mesh are reconnected, and nothing follows the end of a
         * connection. */
        return in_handshake || plan->kind == CODEC_JOIN || plan->kind == CODEC_BLOB;
    case CHANGE_DROP:
    case CHANGE_REPLAY:
    case CHANGE_MUTE:
    case N_CHANGES:
        break;
    }
    return false;
}

static void run_case(const struct mutation *plan)
{
    verdict = (struct verdict){0};
    liar = (struct liar){.plan = *plan, .is_on = true, .member = plan->member};
    run_setting(plan->setting);
    liar.is_on = false;
    if (liar.has_acted && plan->kind == KIND_CTS && plan->change == CHANGE_FLOOD &&
        !liar.was_noticed) {
        worse(OUTCOME_ACCEPTED);
    }
    if (verdict.outcome < OUTCOME_TYPED && verdict.failed > 0) {
        worse(verdict.named > 0 ? OUTCOME_TYPED : OUTCOME_UNNAMED);
    }
    if (verdict.outcome == OUTCOME_UNUSED && liar.has_acted && !liar.is_same) {
        verdict.outcome = is_forbidden(plan) ? OUTCOME_ACCEPTED : OUTCOME_NONE;
    }
}

/* ---- the cases ---- */

/* Counts that survive a crash of the process that runs the cases. */
struct board {
    uint32_t next;
    uint32_t table[N_KINDS][N_OUTCOMES];
    uint32_t changes[N_CHANGES][N_OUTCOMES];
    uint32_t settings[N_SETTINGS][N_OUTCOMES];
};

static struct board *board;

static void note(const struct mutation *plan, uint32_t index, enum outcome outcome,
                 const char *what, const char *story)
{
    char text[160];

    board->table[plan->kind][outcome]++;
    board->changes[plan->change][outcome]++;
    board->settings[plan->setting][outcome]++;
    if (IS_BUG(outcome) || getenv("VERBOSE") != NULL) {
        describe(plan, index, text, sizeof(text));
        printf("%s: %s (%s)%s\n", outcome_names[outcome], text, what, story);
        fflush(stdout);
    }
}

static const char *wanted_kind, *wanted_change; /* NULL for all */

static bool is_wanted(const struct mutation *plan)
{
    return (wanted_kind == NULL || strcmp(wanted_kind, kind_name(plan->kind)) == 0) &&
           (wanted_change == NULL ||
            strcmp(wanted_change, change_names[plan->change]) == 0);
}

/* Runs cases from board->next on in a process of its own, which ends early if one crashes. */
static void run_some(uint64_t seed, uint32_t end)
{
    pid_t child = fork();
    int status;
    uint32_t index;

    if (child == 0) {
        for (index = board->next; index < end; index = board->next) {
            struct mutation plan = draw(seed, index);

            if (is_wanted(&plan)) {
                run_case(&plan);
                note(&plan, index, verdict.outcome, liar.what, verdict.story);
            }
            board->next = index + 1;
        }
        exit(0);
    }
    waitpid(child, &status, 0);
    index = board->next;
    if (index < end) {
        struct mutation plan = draw(seed, index);
        bool has_spun = WIFEXITED(status) && WEXITSTATUS(status) == OUTCOME_SPIN;

        note(&plan, index, has_spun ? OUTCOME_SPIN : OUTCOME_CRASH, "?", "");
        board->next = index + 1;
    } else if (status != 0) {
        printf("the process of cases before %u left with status %d: a leak?\n", end,
               status);
        board->table[0][OUTCOME_LEAK]++;
    }
}

static void print_row(const char *name, const uint32_t counts[N_OUTCOMES])
{
    uint32_t sum = 0;

    for (uint32_t o = 0; o < N_OUTCOMES; o++) {
        sum += counts[o];
    }
    if (sum == 0) {
        return;
    }
    printf("%-13s", name);
    for (uint32_t o = 0; o < N_OUTCOMES; o++) {
        printf(counts[o] == 0 ? "       ." : " %7u", counts[o]);
    }
    printf("\n");
}

static uint32_t print_table(void)
{
    uint32_t n_bugs = 0;

    printf("%-13s", "");
    for (uint32_t o = 0; o < N_OUTCOMES; o++) {
        printf(" %7s", outcome_names[o]);
    }
    printf("\n");
    for (uint32_t k = 0; k < N_KINDS; k++) {
        print_row(k == 0 ? "(processes)" : kind_name(k), board->table[k]);
        for (uint32_t o = OUTCOME_UNNAMED + 1; o < N_OUTCOMES; o++) {
            n_bugs += board->table[k][o];
        }
    }
    for (uint32_t c = 0; c < N_CHANGES; c++) {
        print_row(change_names[c], board->changes[c]);
    }
    for (uint32_t s = 0; s < N_SETTINGS; s++) {
        print_row(settings[s].name, board->settings[s]);
    }
    return n_bugs;
}

/* Prints the table. Returns the number of bad cases. */
static uint32_t run_cases(uint32_t n, uint64_t seed, uint32_t first)
{
    uint32_t n_bugs;

    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    weft_check(board != MAP_FAILED);
    count_honest();
    board->next = first;
    while (board->next < first + n) {
        uint32_t end = board->next + CASES_OF_A_PROCESS;

        run_some(seed, end < first + n ? end : first + n);
    }
    n_bugs = print_table();
    printf("%u cases of seed %llu, %u of them bad\n", n, (unsigned long long)seed,
           n_bugs);
    fflush(stdout);
    munmap(board, sizeof(*board));
    return n_bugs;
}

START_TEST(no_message_of_a_member_harms_the_others)
{
    enum { PARTS = 8, N = SWEEP(CASES) / PARTS };

    for (uint32_t i = 0; i < PARTS; i++) {
        if (suite_takes(i)) {
            ck_assert_uint_eq(run_cases(N, 1, i * N), 0);
        }
    }
}
END_TEST

static int run_suite(void)
{
    Suite *suite = suite_create("run, a dishonest member");
    TCase *tests = tcase_create("dishonest");

    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, no_message_of_a_member_harms_the_others);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint32_t first = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;

    if (argc < 2) {
        return run_suite();
    }
    wanted_kind = argc > 4 ? argv[4] : NULL;
    wanted_change = argc > 5 ? argv[5] : NULL;
    return run_cases((uint32_t)strtoul(argv[1], NULL, 10), seed, first) == 0
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
