/* Checks every row of sim/rules/profiles.csv on a NIC of that profile through its verbs.
 * No number is read from the profile. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

struct row {
    const char *profile, *value;
    char name[64];
    uint32_t argument; /* after '@' */
};

static struct row read_row(const struct rules *rules, unsigned i)
{
    struct row row = {.profile = rules_cell(rules, i, "profile"),
                      .value = rules_cell(rules, i, "value")};
    const char *attribute = rules_cell(rules, i, "attribute");
    const char *at = strchr(attribute, '@');
    size_t n = at == NULL ? strlen(attribute) : (size_t)(at - attribute);
    weft_format(row.name, sizeof(row.name), "%.*s", (int)n, attribute);
    row.argument = at == NULL ? 0 : (uint32_t)strtoul(at + 1, NULL, 10);
    return row;
}

static bool is(const struct row *row, const char *name)
{
    return strcmp(row->name, name) == 0;
}

static uint64_t number(const struct row *row)
{
    char *end;
    uint64_t value = strtoull(row->value, &end, 0);
    ck_assert_msg(*end == '\0' && end != row->value, "no number: %s", row->value);
    return value;
}

static bool is_errno(const struct row *row)
{
    return row->value[0] == 'E';
}

/* Opens a pair with options that are small enough for every profile. */
static void open_pair(struct rc_pair *pair, const struct row *row, uint32_t mtu_bytes,
                      bool is_unconnected)
{
    rc_pair_init(pair, &(struct rc_options){.profile = row->profile,
                                            .mtu_bytes = mtu_bytes,
                                            .path_mtu = IBV_MTU_1024,
                                            .depth = 8,
                                            .cqe = 8,
                                            .max_rd_atomic = 1,
                                            .max_dest_rd_atomic = 1,
                                            .is_unconnected = is_unconnected});
}

/* ---- ibv_query_device, ibv_query_port ---- */

static unsigned cap_flags(const char *cell)
{
    static const struct {
        const char *name;
        unsigned flag;
    } names[] = {
        {"BAD_PKEY_CNTR", IBV_DEVICE_BAD_PKEY_CNTR},
        {"BAD_QKEY_CNTR", IBV_DEVICE_BAD_QKEY_CNTR},
        {"AUTO_PATH_MIG", IBV_DEVICE_AUTO_PATH_MIG},
        {"CHANGE_PHY_PORT", IBV_DEVICE_CHANGE_PHY_PORT},
        {"PORT_ACTIVE_EVENT", IBV_DEVICE_PORT_ACTIVE_EVENT},
        {"SYS_IMAGE_GUID", IBV_DEVICE_SYS_IMAGE_GUID},
        {"RC_RNR_NAK_GEN", IBV_DEVICE_RC_RNR_NAK_GEN},
        {"MEM_WINDOW", IBV_DEVICE_MEM_WINDOW},
        {"MEM_WINDOW_TYPE_2B", IBV_DEVICE_MEM_WINDOW_TYPE_2B},
        {"XRC", IBV_DEVICE_XRC},
        {"MEM_MGT_EXTENSIONS", IBV_DEVICE_MEM_MGT_EXTENSIONS},
        {"SRQ_RESIZE", IBV_DEVICE_SRQ_RESIZE},
        {"UD_AV_PORT_ENFORCE", IBV_DEVICE_UD_AV_PORT_ENFORCE},
    };
    unsigned flags = 0;
    while (*cell != '\0') {
        size_t n = strcspn(cell, "|");
        bool is_known = false;
        for (size_t i = 0; i < WEFT_LENGTH(names); i++) {
            if (strlen(names[i].name) == n && strncmp(names[i].name, cell, n) == 0) {
                flags |= names[i].flag;
                is_known = true;
            }
        }
        ck_assert_msg(is_known, "no such flag: %s", cell);
        cell += n + (cell[n] == '|');
    }
    return flags;
}

