#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "scenario/arena.h"
#include "scenario/names.h"
#include "scenario/sections.h"

#define FAULTS_MAX 65536u

enum {
    KEY_AT,
    KEY_ON,
    KEY_LINK,
    KEY_KIND,
    KEY_FOR,
    KEY_DOWN_FOR,
    KEY_SHARE,
    KEY_DELAY,
    KEY_JITTER,
    KEY_RATE,
    KEY_MTU,
    KEY_SIZE,
    KEY_MATCH,
    KEY_ADDRESS,
    KEY_FROM,
    KEY_VERB,
    KEY_NTH,
    KEY_ERRNO,
    KEY_BY,
    KEY_AFTER,
    KEY_PROCESS,
    KEY_ICRC,
    KEY_EVERY,
    KEY_TIMES,
    KEY_CALL,
    KEY_COUNT,
    KEY_BYTES,
    KEY_EVENT,
    KEY_SEND,
    N_KEYS
};

#define FIELD(member) .offset = offsetof(struct world_fault, member)
static const struct walk_key fault_keys[N_KEYS] = {
    [KEY_AT] = {.name = "at"},
    [KEY_ON] = {.name = "on"},
    [KEY_LINK] = {.name = "link"},
    [KEY_KIND] = {.name = "kind"},
    [KEY_FOR] = {.name = "for", .type = WALK_TIME, FIELD(for_ns)},
    [KEY_DOWN_FOR] = {.name = "down_for", .type = WALK_TIME, FIELD(for_ns)},
    [KEY_SHARE] = {.name = "share", .type = WALK_SHARE, FIELD(share_ppb)},
    [KEY_DELAY] = {.name = "delay", .type = WALK_TIME, FIELD(delay_ns)},
    [KEY_JITTER] = {.name = "jitter", .type = WALK_TIME, FIELD(jitter_ns)},
    [KEY_RATE] = {.name = "rate", .type = WALK_RATE, FIELD(rate_bps)},
    [KEY_MTU] = {.name = "mtu",
                 .type = WALK_SIZE32,
                 FIELD(size_bytes),
                 .min = TOPOLOGY_MTU_MIN,
                 .max = TOPOLOGY_MTU_MAX},
    [KEY_SIZE] = {.name = "size",
                  .type = WALK_SIZE32,
                  FIELD(size_bytes),
                  .min = TOPOLOGY_MTU_MIN,
                  .max = TOPOLOGY_MTU_MAX},
    [KEY_MATCH] = {.name = "match"},
    [KEY_ADDRESS] = {.name = "address"},
    [KEY_FROM] = {.name = "from"},
    [KEY_VERB] = {.name = "verb"},
    [KEY_NTH] =
        {.name = "nth", .type = WALK_U32, FIELD(nth), .min = 1, .max = UINT32_MAX},
    [KEY_ERRNO] =
        {.name = "errno", .type = WALK_INT, FIELD(error), .min = 1, .max = 4095},
    [KEY_BY] = {.name = "by", .type = WALK_TIME, FIELD(by_ns)},
    [KEY_AFTER] = {.name = "after", .type = WALK_TIME, FIELD(after_ns)},
    [KEY_PROCESS] = {.name = "process",
                     .type = WALK_U32,
                     FIELD(process),
                     .max = UINT32_MAX},
    [KEY_ICRC] = {.name = "icrc"},
    [KEY_EVERY] = {.name = "every"},
    [KEY_TIMES] = {.name = "times"},
    [KEY_CALL] = {.name = "call"},
    [KEY_COUNT] =
        {.name = "count", .type = WALK_U32, FIELD(n_calls), .min = 1, .max = UINT32_MAX},
    [KEY_BYTES] = {.name = "bytes",
                   .type = WALK_SIZE32,
                   FIELD(size_bytes),
                   .min = 1,
                   .max = UINT32_MAX},
    [KEY_EVENT] = {.name = "event"},
    [KEY_SEND] = {.name = "send"},
};
static const struct walk_table fault_table = {"a fault", fault_keys, N_KEYS};

static const struct walk_key match_keys[] = {
    {.name = "qp", .type = WALK_U32, FIELD(match_qp), .min = 1, .max = UINT32_MAX},
    {.name = "psn", .type = WALK_U32, FIELD(match_psn), .max = 0xffffff},
    {.name = "iteration", .type = WALK_U32, FIELD(match_iteration), .max = UINT32_MAX},
};
static const struct walk_table match_table = {"match", match_keys,
                                              WEFT_LENGTH(match_keys)};

