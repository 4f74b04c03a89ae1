#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/version.h"
#include "cli/paths.h"

static json_t *name_of(const struct topo_node *node)
{
    char name[TOPO_NAME_BYTES];

    return json_string(topo_node_name(node, name));
}

/* Converts a float as NCCL prints it. */
static json_t *bw_of(float bw)
{
    char text[32];

    weft_format(text, sizeof(text), "%g", (double)bw);
    return json_real(strtod(text, NULL));
}

static json_t *encode_node(const struct topo_node *node)
{
    json_t *links = json_array();
    json_t *object = json_pack("{s:o, s:s, s:o}", "name", name_of(node), "type",
                               topo_type_name(node->type), "links", links);

    for (uint32_t i = 0; i < node->n_links; i++) {
        const struct topo_link *link = &node->links[i];

        json_array_append_new(links, json_pack("{s:s, s:o, s:o}", "type",
                                               topo_link_name(link->type), "bw_gBps",
                                               bw_of(link->bw), "to", name_of(link->to)));
    }
    if (node->type == TOPO_GPU) {
        const struct topo_gpu *gpu = &node->u.gpu;

        json_object_update_new(object,
                               json_pack("{s:i, s:i, s:i, s:b}", "dev", gpu->dev, "rank",
                                         gpu->rank, "sm", gpu->sm, "gdr", gpu->gdr != 0));
    } else if (node->type == TOPO_NET) {
        const struct topo_net *net = &node->u.net;

        json_object_update_new(object,
                               json_pack("{s:i, s:i, s:b}", "dev", net->dev, "port",
                                         net->port, "gdr", net->gdr != 0));
    }
    return object;
}

static json_t *encode_path(const struct topo_node *from, const struct topo_node *to)
{
    const struct topo_path *path = topo_path(from, to);
    json_t *hops = json_array();

    for (uint32_t i = 0; i < path->n_hops; i++) {
        const struct topo_link *hop = path->hops[i];

        json_array_append_new(hops, json_pack("{s:s, s:o, s:o}", "link",
                                              topo_link_name(hop->type), "bw_gBps",
                                              bw_of(hop->bw), "to", name_of(hop->to)));
    }
    return json_pack("{s:o, s:o, s:s, s:o, s:o}", "from", name_of(from), "to",
                     name_of(to), "type", topo_path_name(path->type), "bw_gBps",
                     bw_of(path->bw), "hops", hops);
}

static json_t *encode_gdr(struct paths_session *session)
{
    struct topo_system *system = session->system;
    json_t *list = json_array();

    for (uint32_t g = 0; g < system->n[TOPO_GPU]; g++) {
        for (uint32_t n = 0; n < system->n[TOPO_NET]; n++) {
            const struct topo_node *gpu = system->nodes[TOPO_GPU][g];
            const struct topo_node *net = system->nodes[TOPO_NET][n];
            bool receives = false, sends = false;

            topo_check_gdr(&session->view, gpu, net, false, &receives, NULL);
            topo_check_gdr(&session->view, gpu, net, true, &sends, NULL);
            json_array_append_new(list, json_pack("{s:o, s:o, s:b, s:b}", "gpu",
                                                  name_of(gpu), "net", name_of(net),
                                                  "receive", receives, "send", sends));
        }
    }
    return list;
}

static json_t *encode(struct paths_session *session)
{
    const struct topo_system *system = session->system;
    json_t *nodes = json_array();
    json_t *paths = json_array();

    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; i < system->n[type]; i++) {
            const struct topo_node *from = system->nodes[type][i];

            json_array_append_new(nodes, encode_node(from));
            for (int to = 0; to < TOPO_N_TYPES; to++) {
                for (uint32_t k = 0; from->paths[to] != NULL && k < system->n[to]; k++) {
                    json_array_append_new(paths, encode_path(from, system->nodes[to][k]));
                }
            }
        }
    }
    return json_pack("{s:i, s:s, s:s, s:I, s:o, s:o, s:o}", "schema_version", 1, "weft",
                     weft_version, "nccl", session->rules->name, "nranks",
                     (json_int_t)session->comm.n_ranks, "nodes", nodes, "paths", paths,
                     "gpudirect", encode_gdr(session));
}

int paths_json(struct paths_session *session)
{
    struct weft_error error;
    json_t *document;
    char *text;
    bool ok;

    weft_error_clear(&error);
    if (paths_compute(session, NULL, NULL, &error) != WEFT_OK) {
        fprintf(stderr, "weft: %s: %s\n", session->options->operands[0], error.message);
        return CLI_FAILED;
    }
    document = encode(session);
    text = json_dumps(document, JSON_INDENT(2));
    ok = cli_write_file(session->options->json, text, strlen(text)) &&
         (strcmp(session->options->json, "-") != 0 || cli_print("\n", 1));
    free(text);
    json_decref(document);
    return ok ? CLI_OK : CLI_USAGE;
}
