#define _GNU_SOURCE
#include "backends/rxe/live.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "backends/linux/clock.h"
#include "backends/rxe/live_faults.h"
#include "backends/rxe/scratch.h"
#include "base/check.h"
#include "base/text.h"

#define SECOND INT64_C(1000000000)
#define FDS_MAX 256
#define LOOK_NS (SECOND / 20) /* at the guest's console */
#define LOOK_STILL_NS SECOND  /* while its clock stands still */

struct world_lab {
    const struct rxe_guest_options *options;
    const struct world_lab_hooks *hooks;
    char scratch[SCRATCH_PATH_BYTES];
    pid_t pid;     /* of the guest's kernel */
    int signal_fd; /* readable when the guest has opened a door */
    int door_fd;   /* with a lease; -1: none */
    unsigned door;
    bool is_at_door, is_stopped, is_up;
    weft_ns now; /* of the guest, at its last door */
    uint32_t n_running;
    weft_ns start_ns,
        start_now; /* times at which both clocks are compared: this process's, and the guest's */
    struct weft_text ask;
    uint32_t n_started;
    int problem; /* errno of creating the next door, or 0 */
};

/* ---- doors ---- */

static void name_of(const struct world_lab *lab, const char *what, unsigned number,
                    char out[SCRATCH_PATH_BYTES])
{
    char name[32];

    weft_format(name, sizeof(name), "%s.%u", what, number);
    scratch_path(lab->scratch, name, out);
}

static void remove_file(const struct world_lab *lab, const char *what, unsigned number)
{
    char path[SCRATCH_PATH_BYTES];

    name_of(lab, what, number, path);
    unlink(path);
}

/* Creates a door that is shut. Returns an errno. */
static int make_door(const struct world_lab *lab, unsigned number, int *out_fd)
{
    char path[SCRATCH_PATH_BYTES];
    int problem = 0;
    int fd;

    name_of(lab, "door", number, path);
    fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
        problem = errno;
    }
    if (problem != 0 && fd >= 0) {
        close(fd);
        fd = -1;
    }
    *out_fd = fd;
    return problem;
}

static weft_status begin(void *context, const char *scratch, struct weft_error *error)
{
    struct world_lab *lab = context;
    sigset_t mask;
    int problem;

    weft_format(lab->scratch, sizeof(lab->scratch), "%s", scratch);
    sigemptyset(&mask);
    sigaddset(&mask, SIGIO);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    lab->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    problem = lab->signal_fd < 0 ? errno : make_door(lab, 0, &lab->door_fd);
    return problem == 0
               ? WEFT_OK
               : weft_fail_errno(error, problem, WEFT_PHASE_LAB,
                                 "no lease of a file in %s; TMPDIR names another "
                                 "folder, of a file system that has them",
                                 scratch);
}

/* Reads what the guest said at this door: a line "NOW RUNNING", then lines "ID CODE". */
static void hear(struct world_lab *lab)
{
    char name[32];
    char *text;
    char *line;
    size_t n;

    weft_format(name, sizeof(name), "said.%u", lab->door);
    text = scratch_read(lab->scratch, name, &n);
    if (text == NULL) {
        return;
    }
    lab->now = strtoll(text, &line, 10);
    lab->n_running = (uint32_t)strtoul(line, &line, 10);
    if (!lab->is_up) {
        lab->is_up = true;
        lab->hooks->up(lab->hooks->context, lab, lab->scratch);
    }
    while (*line == '\n' && line[1] != '\0') {
        uint32_t id = (uint32_t)strtoul(line + 1, &line, 10);
        int code = (int)strtol(line, &line, 10);

        lab->hooks->ended(lab->hooks->context, id, code);
    }
    free(text);
}

/* Takes note that the guest is at the next door. Stops it if nothing runs in it, so that it costs
 * nothing: it is in an open(2) of this machine, which the kernel restarts when it continues. */
static void arrive(struct world_lab *lab)
{
    lab->is_at_door = true;
    if (lab->door > 0) {
        remove_file(lab, "said", lab->door - 1);
        remove_file(lab, "door", lab->door - 1);
        remove_file(lab, "ask", lab->door - 1);
    }
    hear(lab);
    if (lab->options->is_virtual && lab->n_running == 0 && lab->ask.n == 0) {
        lab->is_stopped = kill(lab->pid, SIGSTOP) == 0;
    }
}

/* Returns when the guest may go on: not before as much real time has passed as time of the
 * guest. */
static weft_ns due(const struct world_lab *lab)
{
    return !lab->options->is_virtual || lab->ask.n > 0 ? 0
           : lab->n_running == 0                       ? WEFT_NEVER
                                 : lab->start_ns + (lab->now - lab->start_now);
}

