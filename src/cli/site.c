#include "cli/site.h"

#include <stdio.h>

#include "backends/registry.h"
#include "run/site.h"

static weft_status look(const struct cli_options *options,
                        const struct cli_member *member, struct weft_text *out,
                        struct weft_error *error)
{
    struct weft_log log = options->log;
    const struct run_site_options site = {
        .rank = member->rank,
        .n_ranks = member->n_ranks,
        .name = member->name,
        .rendezvous = member->rendezvous,
        .patience_ns = options->patience_s * 1000000000,
        .seed = options->has_seed ? options->seed : 1,
        .secret = member->has_secret ? member->secret : NULL,
        .netdevs = options->netdevs,
    };
    struct world *world = NULL;
    weft_status status = backend_site_world(member->is_soft, &log, &world, error);

    if (status == WEFT_OK) {
        status = run_site(world, &site, out, error);
        world->ops->destroy(world);
    }
    return status;
}

weft_status cli_site_find(const struct cli_options *options,
                          const struct cli_member *member, struct weft_text *out)
{
    struct weft_error error = {0};
    char text[512];
    weft_status status;

    if (!member->has_rendezvous) {
        fprintf(stderr, "weft node: the address of rank 0 is not set; use --rendezvous "
                        "HOST:PORT, or MASTER_ADDR and MASTER_PORT\n");
        return WEFT_ERR_INPUT;
    }
    status = look(options, member, out, &error);
    if (status != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft node: %s\n", text);
    }
    return status;
}
