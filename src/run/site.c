#include "run/site.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/host.h"
#include "host/meeting.h"
#include "run/job_key.h"

/* ---- one port ---- */

static bool is_loopback(const struct io_ip *ip)
{
    static const struct io_ip six = {.bytes = {[15] = 1}};

    return io_ip_equal(ip, &six) || (io_ip_is_v4(ip) && ip->bytes[12] == 127);
}

static json_t *addresses_of(const struct io_netdev *netdev)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct io_prefix *address = &netdev->addresses[i];
        char ip[IO_IP_TEXT_BYTES];
        char text[IO_IP_TEXT_BYTES + 4];

        if (io_ip_is_link_local(&address->ip) || is_loopback(&address->ip)) {
            continue;
        }
        weft_format(text, sizeof(text), "%s/%u",
                    io_ip_format(&address->ip, ip, sizeof(ip)), address->prefix_len);
        json_array_append_new(array, json_string(text));
    }
    return array;
}

/* Returns true if the netdev leads to rank 0. */
static bool leads_to(const struct io_netdev *netdev, const struct io_ip *rendezvous)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct io_prefix *address = &netdev->addresses[i];

        if (io_ip_same_subnet(&address->ip, rendezvous, address->prefix_len)) {
            return true;
        }
    }
    return false;
}

static void add_port(json_t *ports, const char *name, const struct io_netdev *netdev,
                     const struct run_site_options *options)
{
    json_t *addresses = addresses_of(netdev);

    if (!netdev->is_up || json_array_size(addresses) == 0 ||
        (options->netdevs != NULL && !weft_is_listed(options->netdevs, netdev->name))) {
        json_decref(addresses);
        return;
    }
    json_array_append_new(ports,
                          json_pack("{s:s, s:I, s:I, s:o, s:b}", "name", name, "rate",
                                    (json_int_t)netdev->speed_bps, "mtu",
                                    (json_int_t)netdev->mtu_bytes, "addresses", addresses,
                                    "leads", leads_to(netdev, &options->rendezvous.ip)));
}

/* ---- this machine ---- */

static json_t *ports_of(struct io_env *env, const struct run_site_options *options)
{
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    json_t *ports = json_array();

    for (uint32_t i = 0; i < info->n_netdevs && env->n_devices == 0; i++) {
        add_port(ports, info->netdevs[i].name, &info->netdevs[i], options);
    }
    for (uint32_t d = 0; d < env->n_devices; d++) {
        struct io_device *device = env->devices[d];

        for (uint8_t p = 1; p <= device->n_ports; p++) {
            const struct io_netdev *netdev;
            uint32_t ifindex = 0;
            char name[64];

            weft_format(name, sizeof(name), p == 1 ? "%s" : "%s.%u", device->name, p);
            if (device->ops->port_netdev(device, p, &ifindex) == 0 &&
                (netdev = io_hostinfo_netdev(info, ifindex)) != NULL) {
                add_port(ports, name, netdev, options);
            }
        }
    }
    return ports;
}

static char *facts_of(struct io_env *env, const struct run_site_options *options)
{
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    bool is_named = options->name != NULL && options->name[0] != '\0';
    char id[33];
    json_t *facts;
    char *text;

    for (size_t i = 0; i < sizeof(info->host_id); i++) {
        weft_format(id + 2 * i, 3, "%02x", info->host_id[i]);
    }
    facts = json_pack("{s:s, s:s, s:o}", "name", is_named ? options->name : info->name,
                      "id", id, "ports", ports_of(env, options));
    text = json_dumps(facts, JSON_COMPACT);
    json_decref(facts);
    return text;
}

/* ---- all machines ---- */

static void configure(const struct run_site_options *options, struct boot_config *out)
{
    struct host_config defaults;

    host_config_default(&defaults);
    *out = defaults.boot;
    out->mode = BOOT_RENDEZVOUS;
    out->rank = options->rank;
    out->n_ranks = options->n_ranks;
    out->rendezvous = options->rendezvous;
    out->patience_ns =
        options->patience_ns != 0 ? options->patience_ns : out->patience_ns;
    run_job_key(options->seed, options->secret, out->job_key);
}

weft_status run_site_gather(struct world *world, const struct run_site_options *options,
                            const struct weft_text *mine, struct weft_text *all,
                            struct weft_error *error)
{
    struct boot_config config;
    struct meeting *meeting = NULL;
    weft_ns gathered_ns;
    weft_status status;

    configure(options, &config);
    status =
        meeting_open(world, world->ops->host_env(world, 0, 0), &config, &meeting, error);
    if (status == WEFT_OK) {
        status = meeting_gather_texts(meeting, mine, false, all, &gathered_ns, error);
    }
    if (status == WEFT_OK) {
        meeting_part(meeting);
    }
    meeting_close(meeting);
    return status;
}

weft_status run_site(struct world *world, const struct run_site_options *options,
                     struct weft_text *out, struct weft_error *error)
{
    struct weft_text *facts = weft_calloc(options->n_ranks, sizeof(*facts));
    char *text = facts_of(world->ops->host_env(world, 0, 0), options);
    const struct weft_text mine = {.bytes = text, .n = text == NULL ? 0 : strlen(text)};
    weft_status status = run_site_gather(world, options, &mine, facts, error);

    if (status == WEFT_OK) {
        status = run_site_file(facts, options->n_ranks, out, error);
    }
    for (uint32_t i = 0; i < options->n_ranks; i++) {
        weft_text_fini(&facts[i]);
    }
    free(facts);
    free(text);
    return status;
}
