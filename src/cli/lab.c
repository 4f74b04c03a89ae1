/* weft lab: a mesh that stays, and programs in its hosts. */
#define _GNU_SOURCE
#include "cli/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/lab_diagnose.h"
#include "report/pcapng.h"
#include "run/program_look.h"
#include "scenario/diagnose.h"

/* ---- ls, down ---- */

static void list_one(void *context, const char *name, int fd)
{
    (void)name;
    lab_ask_words(fd, "ls", NULL, false, context);
}

static int list(void)
{
    struct weft_text text = {NULL, 0, 0};
    char folder[LAB_PATH_MAX];
    bool ok;

    if (!lab_folder(folder, sizeof(folder))) {
        return CLI_USAGE;
    }
    lab_for_each(folder, list_one, &text);
    lab_sweep(folder);
    ok = text.n == 0 || cli_print(text.bytes, text.n);
    weft_text_fini(&text);
    return ok ? CLI_OK : CLI_USAGE;
}

static int down(const char *name)
{
    struct weft_text text = {NULL, 0, 0};
    int fd = lab_find(name);
    int code = CLI_OK;

    if (fd < 0) {
        return CLI_USAGE;
    }
    lab_ask_words(fd, "down", NULL, true, &text); /* closed by the end of the daemon */
    close(fd);
    if (strncmp(text.bytes, "error ", 6) == 0) {
        fprintf(stderr, "weft lab down: %s", text.bytes + 6);
        code = CLI_ENVIRONMENT;
    }
    weft_text_fini(&text);
    return code;
}

/* ---- faults ---- */

/* Asks for what is done at once; `text` may be NULL. */
static int do_now(const char *name, const char *verb, const char *text)
{
    struct weft_text said = {NULL, 0, 0};
    int fd = lab_find(name);
    int problem = 0;
    int code = CLI_USAGE;

    if (fd < 0) {
        return CLI_USAGE;
    }
    lab_ask_words(fd, verb, text, true, &said);
    close(fd);
    if (sscanf(said.bytes, "ended %*u %d", &problem) == 1) {
        code = problem == 0 ? CLI_OK : CLI_ENVIRONMENT;
        if (problem != 0) {
            fprintf(stderr, "weft lab %s: %s\n", verb, strerror(problem));
        }
    } else if (strncmp(said.bytes, "error ", 6) == 0) {
        fprintf(stderr, "weft lab %s: %s", verb, said.bytes + 6);
    } else {
        fprintf(stderr, "weft lab %s: the lab went down%s%s\n", verb,
                strncmp(said.bytes, "down ", 5) == 0 ? ": " : " meanwhile",
                strncmp(said.bytes, "down ", 5) == 0 ? said.bytes + 5 : "");
        code = CLI_ENVIRONMENT;
    }
    weft_text_fini(&said);
    return code;
}

/* ---- capture ---- */

/* Creates the capture's file, because only here an error can be reported. Does not truncate it,
 * because another capture may be writing to it. Returns an errno. */
static int make_file(const char *path, bool *out_was_made)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct stat status;
    int problem = 0;

    *out_was_made = fd >= 0;
    if (fd < 0 && errno == EEXIST) {
        fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    }
    if (fd < 0 || fstat(fd, &status) != 0) {
        problem = errno;
    } else if (!S_ISREG(status.st_mode)) {
        problem = EINVAL;
    }
    if (fd >= 0) {
        close(fd);
    }
    return problem;
}

/* Starts a capture to `path`, or ends it if `path` is NULL. */
static int capture(const char *name, const char *path)
{
    char whole[LAB_PATH_MAX * 8];
    char cwd[LAB_PATH_MAX * 4] = "";
    bool was_made;
    int problem;
    int code;

    if (path == NULL) {
        return do_now(name, "capture", "");
    }
    problem = make_file(path, &was_made);
    if (problem == 0 && path[0] != '/' && getcwd(cwd, sizeof(cwd)) == NULL) {
        problem = errno;
    }
    if (problem != 0) {
        fprintf(stderr, "weft lab capture: %s: %s\n", path, strerror(problem));
        return CLI_USAGE;
    }
    weft_format(whole, sizeof(whole), "%s%s%s", cwd, cwd[0] != '\0' ? "/" : "", path);
    code = do_now(name, "capture", whole);
    if (code != CLI_OK && was_made) {
        unlink(path);
    }
    return code;
}

struct captor {
    struct pcapng pcapng;
    const struct world_spec *spec;
    FILE *file; /* NULL: none */
};

static int begin_capture(void *context, const char *path)
{
    struct captor *captor = context;

    captor->file = fopen(path, "r+be");
    if (captor->file == NULL) {
        return errno;
    }
    if (ftruncate(fileno(captor->file), 0) != 0) {
        int problem = errno;

        fclose(captor->file);
        return problem;
    }
    (void)pcapng_open(&captor->pcapng, captor->file, captor->spec); /* the end says */
    return 0;
}