static bool check_device(const struct row *row, struct sim_nic *nic)
{
    struct ibv_device_attr attr;
    ck_assert_int_eq(sim_nic_query_device(nic, &attr), 0);
    if (is(row, "device_cap_flags")) {
        ck_assert_uint_eq(attr.device_cap_flags, cap_flags(row->value));
        return true;
    }
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"vendor_id", attr.vendor_id},
        {"max_qp", (uint64_t)attr.max_qp},
        {"max_qp_wr", (uint64_t)attr.max_qp_wr},
        {"max_sge", (uint64_t)attr.max_sge},
        {"max_sge_rd", (uint64_t)attr.max_sge_rd},
        {"max_cq", (uint64_t)attr.max_cq},
        {"max_cqe", (uint64_t)attr.max_cqe},
        {"max_mr", (uint64_t)attr.max_mr},
        {"max_pd", (uint64_t)attr.max_pd},
        {"max_mr_size", attr.max_mr_size},
        {"page_size_cap", attr.page_size_cap},
        {"max_qp_rd_atom", (uint64_t)attr.max_qp_rd_atom},
        {"max_qp_init_rd_atom", (uint64_t)attr.max_qp_init_rd_atom},
        {"max_res_rd_atom", (uint64_t)attr.max_res_rd_atom},
        {"atomic_cap", (uint64_t)attr.atomic_cap},
        {"max_srq_wr", (uint64_t)attr.max_srq_wr},
        {"max_srq_sge", (uint64_t)attr.max_srq_sge},
        {"max_pkeys", attr.max_pkeys},
        {"local_ca_ack_delay", attr.local_ca_ack_delay},
        {"phys_port_cnt", attr.phys_port_cnt},
    };
    for (size_t i = 0; i < WEFT_LENGTH(all); i++) {
        if (is(row, all[i].name)) {
            ck_assert_uint_eq(all[i].value, number(row));
            return true;
        }
    }
    return false;
}

static bool check_port(const struct row *row, struct sim_nic *nic)
{
    struct ibv_port_attr attr;
    ck_assert_int_eq(sim_nic_query_port(nic, 1, &attr), 0);
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"gid_tbl_len", (uint64_t)attr.gid_tbl_len},
        {"pkey_tbl_len", attr.pkey_tbl_len},
        {"link_layer", attr.link_layer},
        {"lid", attr.lid},
        {"max_mtu", 128u << attr.max_mtu},
        {"active_mtu", 128u << attr.active_mtu},
        {"max_msg_sz", attr.max_msg_sz},
    };
    for (size_t i = 0; i < WEFT_LENGTH(all); i++) {
        if (is(row, all[i].name)) {
            ck_assert_uint_eq(all[i].value, number(row));
            return true;
        }
    }
    return false;
}

/* ---- the GID table ---- */

static bool check_gids(const struct row *row, struct sim_nic *nic)
{
    struct sim_gid gid;
    if (is(row, "gid_version")) {
        ck_assert_int_eq(sim_nic_query_gid(nic, 1, row->argument, &gid), 0);
        ck_assert_uint_eq(gid.type == IBV_GID_TYPE_ROCE_V2 ? 2 : 1, number(row));
        return true;
    }
    if (!is(row, "gid_of_first_ipv4_v2")) {
        return false;
    }
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    uint32_t index = 0;
    for (;; index++) {
        ck_assert_int_eq(sim_nic_query_gid(nic, 1, index, &gid), 0);
        if (gid.type == IBV_GID_TYPE_ROCE_V2 && memcmp(gid.gid.raw, mapped, 12) == 0) {
            break;
        }
    }
    ck_assert_uint_eq(index, number(row));
    return true;
}

/* ---- granted capabilities ---- */

