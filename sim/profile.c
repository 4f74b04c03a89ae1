#include "sim/profile.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "sim/profiles/profiles.h"

enum field_kind {
    FIELD_U32,
    FIELD_U64,
    FIELD_SIZE32, /* bytes, stored in a uint32_t */
    FIELD_BOOL,
    FIELD_TIME, /* at least nanoseconds, stored in picoseconds */
    FIELD_DIALECT,
    FIELD_QPN_REUSE,
    FIELD_QPN,     /* first QP number */
    FIELD_READS,   /* READs and atomics of a QP at a time */
    FIELD_TIMEOUT, /* greatest ACK timeout, as its exponent */
    FIELD_GIDS     /* number of foreign GIDs */
};

/* ibv_global_route.sgid_index has 8 bits. */
#define FOREIGN_GIDS_MAX 248u

/* QP numbers have 24 bits (IBA 9.2.4); this leaves room for more than 2^20. */
#define FIRST_QPN_MAX 0xefffffu

/* ibv_qp_attr.max_rd_atomic has 8 bits, and some devices round it to a power of two. */
#define READS_MAX 128u

/* The ACK timeout has 5 bits (IBA 9.7.6.1.3). */
#define TIMEOUT_MAX 31u

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
};

#define FIELD(kind, name)                                                                \
    {                                                                                    \
#name, FIELD_##kind, offsetof(struct sim_profile, name)                          \
    }

static const struct field fields[] = {
    FIELD(U32, vendor_id),
    FIELD(U32, vendor_part_id),
    FIELD(U32, hw_ver),
    FIELD(U64, max_mr_size),
    FIELD(U64, page_size_cap),
    FIELD(U32, max_qp),
    FIELD(U32, max_qp_wr),
    FIELD(U32, device_cap_flags),
    FIELD(U32, max_sge),
    FIELD(U32, max_sge_rd),
    FIELD(U32, max_cq),
    FIELD(U32, max_cqe),
    FIELD(U32, max_mr),
    FIELD(U32, max_pd),
    FIELD(READS, max_qp_rd_atom),
    FIELD(READS, max_qp_init_rd_atom),
    FIELD(U32, max_res_rd_atom),
    FIELD(U32, atomic_cap),
    FIELD(U32, max_srq_wr),
    FIELD(U32, max_srq_sge),
    FIELD(U32, max_pkeys),
    FIELD(U32, local_ca_ack_delay),
    FIELD(U32, gid_tbl_len),
    FIELD(BOOL, has_roce_v1),
    FIELD(GIDS, foreign_gids),
    FIELD(BOOL, in_ip_stack),
    FIELD(BOOL, gids_by_scan),
    FIELD(SIZE32, mtu_overhead_bytes),
    FIELD(SIZE32, max_mtu_bytes),
    FIELD(SIZE32, max_msg_bytes),
    FIELD(SIZE32, max_inline_bytes),
    FIELD(BOOL, inline_lowered),
    FIELD(BOOL, empty_sq_refused),
    FIELD(BOOL, wr_rounded_to_pow2),
    FIELD(U32, min_wr),
    FIELD(BOOL, cqe_rounded_to_pow2),
    FIELD(U32, min_cqe),
    FIELD(U32, cqe_reserved),
    FIELD(SIZE32, cqe_bytes),
    FIELD(U32, recv_sge_reserved),
    FIELD(BOOL, recv_sge_rounded),
    FIELD(DIALECT, dialect),
    FIELD(QPN_REUSE, qpn_reuse),
    FIELD(QPN, first_qpn),
    FIELD(BOOL, retry_cnt_7_is_endless),
    FIELD(BOOL, has_sqd),
    FIELD(BOOL, post_check_strict),
    FIELD(BOOL, flush_on_poll),
    FIELD(U32, min_rnr_timer_forced),
    FIELD(TIMEOUT, timeout_max),
    FIELD(BOOL, timeout_beyond_ignored),
    FIELD(BOOL, cur_state_checked),
    FIELD(BOOL, mig_req),
    FIELD(BOOL, sport_is_symmetric),
    FIELD(BOOL, raises_access_events),
    FIELD(BOOL, writes_in_order),
    FIELD(BOOL, has_dmabuf),
    FIELD(BOOL, cqes_purged),
    FIELD(BOOL, has_ece),
    FIELD(U32, ece_options),
    FIELD(BOOL, rd_atomic_rounded),
    FIELD(BOOL, rd_atomic_zero_kept),
    FIELD(BOOL, gid_checked_per_packet),
    FIELD(U32, window_packets),
    FIELD(U32, ack_req_packets),
    FIELD(BOOL, path_mtu_needs_active),
    FIELD(BOOL, ipv4_id_rises),
    FIELD(BOOL, acks_are_single),
    FIELD(BOOL, nak_waits_for_ack),
    FIELD(BOOL, ghost_ack_completes),
    FIELD(BOOL, read_gap_waits),
    FIELD(BOOL, read_tail_is_middle),
    FIELD(BOOL, excess_reads_served),
    FIELD(U32, general_err_nth),
    FIELD(BOOL, general_err_is_harmless),
    FIELD(TIME, tx_overhead_ps),
    FIELD(TIME, rx_overhead_ps),
    FIELD(TIME, cqe_overhead_ps),
    FIELD(TIME, ack_delay_ps),
    FIELD(TIME, write_spread_ps),
    FIELD(TIME, gpu_visibility_ps),
    FIELD(TIME, alloc_pd_ps),
    FIELD(TIME, dealloc_pd_ps),
    FIELD(TIME, reg_mr_ps),
    FIELD(TIME, reg_mr_page_ps),
    FIELD(TIME, dereg_mr_ps),
    FIELD(TIME, create_cq_ps),
    FIELD(TIME, destroy_cq_ps),
    FIELD(TIME, create_qp_ps),
    FIELD(TIME, modify_qp_ps),
    FIELD(TIME, destroy_qp_ps),
    FIELD(BOOL, dereg_is_serialised),
    FIELD(BOOL, create_qp_is_local),
    FIELD(U32, mailbox_stall_nth),
    FIELD(TIME, mailbox_stall_ps),
    FIELD(TIME, mailbox_limit_ps),
};