#define HAS(key) (1u << (key))

/* The kind of target that a fault has. */
enum target { ON_PORT, ON_ONE_PORT, ON_HOST, ON_VERBS };

struct kind {
    enum world_fault_kind kind;
    enum target target;
    bool is_directed; /* can affect a single direction */
    unsigned needs, takes;
};

#define ADDR_CHANGE WORLD_N_FAULTS

static const struct kind kinds[] = {
    {WORLD_FAULT_DOWN, ON_PORT, true, 0, 0},
    {WORLD_FAULT_UP, ON_PORT, true, 0, 0},
    {WORLD_FAULT_LOSS, ON_PORT, true, HAS(KEY_SHARE), 0},
    {WORLD_FAULT_CORRUPT, ON_PORT, true, 0,
     HAS(KEY_SHARE) | HAS(KEY_MATCH) | HAS(KEY_ICRC)},
    {WORLD_FAULT_DUPLICATE, ON_PORT, true, 0, HAS(KEY_SHARE) | HAS(KEY_MATCH)},
    {WORLD_FAULT_REORDER, ON_PORT, true, 0, HAS(KEY_SHARE) | HAS(KEY_MATCH)},
    {WORLD_FAULT_ECN, ON_PORT, true, 0, HAS(KEY_SHARE) | HAS(KEY_MATCH)},
    {WORLD_FAULT_DELAY, ON_PORT, true, HAS(KEY_DELAY), HAS(KEY_JITTER) | HAS(KEY_MATCH)},
    {WORLD_FAULT_RATE, ON_PORT, false, HAS(KEY_RATE), 0},
    {WORLD_FAULT_MTU, ON_PORT, false, HAS(KEY_MTU), 0},
    {WORLD_FAULT_PATH_LIMIT, ON_PORT, false, HAS(KEY_SIZE), 0},
    {WORLD_FAULT_PAUSE, ON_PORT, true, 0, 0},
    {WORLD_FAULT_DROP, ON_PORT, true, HAS(KEY_MATCH), 0},
    {WORLD_FAULT_KILL, ON_HOST, false, 0, HAS(KEY_PROCESS)},
    {WORLD_FAULT_STOP, ON_HOST, false, 0, 0},
    {WORLD_FAULT_RESTART, ON_HOST, false, 0, HAS(KEY_AFTER)},
    {WORLD_FAULT_CLOCK, ON_HOST, false, HAS(KEY_BY), 0},
    {WORLD_FAULT_GID_DELETE, ON_ONE_PORT, false, HAS(KEY_ADDRESS), 0},
    {WORLD_FAULT_GID_ADD, ON_ONE_PORT, false, HAS(KEY_ADDRESS), 0},
    {WORLD_FAULT_ADDR_ADD, ON_ONE_PORT, false, HAS(KEY_ADDRESS), 0},
    {WORLD_FAULT_ADDR_DEL, ON_ONE_PORT, false, HAS(KEY_ADDRESS), 0},
    {ADDR_CHANGE, ON_ONE_PORT, false, HAS(KEY_ADDRESS), HAS(KEY_FROM)},
    {WORLD_FAULT_VERB_ERROR, ON_VERBS, false, HAS(KEY_VERB) | HAS(KEY_ERRNO),
     HAS(KEY_NTH)},
    {WORLD_FAULT_VERB_SLOW, ON_VERBS, false, HAS(KEY_VERB) | HAS(KEY_BY), HAS(KEY_NTH)},
    {WORLD_FAULT_CALL_ERROR, ON_VERBS, false, HAS(KEY_CALL) | HAS(KEY_ERRNO),
     HAS(KEY_NTH) | HAS(KEY_COUNT)},
    {WORLD_FAULT_CALL_SLOW, ON_VERBS, false, HAS(KEY_CALL) | HAS(KEY_BY),
     HAS(KEY_NTH) | HAS(KEY_COUNT)},
    {WORLD_FAULT_CALL_SHORT, ON_HOST, false, HAS(KEY_CALL) | HAS(KEY_BYTES),
     HAS(KEY_NTH) | HAS(KEY_COUNT)},
    {WORLD_FAULT_CALL_LOST, ON_HOST, false, HAS(KEY_CALL), HAS(KEY_NTH) | HAS(KEY_COUNT)},
    {WORLD_FAULT_DEVICE_FATAL, ON_VERBS, false, 0, 0},
    {WORLD_FAULT_ASYNC_EVENT, ON_VERBS, false, HAS(KEY_EVENT), HAS(KEY_COUNT)},
    {WORLD_FAULT_STRANGER, ON_HOST, false, HAS(KEY_FROM), HAS(KEY_SEND) | HAS(KEY_COUNT)},
};
#define N_KINDS WEFT_LENGTH(kinds)

