#define _GNU_SOURCE
#include "plugincheck/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "plugincheck/private.h"

#define DEVICES_MAX 64

void plugin_check_options_default(struct plugin_check_options *options)
{
    *options = (struct plugin_check_options){.n_ranks = 3,
                                             .n_messages = 600,
                                             .n_sequences = 20,
                                             .seed = 1,
                                             .patience_ms = 20000};
}

/* ---- inside the watched process ---- */

static void judge_properties(const struct check *check, int device,
                             const struct abi_properties_v12 *of)
{
    if (of->name == NULL || of->name[0] == '\0') {
        check_broken(check, "properties.name", "device %d has none", device);
    }
    if (of->speed <= 0) {
        check_broken(check, "properties.speed", "device %d: %d", device, of->speed);
    }
    if ((of->ptr_support & ABI_PTR_HOST) == 0) {
        check_broken(check, "properties.pointers", "device %d: 0x%x", device,
                     (unsigned)of->ptr_support);
    }
    if (of->net_device_type != ABI_DEVICE_HOST) {
        check_broken(check, "properties.device", "device %d: type %d", device,
                     of->net_device_type);
    }
    if (of->max_p2p_bytes == 0 || of->max_p2p_bytes > ABI_P2P_BYTES_MAX ||
        of->max_recvs < 1 || of->max_comms < 1) {
        check_broken(check, "properties.limits",
                     "device %d: maxP2pBytes %zu, maxRecvs %d, maxComms %d", device,
                     of->max_p2p_bytes, of->max_recvs, of->max_comms);
    }
}

/* Called after all properties were read, because a name can lie in memory that the next call
 * overwrites. */
static void compare_properties(const struct check *check,
                               const struct abi_properties_v12 *all, char (*names)[64])
{
    for (int i = 0; i < check->n_devices; i++) {
        if (strncmp(all[i].name, names[i], sizeof(names[i]) - 1) != 0) {
            check_broken(check, "properties.name", "device %d was %s, is now %s", i,
                         names[i], all[i].name);
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(all[i].name, all[j].name) == 0) {
                check_broken(check, "properties.name", "devices %d and %d are both %s", j,
                             i, all[i].name);
            }
            if (all[i].guid == all[j].guid && all[i].port == all[j].port) {
                check_broken(check, "properties.guid",
                             "devices %d and %d: guid 0x%llx port %d", j, i,
                             (unsigned long long)all[i].guid, all[i].port);
            }
        }
    }
}

static void look_at_devices(struct check *check)
{
    struct abi_properties_v12 all[DEVICES_MAX];
    char names[DEVICES_MAX][64];
    abi_status check_call_status;

    check->n_devices = 0;
    if (CHECK_CALL(check, 0, CALL_DEVICES, check->net->devices(&check->n_devices)) !=
            ABI_SUCCESS ||
        check->n_devices < 1) {
        check_broken(check, "devices.count", "devices gave %d and found %d",
                     check_call_status, check->n_devices);
    }
    if (check->n_devices > DEVICES_MAX) {
        check->n_devices = DEVICES_MAX;
    }
    check->max_recvs = CHECK_GROUP_MAX;
    for (int i = 0; i < check->n_devices; i++) {
        if (CHECK_CALL(check, 0, CALL_PROPERTIES,
                       check_net_properties(check->net, i, &all[i])) != ABI_SUCCESS) {
            check_broken(check, "properties.result", "device %d: %d", i,
                         check_call_status);
        }
        judge_properties(check, i, &all[i]);
        weft_format(names[i], sizeof(names[i]), "%s", all[i].name);
        check->max_recvs =
            all[i].max_recvs < check->max_recvs ? all[i].max_recvs : check->max_recvs;
    }
    compare_properties(check, all, names);
}

/* Calls init, then devices and properties, in NCCL's order. The counts are passed to the other
 * parts, which run in processes of their own. */
static void body_load(struct check *check)
{
    struct check_net net;
    void *context;
    abi_status check_call_status;

    check_enter(check, 0);
    check_load(check, &net);
    check_init(check, 0, 1, &context);
    look_at_devices(check);
    if (CHECK_CALL(check, 0, CALL_FINALIZE, check_net_finalize(check->net, context)) !=
        ABI_SUCCESS) {
        check_broken(check, "close.result", "finalize failed with %d", check_call_status);
    }
    check->shared->n_devices = check->n_devices;
    check->shared->max_recvs = check->max_recvs;
    check_unload(check);
}

static void body_threads(struct check *check)
{
    struct check_net net;

    check_load(check, &net);
    check_ranks_as_threads(check);
    check_unload(check);
}

static void body_processes(struct check *check)
{
    check_ranks_as_processes(check);
}

static void body_random(struct check *check)
{
    struct check_net net;

    check_load(check, &net);
    check_random(check);
}

/* ---- the watching process ---- */