static const struct sim_profile *const profiles[WEFT_N_PROFILES] = {
    [WEFT_PROFILE_MLX5] = &sim_profile_mlx5,
    [WEFT_PROFILE_HNS_HIP08] = &sim_profile_hns_hip08,
    [WEFT_PROFILE_HNS_HIP09] = &sim_profile_hns_hip09,
    [WEFT_PROFILE_RXE] = &sim_profile_rxe,
    [WEFT_PROFILE_SYNTH2PORT] = &sim_profile_synth2port,
    [WEFT_PROFILE_MINIMAL] = &sim_profile_minimal,
};

const struct sim_profile *sim_profile(enum weft_profile id)
{
    weft_check((unsigned)id < WEFT_N_PROFILES);
    return profiles[id];
}

const struct sim_profile *sim_profile_find(const char *name)
{
    for (size_t i = 0; i < WEFT_N_PROFILES; i++) {
        if (strcmp(weft_profile_names[i], name) == 0) {
            return profiles[i];
        }
    }
    return NULL;
}

const char *sim_profile_field(unsigned index)
{
    return index < WEFT_LENGTH(fields) ? fields[index].name : NULL;
}

/* Returns true if `given` is `name`, with or without its unit. */
static bool name_matches(const char *name, const char *given)
{
    size_t n = strlen(given);
    if (strncmp(name, given, n) != 0) {
        return false;
    }
    const char *rest = name + n;
    return *rest == '\0' || strcmp(rest, "_ps") == 0 || strcmp(rest, "_bytes") == 0;
}

