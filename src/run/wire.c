#include "run/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum {
    ETHERTYPE_IPV4 = 0x0800,
    ETHERTYPE_VLAN = 0x8100,
    ETHERTYPE_IPV6 = 0x86dd,
    ETHERTYPE_ROCE_V1 = 0x8915,
    PROTOCOL_UDP = 17,
    PORT_ROCE_V2 = 4791,
    BTH_BYTES = 12,
    ICRC_BYTES = 4
};

/* Opcodes of RC (IBA 9.2.1). */
enum {
    OP_SEND_FIRST = 0,
    OP_SEND_LAST = 2,
    OP_SEND_ONLY = 4,
    OP_SEND_ONLY_IMMEDIATE = 5,
    OP_WRITE_FIRST = 6,
    OP_WRITE_MIDDLE = 7,
    OP_WRITE_LAST = 8,
    OP_WRITE_ONLY = 10,
    OP_WRITE_ONLY_IMMEDIATE = 11,
    OP_READ_REQUEST = 12,
    OP_READ_RESPONSE_FIRST = 13,
    OP_READ_RESPONSE_ONLY = 16,
    OP_ACKNOWLEDGE = 17,
    OP_ATOMIC_ACKNOWLEDGE = 18,
    OP_COMPARE_SWAP = 19,
    OP_FETCH_ADD = 20
};

#define PSN_MASK 0xffffffu
/* A PSN further ahead than this belongs to another connection with the same queue pair number. */
#define JUMP_MAX 4096u
/* Larger frames are not checked, because the CRC of each would take most of the time. */
#define ICRC_FRAME_MAX 320u
/* Shortest timeout of any queue pair. */
#define TIMEOUT_MIN_NS 500000
#define VIOLATIONS_MAX 4u

/* A parsed RoCE frame. */
struct bth {
    uint8_t source[16], destination[16]; /* addresses of the IP header or GRH */
    uint8_t opcode;
    uint32_t dest_qpn, psn;
    const uint8_t *rest; /* [n_rest]; payload after the BTH, without the ICRC */
    size_t n_rest;
    const uint8_t *network; /* [n_network]; from the IP header or GRH on, with the ICRC */
    size_t n_network;
    uint16_t ethertype;
};

#define BUCKETS 256u

/* One request, indexed by its PSN relative to the first of the stream. */
struct request {
    int64_t sent_ns; /* time of the last transmission */
    uint32_t n_bytes;
    /* Number of messages that end up to this PSN; valid if it arrived in order. */
    uint32_t n_ends;
    uint8_t opcode;
    bool is_known;
};

/* Requests from one queue pair to another. */
struct stream {
    uint8_t source[16], destination[16];
    uint32_t dest_qpn;
    /* Indices in the spec; peer_host: UINT32_MAX until a frame has arrived. */
    uint32_t host, peer_host;
    /* Queue pair that receives the acknowledgements, if known. */
    uint32_t source_qpn;
    bool has_source_qpn;
    /* READs or atomics were sent. They are answered without an ACK, and a READ's response can use
     * many PSNs. */
    bool has_reads;
    bool in_message;
    uint32_t first;       /* PSN */
    uint32_t sent, acked; /* one past the last PSN, as the sender knows it */
    uint32_t got;         /* one past the last PSN that arrived in order */
    uint32_t nak_at;      /* PSN of the last NAK, if has_nak */
    bool has_nak;
    int64_t nak_seen_ns;      /* when the sender received the last NAK; -1 if never */
    struct request *requests; /* Owned [n_requests] */
    uint32_t n_requests;
    struct stream *next;
};

/* How a host's device differs from IBA. */
struct device {
    uint32_t window;  /* requests; 0 if unknown */
    bool is_peculiar; /* acknowledges and retransmits by its own rules */
};

struct run_wire {
    const struct world_spec *spec;
    struct device *devices; /* Owned [spec->n_hosts] */
    /* Owned; hashed by the pair of addresses, newest first. */
    struct stream *streams[BUCKETS];
    bool may_be_dark;
    unsigned n_broken;
    struct weft_text broken;
    uint32_t crc_table[256];
};

/* ---- set-up ---- */