/* Tries to create a QP with `*cap`, and stores what was granted. */
static int make_qp(struct rc_pair *pair, struct ibv_qp_cap *cap)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_QP};
    request.arg.create_qp.pd = pair->ends[0].pd;
    request.arg.create_qp.init = (struct ibv_qp_init_attr){.send_cq = pair->ends[0].cq,
                                                           .recv_cq = pair->ends[0].cq,
                                                           .qp_type = IBV_QPT_RC,
                                                           .cap = *cap};
    int error = rc_verb(pair, 0, &request);
    *cap = request.arg.create_qp.init.cap;
    return error;
}

static const struct ibv_qp_cap modest = {
    .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};

/* Returns the member of `cap` that a row is about, or NULL. */
static uint32_t *member(const struct row *row, struct ibv_qp_cap *cap)
{
    const struct {
        const char *name;
        uint32_t *at;
    } all[] = {
        {"send_wr", &cap->max_send_wr},    {"recv_wr", &cap->max_recv_wr},
        {"send_sge", &cap->max_send_sge},  {"recv_sge", &cap->max_recv_sge},
        {"inline", &cap->max_inline_data},
    };
    for (size_t i = 0; i < WEFT_LENGTH(all); i++) {
        if (strstr(row->name, all[i].name) != NULL) {
            return all[i].at;
        }
    }
    return NULL;
}

static bool check_qp_caps(const struct row *row, struct rc_pair *pair)
{
    struct ibv_qp_cap cap = modest;
    uint32_t *asked = member(row, &cap);
    bool is_most = strncmp(row->name, "most_", 5) == 0;
    if (asked == NULL || (!is_most && strstr(row->name, "_granted") == NULL)) {
        return false;
    }
    if (!is_most) {
        *asked = row->argument;
        int error = make_qp(pair, &cap);
        if (is_errno(row)) {
            ck_assert_int_eq(error, rules_errno(row->value));
        } else {
            ck_assert_int_eq(error, 0);
            ck_assert_uint_eq(*asked, number(row));
        }
        return true;
    }
    *asked = (uint32_t)number(row);
    ck_assert_int_eq(make_qp(pair, &cap), 0);
    ck_assert_uint_eq(*asked, number(row));
    *asked = (uint32_t)number(row) + 1;
    int error = make_qp(pair, &cap);
    ck_assert(error == EINVAL || *asked == number(row)); /* refused or reduced */
    return true;
}

static bool check_cqe(const struct row *row, struct rc_pair *pair)
{
    if (!is(row, "cqe_granted")) {
        return false;
    }
    struct sim_request request = {.verb = SIM_VERB_CREATE_CQ};
    request.arg.create_cq.cqe = (int)row->argument;
    int error = rc_verb(pair, 0, &request);
    if (is_errno(row)) {
        ck_assert_int_eq(error, rules_errno(row->value));
    } else {
        ck_assert_int_eq(error, 0);
        ck_assert_uint_eq((uint64_t)request.out.cq->cqe, number(row));
    }
    return true;
}

/* ---- ibv_modify_qp ---- */

/* Moves a QP of end 0 from RESET to RTS with the given attributes. Returns the first
 * errno. */
static int raise_qp(struct rc_pair *pair, struct ibv_qp *qp, struct ibv_qp_attr *rtr,
                    struct ibv_qp_attr *rts)
{
    struct ibv_qp_attr init = rc_init_attr(pair);
    int error = rc_modify(pair, 0, qp, &init, rc_init_mask);
    error = error != 0 ? error : rc_modify(pair, 0, qp, rtr, rc_rtr_mask);
    return error != 0 ? error : rc_modify(pair, 0, qp, rts, rc_rts_mask);
}