static const char *kind_name(const struct kind *kind)
{
    return kind->kind == ADDR_CHANGE ? "addr_change" : world_fault_name(kind->kind);
}

/* State of reading one fault. */
struct fault_in {
    const struct tree_node *node;
    struct walk_seen seen;
    const struct kind *kind;
    struct world_fault spec;
    struct topology_place place; /* the host, if it is on its management network */
    const struct tree_node *on;
    struct io_prefix old_address; /* for addr_change */
    weft_ns every_ns;             /* interval between repetitions */
    /* number of times that it happens; 1 without repetition */
    uint32_t times;
};

static const struct kind *read_kind(struct loader *loader, const struct tree_node *node)
{
    const char *names[N_KINDS], *text;
    char quoted[DIAGNOSE_QUOTE_BYTES], hint[96];
    if (!read_text(loader, node, "kind", &text)) {
        return NULL;
    }
    for (size_t i = 0; i < N_KINDS; i++) {
        names[i] = kind_name(&kinds[i]);
        if (strcmp(text, names[i]) == 0) {
            return &kinds[i];
        }
    }
    diagnose_hint(text, names, N_KINDS, hint, sizeof(hint));
    if (hint[0] == '\0') {
        struct weft_text list = {NULL, 0, 0};

        for (size_t i = 0; i < N_KINDS; i++) {
            weft_text_add(&list, "%s%s",
                          i == 0            ? ""
                          : i + 1 < N_KINDS ? ", "
                                            : " or ",
                          names[i]);
        }
        complain(loader, node->mark, "kind: unknown fault kind '%s'; expected %s",
                 diagnose_quote(text, quoted), list.bytes);
        weft_text_fini(&list);
    } else {
        complain(loader, node->mark, "kind: unknown fault kind '%s'%s",
                 diagnose_quote(text, quoted), hint);
    }
    return NULL;
}

/* Reads the short form too: {link: PORT, down_for: TIME} is {on: PORT, kind: down, for: TIME}. */
static bool read_form(struct loader *loader, struct fault_in *in)
{
    bool is_short = in->seen.at[KEY_LINK] != NULL || in->seen.at[KEY_DOWN_FOR] != NULL;
    in->on = in->seen.at[is_short ? KEY_LINK : KEY_ON];
    if (is_short) {
        if (in->seen.at[KEY_LINK] == NULL || in->seen.at[KEY_DOWN_FOR] == NULL ||
            in->seen.at[KEY_ON] != NULL || in->seen.at[KEY_KIND] != NULL) {
            return complain(loader, in->node->mark,
                            "a fault: 'link' and 'down_for' stand together, without 'on' "
                            "and 'kind'");
        }
        in->kind = &kinds[0];
        return true;
    }
    if (in->on == NULL || in->seen.at[KEY_KIND] == NULL) {
        return complain(loader, in->node->mark, "a fault: '%s' is missing",
                        in->on == NULL ? "on" : "kind");
    }
    in->kind = read_kind(loader, in->seen.at[KEY_KIND]);
    return in->kind != NULL;
}

