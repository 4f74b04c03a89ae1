#include "ipc/node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define PROBE_BYTES 4096u

/* ---- settings ---- */

static weft_status wrong(struct weft_error *error, const char *name, const char *value)
{
    return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_IPC, "%s=%s is not known", name,
                     value);
}

static weft_status read_number(struct io_env *env, const char *name, uint64_t most,
                               uint64_t *in_out, struct weft_error *error)
{
    const char *text = env->ops->setting(env, name);
    unsigned long long value;
    char *end;

    if (text == NULL) {
        return WEFT_OK;
    }
    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value > most) {
        return wrong(error, name, text);
    }
    *in_out = value;
    return WEFT_OK;
}

static weft_status read_mode(struct io_env *env, struct ipc_settings *out,
                             struct weft_error *error)
{
    const char *mode = env->ops->setting(env, "WEFT_IPC");

    if (mode == NULL || strcmp(mode, "on") == 0) {
        return WEFT_OK;
    }
    out->is_off = strcmp(mode, "off") == 0;
    out->is_original = strcmp(mode, "smcuda-4.1") == 0;
    return out->is_off || out->is_original ? WEFT_OK : wrong(error, "WEFT_IPC", mode);
}

weft_status ipc_settings_read(struct io_env *env, struct ipc_settings *out,
                              struct weft_error *error)
{
    uint64_t same_gpu = 1, n_open = 256, n_mib = UINT64_MAX >> 20, retry_ms = 30000;
    weft_status status;

    *out = (struct ipc_settings){.n_events = IPC_EVENTS_MAX};
    status = read_mode(env, out, error);
    if (status == WEFT_OK) {
        status = read_number(env, "WEFT_IPC_SAME_GPU", 1, &same_gpu, error);
    }
    if (status == WEFT_OK) {
        status = read_number(env, "WEFT_IPC_OPEN", 1 << 20, &n_open, error);
    }
    if (status == WEFT_OK) {
        status = read_number(env, "WEFT_IPC_OPEN_MIB", UINT64_MAX >> 20, &n_mib, error);
    }
    if (status == WEFT_OK) {
        status = read_number(env, "WEFT_IPC_RETRY_MS", UINT32_MAX, &retry_ms, error);
    }
    out->forbids_same_gpu = same_gpu == 0;
    out->is_off = out->is_off || n_open == 0 || n_mib == 0;
    out->n_open_max = n_open == 0 ? 1 : (uint32_t)n_open;
    out->n_bytes_open_max = n_mib == 0 ? 1 : n_mib << 20;
    out->negative_ns = (weft_ns)retry_ms * 1000000;
    return status;
}

/* ---- the node ---- */

void ipc_node_init(struct ipc_node *node, struct io_env *env, struct io_task *task,
                   const struct ipc_settings *settings)
{
    const struct ipc_cache_config config = {.gpu = env->gpu,
                                            .n_max = settings->n_open_max,
                                            .n_bytes_max = settings->n_bytes_open_max,
                                            .negative_ns = settings->negative_ns};

    weft_check(settings->n_events > 0 && settings->n_events <= IPC_EVENTS_MAX);
    memset(node, 0, sizeof(*node));
    node->env = env;
    node->task = task;
    node->settings = *settings;
    env->ops->random(env, node->identity.nonce, IPC_NONCE_BYTES);
    memcpy(node->identity.host, io_host_id(env), IPC_HOST_BYTES);
    ipc_cache_init(&node->cache, &config);
    node->is_out = env->gpu->sharing == NULL || settings->is_off;
}

/* Releases what belongs to the device. A peer may still read the probe, so it is only retired. */
static void give_back(struct ipc_node *node)
{
    struct io_gpu *gpu = node->env->gpu;

    for (uint32_t i = 0; i < IPC_EVENTS_MAX && gpu->sharing != NULL; i++) {
        weft_check(!node->is_lent[i]);
        gpu->sharing->event_destroy(gpu, node->events[i]);
        node->events[i] = NULL;
    }
    if (node->stream != NULL) {
        gpu->sharing->stream_destroy(gpu, node->stream);
        node->stream = NULL;
    }
    if (node->identity.has_probe) {
        gpu->sharing->unexport(gpu, &node->identity.probe);
        node->identity.has_probe = false;
    }
    if (node->probe != NULL) {
        node->retired =
            weft_realloc(node->retired, (node->n_retired + 1) * sizeof(*node->retired));
        node->retired[node->n_retired++] = node->probe;
        node->probe = NULL;
    }
}

void ipc_node_fini(struct ipc_node *node)
{
    ipc_cache_fini(&node->cache);
    give_back(node);
    for (uint32_t i = 0; i < node->n_retired; i++) {
        node->env->gpu->ops->free(node->env->gpu, node->retired[i]);
    }
    free(node->retired);
    node->retired = NULL;
    node->n_retired = 0;
}

void ipc_node_device_changed(struct ipc_node *node)
{
    give_back(node);
    node->is_ready = false;
}

