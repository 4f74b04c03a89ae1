/* Shared by the models of the various drivers. */
#ifndef WEFT_SIM_NIC_MODEL_IMPL_H
#define WEFT_SIM_NIC_MODEL_IMPL_H

#include "base/text.h"
#include "sim/nic_model.h"
#include "sim/numbers.h"
#include "sim/profile.h"

#define MODEL_PAGE_BYTES 4096u

enum model_kind { MODEL_CQ, MODEL_MR, MODEL_QP, MODEL_SRQ };
enum model_doorbells { MODEL_DB_QP, MODEL_DB_CQ, MODEL_DB_SRQ, MODEL_N_DB };

/* An object, and what is released with it. */
struct model_object {
    enum model_kind kind;
    uint32_t number, user;
    enum model_doorbells list;
    uint32_t doorbells[2]; /* slots in `list` of its user, or SIM_NO_NUMBER */
    uint32_t pages;        /* pages of its buffers, or of the region */
};

/* The doorbell records of one process: for each list a bitmap of slots, page by page. */
struct model_process {
    struct sim_numbers doorbells[MODEL_N_DB];
};

struct nic_model {
    const struct sim_profile *profile;
    struct model_process *processes; /* Owned [n_processes] */
    uint32_t n_processes;
    struct model_object *objects; /* Owned [n_objects] */
    uint32_t n_objects, cap_objects;
    uint32_t cqs_in_bank[8];
};

/* Appends a step. `note` is static text or NULL. */
void model_step(struct nic_account *out, const char *who, const char *what,
                const char *note, const char *format, ...) WEFT_PRINTF(5, 6);
/* Formats the duration of the verb in ns, or "unwaited" if the caller did not wait. */
void model_took(const struct nic_account *account, char *out, size_t out_bytes);
struct model_process *model_process(struct nic_model *model, uint32_t user);
struct model_object *model_add(struct nic_model *model, enum model_kind kind,
                               const struct nic_verb *verb);
/* Returns NULL if the object was created before the model watched. */
struct model_object *model_find(struct nic_model *model, enum model_kind kind,
                                uint32_t number);
void model_remove(struct nic_model *model, struct model_object *object);

uint32_t model_pow2(uint32_t n);
uint32_t model_log2(uint32_t pow2);
uint32_t model_pages(uint64_t bytes);
/* Returns the number of pages that [addr, addr + length) touches. */
uint64_t model_touched(uint64_t addr, uint64_t length);
/* Takes a slot of `bytes` bytes from the user's list, and appends a step called `what`.
 * Returns the slot. */
uint32_t model_take_doorbell(struct nic_model *model, struct nic_account *out,
                             uint32_t user, enum model_doorbells list, uint32_t bytes,
                             const char *what);
/* Formats the names of the attributes in a mask: "pkey_index,port". */
void model_mask_names(int mask, char *out, size_t out_bytes);

void model_hns(struct nic_model *model, const struct nic_verb *verb,
               struct nic_account *out);
void model_mlx5(struct nic_model *model, const struct nic_verb *verb,
                struct nic_account *out);
void model_rxe(struct nic_model *model, const struct nic_verb *verb,
               struct nic_account *out);

#endif
