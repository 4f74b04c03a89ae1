/* A model of what the user library, the driver and the device do for a control verb: the
 * numbers that they allocate, buffers, pages and doorbell records, and when contexts are
 * written by which commands. It is derived from the verbs alone and does not affect the
 * NIC; the numbers of objects are the NIC's own. Sources are in docs/nic.md; a step that
 * rests on memory of a driver instead of its source says so. */
#ifndef WEFT_SIM_NIC_MODEL_H
#define WEFT_SIM_NIC_MODEL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/nic.h"

/* A completed control verb, in plain numbers. */
struct nic_verb {
    enum sim_verb verb;
    uint32_t user; /* the process */
    weft_ps began, ended;
    weft_ps waited;        /* part of that time caused by a stall, a queue or a fault */
    int error;             /* positive errno or 0 */
    bool is_forgotten;     /* the caller did not wait for its end */
    uint32_t number;       /* PDN, CQN, L_Key, QPN or SRQN of the object */
    uint32_t pdn;          /* REG_MR, CREATE_QP */
    uint64_t addr, length; /* REG_MR */
    int access;            /* REG_MR: IBV_ACCESS_* */
    bool is_dmabuf;        /* REG_MR: `addr` is the offset in the buffer */
    uint32_t asked_cqe, cqe;
    struct ibv_qp_cap asked, granted; /* CREATE_QP; CREATE_SRQ: only the receive fields */
    uint32_t send_cqn, recv_cqn;      /* CREATE_QP */
    struct ibv_qp_attr attr;          /* MODIFY_QP */
    int mask;                         /* MODIFY_QP: IBV_QP_* */
    enum ibv_qp_state from, to;       /* MODIFY_QP; DESTROY_QP: from */
};

#define NIC_STEPS_MAX 12
#define NIC_FACTS_BYTES 240

/* One step of a verb. */
struct nic_step {
    const char *who;  /* "library", "driver", "device" */
    const char *what; /* "doorbell record": one subject, lower case except for names */
    /* "cqn=6 bank=2": fields separated by blanks, without blanks inside */
    char facts[NIC_FACTS_BYTES];
    const char *note; /* static text, or NULL */
};

struct nic_account {
    const char *verb; /* "modify_qp" */
    char object[24];  /* "QP 96"; without a number if creation failed */
    char change[24];  /* "RESET to INIT", or "" */
    weft_ps began, ended;
    int error;
    bool is_forgotten;
    struct nic_step steps[NIC_STEPS_MAX];
    unsigned n_steps;
};

struct nic_model;

/* `profile` must outlive the model. */
struct nic_model *nic_model_create(const struct sim_profile *profile);
void nic_model_destroy(struct nic_model *model);
/* Describes the steps of a completed verb. Verbs must be passed in the order in which
 * they ended. */
void nic_model_verb(struct nic_model *model, const struct nic_verb *verb,
                    struct nic_account *out);

#endif