static void capture_frame(void *context, const struct world_frame *frame)
{
    struct captor *captor = context;

    pcapng_frame(&captor->pcapng, frame);
}

static int end_capture(void *context)
{
    struct captor *captor = context;
    bool is_whole = pcapng_close(&captor->pcapng);

    is_whole = fclose(captor->file) == 0 && is_whole;
    captor->file = NULL;
    return is_whole ? 0 : EIO;
}

/* ---- looking at hosts ---- */

static void look(void *context, uint32_t host, struct weft_text *out)
{
    const struct captor *captor = context;
    const struct world_spec *spec = captor->spec;

    if (host == WORLD_PROGRAM_OUTSIDE) {
        program_look_outside(spec, backend_program_device, out);
    } else {
        program_look_make(&spec->hosts[host], spec->log, out);
    }
}

/* ---- up ---- */

static void ignore(int number)
{
    (void)number;
}

/* Becomes the daemon, which keeps only the caller's working directory and environment. */
static _Noreturn void become_daemon(struct cli_options *options,
                                    const struct scenario *scenario,
                                    struct scenario_world *world, const char *folder,
                                    const char *name, int ready_fd)
{
    /* A signal interrupts the wait of the daemon, which then ends and removes its socket. */
    const struct sigaction action = {.sa_handler = ignore};
    char path[LAB_PATH_MAX];
    int null = open("/dev/null", O_RDONLY);
    int log;
    int code;

    setsid();
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    lab_log_path(folder, name, path);
    log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (null < 0 || log < 0 || dup2(ready_fd, 3) < 0 || dup2(null, 0) < 0 ||
        dup2(log, 1) < 0 || dup2(log, 2) < 0) {
        _exit(CLI_ENVIRONMENT);
    }
    close_range(4, ~0U, 0);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    code = lab_keep(options, scenario, world, folder, name, 3);
    _exit(code);
}

/* Prints what the daemon has written until now. */
static void print_log(const char *path)
{
    struct weft_text text = {NULL, 0, 0};

    (void)weft_text_add_file(&text, path, LAB_REQUEST_MAX);
    if (text.n > 0) {
        fwrite(text.bytes, 1, text.n, stderr);
    }
    weft_text_fini(&text);
}

static int start(struct cli_options *options, const struct scenario *scenario,
                 struct scenario_world *world, const char *folder, const char *name)
{
    char path[LAB_PATH_MAX];
    char byte;
    int fds[2];
    pid_t pid;
    bool is_up;

    if ((errno = backend_lab_pair(fds)) != 0 || (pid = fork()) < 0) {
        fprintf(stderr, "weft lab up: %s\n", strerror(errno));
        return CLI_ENVIRONMENT;
    }
    if (pid == 0) {
        become_daemon(options, scenario, world, folder, name, fds[1]);
    }
    close(fds[1]);
    is_up = read(fds[0], &byte, 1) == 1;
    close(fds[0]);
    lab_log_path(folder, name, path);
    print_log(path);
    if (!is_up) {
        waitpid(pid, NULL, 0);
        lab_remove(folder, name);
    }
    return is_up ? CLI_OK : CLI_ENVIRONMENT;
}

static int start_locked(struct cli_options *options, const struct scenario *scenario,
                        struct scenario_world *world, const char *name)
{
    char folder[LAB_PATH_MAX];
    int code = CLI_USAGE;
    int lock = lab_lock(folder, sizeof(folder));
    int other;

    if (lock < 0) {
        return CLI_USAGE;
    }
    lab_sweep_locked(folder);
    other = lab_connect(folder, name);
    if (other >= 0) {
        fprintf(stderr,
                "weft lab up: a lab %s is up: weft lab down %s, or give this one another "
                "--name\n",
                name, name);
        close(other);
    } else {
        code = start(options, scenario, world, folder, name);
    }
    close(lock);
    lab_sweep(folder);
    return code;
}

static int report(const struct weft_error *error)
{
    char text[512];

    weft_error_format(error, text, sizeof(text));
    fprintf(stderr, "weft lab up: %s\n", text);
    return CLI_ENVIRONMENT;
}

/* Serves requests inside the guest until it ends. */
static int serve(const struct scenario_world *world)
{
    struct captor captor = {.spec = &world->spec};
    const struct world_lab_services ours = {.context = &captor,
                                            .begin = begin_capture,
                                            .frame = capture_frame,
                                            .end = end_capture,
                                            .look = look};
    struct weft_error error = {0};

    return backend_lab_inside(&world->spec, &ours, &error) == WEFT_OK ? CLI_OK
                                                                      : report(&error);
}

