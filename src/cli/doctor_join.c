/* `weft doctor --join`: each machine checks itself, all exchange the results, and what only both
 * ends of a cable together can show is checked. The processes are members of a job without a
 * scenario; flags or a launcher determine their ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/doctor.h"
#include "cli/member.h"
#include "run/site.h"

/* Gathers the reports of all members [n_ranks]. Returns an exit status, after a message unless it
 * is CLI_OK. */
static int gather(const struct cli_options *options, const struct cli_member *member,
                  const struct weft_text *mine, struct weft_text *all)
{
    struct weft_log log = options->log;
    const struct run_site_options site = {
        .rank = member->rank,
        .n_ranks = member->n_ranks,
        .rendezvous = member->rendezvous,
        .patience_ns = options->patience_s * 1000000000,
        .seed = options->has_seed ? options->seed : 1,
        .secret = member->has_secret ? member->secret : NULL,
    };
    struct weft_error error = {0};
    struct world *world = NULL;
    char text[512];
    /* Uses backend soft, which needs no device, because nothing is sent over the cables. */
    weft_status status = backend_site_world(true, &log, &world, &error);

    if (status == WEFT_OK) {
        status = run_site_gather(world, &site, mine, all, &error);
        world->ops->destroy(world);
    }
    if (status != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft doctor: %s\n", text);
    }
    return status == WEFT_OK                ? CLI_OK
           : status == WEFT_ERR_TIMEOUT     ? CLI_TIMEOUT
           : status == WEFT_ERR_ENVIRONMENT ? CLI_ENVIRONMENT
                                            : CLI_FAILED;
}

/* Adds the reports in rank order. If a machine has several members, uses the first one's. */
static int take(struct examination *all, const struct weft_text *texts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        json_error_t syntax;
        json_t *document = json_loadb(texts[i].bytes, texts[i].n, 0, &syntax);
        struct weft_error error = {0};
        uint32_t n_before = all->input.n_hosts;
        bool ok = document != NULL && doctor_add_hosts(all, document, true, &error);

        if (ok && all->input.n_hosts > n_before) {
            json_array_extend(all->told, json_object_get(document, "findings"));
        }
        json_decref(document);
        if (!ok) {
            fprintf(stderr, "weft doctor: rank %u sent an invalid report: %s\n", i,
                    document == NULL ? syntax.text : error.message);
            return CLI_FAILED;
        }
    }
    return CLI_OK;
}

int doctor_join(struct cli_options *options, struct examination *all, bool *out_tells)
{
    struct cli_member member;
    struct weft_text *texts;
    json_t *own;
    char *bytes;
    int code;

    if (!cli_member_find(options, false, &member)) {
        return CLI_USAGE;
    }
    if (!member.has_rendezvous) {
        fprintf(stderr, "weft doctor: the address of rank 0 is not set; use --rendezvous "
                        "HOST:PORT, or "
                        "MASTER_ADDR and MASTER_PORT\n");
        return CLI_USAGE;
    }
    *out_tells = member.rank == 0;
    own = doctor_document(all);
    bytes = json_dumps(own, JSON_COMPACT);
    json_decref(own);
    weft_check(bytes != NULL);
    const struct weft_text mine = {.bytes = bytes, .n = strlen(bytes)};

    texts = weft_calloc(member.n_ranks, sizeof(*texts));
    code = gather(options, &member, &mine, texts);
    if (code == CLI_OK) {
        diag_findings_fini(&all->findings);
        diag_input_fini(&all->input);
        all->findings = (struct diag_findings){NULL, 0};
        all->input = (struct diag_input){.hosts = NULL};
        all->told = json_array();
        code = take(all, texts, member.n_ranks);
    }
    for (uint32_t i = 0; i < member.n_ranks; i++) {
        weft_text_fini(&texts[i]);
    }
    free(texts);
    free(bytes);
    return code;
}