static bool is_quirk(const char *name)
{
    static const char *const quirks[] = {"acks_are_single", "nak_waits_for_ack",
                                         "ghost_ack_completes", "read_gap_waits",
                                         "qpn_reuse"};

    for (size_t i = 0; i < WEFT_LENGTH(quirks); i++) {
        if (strcmp(name, quirks[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool run_wire_is_peculiar(const struct world_host *host)
{
    bool is_peculiar = host->profile == WEFT_PROFILE_RXE;

    for (uint32_t i = 0; i < host->n_overrides; i++) {
        is_peculiar = is_peculiar || is_quirk(host->overrides[i].name);
    }
    return is_peculiar;
}

struct run_wire *run_wire_create(const struct world_spec *spec, bool may_be_dark)
{
    struct run_wire *wire = weft_calloc(1, sizeof(*wire));

    wire->spec = spec;
    wire->may_be_dark = may_be_dark;
    wire->devices = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*wire->devices));
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        const struct world_host *host = &spec->hosts[i];

        wire->devices[i].is_peculiar = run_wire_is_peculiar(host);
        for (uint32_t k = 0; k < host->n_overrides; k++) {
            const struct world_setting *setting = &host->overrides[k];

            if (strcmp(setting->name, "window_packets") == 0) {
                wire->devices[i].window = (uint32_t)strtoul(setting->value, NULL, 10);
            }
        }
    }
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
        }
        wire->crc_table[i] = crc;
    }
    return wire;
}

void run_wire_free(struct run_wire *wire)
{
    if (wire == NULL) {
        return;
    }
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (wire->streams[i] != NULL) {
            struct stream *stream = wire->streams[i];

            wire->streams[i] = stream->next;
            free(stream->requests);
            free(stream);
        }
    }
    weft_text_fini(&wire->broken);
    free(wire->devices);
    free(wire);
}

const char *run_wire_broken(const struct run_wire *wire)
{
    return wire->broken.bytes != NULL ? wire->broken.bytes : "";
}

/* Records a violation of `rule` by `stream`. */
static void violate(struct run_wire *wire, const struct stream *stream,
                    const struct world_frame *frame, const char *rule,
                    const struct bth *bth, uint32_t expected)
{
    const struct world_host *host = &wire->spec->hosts[frame->host];

    if (wire->n_broken++ >= VIOLATIONS_MAX) {
        return;
    }
    weft_text_add(
        &wire->broken,
        "%s%s: %s:%s at %lld ns: opcode %u to QP %u with PSN %u (%u from the first), "
        "expected %u",
        wire->broken.n > 0 ? "; " : "", rule, host->name, host->ports[frame->port].name,
        (long long)frame->at_ns, bth->opcode, bth->dest_qpn, bth->psn,
        (bth->psn - stream->first) & PSN_MASK, expected);
}

/* ---- frames ---- */