static void take_counts(const struct check_shared *shared,
                        struct plugin_check_result *out)
{
    for (uint32_t i = 0; i < CHECK_THREADS; i++) {
        out->n_calls += atomic_load(&shared->threads[i].n_calls);
        out->n_messages += atomic_load(&shared->threads[i].n_messages);
    }
}

static void take_verdict(const struct check_shared *shared,
                         struct plugin_check_result *out)
{
    const struct plugin_clause *clause = plugin_clause_find(shared->clause);

    out->is_broken = clause != NULL;
    out->is_undecided = clause == NULL;
    out->clause = clause != NULL ? clause->id : NULL;
    weft_format(out->part, sizeof(out->part), "%s", shared->part);
    weft_format(out->detail, sizeof(out->detail), "%s", shared->detail);
}

static bool run_part(struct check *check, const char *part,
                     void (*body)(struct check *check), struct plugin_check_result *out)
{
    struct check_shared *shared = check->shared;
    int n_devices = shared->n_devices, max_recvs = shared->max_recvs;
    bool is_kept;

    memset(shared, 0, sizeof(*shared));
    shared->n_devices = check->n_devices = n_devices;
    shared->max_recvs = check->max_recvs = max_recvs;
    check->part = part;
    check->oldest = check->version;
    for (uint32_t i = 0; i < check->options->n_mixed; i++) {
        unsigned version = check->options->mixed[i];

        check->oldest = version < check->oldest ? version : check->oldest;
    }
    is_kept = check_watch(check, body);
    take_counts(shared, out);
    if (!is_kept) {
        take_verdict(shared, out);
        out->version = check->version;
        out->first_init = shared->first_init;
    }
    if (check->options->progress != NULL) {
        fprintf(check->options->progress, "v%u %-10s %s\n", check->version, part,
                is_kept             ? "kept"
                : out->is_undecided ? "not judged"
                                    : out->clause);
        fflush(check->options->progress);
    }
    return is_kept;
}

/* Finds out which versions the object has. Runs in a process that opens the object. */
static void body_versions(struct check *check)
{
    char why[200];
    void *object = check_open_object(check->options->path, why, sizeof(why));
    bool any = false;

    if (object == NULL) {
        check_broken(check, "load.open", "%s", why);
    }
    for (unsigned v = PLUGIN_CHECK_VERSION_MIN; v <= PLUGIN_CHECK_VERSION_MAX; v++) {
        bool has = check_find_table(object, v) != NULL;

        check->shared->versions |= has ? 1u << v : 0;
        any = any || has;
    }
    if (!any) {
        check_broken(check, "load.symbol", "there is none");
    }
}

/* Checks peers whose NCCLs use different versions of the interface. */
static void check_mixed(struct check *check, struct plugin_check_result *out)
{
    uint32_t versions = 0;

    for (uint32_t i = 0; i < check->options->n_mixed; i++) {
        check->version = check->options->mixed[i];
        versions |= 1u << check->version;
        if ((versions & ~out->versions) != 0 && run_part(check, "load", body_load, out)) {
            out->versions = versions;
        }
        if (out->is_broken || out->is_undecided) {
            return;
        }
    }
    if (!run_part(check, "processes", body_processes, out)) {
        out->versions = 0;
    }
}

static void check_each(struct check *check, uint32_t versions,
                       struct plugin_check_result *out)
{
    bool in_namespaces = check->options->namespaces[0] != NULL;

    for (unsigned v = PLUGIN_CHECK_VERSION_MIN; v <= PLUGIN_CHECK_VERSION_MAX; v++) {
        check->version = v;
        if ((versions & 1u << v) == 0 || out->is_broken || out->is_undecided) {
            continue;
        }
        if (run_part(check, "load", body_load, out) &&
            /* One process cannot be in several namespaces. */
            (in_namespaces || run_part(check, "threads", body_threads, out)) &&
            (check->in_one_process ||
             run_part(check, "processes", body_processes, out)) &&
            (in_namespaces || check->options->n_sequences == 0 ||
             run_part(check, "random", body_random, out))) {
            out->versions |= 1u << v;
        }
    }
}

bool plugin_check(const struct plugin_check_options *options,
                  struct plugin_check_result *out)
{
    struct check_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct check check = {
        .options = options, .shared = shared, .n_ranks = options->n_ranks};
    uint32_t versions = 0;

    memset(out, 0, sizeof(*out));
    weft_check(shared != MAP_FAILED);
    check.in_one_process =
        options->backend != NULL && strcmp(options->backend, "sim") == 0;
    weft_check(options->n_ranks >= 2 && options->n_ranks <= CHECK_RANKS);
    check.part = "load";
    if (!check_watch(&check, body_versions)) {
        take_verdict(shared, out);
        out->is_missing = out->is_broken;
    } else {
        versions = options->versions == 0 ? shared->versions : options->versions;
    }
    if (options->n_mixed > 0 && !out->is_broken && !out->is_undecided) {
        check_mixed(&check, out);
    } else {
        check_each(&check, versions, out);
    }
    munmap(shared, sizeof(*shared));
    return !out->is_broken && !out->is_undecided;
}