/* Lets the guest go on. Returns false if the next door cannot be created. */
static bool open_door(struct world_lab *lab)
{
    weft_ns now = linux_clock_now();
    char name[32];
    int next;

    weft_format(name, sizeof(name), "ask.%u", lab->door);
    errno = 0;
    if (!scratch_write(lab->scratch, name, lab->ask.bytes, lab->ask.n)) {
        lab->problem = errno != 0 ? errno : ENOSPC;
        return false;
    }
    lab->problem = make_door(lab, lab->door + 1, &next);
    if (lab->problem != 0) {
        return false;
    }
    /* Starts anew if the guest took more real time than its own: it does not catch up. */
    if (lab->n_running == 0 || now - lab->start_ns > lab->now - lab->start_now) {
        lab->start_ns = now;
        lab->start_now = lab->now;
    }
    lab->ask.n = 0;
    lab->is_at_door = false;
    if (lab->is_stopped) {
        kill(lab->pid, SIGCONT);
        lab->is_stopped = false;
    }
    (void)fcntl(lab->door_fd, F_SETLEASE, F_UNLCK);
    close(lab->door_fd);
    lab->door_fd = next;
    lab->door++;
    return true;
}

/* ---- keeping it ---- */

static void look_at_door(struct world_lab *lab)
{
    struct signalfd_siginfo info;

    while (read(lab->signal_fd, &info, sizeof(info)) > 0) {
        continue;
    }
    if (!lab->is_at_door && fcntl(lab->door_fd, F_GETLEASE) == F_UNLCK) {
        arrive(lab);
    }
}

static struct timespec patience(const struct world_lab *lab)
{
    weft_ns most = lab->is_stopped ? LOOK_STILL_NS : LOOK_NS;
    weft_ns left = lab->is_at_door ? due(lab) : WEFT_NEVER;

    left = left == WEFT_NEVER ? most : left - linux_clock_now();
    left = left < 0 ? 0 : left > most ? most : left;
    return (struct timespec){.tv_sec = left / SECOND, .tv_nsec = left % SECOND};
}

static bool tend(void *context, pid_t pid, struct pollfd *fds, size_t n)
{
    struct world_lab *lab = context;
    struct pollfd all[FDS_MAX];
    struct timespec time;
    size_t n_own = n + 1;
    size_t n_hooks;
    bool goes_on;

    weft_check(n_own < FDS_MAX);
    lab->pid = pid;
    for (size_t i = 0; i < n; i++) {
        all[i] = fds[i];
    }
    all[n] = (struct pollfd){.fd = lab->signal_fd, .events = POLLIN};
    n_hooks = lab->hooks->wants(lab->hooks->context, all + n_own, FDS_MAX - n_own);
    time = patience(lab);
    if (ppoll(all, n_own + n_hooks, &time, NULL) < 0) {
        return errno == EINTR;
    }
    for (size_t i = 0; i < n; i++) {
        fds[i] = all[i];
    }
    look_at_door(lab);
    goes_on = lab->hooks->look(lab->hooks->context, all + n_own, n_hooks);
    if (goes_on && lab->is_at_door && due(lab) <= linux_clock_now()) {
        goes_on = open_door(lab);
    }
    return goes_on;
}

static bool is_idle(const void *context)
{
    const struct world_lab *lab = context;

    return lab->is_stopped;
}

struct world_lab *rxe_live_create(const struct rxe_guest_options *options,
                                  const struct world_lab_hooks *hooks)
{
    struct world_lab *lab = weft_calloc(1, sizeof(*lab));

    lab->options = options;
    lab->hooks = hooks;
    lab->signal_fd = -1;
    lab->door_fd = -1;
    return lab;
}

struct rxe_guest_tender rxe_live_tender(struct world_lab *lab)
{
    return (struct rxe_guest_tender){
        .context = lab, .begin = begin, .tend = tend, .is_idle = is_idle};
}

void rxe_live_destroy(struct world_lab *lab)
{
    if (lab->door_fd >= 0) {
        close(lab->door_fd);
    }
    if (lab->signal_fd >= 0) {
        close(lab->signal_fd);
    }
    weft_text_fini(&lab->ask);
    free(lab);
}

weft_status rxe_live_run(const struct rxe_guest_options *options, char *const *argv,
                         const struct world_lab_hooks *hooks, struct weft_error *error)
{
    struct world_lab *lab = rxe_live_create(options, hooks);
    const struct rxe_guest_tender tender = rxe_live_tender(lab);
    struct rxe_guest_options tended = *options;
    int code = 0;
    weft_status status;

    tended.tender = &tender;
    status = rxe_guest_run(&tended, argv, &code, error);
    if (status == WEFT_OK && lab->problem != 0) {
        status = weft_fail_errno(error, lab->problem, WEFT_PHASE_LAB, "cannot write %s",
                                 lab->scratch);
    } else if (status == WEFT_OK && code != 0) {
        status = weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_LAB,
                           "the guest ended by itself, with status %d", code);
    }
    rxe_live_destroy(lab);
    return status;
}

/* ---- asking ---- */

static void add_word(struct weft_text *text, const char *word)
{
    weft_text_add_bytes(text, word, strlen(word) + 1);
}