static bool check_modify(const struct row *row, struct rc_pair *pair)
{
    struct ibv_qp *qp = rc_make_qp(pair, 0);
    struct ibv_qp_attr rtr = rc_rtr_attr(pair, 0, 99);
    struct ibv_qp_attr rts = rc_rts_attr(pair, 0);
    struct ibv_qp_attr now;
    if (is(row, "timeout")) {
        rts.timeout = (uint8_t)row->argument;
        ck_assert_int_eq(raise_qp(pair, qp, &rtr, &rts), 0);
        ck_assert_int_eq(sim_nic_query_qp(qp, &now), 0);
        ck_assert_uint_eq(now.timeout, number(row));
    } else if (is(row, "min_rnr_timer")) {
        rtr.min_rnr_timer = (uint8_t)row->argument;
        ck_assert_int_eq(raise_qp(pair, qp, &rtr, &rts), 0);
        ck_assert_int_eq(sim_nic_query_qp(qp, &now), 0);
        ck_assert_uint_eq(now.min_rnr_timer, number(row));
    } else if (is(row, "rd_atomic")) {
        rts.max_rd_atomic = (uint8_t)row->argument;
        ck_assert_int_eq(raise_qp(pair, qp, &rtr, &rts), rules_errno(row->value));
    } else if (is(row, "rd_atomic_kept")) {
        rtr.max_dest_rd_atomic = rts.max_rd_atomic = (uint8_t)row->argument;
        ck_assert_int_eq(raise_qp(pair, qp, &rtr, &rts), 0);
        ck_assert_int_eq(sim_nic_query_qp(qp, &now), 0);
        ck_assert_uint_eq(now.max_rd_atomic, number(row));
        ck_assert_uint_eq(now.max_dest_rd_atomic, number(row));
    } else if (is(row, "path_mtu_beyond_active")) {
        rtr.path_mtu = IBV_MTU_2048; /* of a netdev with 1500 */
        ck_assert_int_eq(raise_qp(pair, qp, &rtr, &rts), rules_errno(row->value));
    } else if (is(row, "sqd")) {
        ck_assert_int_eq(rc_to_state(pair, 0, pair->ends[0].qp, IBV_QPS_SQD),
                         rules_errno(row->value));
    } else if (is(row, "cur_state_lie")) {
        struct ibv_qp_attr lie = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD};
        ck_assert_int_eq(
            rc_modify(pair, 0, pair->ends[0].qp, &lie, IBV_QP_STATE | IBV_QP_CUR_STATE),
            rules_errno(row->value));
    } else {
        return false;
    }
    return true;
}

static bool check_extras(const struct row *row, struct rc_pair *pair)
{
    if (is(row, "ece")) {
        struct ibv_ece ece;
        ck_assert_int_eq(sim_nic_query_ece(rc_make_qp(pair, 0), &ece),
                         rules_errno(row->value));
        return true;
    }
    if (!is(row, "dmabuf_of_no_file")) {
        return false;
    }
    struct sim_request request = {.verb = SIM_VERB_REG_MR};
    request.arg.reg_mr.pd = pair->ends[0].pd;
    request.arg.reg_mr.length = 4096;
    request.arg.reg_mr.is_dmabuf = true;
    request.arg.reg_mr.dmabuf_fd = -1;
    ck_assert_int_eq(rc_verb(pair, 0, &request), rules_errno(row->value));
    return true;
}

START_TEST(a_device_is_as_the_table_says)
{
    struct rules rules;
    struct rc_pair pair;
    rules_read(&rules, "profiles");
    struct row row = read_row(&rules, (unsigned)_i);
    bool is_mtu = is(&row, "active_mtu");
    open_pair(&pair, &row, is_mtu ? row.argument : 1500, is_mtu);
    struct sim_nic *nic = pair.ends[0].nic;
    ck_assert_msg(check_device(&row, nic) || check_port(&row, nic) ||
                      check_gids(&row, nic) || check_qp_caps(&row, &pair) ||
                      check_cqe(&row, &pair) || check_modify(&row, &pair) ||
                      check_extras(&row, &pair),
                  "no such attribute: %s", row.name);
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile_rules");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, a_device_is_as_the_table_says, 0, rules_count("profiles"));
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
