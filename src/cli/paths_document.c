/* weft paths: reads the topology document of a file, this machine or a recorded machine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/registry.h"
#include "base/text.h"
#include "cli/paths.h"
#include "nccl/describe.h"
#include "nccl/xml.h"

/* Returns false after a message. */
static bool has_sys(const char *root)
{
    struct weft_text path = {NULL, 0, 0};
    struct stat status;
    bool ok;

    weft_text_add(&path, "%s/sys", root);
    ok = stat(path.bytes, &status) == 0;
    if (!ok) {
        fprintf(stderr, "weft paths: --root: %s: %s\n", path.bytes, strerror(errno));
    }
    weft_text_fini(&path);
    return ok;
}

static int describe(const struct cli_options *options, struct paths_document *out)
{
    struct io_machine machine;
    struct weft_error error;
    int *ranks;
    int code = CLI_OK;

    weft_error_clear(&error);
    out->name = options->root != NULL ? options->root : "this machine";
    out->is_machine = true;
    if (options->root != NULL && !has_sys(options->root)) {
        return CLI_USAGE;
    }
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

void paths_stub_text(const struct topo_stub *stub, char *out, size_t out_bytes)
{
    const char *what =
        stub->has_gpus ? "a stub whose GPUs have no rank" : "a stub without GPUs";

    if (stub->sm == 0) {
        weft_format(out, out_bytes,
                    "%s, completed with %u GPUs and %u NICs of the machine", what,
                    stub->n_gpus, stub->n_nets);
        return;
    }
    weft_format(
        out, out_bytes,
        "%s, completed by default: %u GPUs by bus id (%ssm %d, GPUDirect%s), %u NETs at "
        "the rate of their PCIe link%s%s%s; weft paths FILE --root DIR takes them from a "
        "machine",
        what, stub->n_gpus, stub->has_gpus ? "where missing: " : "", stub->sm,
        stub->has_gpus ? "" : ", no NVLink", stub->n_nets,
        stub->has_cpu ? ", CPUs as Intel's Skylake" : "",
        stub->has_link ? ", PCIe links as 8 GT/s x16" : "",
        stub->is_guessed ? ", functions without a class as GPUs" : "");
}

/* Completes a stub from the machine of --root, or with defaults, and reports that. */
static int complete(const struct cli_options *options, struct paths_document *document)
{
    struct paths_document machine = {.name = NULL};
    struct topo_stub stub;
    struct weft_error error;
    char said[400];
    int code = options->root != NULL ? describe(options, &machine) : CLI_OK;

    weft_error_clear(&error);
    if (code == CLI_OK &&
        topo_complete(&document->text, options->root != NULL ? &machine.text : NULL,
                      &stub, &error) != WEFT_OK) {
        fprintf(stderr, "%s:%s\n", document->name, error.message);
        code = CLI_USAGE;
    } else if (code == CLI_OK && stub.is_stub && !options->quiet) {
        paths_stub_text(&stub, said, sizeof(said));
        fprintf(stderr, "weft: %s: %s\n", document->name, said);
        if (stub.n_added > 0) {
            fprintf(stderr,
                    "weft: %s: %u functions of %s are not in it, and were added\n",
                    document->name, stub.n_added, machine.name);
        }
    } else if (code == CLI_OK && options->root != NULL && !stub.is_stub) {
        fprintf(stderr,
                "weft paths: %s has GPUs of its own, so there is nothing to take "
                "from --root %s\n",
                document->name, options->root);
        code = CLI_USAGE;
    }
    weft_text_fini(&machine.text);
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
        return CLI_USAGE;
    }
    return complete(options, out);
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