/* Parses all of `text` as an unsigned decimal or 0x hexadecimal number. */
static bool parse_u64(const char *text, uint64_t *out)
{
    bool is_hex = text[0] == '0' && text[1] == 'x';
    unsigned base = is_hex ? 16 : 10;
    uint64_t value = 0;
    const char *at = is_hex ? text + 2 : text;
    if (*at == '\0') {
        return false;
    }
    for (; *at != '\0'; at++) {
        const char *digits = "0123456789abcdef";
        const char *digit = strchr(digits, *at);
        if (digit == NULL || (unsigned)(digit - digits) >= base) {
            return false;
        }
        uint64_t add = (uint64_t)(digit - digits);
        if (value > (UINT64_MAX - add) / base) {
            return false;
        }
        value = value * base + add;
    }
    *out = value;
    return true;
}

/* Returns the index of `text` among `names`, or -1. */
static int parse_name(const char *text, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static bool set_u32(void *at, uint64_t value)
{
    if (value > UINT32_MAX) {
        return false;
    }
    *(uint32_t *)at = (uint32_t)value;
    return true;
}

static bool set_at_most(void *at, const char *text, uint32_t most)
{
    uint64_t value = 0;
    return parse_u64(text, &value) && value <= most && set_u32(at, value);
}

static bool set_bool(void *at, const char *text)
{
    static const char *const names[] = {"false", "true"};
    int index = parse_name(text, names, 2);
    if (index >= 0) {
        *(bool *)at = index == 1;
    }
    return index >= 0;
}

static bool set_time(void *at, const char *text)
{
    weft_ns ns = 0;
    if (!weft_parse_time_ns(text, &ns) || ns > INT64_MAX / 1000) {
        return false;
    }
    *(weft_ps *)at = ns * 1000;
    return true;
}

static bool set_dialect(void *at, const char *text)
{
    static const char *const names[] = {"ibta", "rxe"};
    int index = parse_name(text, names, 2);
    if (index >= 0) {
        *(enum sim_dialect *)at = index == 0 ? SIM_DIALECT_IBTA : SIM_DIALECT_RXE;
    }
    return index >= 0;
}

static bool set_qpn_reuse(void *at, const char *text)
{
    static const char *const names[] = {"immediate", "cyclic"};
    int index = parse_name(text, names, 2);
    if (index >= 0) {
        *(enum sim_qpn_reuse *)at = index == 0 ? SIM_QPN_IMMEDIATE : SIM_QPN_CYCLIC;
    }
    return index >= 0;
}

static bool set_field(const struct field *field, void *at, const char *value)
{
    uint64_t number = 0;
    switch (field->kind) {
    case FIELD_U32:
        return parse_u64(value, &number) && set_u32(at, number);
    case FIELD_SIZE32:
        return weft_parse_size_bytes(value, &number) && set_u32(at, number);
    case FIELD_QPN:
        return set_at_most(at, value, FIRST_QPN_MAX);
    case FIELD_GIDS:
        return set_at_most(at, value, FOREIGN_GIDS_MAX);
    case FIELD_READS:
        return set_at_most(at, value, READS_MAX);
    case FIELD_TIMEOUT:
        return set_at_most(at, value, TIMEOUT_MAX);
    case FIELD_U64:
        if (!parse_u64(value, &number) && !weft_parse_size_bytes(value, &number)) {
            return false;
        }
        *(uint64_t *)at = number;
        return true;
    case FIELD_BOOL:
        return set_bool(at, value);
    case FIELD_TIME:
        return set_time(at, value);
    case FIELD_DIALECT:
        return set_dialect(at, value);
    case FIELD_QPN_REUSE:
        return set_qpn_reuse(at, value);
    }
    return false;
}

bool sim_profile_override(struct sim_profile *profile, const char *field,
                          const char *value)
{
    for (size_t i = 0; i < WEFT_LENGTH(fields); i++) {
        if (name_matches(fields[i].name, field)) {
            return set_field(&fields[i], (char *)profile + fields[i].offset, value);
        }
    }
    return false;
}