static void name_of(const struct cli_options *options, char out[LAB_NAME_MAX + 2])
{
    const char *file = strrchr(options->operands[1], '/');
    char *end;

    weft_format(out, LAB_NAME_MAX + 2, "%s",
                options->name != NULL ? options->name
                : file != NULL        ? file + 1
                                      : options->operands[1]);
    end = options->name == NULL ? strrchr(out, '.') : NULL;
    if (end != NULL && end != out) {
        *end = '\0';
    }
}

static int up(struct cli_options *options)
{
    struct weft_error error = {0};
    struct scenario *scenario;
    struct scenario_world *world = NULL;
    char name[LAB_NAME_MAX + 2];
    int code = CLI_USAGE;

    name_of(options, name);
    if (!lab_name_is_good(name)) {
        return CLI_USAGE;
    }
    scenario = cli_load(options, options->operands[1]);
    if (scenario != NULL && scenario_to_world(scenario, &world) == WEFT_OK) {
        world->spec.log = &options->log;
        if (world->spec.n_faults > 0 && !backend_is_in_guest()) {
            weft_log(
                &options->log, WEFT_LOG_WARN,
                "the faults of %s do not come by themselves in a lab: weft lab fault",
                options->operands[1]);
        }
        if (backend_programs_can(&world->spec, false, &error) != WEFT_OK) {
            code = report(&error);
        } else if (backend_is_in_guest()) {
            code = serve(world);
        } else {
            code = start_locked(options, scenario, world, name);
        }
    }
    scenario_world_free(world);
    scenario_free(scenario);
    return code;
}

/* Returns the usage error of a command with a wrong number of words, or of an unknown one. */
static int refuse_words(const char *what, int n)
{
    static const struct {
        const char *name, *takes;
    } commands[] = {
        {"up", "one file"},
        {"exec", NULL},
        {"run", NULL},
        {"fault", "one word, such as '{on: \"HOST:PORT\", kind: down, for: 2s}'"},
        {"clear", "no words (--name names the lab)"},
        {"capture", "at most one file"},
        {"diagnose", "no words (--name names the lab)"},
        {"ls", "no words"},
        {"down", "at most one name"}};
    const char *names[WEFT_LENGTH(commands)];
    const char *nearest;
    char problem[200];

    for (size_t i = 0; i < WEFT_LENGTH(commands); i++) {
        names[i] = commands[i].name;
        if (strcmp(what, names[i]) == 0 && commands[i].takes != NULL) {
            weft_format(problem, sizeof(problem), "%s takes %s, got %d", what,
                        commands[i].takes, n - 1);
            return lab_usage(problem);
        }
    }
    nearest = diagnose_nearest(what, names, WEFT_LENGTH(names));
    weft_format(problem, sizeof(problem), "unknown command '%.60s'%s%s%s", what,
                nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                nearest != NULL ? "'?" : "");
    return lab_usage(n == 0 ? NULL : problem);
}

int cli_lab(struct cli_options *options)
{
    const char *what = options->n_operands > 0 ? options->operands[0] : "";
    int n = options->n_operands;

    if (options->json != NULL && strcmp(what, "diagnose") != 0) {
        return lab_usage("--json goes with diagnose");
    }
    if (strcmp(what, "exec") != 0 && strcmp(what, "run") != 0 &&
        cli_refuse_given(options, "findings", "goes with exec and run")) {
        return CLI_USAGE;
    }
    if (strcmp(what, "up") == 0 && n == 2) {
        return up(options);
    }
    /* A guest sees the sockets of this machine's labs, which do not answer there. */
    if (backend_is_in_guest()) {
        fprintf(stderr, "weft lab: this is a guest: labs are outside\n");
        return CLI_ENVIRONMENT;
    }
    if (strcmp(what, "exec") == 0 || strcmp(what, "run") == 0) {
        return lab_exec(options, strcmp(what, "run") == 0);
    }
    if (strcmp(what, "ls") == 0 && n == 1) {
        return cli_refuse_given(options, "name", "not with ls, which lists all labs")
                   ? CLI_USAGE
                   : list();
    }
    if (strcmp(what, "fault") == 0 && n == 2) {
        return do_now(options->name, what, options->operands[1]);
    }
    if (strcmp(what, "clear") == 0 && n == 1) {
        return do_now(options->name, what, NULL);
    }
    if (strcmp(what, "diagnose") == 0 && n == 1) {
        return lab_diagnose(options);
    }
    if (strcmp(what, "capture") == 0 && (n == 1 || n == 2)) {
        return capture(options->name, n == 2 ? options->operands[1] : NULL);
    }
    if (strcmp(what, "down") == 0 && n <= 2) {
        return down(n == 2 ? options->operands[1] : options->name);
    }
    return refuse_words(what, n);
}
