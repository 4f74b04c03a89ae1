/* weft lab exec and run: programs in a lab, as if they ran here. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/failed.h"
#include "cli/lab.h"
#include "cli/lab_diagnose.h"

#define PATIENCE 3 /* signals */
#define LOOK_MS 50
#define KEYS_MAX 4096
#define CONTROL_C 3

extern char **environ;

struct stream {
    int fd;                /* of a file that grows */
    struct weft_text line; /* the last line without a newline, if lines are tagged */
};

struct running {
    const char *host;
    struct stream streams[2]; /* stdout, stderr */
    bool is_over;
};

/* Findings that are asked for while programs run (`--findings now`). */
struct question {
    int fd; /* -1: none is under way */
    struct weft_text answer;
    bool is_new;      /* another failure came since it was asked */
    bool is_answered; /* findings were printed; they are once for each client */
};

struct client {
    const struct cli_options *options;
    struct question why;
    int fd, signal_fd, inotify_fd;
    char *begun;             /* Owned; the line with the hosts' names */
    struct running *running; /* Owned [n]; n is 0 until the programs have begun */
    size_t n, n_over;
    unsigned long first_id;
    struct weft_text heard; /* lines of the daemon */
    int code;               /* exit status of the first program that failed, or 0 */
    bool is_over;
    bool is_let_go; /* this client ends, whatever its programs do */
    int n_asked;    /* signals to end that the guest has not taken yet */
    bool has_asked; /* the user asked for the end, by a signal or a key */
    bool is_lost;   /* the lab is gone */
    bool has_terminal;
    struct termios terminal; /* as it was */
};

/* ---- the terminal ---- */

/* Makes this terminal raw, so that each key goes to the program, whose own terminal interprets
 * it. */
static bool take_terminal(struct client *client)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &client->terminal) != 0) {
        fprintf(stderr, "weft lab exec: --tty: standard input is no terminal\n");
        return false;
    }
    raw = client->terminal;
    cfmakeraw(&raw);
    client->has_terminal = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    return client->has_terminal;
}

static void give_terminal_back(struct client *client)
{
    if (client->has_terminal) {
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &client->terminal);
        client->has_terminal = false;
    }
}

static void resize(struct client *client)
{
    uint16_t sizes[2];
    char message[1 + sizeof(sizes)] = {LAB_RESIZES};

    backend_lab_terminal_size(STDIN_FILENO, &sizes[0], &sizes[1]);
    memcpy(message + 1, sizes, sizeof(sizes));
    (void)backend_lab_send(client->fd, message, sizeof(message));
}

static void let_go(struct client *client, int number)
{
    give_terminal_back(client);
    fprintf(stderr, "weft lab exec: the program goes on: `weft lab down` ends it, "
                    "and the lab\n");
    client->code = 128 + number;
    client->is_over = true;
    client->is_let_go = true;
}

static void count_asked(struct client *client, int number)
{
    if (number == SIGINT || number == SIGTERM || number == SIGQUIT) {
        client->n_asked++;
        client->has_asked = true;
    }
    if (client->n_asked == PATIENCE && !client->is_let_go) {
        let_go(client, number);
    }
}

/* Sends the keys that were typed to the program. Ends as after SIGHUP if the terminal is gone. */
static void pass_keys_on(struct client *client)
{
    char message[3 + KEYS_MAX] = {LAB_TYPES};
    ssize_t n = read(STDIN_FILENO, message + 3, KEYS_MAX);
    uint16_t n_typed = n > 0 ? (uint16_t)n : 0;

    if (n_typed == 0) {
        client->is_over = n == 0 || (errno != EINTR && errno != EAGAIN);
        client->code = client->is_over ? 128 + SIGHUP : client->code;
        return;
    }
    memcpy(message + 1, &n_typed, sizeof(n_typed));
    (void)backend_lab_send(client->fd, message, 3u + n_typed);
    for (ssize_t i = 0; i < n; i++) {
        count_asked(client, message[3 + i] == CONTROL_C ? SIGINT : 0);
    }
}

