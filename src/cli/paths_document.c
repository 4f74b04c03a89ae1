/* weft paths: what is asked about: a file, this machine, a recorded one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/text.h"
#include "cli/paths.h"
#include "topo/describe.h"
#include "topo/xml.h"

static int describe(const struct cli_options *options, struct paths_document *out)
{
    struct io_machine machine;
    struct weft_error error;
    int *ranks;
    int code = CLI_OK;

    weft_error_clear(&error);
    out->name = options->root != NULL ? options->root : "this machine";
    out->is_machine = true;
    backend_machine_read(options->root, &machine);
    if (machine.n_gpus == 0 && !options->quiet) {
        fprintf(stderr, "weft: %s has no GPU: NCCL would not run there\n", out->name);
    }
    ranks = weft_calloc(machine.n_gpus + 1, sizeof(*ranks));
    for (uint32_t i = 0; i < machine.n_gpus; i++) {
        ranks[i] = (int)i;
    }
    const struct topo_inside inside = {
        .machine = &machine, .ranks = ranks, .n_ranks = machine.n_gpus};
    if (topo_describe(&inside, &out->text, &error) != WEFT_OK) {
        fprintf(stderr, "weft: %s: %s\n", out->name, error.message);
        code = CLI_ENVIRONMENT;
    }
    free(ranks);
    io_machine_fini(&machine);
    return code;
}

int paths_document_read(const struct cli_options *options, struct paths_document *out)
{
    int error;

    if (options->local) {
        return describe(options, out);
    }
    out->name = options->operands[0];
    error = weft_text_add_file(&out->text, out->name, TOPO_FILE_BYTES_MAX);
    if (error != 0) {
        fprintf(stderr, "weft: %s: %s\n", out->name, strerror(error));
    }
    return error == 0 ? CLI_OK : CLI_USAGE;
}

int paths_document_print(const struct paths_document *document)
{
    const struct weft_text *text = &document->text;
    struct weft_text out = {NULL, 0, 0};
    struct weft_error error;
    struct xml_node *root;
    int code = CLI_USAGE;

    weft_error_clear(&error);
    root = xml_parse(text->bytes != NULL ? text->bytes : "", text->n, &error);
    if (root == NULL) {
        fprintf(stderr, "%s:%s\n", document->name, error.message);
    } else {
        xml_print(root, &out);
        code = cli_print(out.bytes, out.n) ? CLI_OK : CLI_USAGE;
    }
    xml_free(root);
    weft_text_fini(&out);
    return code;
}