static uint32_t get_u16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get_u24(const uint8_t *at)
{
    return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

/* Returns the length of the network header at `at`, which has at least one byte. An IPv4 header
 * can have options. */
static size_t header_bytes(uint16_t ethertype, const uint8_t *at)
{
    return ethertype == ETHERTYPE_IPV4 ? (size_t)(at[0] & 0xf) * 4 : 40;
}

/* Finds the BTH after the network header at `at`. Returns false if there is none. */
static bool find_bth(const uint8_t *at, size_t n, struct bth *out, const uint8_t **bth)
{
    bool is_v4 = out->ethertype == ETHERTYPE_IPV4;
    size_t header = header_bytes(out->ethertype, at);
    size_t udp = out->ethertype == ETHERTYPE_ROCE_V1 ? 0 : 8;

    if (header < 20 || n < header + udp + BTH_BYTES + ICRC_BYTES) {
        return false;
    }
    if (is_v4) {
        memset(out->source, 0, 16);
        memset(out->destination, 0, 16);
        memcpy(out->source, at + 12, 4);
        memcpy(out->destination, at + 16, 4);
    } else {
        memcpy(out->source, at + 8, 16);
        memcpy(out->destination, at + 24, 16);
    }
    *bth = at + header;
    if (out->ethertype == ETHERTYPE_ROCE_V1) {
        return true;
    }
    *bth += 8;
    return at[is_v4 ? 9 : 6] == PROTOCOL_UDP && get_u16(at + header + 2) == PORT_ROCE_V2;
}

static bool take_apart(const struct world_frame *frame, struct bth *out)
{
    const uint8_t *at = frame->bytes + 12;
    size_t n = frame->n_bytes;
    const uint8_t *bth = NULL;

    if (n < 60) {
        return false;
    }
    n -= 12;
    out->ethertype = (uint16_t)get_u16(at);
    if (out->ethertype == ETHERTYPE_VLAN) {
        at += 4;
        n -= 4;
        out->ethertype = (uint16_t)get_u16(at);
    }
    at += 2;
    n -= 2;
    if ((out->ethertype != ETHERTYPE_IPV4 && out->ethertype != ETHERTYPE_IPV6 &&
         out->ethertype != ETHERTYPE_ROCE_V1) ||
        !find_bth(at, n, out, &bth)) {
        return false;
    }
    out->network = at;
    out->n_network = n;
    out->opcode = bth[0];
    out->dest_qpn = get_u24(bth + 5);
    out->psn = get_u24(bth + 9);
    out->rest = bth + BTH_BYTES;
    out->n_rest = n - (size_t)(bth - at) - BTH_BYTES - ICRC_BYTES;
    return true;
}

/* Checks the ICRC: a CRC-32 over the frame, with fields that change on the path replaced by ones
 * (IBA A17.3.3). */
static bool has_right_icrc(const struct run_wire *wire, const struct bth *bth)
{
    uint8_t bytes[ICRC_FRAME_MAX];
    size_t n = bth->n_network - ICRC_BYTES;
    uint32_t crc = UINT32_MAX, wanted;
    size_t header = header_bytes(bth->ethertype, bth->network);
    size_t at = header + (bth->ethertype == ETHERTYPE_ROCE_V1 ? 0 : 8);
    const uint8_t *tail = bth->network + n;

    memcpy(bytes, bth->network, n);
    if (bth->ethertype == ETHERTYPE_IPV4) {
        bytes[1] = bytes[8] = bytes[10] = bytes[11] = 0xff;
    } else {
        bytes[0] |= 0x0f;
        bytes[1] = bytes[2] = bytes[3] = bytes[7] = 0xff;
    }
    if (bth->ethertype != ETHERTYPE_ROCE_V1) {
        bytes[header + 6] = bytes[header + 7] = 0xff;
    }
    bytes[at + 4] = 0xff;
    for (int i = 0; i < 8; i++) {
        crc = crc >> 8 ^ wire->crc_table[(crc ^ 0xff) & 0xff];
    }
    for (size_t i = 0; i < n; i++) {
        crc = crc >> 8 ^ wire->crc_table[(crc ^ bytes[i]) & 0xff];
    }
    wanted = (uint32_t)tail[3] << 24 | (uint32_t)tail[2] << 16 | (uint32_t)tail[1] << 8 |
             tail[0];
    return ~crc == wanted;
}

/* ---- streams ---- */

static bool is_request(uint8_t opcode)
{
    return opcode <= OP_READ_REQUEST ||
           (opcode >= OP_COMPARE_SWAP && opcode <= 23 && opcode != 21);
}

static bool begins(uint8_t opcode)
{
    return opcode == OP_SEND_FIRST || opcode == OP_WRITE_FIRST ||
           (opcode >= OP_SEND_ONLY && opcode <= OP_SEND_ONLY_IMMEDIATE) ||
           opcode >= OP_WRITE_ONLY;
}

static bool ends(uint8_t opcode)
{
    return opcode != OP_SEND_FIRST && opcode != 1 && opcode != OP_WRITE_FIRST &&
           opcode != OP_WRITE_MIDDLE;
}

static struct request *request_at(struct stream *stream, uint32_t offset)
{
    if (offset >= stream->n_requests) {
        uint32_t n = stream->n_requests == 0 ? 64 : stream->n_requests;

        while (n <= offset) {
            n *= 2;
        }
        stream->requests = weft_realloc(stream->requests, n * sizeof(*stream->requests));
        memset(stream->requests + stream->n_requests, 0,
               (n - stream->n_requests) * sizeof(*stream->requests));
        stream->n_requests = n;
    }
    return &stream->requests[offset];
}

static bool is_of(const struct stream *stream, const struct bth *bth)
{
    return stream->dest_qpn == bth->dest_qpn &&
           memcmp(stream->source, bth->source, 16) == 0 &&
           memcmp(stream->destination, bth->destination, 16) == 0;
}

/* Returns the list of streams between the two addresses of a frame, in both directions. */
static struct stream **streams_of(struct run_wire *wire, const struct bth *bth)
{
    uint32_t sum = 0;

    for (int i = 0; i < 16; i++) {
        sum = sum * 31 + bth->source[i] + bth->destination[i];
    }
    return &wire->streams[sum % BUCKETS];
}

/* Returns the newest stream of the request's queue pair; NULL if its first request was not seen. */
static struct stream *find_stream(struct run_wire *wire, const struct bth *bth)
{
    struct stream *stream = *streams_of(wire, bth);

    while (stream != NULL && !is_of(stream, bth)) {
        stream = stream->next;
    }
    return stream;
}

static struct stream *add_stream(struct run_wire *wire, const struct bth *bth,
                                 uint32_t host)
{
    struct stream *stream = weft_calloc(1, sizeof(*stream));
    struct stream **list = streams_of(wire, bth);

    memcpy(stream->source, bth->source, 16);
    memcpy(stream->destination, bth->destination, 16);
    stream->dest_qpn = bth->dest_qpn;
    stream->host = host;
    stream->peer_host = UINT32_MAX;
    stream->first = bth->psn;
    stream->nak_seen_ns = -1;
    stream->next = *list;
    *list = stream;
    return stream;
}

/* Returns the stream that an acknowledgement belongs to: one whose acknowledgements go to that
 * queue pair, otherwise the only possible one. */
static struct stream *find_acknowledged(struct run_wire *wire, const struct bth *bth)
{
    struct stream *found = NULL;
    unsigned n = 0;

    for (struct stream *at = *streams_of(wire, bth); at != NULL; at = at->next) {
        if (memcmp(at->source, bth->destination, 16) != 0 ||
            memcmp(at->destination, bth->source, 16) != 0) {
            continue;
        }
        if (at->has_source_qpn && at->source_qpn == bth->dest_qpn) {
            uint32_t offset = (bth->psn - at->first) & PSN_MASK;

            if (offset < at->sent + JUMP_MAX || offset == PSN_MASK) {
                return at;
            }
            continue; /* an older connection of the same two numbers */
        }
        if (!at->has_source_qpn && ((bth->psn - at->first) & PSN_MASK) < at->sent) {
            found = at;
            n++;
        }
    }
    if (n != 1) {
        return NULL;
    }
    found->has_source_qpn = true;
    found->source_qpn = bth->dest_qpn;
    return found;
}

/* ---- the sender ---- */

static void judge_repeat(struct run_wire *wire, struct stream *stream,
                         const struct world_frame *frame, const struct bth *bth,
                         uint32_t offset)
{
    struct request *request = request_at(stream, offset);

    if (!request->is_known || stream->has_reads) {
        return;
    }
    if (offset < stream->acked) {
        violate(wire, stream, frame, "repeat of what was acknowledged", bth,
                stream->acked);
    }
    if (request->opcode != bth->opcode || request->n_bytes != bth->n_rest) {
        violate(wire, stream, frame, "repeat of something else", bth, request->opcode);
    }
    if (!wire->devices[stream->host].is_peculiar &&
        stream->nak_seen_ns < request->sent_ns &&
        frame->at_ns - request->sent_ns < TIMEOUT_MIN_NS) {
        violate(wire, stream, frame, "repeat without a NAK or a timeout", bth,
                stream->sent);
    }
}

static void judge_new(struct run_wire *wire, struct stream *stream,
                      const struct world_frame *frame, const struct bth *bth,
                      uint32_t offset)
{
    if (!stream->has_reads && !wire->may_be_dark) {
        if (offset != stream->sent) {
            violate(wire, stream, frame, "order of PSNs", bth, stream->sent);
        } else if (begins(bth->opcode) == stream->in_message) {
            violate(wire, stream, frame, "order of FIRST and LAST", bth, offset);
        }
    }
    stream->in_message = !ends(bth->opcode);
    stream->sent = offset + 1;
}

static void take_sent(struct run_wire *wire, const struct world_frame *frame,
                      const struct bth *bth)
{
    struct stream *stream = find_stream(wire, bth);
    uint32_t offset = stream == NULL ? 0 : (bth->psn - stream->first) & PSN_MASK;
    uint32_t window = wire->devices[frame->host].window;
    struct request *request;

    if (stream == NULL || offset > stream->sent + JUMP_MAX ||
        stream->host != frame->host) {
        stream = add_stream(wire, bth, frame->host);
        offset = 0;
    }
    stream->has_reads = stream->has_reads || bth->opcode == OP_READ_REQUEST ||
                        bth->opcode >= OP_COMPARE_SWAP;
    if (offset >= stream->sent) {
        judge_new(wire, stream, frame, bth, offset);
    } else {
        judge_repeat(wire, stream, frame, bth, offset);
    }
    if (window > 0 && !stream->has_reads && offset + 1 > stream->acked + window) {
        violate(wire, stream, frame, "window", bth, stream->acked + window - 1);
    }
    request = request_at(stream, offset);
    request->is_known = true;
    request->opcode = bth->opcode;
    request->n_bytes = (uint32_t)bth->n_rest;
    request->sent_ns = frame->at_ns;
}

/* Handles an answer that reaches the sender. */
static void take_answer(struct run_wire *wire, const struct world_frame *frame,
                        const struct bth *bth)
{
    struct stream *stream = find_acknowledged(wire, bth);
    uint32_t offset;
    bool is_nak =
        bth->opcode == OP_ACKNOWLEDGE && bth->n_rest >= 4 && (bth->rest[0] & 0x60) != 0;

    if (stream == NULL) {
        return;
    }
    offset = (bth->psn - stream->first) & PSN_MASK;
    if (is_nak) {
        stream->nak_seen_ns = frame->at_ns;
    } else {
        offset++;
    }
    if (offset <= stream->sent && offset > stream->acked) {
        stream->acked = offset;
    }
}

/* ---- the receiver ---- */

/* Handles a request that reaches the receiver. */
static void take_arrived(struct run_wire *wire, const struct world_frame *frame,
                         const struct bth *bth)
{
    struct stream *stream = find_stream(wire, bth);
    uint32_t offset;
    struct request *request;

    if (stream == NULL) {
        return;
    }
    stream->peer_host = frame->host;
    offset = (bth->psn - stream->first) & PSN_MASK;
    if (offset != stream->got) {
        return;
    }
    request = request_at(stream, offset);
    request->n_ends = (ends(bth->opcode) ? 1 : 0) +
                      (offset > 0 ? request_at(stream, offset - 1)->n_ends : 0);
    stream->got = offset + 1;
    stream->has_nak = stream->has_nak && stream->nak_at >= stream->got;
}

static void judge_nak(struct run_wire *wire, struct stream *stream,
                      const struct world_frame *frame, const struct bth *bth,
                      uint32_t offset)
{
    bool is_sequence = bth->rest[0] == 0x60;

    if (offset > stream->got) {
        violate(wire, stream, frame, "NAK of what is not missing", bth, stream->got);
        return;
    }
    if (is_sequence && stream->has_nak && stream->nak_at == offset &&
        !wire->devices[frame->host].is_peculiar) {
        violate(wire, stream, frame, "two NAKs for one gap", bth, stream->got);
    }
    stream->has_nak = is_sequence;
    stream->nak_at = offset;
    if (!is_sequence) {
        /* The refused request must be sent again. A missing request may have arrived. */
        stream->got = offset;
    }
}

/* Handles an answer that leaves the receiver. */
static void take_answered(struct run_wire *wire, const struct world_frame *frame,
                          const struct bth *bth)
{
    struct stream *stream = find_acknowledged(wire, bth);
    uint32_t offset, n_ends;

    if (stream == NULL || stream->has_reads || bth->opcode != OP_ACKNOWLEDGE ||
        bth->n_rest < 4) {
        return;
    }
    offset = (bth->psn - stream->first) & PSN_MASK;
    if ((bth->rest[0] & 0x60) != 0) {
        judge_nak(wire, stream, frame, bth, offset);
        return;
    }
    if (offset == PSN_MASK) {
        return; /* duplicate of a request from before the first one seen */
    }
    if (offset >= stream->got) {
        violate(wire, stream, frame, "ACK of what did not arrive", bth, stream->got);
        return;
    }
    n_ends = request_at(stream, offset)->n_ends;
    if (!wire->devices[frame->host].is_peculiar &&
        get_u24(bth->rest + 1) != (n_ends & PSN_MASK)) {
        violate(wire, stream, frame, "MSN", bth, n_ends);
    }
}

void run_wire_take(struct run_wire *wire, const struct world_frame *frame)
{
    const char *comment = frame->comment != NULL ? frame->comment : "";
    struct bth bth;

    if (!take_apart(frame, &bth)) {
        return;
    }
    if (!frame->is_outgoing && comment[0] == '\0') {
        if (is_request(bth.opcode)) {
            take_arrived(wire, frame, &bth);
        } else if (bth.opcode <= OP_ATOMIC_ACKNOWLEDGE) {
            take_answer(wire, frame, &bth);
        }
    } else if (frame->is_outgoing && strcmp(comment, "duplicate") != 0) {
        if (comment[0] == '\0' && bth.n_network <= ICRC_FRAME_MAX &&
            !has_right_icrc(wire, &bth)) {
            struct stream none = {.first = bth.psn};

            violate(wire, &none, frame, "icrc", &bth, 0);
        }
        if (is_request(bth.opcode)) {
            take_sent(wire, frame, &bth);
        } else if (bth.opcode <= OP_ATOMIC_ACKNOWLEDGE) {
            take_answered(wire, frame, &bth);
        }
    }
}