/* ---- signals and streams ---- */

/* Sends signals on to the programs. Gives up after the third request to end, because a program that
 * loops without a call stops the guest's clock and receives no signal. */
static void pass_signals_on(struct client *client)
{
    struct signalfd_siginfo info;

    while (read(client->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        char number = (char)info.ssi_signo;

        if (number == SIGWINCH) {
            resize(client);
            continue;
        }
        (void)backend_lab_send(client->fd, &number, 1);
        count_asked(client, number);
    }
}

/* Signals come through while the reader does not read. */
static void write_all(struct client *client, int fd, const char *bytes, size_t n)
{
    while (n > 0 && !client->is_let_go) {
        struct pollfd fds[] = {{.fd = fd, .events = POLLOUT},
                               {.fd = client->signal_fd, .events = POLLIN}};
        ssize_t now = 0;

        poll(fds, WEFT_LENGTH(fds), -1);
        if (fds[0].revents != 0) { /* a pipe takes that much, and does not block */
            now = write(fd, bytes, n < PIPE_BUF ? n : PIPE_BUF);
        }
        if (now < 0 && errno != EINTR && errno != EAGAIN) {
            return; /* the reader is gone: the exit status still counts */
        }
        bytes += now > 0 ? now : 0;
        n -= now > 0 ? (size_t)now : 0;
        pass_signals_on(client);
    }
}

/* Writes whole lines and, if `is_last`, the rest without a newline. */
static void write_lines(struct client *client, struct stream *stream, const char *host,
                        int to, bool is_last)
{
    struct weft_text *line = &stream->line;
    struct weft_text out = {NULL, 0, 0};
    size_t from = 0;

    while (from < line->n) {
        const char *end = memchr(line->bytes + from, '\n', line->n - from);
        size_t n = end != NULL ? (size_t)(end - line->bytes) - from : line->n - from;

        if (end == NULL && !is_last) {
            break;
        }
        weft_text_add(&out, "%s: ", host);
        weft_text_add_bytes(&out, line->bytes + from, n);
        weft_text_add_bytes(&out, "\n", 1);
        from += n + (end != NULL);
    }
    write_all(client, to, out.bytes, out.n);
    if (from > 0) {
        memmove(line->bytes, line->bytes + from, line->n - from);
        line->n -= from;
    }
    weft_text_fini(&out);
}

/* Copies a part of the program's output, so that a program that writes forever does not block this
 * loop. Returns true if there may be more. */
static bool pass_some_on(struct client *client, struct running *running)
{
    char bytes[65536];
    bool is_more = false;

    for (int i = 0; i < 2; i++) {
        struct stream *stream = &running->streams[i];
        int to = i == 0 ? STDOUT_FILENO : STDERR_FILENO;
        ssize_t n = stream->fd >= 0 ? read(stream->fd, bytes, sizeof(bytes)) : 0;

        is_more = is_more || n > 0;
        if (n > 0 && client->n == 1) {
            write_all(client, to, bytes, (size_t)n);
        } else if (n > 0) {
            weft_text_add_bytes(&stream->line, bytes, (size_t)n);
            write_lines(client, stream, running->host, to, false);
        }
    }
    return is_more && !client->is_let_go;
}

/* Copies the rest of the program's output after its end. */
static void pass_rest_on(struct client *client, struct running *running)
{
    while (pass_some_on(client, running)) {
        continue;
    }
    for (int i = 0; i < 2; i++) {
        write_lines(client, &running->streams[i], running->host,
                    i == 0 ? STDOUT_FILENO : STDERR_FILENO, true);
    }
}

/* Watches a file, if this user may have another watch (inotify(7)). */
static void watch(struct client *client, const char *path)
{
    if (client->inotify_fd >= 0 &&
        inotify_add_watch(client->inotify_fd, path, IN_MODIFY) < 0) {
        close(client->inotify_fd);
        client->inotify_fd = -1;
    }
}

/* ---- findings while programs run ---- */

static void ask_why(struct client *client)
{
    struct question *why = &client->why;

    if (!failed_is_now(client->options) || client->has_terminal || why->is_answered ||
        client->n == 0) {
        return;
    }
    why->is_new = why->fd >= 0;
    if (why->fd < 0) {
        why->answer.n = 0;
        why->fd = lab_ask_failure(client->options, client->first_id, client->n);
        if (why->fd >= 0) {
            (void)fcntl(why->fd, F_SETFL, O_NONBLOCK);
        }
    }
}

/* Reads the answer, and prints its findings at its end. */
static void hear_why(struct client *client)
{
    struct question *why = &client->why;
    char bytes[4096];
    ssize_t n;

    while ((n = read(why->fd, bytes, sizeof(bytes))) > 0) {
        weft_text_add_bytes(&why->answer, bytes, (size_t)n);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    close(why->fd);
    why->fd = -1;
    why->is_answered = lab_tell_answer(client->options, &why->answer);
    if (why->is_new) {
        ask_why(client);
    }
}

/* ---- answers of the daemon ---- */

/* Parses an answer "begun": FOLDER, ID and hosts, separated by tabs. */
static void begin(struct client *client, const char *line)
{
    static const char *const names[] = {"out", "err"};
    char *at = client->begun = weft_strdup(line);
    const char *folder = strsep(&at, "\t");
    const char *id = at != NULL ? strsep(&at, "\t") : "0";

    client->first_id = strtoul(id, NULL, 10);
    client->running = weft_calloc(strlen(line) + 1, sizeof(*client->running));
    while (at != NULL) {
        struct running *running = &client->running[client->n];

        running->host = strsep(&at, "\t");
        for (int i = 0; i < 2; i++) {
            char path[LAB_PATH_MAX];

            weft_format(path, sizeof(path), "%s/%s.%lu", folder, names[i],
                        client->first_id + client->n);
            running->streams[i].fd = open(path, O_RDONLY | O_CLOEXEC);
            watch(client, path);
        }
        client->n++;
    }
}

/* Parses an answer "ended": ID CODE. Reports which program failed if there are several. */
static void end(struct client *client, const char *line)
{
    char *rest;
    size_t i = strtoul(line, &rest, 10) - client->first_id;
    int code = (int)strtol(rest, NULL, 10);

    if (i >= client->n || client->running[i].is_over) {
        return;
    }
    client->running[i].is_over = true;
    pass_rest_on(client, &client->running[i]);
    if (code != 0 && client->n > 1) {
        fprintf(stderr, "weft lab exec: %s: exit status %d\n", client->running[i].host,
                code);
    }
    client->code = client->code != 0 ? client->code : code;
    client->is_over = ++client->n_over == client->n || client->is_let_go;
    if (code != 0 && !client->is_over && !client->has_asked) {
        ask_why(client);
    }
}

/* Ends because the lab went down. `why` is NULL if a user asked for it. */
static void lose(struct client *client, const char *why)
{
    for (size_t i = 0; i < client->n; i++) {
        pass_rest_on(client, &client->running[i]);
    }
    give_terminal_back(client);
    fprintf(stderr, "weft lab exec: the lab went down%s%s\n",
            why != NULL ? ": " : " meanwhile", why != NULL ? why : "");
    client->code = CLI_ENVIRONMENT;
    client->is_over = client->is_lost = true;
}

static void obey(struct client *client, const char *line)
{
    if (strncmp(line, "begun\t", 6) == 0 && client->n == 0) {
        begin(client, line + 6);
    } else if (strncmp(line, "ended ", 6) == 0) {
        end(client, line + 6);
    } else if (strcmp(line, "failing") == 0) {
        ask_why(client);
    } else if (strcmp(line, "took") == 0) {
        client->n_asked = 0;
    } else if (strncmp(line, "down ", 5) == 0) {
        lose(client, line + 5);
    } else {
        fprintf(stderr, "weft lab exec: %s\n",
                strncmp(line, "error ", 6) == 0 ? line + 6 : line);
        client->code = CLI_USAGE;
        client->is_over = true;
    }
}

/* Reads answers. Returns false if the daemon is gone. */
static bool hear(struct client *client)
{
    char bytes[4096];
    ssize_t n = read(client->fd, bytes, sizeof(bytes));
    char *newline;

    if (n <= 0) {
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    weft_text_add_bytes(&client->heard, bytes, (size_t)n);
    while (client->heard.n > 0 && !client->is_over &&
           (newline = memchr(client->heard.bytes, '\n', client->heard.n)) != NULL) {
        size_t n_line = (size_t)(newline - client->heard.bytes) + 1;

        *newline = '\0';
        obey(client, client->heard.bytes);
        client->heard.n -= n_line;
        memmove(client->heard.bytes, newline + 1, client->heard.n);
    }
    return true;
}

/* Returns the time-out of the next wait in milliseconds. Files that cannot be watched are
 * polled. */
static int patience(const struct client *client, bool is_more)
{
    return is_more ? 0 : client->n > 0 && client->inotify_fd < 0 ? LOOK_MS : -1;
}

/* Serves the programs until they have ended. */
static int follow(struct client *client)
{
    bool is_more = false;

    while (!client->is_over) {
        struct pollfd fds[] = {
            {.fd = client->fd, .events = POLLIN},
            {.fd = client->signal_fd, .events = POLLIN},
            {.fd = client->inotify_fd, .events = POLLIN},
            {.fd = client->has_terminal && client->n > 0 ? STDIN_FILENO : -1,
             .events = POLLIN},
            {.fd = client->why.fd, .events = POLLIN}};
        char events[4096];
        bool is_typed = poll(fds, WEFT_LENGTH(fds), patience(client, is_more)) > 0 &&
                        fds[3].revents != 0;

        pass_signals_on(
            client); /* before keys, so that the program sees the new size first */
        if (is_typed) {
            pass_keys_on(client);
        }
        (void)!read(client->inotify_fd, events, sizeof(events));
        is_more = false;
        for (size_t i = 0; i < client->n; i++) {
            is_more = pass_some_on(client, &client->running[i]) || is_more;
        }
        if (fds[4].revents != 0) {
            hear_why(client);
        }
        if (!client->is_over && !hear(client)) {
            lose(client, NULL);
        }
    }
    return client->code;
}

static void keep_signals(struct client *client)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    sigset_t mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < WEFT_LENGTH(numbers); i++) {
        if (numbers[i] != SIGWINCH || client->has_terminal) {
            sigaddset(&mask, numbers[i]);
        }
    }
    sigprocmask(SIG_BLOCK, &mask, NULL);
    client->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    client->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

/* Appends the number of words, and each word. */
static void add_words(struct weft_text *text, char *const *words, size_t n)
{
    char number[32];

    weft_format(number, sizeof(number), "%zu", n);
    lab_add_word(text, number);
    for (size_t i = 0; i < n; i++) {
        lab_add_word(text, words[i]);
    }
}

/* Prints the finding of a failed program after the programs' own output. Signals end this process
 * again from here on. */
static void tell_failure(const struct cli_options *options, struct client *client)
{
    struct question *why = &client->why;
    sigset_t none;

    if (why->fd >= 0 && !client->has_asked && !client->is_lost) {
        why->is_new = false;
        (void)fcntl(why->fd, F_SETFL, 0); /* wait for the answer that is under way */
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        hear_why(client);
    }
    if (client->code != 0 && client->n > 0 && client->n_over == client->n &&
        !client->has_asked && !client->is_lost && failed_is_wanted(options) &&
        !why->is_answered) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        lab_tell_failure(options, client->first_id);
    }
}

static void client_fini(struct client *client)
{
    for (size_t i = 0; i < client->n; i++) {
        for (int j = 0; j < 2; j++) {
            struct stream *stream = &client->running[i].streams[j];

            weft_text_fini(&stream->line);
            if (stream->fd >= 0) {
                close(stream->fd);
            }
        }
    }
    free(client->running);
    free(client->begun);
    if (client->why.fd >= 0) {
        close(client->why.fd);
    }
    weft_text_fini(&client->why.answer);
    weft_text_fini(&client->heard);
}

static void add_request(const struct cli_options *options, const char *cwd,
                        struct weft_text *words)
{
    size_t n = 0;
    char text[32] = "";

    if (options->watch != NULL) {
        setenv("WEFT_WATCH", options->watch, 1); /* the guest reads it from the request */
    }
    while (environ[n] != NULL) {
        n++;
    }
    lab_add_word(words, "exec");
    if (options->wants_terminal) {
        uint16_t rows, columns;

        backend_lab_terminal_size(STDIN_FILENO, &rows, &columns);
        weft_format(text, sizeof(text), "%ux%u", rows, columns);
    }
    lab_add_word(words, text);
    add_words(words, options->operands + 1, (size_t)options->n_before - 1);
    lab_add_word(words, cwd);
    add_words(words, environ, n);
    for (int i = options->n_before; i < options->n_operands; i++) {
        lab_add_word(words, options->operands[i]);
    }
}

int lab_exec(const struct cli_options *options, bool on_all)
{
    struct client client = {.options = options, .fd = -1, .why = {.fd = -1}};
    struct weft_text words = {NULL, 0, 0};
    struct weft_text input = {NULL, 0, 0};
    char cwd[LAB_PATH_MAX * 8];
    int code = CLI_USAGE;

    if (options->n_before < 0 || options->n_operands == options->n_before ||
        on_all != (options->n_before == 1)) {
        return lab_usage(on_all ? "run takes \"--\" and a command"
                                : "exec takes a host, \"--\" and a command");
    }
    if (options->wants_terminal && options->reads_stdin) {
        return lab_usage("--tty and --stdin are for one stream");
    }
    if (getcwd(cwd, sizeof(cwd)) == NULL ||
        (options->reads_stdin &&
         (errno = weft_text_add_file(&input, "/dev/stdin", LAB_REQUEST_MAX)) != 0)) {
        fprintf(stderr, "weft lab exec: %s\n", strerror(errno));
        return CLI_USAGE;
    }
    client.fd = lab_find(options->name);
    if (client.fd >= 0) {
        add_request(options, cwd, &words);
        if (options->wants_terminal && !take_terminal(&client)) {
            words.n = 0;
        }
        keep_signals(&client);
        if (words.n == 0) {
            code = CLI_USAGE;
        } else if (words.n > LAB_REQUEST_MAX || input.n > LAB_REQUEST_MAX) {
            fprintf(stderr, "weft lab exec: more than %u MiB of words or of input\n",
                    LAB_REQUEST_MAX >> 20);
        } else if (!lab_ask(client.fd, &words, &input)) {
            fprintf(stderr, "weft lab exec: the lab went down meanwhile\n");
            code = CLI_ENVIRONMENT;
        } else {
            (void)lab_await(client.fd);
            (void)fcntl(client.fd, F_SETFL, O_NONBLOCK);
            code = follow(&client);
        }
        give_terminal_back(&client);
        close(client.fd);
        close(client.signal_fd);
        if (client.inotify_fd >= 0) {
            close(client.inotify_fd);
        }
        tell_failure(options, &client);
    }
    client_fini(&client);
    weft_text_fini(&words);
    weft_text_fini(&input);
    return code;
}