static void add_number(struct weft_text *text, unsigned long number)
{
    char word[32];

    weft_format(word, sizeof(word), "%lu", number);
    add_word(text, word);
}

static bool may_enter(const char *variable, bool may_all, bool has_terminal)
{
    return may_all || rxe_guest_may_enter(variable) ||
           (has_terminal && strncmp(variable, "TERM=", 5) == 0);
}

/* Appends the number of words, and each word. Omits variables that do not enter a guest in virtual
 * time, unless `may_all`. */
static void add_words(struct weft_text *text, char *const *words, bool may_all,
                      bool has_terminal)
{
    unsigned long n = 0;

    for (size_t i = 0; words[i] != NULL; i++) {
        n += may_enter(words[i], may_all, has_terminal);
    }
    add_number(text, n);
    for (size_t i = 0; words[i] != NULL; i++) {
        if (may_enter(words[i], may_all, has_terminal)) {
            add_word(text, words[i]);
        }
    }
}

/* Returns the word for a terminal's size, which is never 0, because 0 stands for no terminal. */
static unsigned long size_word(uint16_t rows, uint16_t columns)
{
    return (unsigned long)(rows > 0 ? rows : 24) << 16 | (columns > 0 ? columns : 80);
}

int rxe_live_start(struct world_lab *lab, const struct world_lab_program *program,
                   uint32_t *out_id)
{
    static const char *const files[] = {"in", "out", "err"};
    uint32_t id = lab->n_started++;

    for (size_t i = 0; i < WEFT_LENGTH(files); i++) {
        char name[32];

        weft_format(name, sizeof(name), "%s.%u", files[i], id);
        if (!scratch_write(lab->scratch, name, i == 0 ? program->input : "",
                           i == 0 ? program->n_input : 0)) {
            int problem = errno != 0 ? errno : EIO;

            rxe_live_forget(lab, id);
            return problem;
        }
    }
    add_word(&lab->ask, "exec");
    add_number(&lab->ask, id);
    add_number(&lab->ask, program->host);
    add_number(&lab->ask, (unsigned long)program->delay_ns);
    add_word(&lab->ask, program->cwd);
    add_number(&lab->ask,
               program->has_terminal ? size_word(program->rows, program->columns) : 0);
    add_words(&lab->ask, program->argv, true, true);
    add_words(&lab->ask, program->variables, !lab->options->is_virtual,
              program->has_terminal);
    *out_id = id;
    return 0;
}

uint32_t rxe_live_signal(struct world_lab *lab, uint32_t id, int number)
{
    add_word(&lab->ask, "signal");
    add_number(&lab->ask, lab->n_started);
    add_number(&lab->ask, id);
    add_number(&lab->ask, (unsigned long)number);
    return lab->n_started++;
}

uint32_t rxe_live_type(struct world_lab *lab, uint32_t id, const char *bytes, size_t n)
{
    add_word(&lab->ask, "input");
    add_number(&lab->ask, lab->n_started);
    add_number(&lab->ask, id);
    for (size_t i = 0; i < n; i++) {
        weft_text_add(&lab->ask, "%02x", (unsigned)(unsigned char)bytes[i]);
    }
    weft_text_add_bytes(&lab->ask, "", 1);
    return lab->n_started++;
}

void rxe_live_resize(struct world_lab *lab, uint32_t id, uint16_t rows, uint16_t columns)
{
    add_word(&lab->ask, "size");
    add_number(&lab->ask, id);
    add_number(&lab->ask, size_word(rows, columns));
}

void rxe_live_hang_up(struct world_lab *lab, uint32_t id)
{
    add_word(&lab->ask, "hangup");
    add_number(&lab->ask, id);
}

uint32_t rxe_live_fault(struct world_lab *lab, const struct world_fault *fault)
{
    char word[LIVE_FAULT_WORD_BYTES];

    live_fault_write(fault, word);
    add_word(&lab->ask, "fault");
    add_number(&lab->ask, lab->n_started);
    add_word(&lab->ask, word);
    return lab->n_started++;
}

uint32_t rxe_live_clear(struct world_lab *lab)
{
    add_word(&lab->ask, "clear");
    add_number(&lab->ask, lab->n_started);
    return lab->n_started++;
}

uint32_t rxe_live_capture(struct world_lab *lab, const char *path)
{
    add_word(&lab->ask, "capture");
    add_number(&lab->ask, lab->n_started);
    add_word(&lab->ask, path != NULL ? path : "");
    return lab->n_started++;
}

uint32_t rxe_live_look(struct world_lab *lab)
{
    add_word(&lab->ask, "look");
    add_number(&lab->ask, lab->n_started);
    return lab->n_started++;
}

void rxe_live_forget(struct world_lab *lab, uint32_t id)
{
    remove_file(lab, "in", id);
    remove_file(lab, "out", id);
    remove_file(lab, "err", id);
}

weft_ns rxe_live_now(const struct world_lab *lab)
{
    return lab->now;
}
