#define _GNU_SOURCE
#include "backends/pmix/pmix.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define RANK_WILDCARD (UINT32_MAX - 1)
#define SCOPE_GLOBAL 3
#define KEY "weft.rendezvous"

enum { TYPE_BOOL = 1, TYPE_STRING = 3, TYPE_UINT16 = 13, TYPE_UINT32 = 14 };

/* pmix_proc_t; pmix_value_t, whose union has this size and a pointer's alignment; pmix_info_t. */
struct proc {
    char nspace[256];
    uint32_t rank;
};

struct value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        uint16_t u16;
        uint32_t u32;
        void *largest[3];
    } data;
};

struct info {
    char key[512];
    uint32_t flags;
    struct value value;
};

struct library {
    void *handle;
    int (*init)(struct proc *proc, struct info *info, size_t n);
    int (*finalize)(const struct info *info, size_t n);
    int (*get)(const struct proc *proc, const char *key, const struct info *info,
               size_t n, struct value **out);
    int (*put)(uint8_t scope, const char *key, struct value *value);
    int (*commit)(void);
    int (*fence)(const struct proc *procs, size_t n_procs, const struct info *info,
                 size_t n);
};

static weft_status open_library(const char *name, struct library *out,
                                struct weft_error *error)
{
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
        {"PMIx_Init", offsetof(struct library, init)},
        {"PMIx_Finalize", offsetof(struct library, finalize)},
        {"PMIx_Get", offsetof(struct library, get)},
        {"PMIx_Put", offsetof(struct library, put)},
        {"PMIx_Commit", offsetof(struct library, commit)},
        {"PMIx_Fence", offsetof(struct library, fence)},
    };

    /* RTLD_GLOBAL, because the library's plugins use its symbols. */
    *out = (struct library){.handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL)};
    if (out->handle == NULL) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_PMIX, "%s", dlerror());
    }
    for (size_t i = 0; i < WEFT_LENGTH(symbols); i++) {
        void *symbol = dlsym(out->handle, symbols[i].name);

        if (symbol == NULL) {
            return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_PMIX, "%s has no %s",
                             name, symbols[i].name);
        }
        memcpy((char *)out + symbols[i].offset, &symbol, sizeof(symbol));
    }
    return WEFT_OK;
}

static weft_status failed(struct weft_error *error, const char *call, int status)
{
    return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_PMIX, "%s: status %d", call,
                     status);
}

/* Does not free the returned values, which the library allocated, because they are few. */
static weft_status get_number(const struct library *library, const struct proc *proc,
                              const char *key, uint32_t *out, struct weft_error *error)
{
    struct value *value = NULL;
    int status = library->get(proc, key, NULL, 0, &value);

    if (status != 0 || value == NULL) {
        return failed(error, key, status);
    }
    if (value->type != TYPE_UINT16 && value->type != TYPE_UINT32) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_PMIX, "%s is of type %u",
                         key, value->type);
    }
    *out = value->type == TYPE_UINT16 ? value->data.u16 : value->data.u32;
    return WEFT_OK;
}

static weft_status exchange(const struct library *library, const struct proc *self,
                            const char *mine, struct pmix_job *out,
                            struct weft_error *error)
{
    struct proc all = *self;
    struct proc first = *self;
    char text[sizeof(out->told)];
    struct value told = {.type = TYPE_STRING, .data.string = text};
    struct info collect = {.key = "pmix.collect",
                           .value = {.type = TYPE_BOOL, .data.flag = true}};
    struct value *value = NULL;
    int status = 0;

    weft_format(text, sizeof(text), "%s", mine);
    all.rank = RANK_WILDCARD;
    first.rank = 0;
    if (self->rank == 0) {
        status = library->put(SCOPE_GLOBAL, KEY, &told);
        status = status == 0 ? library->commit() : status;
    }
    status = status == 0 ? library->fence(&all, 1, &collect, 1) : status;
    if (status == 0) {
        status = library->get(&first, KEY, NULL, 0, &value);
    }
    if (status != 0 || value == NULL || value->type != TYPE_STRING) {
        return failed(error, KEY, status);
    }
    weft_format(out->told, sizeof(out->told), "%s", value->data.string);
    return WEFT_OK;
}

static weft_status take(const struct library *library, const struct proc *self,
                        const char *mine, const char *mine_alone, struct pmix_job *out,
                        struct weft_error *error)
{
    struct proc all = *self;
    uint32_t n_here = 0;
    weft_status status;

    all.rank = RANK_WILDCARD;
    out->rank = self->rank;
    status = get_number(library, &all, "pmix.job.size", &out->n_ranks, error);
    if (status == WEFT_OK) {
        status = get_number(library, self, "pmix.lrank", &out->local_rank, error);
    }
    if (status == WEFT_OK && mine != NULL) {
        status = get_number(library, &all, "pmix.local.size", &n_here, error);
    }
    if (status == WEFT_OK && mine != NULL) {
        status = exchange(library, self, n_here == out->n_ranks ? mine_alone : mine, out,
                          error);
    }
    return status;
}

weft_status pmix_join(const char *name, const char *mine, const char *mine_alone,
                      struct pmix_job *out, struct weft_error *error)
{
    struct library library;
    struct proc self = {0};
    weft_status status;
    int result;

    *out = (struct pmix_job){0};
    if (getenv("PMIX_NAMESPACE") == NULL) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_PMIX, "no launcher");
    }
    status = open_library(name == NULL ? PMIX_LIBRARY : name, &library, error);
    if (status == WEFT_OK) {
        result = library.init(&self, NULL, 0);
        status = result == 0 ? WEFT_OK : failed(error, "PMIx_Init", result);
    }
    if (status == WEFT_OK) {
        status = take(&library, &self, mine, mine_alone, out, error);
        result = library.finalize(NULL, 0);
        if (status == WEFT_OK && result != 0) {
            status = failed(error, "PMIx_Finalize", result);
        }
    }
    return status; /* do not close the library: its threads may still run */
}
