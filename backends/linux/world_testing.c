#include "backends/linux/world_testing.h"

#include "backends/linux/netns_testing.h"
#include "base/text.h"

struct io_loop *loop_world_loop(struct world *world)
{
    return linux_loop_io(loop_world_of(world)->loop);
}

weft_ns loop_world_now(struct world *world)
{
    return linux_loop_now(loop_world_of(world)->loop);
}

weft_status loop_world_step(struct world *world, weft_ns until)
{
    return linux_loop_step(loop_world_of(world)->loop, until);
}

bool loop_world_host_alive(const struct world *world, uint32_t host)
{
    (void)world;
    (void)host;
    return true;
}

bool loop_world_counter(const struct world *world, uint32_t index, const char **out_name,
                        uint64_t *out_value)
{
    (void)world;
    (void)index;
    (void)out_name;
    (void)out_value;
    return false;
}

static void set_address(int netns, const char *netdev, const struct io_ip *ip,
                        uint32_t prefix_len)
{
    char text[IO_IP_TEXT_BYTES + 4], address[IO_IP_TEXT_BYTES];

    weft_format(text, sizeof(text), "%s/%u", io_ip_format(ip, address, sizeof(address)),
                prefix_len);
    netns_testing_address(netns, netdev, text);
}

void loop_world_lay_cables(const struct world_spec *spec, const int netns[2])
{
    netns_testing_veth(netns[0], "p0", netns[1], "p0", spec->hosts[0].ports[0].mtu_bytes);
    netns_testing_veth(netns[0], "mgmt", netns[1], "mgmt", 1500);
    for (uint32_t i = 0; i < 2; i++) {
        const struct io_prefix *prefix = &spec->hosts[i].ports[0].addresses[0];

        set_address(netns[i], "p0", &prefix->ip, prefix->prefix_len);
        set_address(netns[i], "mgmt", &spec->hosts[i].management_ip,
                    spec->management.prefix_len);
    }
}