static bool check_keys(struct loader *loader, const struct fault_in *in)
{
    const unsigned general = HAS(KEY_AT) | HAS(KEY_ON) | HAS(KEY_LINK) | HAS(KEY_KIND) |
                             HAS(KEY_FOR) | HAS(KEY_DOWN_FOR) | HAS(KEY_EVERY) |
                             HAS(KEY_TIMES);
    bool is_fine = true;
    for (unsigned i = 0; i < N_KEYS; i++) {
        bool is_there = in->seen.at[i] != NULL;
        bool is_known = ((general | in->kind->needs | in->kind->takes) & HAS(i)) != 0;
        if (is_there && !is_known) {
            is_fine = complain(loader, in->seen.at[i]->mark, "fault %s takes no '%s'",
                               kind_name(in->kind), fault_keys[i].name);
        } else if (!is_there && (in->kind->needs & HAS(i)) != 0) {
            is_fine = complain(loader, in->node->mark, "fault %s: '%s' is missing",
                               kind_name(in->kind), fault_keys[i].name);
        }
    }
    const unsigned either = HAS(KEY_SHARE) | HAS(KEY_MATCH);
    if ((in->kind->takes & either) == either &&
        (in->seen.at[KEY_SHARE] != NULL) == (in->seen.at[KEY_MATCH] != NULL)) {
        is_fine =
            complain(loader, in->node->mark,
                     "fault %s: expected either 'share' or 'match'", kind_name(in->kind));
    }
    return is_fine;
}

/* Checks a fault of a host's port of the management network. */
static bool check_management(struct loader *loader, const struct fault_in *in,
                             const char *name)
{
    if (!loader->scenario->management.exists) {
        return complain(loader, in->on->mark, "%s: there is no management network", name);
    }
    if (in->kind->kind != WORLD_FAULT_DOWN && in->kind->kind != WORLD_FAULT_UP) {
        return complain(loader, in->on->mark,
                        "%s: fault %s does not apply to the management network; expected "
                        "down or up",
                        name, kind_name(in->kind));
    }
    if (in->spec.direction != WORLD_BOTH_WAYS) {
        return complain(loader, in->on->mark,
                        "%s: a fault of the management network has no direction", name);
    }
    return true;
}

/* Reads the target. "titanic:p0->" is what leaves the port, "titanic:p0<-" what enters it. */
static bool read_place(const struct topology *topology, struct fault_in *in)
{
    struct loader *loader = topology->loader;
    const char *name = in->seen.at[KEY_LINK] != NULL ? "link" : "on", *text;
    if (!read_text(loader, in->on, name, &text)) {
        return false;
    }
    size_t n = strlen(text);
    bool is_out = n > 2 && strcmp(text + n - 2, "->") == 0;
    bool is_in = n > 2 && strcmp(text + n - 2, "<-") == 0;
    in->spec.direction = is_out  ? WORLD_OUTWARDS
                         : is_in ? WORLD_INWARDS
                                 : WORLD_BOTH_WAYS;
    const char *bare = arena_copy(loader->arena, text, is_out || is_in ? n - 2 : n);
    in->spec.on_management = topology_is_management(topology, bare);
    if (in->spec.on_management) {
        bare = arena_copy(loader->arena, bare, strcspn(bare, ":"));
    }
    if (!topology_find(topology, in->on->mark, name, bare, &in->place)) {
        return false;
    }
    if (in->spec.on_management) {
        return check_management(loader, in, name);
    }
    if (in->place.is_switch) {
        return complain(loader, in->on->mark,
                        "%s: '%s' is of a switch; name the port at the cable's other end",
                        name, text);
    }
    if ((is_out || is_in) && !in->kind->is_directed) {
        return complain(loader, in->on->mark, "%s: fault %s has no direction", name,
                        kind_name(in->kind));
    }
    if (in->seen.at[KEY_MATCH] != NULL && !is_out && !is_in) {
        return complain(loader, in->on->mark,
                        "%s: a single packet goes one way; write '%s->' or '%s<-'", name,
                        bare, bare);
    }
    return true;
}

/* Lists the ports of the target. Faults of cables omit ports without one. */
static uint32_t list_ports(const struct loader *loader, const struct fault_in *in,
                           uint32_t *out)
{
    const struct world_host *host = &loader->scenario->hosts[in->place.node];
    const struct scenario_node *node = &loader->scenario->nodes[in->place.node];
    bool is_whole_host =
        in->kind->target == ON_PORT && in->place.n_ports == 0 && !in->spec.on_management;
    bool needs_cable = in->kind->target == ON_PORT && in->kind->kind != WORLD_FAULT_MTU;
    uint32_t n_named = is_whole_host ? host->n_ports : in->place.n_ports, n = 0;
    for (uint32_t i = 0; i < n_named; i++) {
        uint32_t port = is_whole_host ? i : in->place.ports[i];
        if (!needs_cable || node->ports[port].link >= 0) {
            out[n++] = port;
        }
    }
    return n;
}

