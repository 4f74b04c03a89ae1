/* Runs a scenario of a swarm on soft-RoCE or backend soft as `weft run` does. Each run has a guest
 * of its own in virtual time, so that a seed is repeatable. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/isolate.h"
#include "cli/swarm.h"

enum { WORDS_MAX = 16 };

/* Writes `text` to a scratch file. Sets `path` to "" if that fails. */
static void write_scratch(const struct weft_text *text, char *path, size_t path_bytes)
{
    const char *folder = getenv("TMPDIR");
    bool ok = false;
    FILE *file;
    int fd;

    weft_format(path, path_bytes, "%s/weft-swarm-XXXXXX.yaml",
                folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    fd = mkostemps(path, (int)strlen(".yaml"), O_CLOEXEC);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file != NULL) {
        ok = fwrite(text->bytes, 1, text->n, file) == text->n;
        ok = fclose(file) == 0 && ok;
    }
    if (fd >= 0 && !ok) {
        unlink(path);
    }
    path[0] = ok ? path[0] : '\0';
}

/* Appends the last line that the program wrote to stderr. */
static void add_last_words(int fd, struct weft_text *how)
{
    char text[2048];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    off_t end = lseek(fd, 0, SEEK_END);
    char *line;

    if (end > (off_t)sizeof(text) - 1) {
        n = pread(fd, text, sizeof(text) - 1, end - (off_t)sizeof(text) + 1);
    }
    n = n > 0 && text[n - 1] == '\n' ? n - 1 : n;
    text[n > 0 ? n : 0] = '\0';
    line = strrchr(text, '\n');
    weft_text_add(how, "%s", line != NULL ? line + 1 : text);
}

/* Names how the program ended without a document: "signal 11 (Segmentation fault)", or "exit status
 * 139" if the signal ended it in the guest. Returns the row's result, and appends the reason: how
 * it ended if that was a crash, otherwise its last line. Exit statuses: docs/cli.md. */
static const char *result_of(const struct weft_text *ended, int err_fd,
                             struct weft_text *how)
{
    static const char exited[] = "exit status ";
    bool has_status = ended->n > 0 && strncmp(ended->bytes, exited, strlen(exited)) == 0;
    int status = has_status ? (int)strtol(ended->bytes + strlen(exited), NULL, 10) : 0;
    bool is_crash = status == 1 || status > 128 || (ended->n > 0 && !has_status);

    if (!is_crash) {
        add_last_words(err_fd, how);
    }
    if (how->n == 0 && ended->n > 0) {
        weft_text_add(how, "%s", ended->bytes);
    }
    return is_crash ? "crash" : status == 124 ? "timeout" : "error";
}

static json_t *run_program(char *const *argv, int patience_ms, const char **result,
                           struct weft_text *how)
{
    struct weft_text line = {NULL, 0, 0}, ended = {NULL, 0, 0};
    struct isolate isolate;
    int err_fd = memfd_create("stderr", MFD_CLOEXEC);
    enum isolate_read read = ISOLATE_ENDED;
    json_t *document = NULL;

    *result = "error";
    if (err_fd < 0 || !isolate_exec(&isolate, argv, err_fd)) {
        weft_text_add(how, "no process: %s", strerror(errno));
    } else {
        read = isolate_line(&isolate, patience_ms, &line);
        isolate_stop(&isolate, &ended);
        if (read == ISOLATE_LINE) {
            document = json_loadb(line.bytes, line.n, 0, NULL);
        } else if (read == ISOLATE_LATE) {
            *result = "timeout";
            weft_text_add(how, "out of time");
        } else {
            *result = result_of(&ended, err_fd, how);
        }
    }
    if (err_fd >= 0) {
        close(err_fd);
    }
    weft_text_fini(&line);
    weft_text_fini(&ended);
    return document;
}

json_t *swarm_guest_document(const struct swarm_run *run, const char **result,
                             struct weft_text *how)
{
    const struct cli_options *options = run->options;
    size_t n_sets = run->has_sets ? 0 : options->n_sets;
    char **argv = weft_calloc(WORDS_MAX + 2 * n_sets, sizeof(*argv));
    char *self = realpath("/proc/self/exe", NULL);
    /* As in the replay line but for the document, which is written at the end: an earlier call that
     * one of the two does not make would change what chance does to its programs. */
    const char *words[] = {
        self,      "run",     "--ndjson", "--backend", options->backend,
        "--clock", "virtual", "--seed",   NULL};
    char seed[32], scratch[4096] = "";
    json_t *document = NULL;
    size_t n = 0;

    weft_format(seed, sizeof(seed), "%llu", (unsigned long long)run->seed);
    for (; words[n] != NULL; n++) {
        argv[n] = (char *)(uintptr_t)words[n];
    }
    argv[n++] = seed;
    if (options->policy != NULL) {
        argv[n++] = (char *)(uintptr_t) "--policy";
        argv[n++] = (char *)(uintptr_t)options->policy;
    }
    for (size_t i = 0; i < n_sets; i++) {
        argv[n++] = (char *)(uintptr_t) "--set";
        argv[n++] = (char *)(uintptr_t)options->sets[i].text;
    }
    argv[n] = (char *)(uintptr_t)run->path;
    if (run->text != NULL) {
        write_scratch(run->text, scratch, sizeof(scratch));
        argv[n] = scratch;
    }
    if (argv[n][0] != '\0') {
        document = run_program(argv, run->patience_ms, result, how);
    } else {
        weft_text_add(how, "no scratch file: %s", strerror(errno));
    }
    if (scratch[0] != '\0') {
        unlink(scratch);
    }
    free(self);
    free(argv);
    return document;
}
