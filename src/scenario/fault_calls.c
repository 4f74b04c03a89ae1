/* Reads the arguments of faults: verbs, calls of the I/O interface, events, and addresses of
 * ports. */
#include "base/check.h"
#include "io/verbs.h"
#include "scenario/sections.h"

#define STRANGERS_MAX 1024u /* at each port */

bool fault_address_read(struct loader *loader, const struct tree_node *node,
                        const char *name, const struct world_port *port,
                        struct io_prefix *out)
{
    struct io_ip ip;
    if (node->kind != TREE_SCALAR || !io_ip_parse(node->text, &ip)) {
        return address_read(loader, node, name, out);
    }
    *out = (struct io_prefix){ip, io_ip_is_v4(&ip) ? 32 : 128};
    for (uint32_t i = 0; i < port->n_addresses; i++) {
        if (io_ip_equal(&port->addresses[i].ip, &ip)) {
            *out = port->addresses[i];
        }
    }
    return true;
}

bool fault_verb_read(struct loader *loader, const struct tree_node *node,
                     enum world_call *out)
{
    const char *names[WORLD_CALL_POST_RECV - WORLD_CALL_ALLOC_PD + 1];
    unsigned choice;
    for (unsigned i = 0; i < WEFT_LENGTH(names); i++) {
        names[i] = world_call_name((enum world_call)(WORLD_CALL_ALLOC_PD + i));
    }
    if (!read_choice(loader, node, "verb", names, WEFT_LENGTH(names), &choice)) {
        return false;
    }
    *out = (enum world_call)(WORLD_CALL_ALLOC_PD + choice);
    return true;
}

/* Returns true if a fault of this kind can affect the call: for example, only a call that
 * waits can be slow. */
static bool suits(enum world_fault_kind kind, enum world_call call)
{
    if (kind == WORLD_FAULT_CALL_SHORT) {
        return call == WORLD_CALL_SEND || call == WORLD_CALL_RECV;
    }
    if (kind == WORLD_FAULT_CALL_LOST) {
        return call == WORLD_CALL_SEND || call == WORLD_CALL_ANNOUNCE;
    }
    if (kind == WORLD_FAULT_CALL_SLOW) {
        return (call >= WORLD_CALL_ALLOC_PD && call <= WORLD_CALL_DESTROY_QP) ||
               call == WORLD_CALL_POLL_CQ || call == WORLD_CALL_ACCEPT ||
               call == WORLD_CALL_SEND || call == WORLD_CALL_RECV ||
               call == WORLD_CALL_HEAR;
    }
    return true;
}

bool fault_call_read(struct loader *loader, const struct tree_node *node,
                     enum world_fault_kind kind, bool is_on_port, enum world_call *out)
{
    const char *names[WORLD_N_CALLS];
    enum world_call calls[WORLD_N_CALLS];
    unsigned n = 0, choice;
    bool is_of_device;

    for (unsigned i = 0; i < WORLD_N_CALLS; i++) {
        if (suits(kind, (enum world_call)i)) {
            calls[n] = (enum world_call)i;
            names[n++] = world_call_name((enum world_call)i);
        }
    }
    if (!read_choice(loader, node, "call", names, n, &choice)) {
        return false;
    }
    *out = calls[choice];
    is_of_device = *out <= WORLD_CALL_REQ_NOTIFY;
    if (is_on_port && !is_of_device) {
        return complain(loader, node->mark,
                        "call: '%s' is of a node, not of one of its ports",
                        names[choice]);
    }
    return true;
}

bool fault_event_read(struct loader *loader, const struct tree_node *node, int *out)
{
    static const char *const names[] = {"port_active", "port_err",  "gid_change",
                                        "lid_change",  "sm_change", "pkey_change",
                                        "device_fatal"};
    static const int events[] = {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,
                                 IBV_EVENT_GID_CHANGE,  IBV_EVENT_LID_CHANGE,
                                 IBV_EVENT_SM_CHANGE,   IBV_EVENT_PKEY_CHANGE,
                                 IBV_EVENT_DEVICE_FATAL};
    unsigned choice;

    if (!read_choice(loader, node, "event", names, WEFT_LENGTH(names), &choice)) {
        return false;
    }
    *out = events[choice];
    return true;
}

/* By default (NULL) the ICRC reveals the corruption. */
bool fault_icrc_read(struct loader *loader, const struct tree_node *node, bool *out_good)
{
    static const char *const names[] = {"bad", "good"};
    unsigned choice = 0;

    if (node != NULL && !read_choice(loader, node, "icrc", names, 2, &choice)) {
        return false;
    }
    *out_good = choice == 1;
    return true;
}

bool fault_stranger_read(const struct topology *topology, const struct tree_node *from,
                         const struct tree_node *send, struct world_fault *out)
{
    struct loader *loader = topology->loader;

    if (out->n_calls > STRANGERS_MAX) {
        return complain(loader, from->mark,
                        "fault stranger: a count of %u is more than %u", out->n_calls,
                        STRANGERS_MAX);
    }
    return topology_find_host(topology, from, "from", &out->from) &&
           (send == NULL || read_text(loader, send, "send", &out->send));
}