static bool check_target(struct loader *loader, const struct fault_in *in)
{
    const struct topology_place *place = &in->place;
    const char *text = in->on->text, *kind = kind_name(in->kind);
    uint32_t ports[TOPOLOGY_PORTS_MAX];
    if (in->kind->target == ON_HOST && place->n_ports > 0) {
        return complain(
            loader, in->on->mark,
            "on: fault %s applies to a node, but '%s' is a port; did you mean "
            "'%.*s'?",
            kind, text, (int)strcspn(text, ":"), text);
    }
    bool is_single = in->kind->target == ON_ONE_PORT || in->seen.at[KEY_MATCH] != NULL;
    if (is_single && place->n_ports != 1) {
        return complain(loader, in->on->mark,
                        "on: fault %s applies to a port, but '%s' is a %s", kind, text,
                        place->n_ports == 0 ? "node" : "cage");
    }
    if (in->kind->target == ON_PORT && !in->spec.on_management &&
        list_ports(loader, in, ports) == 0) {
        return complain(loader, in->on->mark, "fault %s: '%s' has no cable", kind, text);
    }
    return true;
}

/* Reads {for: A, every: B, times: N}, for faults that recur, such as a flapping cable. */
static bool read_repetition(struct loader *loader, struct fault_in *in)
{
    const struct tree_node *every = in->seen.at[KEY_EVERY];
    const struct tree_node *times = in->seen.at[KEY_TIMES];
    in->times = 1;
    if (every == NULL && times == NULL) {
        return true;
    }
    if (every == NULL || times == NULL || in->spec.for_ns == 0) {
        return complain(loader, in->node->mark,
                        "a fault: 'every' and 'times' stand together, with 'for' or "
                        "'down_for'");
    }
    if (!read_time(loader, every, "every", &in->every_ns) ||
        !read_u32(loader, times, "times", 1, FAULTS_MAX, &in->times)) {
        return false;
    }
    if (in->every_ns <= in->spec.for_ns) {
        return complain(loader, every->mark, "every: the fault is not over by then");
    }
    if (in->every_ns > WALK_TIME_MAX / in->times) {
        return complain(loader, every->mark, "every: the last of %u is never", in->times);
    }
    return true;
}

static bool read_arguments(const struct topology *topology, struct fault_in *in)
{
    struct loader *loader = topology->loader;
    const struct tree_node *match = in->seen.at[KEY_MATCH];
    const struct tree_node *address = in->seen.at[KEY_ADDRESS];
    const struct tree_node *from = in->seen.at[KEY_FROM];
    const struct world_host *host = &loader->scenario->hosts[in->place.node];
    struct walk_seen ignored;
    if (!fault_icrc_read(loader, in->seen.at[KEY_ICRC], &in->spec.icrc_is_good) ||
        !read_repetition(loader, in)) {
        return false;
    }
    if (in->kind->kind == WORLD_FAULT_STRANGER) {
        return fault_stranger_read(topology, from, in->seen.at[KEY_SEND], &in->spec);
    }
    in->spec.has_process = in->seen.at[KEY_PROCESS] != NULL;
    if (in->spec.has_process && in->spec.process >= host->n_processes) {
        return complain(loader, in->node->mark, "process: '%s' has %u", host->name,
                        host->n_processes);
    }
    if (match != NULL) {
        in->spec.has_match = true;
        in->spec.match_qp = 1;
        walk_map(loader, match, &match_table, &ignored, &in->spec);
    }
    if (in->seen.at[KEY_VERB] != NULL) {
        fault_verb_read(loader, in->seen.at[KEY_VERB], &in->spec.call);
    }
    const struct tree_node *call = in->seen.at[KEY_CALL];
    const struct tree_node *event = in->seen.at[KEY_EVENT];
    if ((call != NULL && !fault_call_read(loader, call, in->kind->kind,
                                          in->place.n_ports > 0, &in->spec.call)) ||
        (event != NULL && !fault_event_read(loader, event, &in->spec.event))) {
        return false;
    }
    if (address == NULL) {
        return true;
    }
    bool is_new = in->kind->kind == WORLD_FAULT_ADDR_ADD || in->kind->kind == ADDR_CHANGE;
    const struct world_port *port = &host->ports[in->place.ports[0]];
    if (is_new
            ? !address_read(loader, address, "address", &in->spec.address)
            : !fault_address_read(loader, address, "address", port, &in->spec.address)) {
        return false;
    }
    if (in->kind->kind != ADDR_CHANGE) {
        return true;
    }
    if (from != NULL) {
        return fault_address_read(loader, from, "from", port, &in->old_address);
    }
    if (port->n_addresses == 0) {
        return complain(loader, in->node->mark,
                        "fault addr_change: port '%s' has no address to change",
                        port->name);
    }
    in->old_address = port->addresses[0];
    return true;
}

