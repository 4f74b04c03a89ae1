#define _GNU_SOURCE
#include "backends/verbs/library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "backends/linux/env.h"
#include "base/check.h"

struct symbol {
    const char *name;
    size_t offset; /* of the pointer in struct verbs_library */
    bool is_optional;
};

#define REQUIRED(member)                                                                 \
    {                                                                                    \
        "ibv_" #member, offsetof(struct verbs_library, member), false                    \
    }

static const struct symbol symbols[] = {
    REQUIRED(get_device_list),
    REQUIRED(free_device_list),
    REQUIRED(get_device_name),
    REQUIRED(get_device_guid),
    REQUIRED(open_device),
    REQUIRED(close_device),
    REQUIRED(query_device),
    REQUIRED(query_port),
    REQUIRED(alloc_pd),
    REQUIRED(dealloc_pd),
    REQUIRED(reg_mr),
    REQUIRED(dereg_mr),
    REQUIRED(create_comp_channel),
    REQUIRED(destroy_comp_channel),
    REQUIRED(create_cq),
    REQUIRED(destroy_cq),
    REQUIRED(get_cq_event),
    REQUIRED(ack_cq_events),
    REQUIRED(create_qp),
    REQUIRED(modify_qp),
    REQUIRED(destroy_qp),
    REQUIRED(get_async_event),
    REQUIRED(ack_async_event),
    {"_ibv_query_gid_ex", offsetof(struct verbs_library, query_gid_ex), true},
    {"ibv_reg_mr_iova2", offsetof(struct verbs_library, reg_mr_iova2), true},
    {"ibv_reg_dmabuf_mr", offsetof(struct verbs_library, reg_dmabuf_mr), true},
    {"ibv_query_qp_data_in_order", offsetof(struct verbs_library, query_qp_data_in_order),
     true},
};

weft_status verbs_library_open(const char *name, struct verbs_library *out,
                               struct weft_error *error)
{
    name = name == NULL ? VERBS_LIBRARY : name;
    *out = (struct verbs_library){.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)};
    if (out->handle == NULL) {
        const char *why = dlerror();
        int shortage = linux_descriptor_shortage();
        weft_error_text(error, WEFT_VALUE_LIBRARY, name);
        if (shortage != 0) {
            return weft_fail_errno(error, shortage, WEFT_PHASE_START, "cannot open %s",
                                   name);
        }
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START, "%s",
                         why == NULL ? name : why);
    }
    for (size_t i = 0; i < WEFT_LENGTH(symbols); i++) {
        void *address = dlsym(out->handle, symbols[i].name);
        if (address == NULL && !symbols[i].is_optional) {
            weft_error_text(error, WEFT_VALUE_LIBRARY, name);
            weft_error_text(error, WEFT_VALUE_SYMBOL, symbols[i].name);
            verbs_library_close(out);
            return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START,
                             "%s has no %s", name, symbols[i].name);
        }
        memcpy((char *)out + symbols[i].offset, &address, sizeof address);
    }
    return WEFT_OK;
}

void verbs_library_close(struct verbs_library *library)
{
    if (library->handle != NULL) {
        dlclose(library->handle);
    }
    *library = (struct verbs_library){.handle = NULL};
}