/* Returns true if an operation failed for lack of memory or descriptors, which can be temporary. */
static bool is_short(int sys_errno)
{
    return sys_errno == ENOMEM || sys_errno == EMFILE || sys_errno == ENFILE ||
           sys_errno == EAGAIN;
}

/* Creates the memory that peers open to find out whether they can. Returns false if there is no
 * room for it now. If it cannot be created for another reason, there is none, and peers do not
 * try. */
static bool make_probe(struct ipc_node *node)
{
    struct ipc_identity *identity = &node->identity;
    struct io_gpu *gpu = node->env->gpu;
    int sys_errno = gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, PROBE_BYTES, &node->probe);

    if (sys_errno != 0) {
        node->probe = NULL;
        return !is_short(sys_errno);
    }
    sys_errno = gpu->ops->upload(gpu, node->probe, identity->nonce, IPC_NONCE_BYTES);
    if (sys_errno == 0) {
        sys_errno = gpu->sharing->export_memory(gpu, node->probe, identity->gpu.kinds,
                                                &identity->probe);
    }
    identity->has_probe = sys_errno == 0;
    if (is_short(sys_errno)) {
        gpu->ops->free(gpu, node->probe);
        node->probe = NULL;
        return false;
    }
    return true;
}

bool ipc_node_ready(struct ipc_node *node)
{
    struct io_gpu *gpu = node->env->gpu;
    int sys_errno;

    if (node->is_ready || node->is_out || io_now(node->env) < node->retry_ns) {
        return node->is_ready;
    }
    sys_errno = gpu->sharing->identify(gpu, &node->identity.gpu);
    if (sys_errno == 0 && node->stream == NULL) {
        sys_errno = gpu->sharing->stream_create(gpu, &node->stream);
    }
    if (sys_errno == 0) {
        node->is_ready = make_probe(node);
        node->retry_ns =
            node->is_ready ? 0 : io_now(node->env) + node->settings.negative_ns;
    }
    node->is_out = sys_errno == EOPNOTSUPP || sys_errno == ENODEV;
    return node->is_ready;
}

bool ipc_node_lend(struct ipc_node *node, uint32_t *out)
{
    struct io_gpu *gpu = node->env->gpu;

    for (uint32_t i = 0; i < node->settings.n_events; i++) {
        if (node->is_lent[i] ||
            (node->events[i] == NULL &&
             gpu->sharing->event_create(gpu, &node->events[i]) != 0)) {
            continue;
        }
        node->is_lent[i] = true;
        *out = i;
        return true;
    }
    return false;
}

bool ipc_node_lends(const struct ipc_node *node)
{
    for (uint32_t i = 0; i < node->settings.n_events; i++) {
        if (node->is_lent[i]) {
            return true;
        }
    }
    return false;
}

void ipc_node_return(struct ipc_node *node, uint32_t event)
{
    weft_check(node->is_lent[event]);
    node->is_lent[event] = false;
}

/* ---- judging ---- */

static bool is_one_fabric(const struct io_gpu_identity *a,
                          const struct io_gpu_identity *b)
{
    static const uint8_t none[sizeof(a->cluster)];

    return (a->kinds & b->kinds & 1u << IO_GPU_HANDLE_FABRIC) != 0 &&
           memcmp(a->cluster, none, sizeof(none)) != 0 &&
           memcmp(a->cluster, b->cluster, sizeof(none)) == 0 && a->clique == b->clique;
}

/* Returns the kinds of handles that both know and that work between them. Descriptors work only
 * within one PID namespace. */
static uint32_t common_kinds(const struct io_gpu_identity *a,
                             const struct io_gpu_identity *b)
{
    uint32_t kinds = a->kinds & b->kinds;

    return a->pid_ns == b->pid_ns ? kinds : kinds & ~(1u << IO_GPU_HANDLE_FD);
}

enum ipc_reason ipc_judge(const struct ipc_identity *own, const struct ipc_identity *peer,
                          const struct ipc_settings *settings)
{
    const struct io_gpu_identity *gpu = &own->gpu, *other = &peer->gpu;

    if (settings->is_off) {
        return IPC_OFF;
    }
    if (memcmp(own->nonce, peer->nonce, IPC_NONCE_BYTES) == 0) {
        return IPC_SAME_PROCESS;
    }
    if (memcmp(own->host, peer->host, IPC_HOST_BYTES) != 0) {
        return is_one_fabric(gpu, other) ? IPC_FINE : IPC_OTHER_HOST;
    }
    if (common_kinds(gpu, other) == 0 || !peer->has_probe) {
        return IPC_NO_KIND;
    }
    if (settings->forbids_same_gpu && strcmp(gpu->uuid, other->uuid) == 0) {
        return IPC_SAME_GPU;
    }
    return IPC_FINE;
}

bool ipc_judge_original(struct ipc_node *node, const struct ipc_identity *peer)
{
    struct io_gpu *gpu = node->env->gpu;

    if (node->identity.gpu.ordinal == peer->gpu.ordinal) {
        return !node->settings.forbids_same_gpu;
    }
    return gpu->ops->can_access != NULL && gpu->ops->can_access(gpu, peer->gpu.uuid);
}
