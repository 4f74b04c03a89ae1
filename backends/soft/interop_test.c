/* The conformance suite of the I/O interface between two kinds of NIC: at one end of a veth pair
 * the kernel's soft-RoCE with libibverbs, at the other the simulated NIC on its raw wire, in both
 * arrangements. Needs a kernel whose rdma_rxe supports namespaces (7.1 or newer);
 * ci/guest/conformance runs it in one. */
#include <stdio.h>
#include <stdlib.h>

#include "backends/soft/host.h"
#include "backends/verbs/veth_testing.h"
#include "base/suite_testing.h"
#include "io/conformance_testing.h"

static uint32_t soft_side; /* host with the simulated NIC */

static void destroy_soft(void *host)
{
    soft_host_destroy(host);
}

static weft_status open_soft(struct linux_loop *loop, const struct world_spec *spec,
                             uint32_t host, int netns, struct veth_testing_host *out,
                             struct weft_error *error)
{
    struct world_setting settings[4] = {{"WEFT_SOFT_WIRE", "raw"},
                                        {"WEFT_MANAGEMENT", "mgmt"}};
    uint32_t n = 2;
    for (uint32_t i = 0; i < spec->hosts[host].n_settings; i++) {
        settings[n++] = spec->hosts[host].settings[i];
    }
    const struct soft_host_config config = {.env = {.name = spec->hosts[host].name,
                                                    .host = host,
                                                    .netns_fd = netns,
                                                    .only_given_settings = true,
                                                    .settings = settings,
                                                    .n_settings = n},
                                            .spec = spec,
                                            .host = host};
    struct soft_host *made;
    weft_status status = soft_host_create(loop, &config, &made, error);
    if (status == WEFT_OK) {
        *out = (struct veth_testing_host){made, soft_host_env(made), destroy_soft};
    }
    return status;
}

static weft_status open_one(struct linux_loop *loop, const struct world_spec *spec,
                            uint32_t host, int netns, struct veth_testing_host *out,
                            struct weft_error *error)
{
    return host == soft_side
               ? open_soft(loop, spec, host, netns, out, error)
               : veth_testing_open_verbs(loop, spec, host, netns, out, error);
}

int main(void)
{
    const char *why;
    int status = EXIT_SUCCESS;
    if (!veth_testing_has_rxe(&why)) {
        printf("SKIP io conformance, verbs: %s\n", why);
        return 77;
    }
    for (soft_side = 0; soft_side < 2; soft_side++) {
        veth_testing = (struct veth_testing){open_one, {soft_side != 0, soft_side != 1}};
        Suite *suite = suite_create("io conformance, soft and rxe");
        conformance_add(suite, &veth_testing_ops, WEFT_PROFILE_RXE);
        if (suite_run(suite) != EXIT_SUCCESS) {
            status = EXIT_FAILURE;
        }
    }
    return status;
}