struct fault_list {
    struct loader *loader;
    uint32_t cap;
    uint32_t number; /* number in the file's list, from 1 */
};

static void add(struct fault_list *list, const struct fault_in *in,
                const struct world_fault *spec)
{
    struct scenario *s = list->loader->scenario;
    if (s->n_faults == FAULTS_MAX) {
        complain(list->loader, in->node->mark, "more than %u faults in all", FAULTS_MAX);
        return;
    }
    if (s->n_faults == list->cap) {
        list->cap = list->cap == 0 ? 16 : 2 * list->cap;
        s->faults = arena_grow(list->loader->arena, s->faults, s->n_faults, list->cap,
                               sizeof(s->faults[0]));
    }
    s->faults[s->n_faults++] =
        (struct scenario_fault){*spec, list->number, in->node->mark};
}

/* Adds one fault per port of the target. */
static void add_at(struct fault_list *list, const struct fault_in *in, weft_ns at_ns)
{
    uint32_t ports[TOPOLOGY_PORTS_MAX];
    uint32_t n = list_ports(list->loader, in, ports);
    struct world_fault spec = in->spec;
    spec.at_ns = at_ns;
    spec.has_port = n > 0;
    if (in->kind->kind == ADDR_CHANGE) {
        spec.port = ports[0];
        spec.kind = WORLD_FAULT_ADDR_DEL;
        spec.address = in->old_address;
        add(list, in, &spec);
        spec.kind = WORLD_FAULT_ADDR_ADD;
        spec.address = in->spec.address;
        add(list, in, &spec);
        return;
    }
    if (n == 0) {
        add(list, in, &spec);
    }
    for (uint32_t i = 0; i < n; i++) {
        spec.port = ports[i];
        add(list, in, &spec);
    }
}

static void add_all(struct fault_list *list, const struct fault_in *in)
{
    const struct scenario *s = list->loader->scenario;
    bool is_full = false;
    for (uint32_t i = 0; i < in->times && !is_full; i++) {
        is_full = s->n_faults == FAULTS_MAX; /* add one more, which complains */
        add_at(list, in, in->spec.at_ns + (weft_ns)i * in->every_ns);
    }
}

static void read_fault(const struct topology *topology, const struct tree_node *node,
                       struct fault_list *list)
{
    struct loader *loader = topology->loader;
    struct fault_in in = {.node = node, .spec = {.nth = 1}};
    size_t n_before = loader->diag->n + loader->diag->n_left_out;
    if (!walk_map(loader, node, &fault_table, &in.seen, &in.spec)) {
        return;
    }
    if (in.seen.at[KEY_AT] != NULL) {
        fault_moment_read(topology, in.seen.at[KEY_AT], &in.spec);
    }
    if (!read_form(loader, &in)) {
        return;
    }
    bool is_fine = check_keys(loader, &in);
    if (!read_place(topology, &in) || !check_target(loader, &in) || !is_fine ||
        !read_arguments(topology, &in)) {
        return;
    }
    in.spec.host = in.place.node;
    in.spec.kind = in.kind->kind;
    if (fault_moment_check(loader, in.seen.at[KEY_AT], &in.spec) &&
        loader->diag->n + loader->diag->n_left_out == n_before) {
        add_all(list, &in);
    }
}

void faults_read(const struct topology *topology, const struct tree_node *node)
{
    struct loader *loader = topology->loader;
    struct fault_list list = {.loader = loader};
    if (node == NULL || !read_list(loader, node, "faults", 0, FAULTS_MAX)) {
        return;
    }
    for (uint32_t i = 0; i < node->n; i++) {
        list.number = i + 1;
        read_fault(topology, node->items[i], &list);
    }
}
