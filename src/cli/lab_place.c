/* weft lab: finds labs, and sends them requests. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/text.h"
#include "cli/lab.h"

#define LOG_SUFFIX ".log"
#define PATIENCE_MS 5000

/* Refuses the folder of another user, which `su` and `sudo -E` leave in the environment: root may
 * write there, and what it made would be in the way. */
static bool is_ours(const char *folder)
{
    struct stat status;

    return folder != NULL && folder[0] == '/' && stat(folder, &status) == 0 &&
           status.st_uid == geteuid() && access(folder, W_OK) == 0;
}

bool lab_folder(char *out, size_t n_bytes)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    struct stat status;

    if (is_ours(run)) {
        weft_format(out, n_bytes, "%s/weft-lab", run);
    } else {
        weft_format(out, n_bytes, "/tmp/weft-lab-%u", (unsigned)geteuid());
    }
    if (mkdir(out, 0700) != 0 && errno != EEXIST) {
        fprintf(stderr, "weft lab: %s: %s\n", out, strerror(errno));
        return false;
    }
    if (lstat(out, &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
        fprintf(stderr,
                "weft lab: %s is not a folder of yours alone (mode 0700): remove it\n",
                out);
        return false;
    }
    return true;
}

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    bool is = n > 0 && n <= LAB_NAME_MAX && name[0] != '-';

    for (size_t i = 0; i < n; i++) {
        char c = name[i];

        is = is && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    (c >= '0' && c <= '9') || c == '-' || c == '_');
    }
    return is;
}

bool lab_name_is_good(const char *name)
{
    if (!is_name(name)) {
        fprintf(stderr,
                "weft lab: a lab has a name of letters, digits, - and _, at most %d: "
                "%.80s; --name gives one\n",
                LAB_NAME_MAX, name);
    }
    return is_name(name);
}

void lab_log_path(const char *folder, const char *name, char out[LAB_PATH_MAX])
{
    weft_format(out, LAB_PATH_MAX, "%s/%s" LOG_SUFFIX, folder, name);
}

/* Removes a lab's files, last its socket, with which the name becomes free. */
static void remove_files(const char *folder, const char *name)
{
    char path[LAB_PATH_MAX];

    lab_log_path(folder, name, path);
    unlink(path);
    weft_format(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
}

int lab_connect(const char *folder, const char *name)
{
    int fd;
    int problem = backend_lab_connect(folder, name, &fd);

    errno = problem;
    return fd;
}

/* ---- what killed ones left ---- */

static bool is_socket(const char *folder, const char *name)
{
    char path[LAB_PATH_MAX];
    struct stat status;

    weft_format(path, sizeof(path), "%s/%s", folder, name);
    return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* Removes a socket without a listener, one that had no name yet, or a log without a socket. Returns
 * whether it was a lab. */
static bool sweep_one(const char *folder, const char *entry)
{
    size_t n = strlen(entry), n_suffix = strlen(LOG_SUFFIX);
    bool is_of_log = n > n_suffix && strcmp(entry + n - n_suffix, LOG_SUFFIX) == 0;
    char name[LAB_NAME_MAX + 1];
    int fd;

    weft_format(name, sizeof(name), "%.*s", is_of_log ? (int)(n - n_suffix) : (int)n - 1,
                is_of_log ? entry : entry + 1);
    if (is_of_log && is_name(name)) {
        if (!is_socket(folder, name)) {
            remove_files(folder, name);
        }
    } else if (entry[0] == '.' && is_name(name)) {
        remove_files(folder, entry);
    } else if (is_name(entry) && is_socket(folder, entry)) {
        fd = lab_connect(folder, entry);
        if (fd < 0 && errno == ECONNREFUSED) {
            remove_files(folder, entry);
            return true;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    return false;
}

void lab_sweep_locked(const char *folder)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, NULL, alphasort);
    bool was_lab = false;

    for (int i = 0; i < n; i++) {
        was_lab = sweep_one(folder, entries[i]->d_name) || was_lab;
        free(entries[i]);
    }
    free(entries);
    if (was_lab) {
        backend_cleanup(NULL);
    }
}

void lab_sweep(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        lab_sweep_locked(folder);
        rmdir(folder); /* if nothing is in it */
    }
    if (fd >= 0) {
        close(fd);
    }
}

void lab_remove(const char *folder, const char *name)
{
    remove_files(folder, name);
    lab_sweep(folder);
}

int lab_lock(char *folder, size_t n_bytes)
{
    for (;;) {
        struct stat ours, there;
        int fd = lab_folder(folder, n_bytes)
                     ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                     : -1;

        if (fd < 0) {
            return -1;
        }
        if (flock(fd, LOCK_EX) == 0 && fstat(fd, &ours) == 0 &&
            stat(folder, &there) == 0 && ours.st_ino == there.st_ino) {
            return fd;
        }
        close(fd); /* the last lab was removed, together with the folder */
    }
}

/* ---- those that are up ---- */

size_t lab_for_each(const char *folder,
                    void (*each)(void *context, const char *name, int fd), void *context)
{
    struct dirent **entries = NULL;
    int n_entries = scandir(folder, &entries, NULL, alphasort);
    size_t n = 0;

    for (int i = 0; i < n_entries; i++) {
        const char *name = entries[i]->d_name;
        int fd =
            is_name(name) && is_socket(folder, name) ? lab_connect(folder, name) : -1;

        if (fd >= 0) {
            n++;
            each(context, name, fd);
            close(fd);
        }
        free(entries[i]);
    }
    free(entries);
    return n;
}

static void keep_name(void *context, const char *name, int fd)
{
    (void)fd;
    weft_format(context, LAB_NAME_MAX + 1, "%s", name);
}

static void add_name(void *context, const char *name, int fd)
{
    struct weft_text *names = context;

    (void)fd;
    weft_text_add(names, "%s%s", names->n > 0 ? ", " : "", name);
}

/* Reports that the lab is not up, and which ones are. */
static void report_missing(const char *folder, const char *name)
{
    struct weft_text names = {NULL, 0, 0};

    if (lab_for_each(folder, add_name, &names) > 0) {
        fprintf(stderr, "weft lab: no lab %s is up (%s): weft lab up FILE --name %s\n",
                name, names.bytes, name);
    } else {
        fprintf(stderr, "weft lab: no lab %s%sis up: weft lab up FILE\n", name,
                name[0] != '\0' ? " " : "");
    }
    weft_text_fini(&names);
}

int lab_find(const char *name)
{
    char folder[LAB_PATH_MAX];
    char only[LAB_NAME_MAX + 1] = "";
    size_t n = 1;
    int fd = -1;
    int problem = 0;

    if (!lab_folder(folder, sizeof(folder)) ||
        (name != NULL && !lab_name_is_good(name))) {
        return -1;
    }
    if (name == NULL) {
        n = lab_for_each(folder, keep_name, only);
        name = only;
    }
    if (n == 1) {
        fd = lab_connect(folder, name);
        problem = fd < 0 ? errno : 0;
    }
    lab_sweep(folder);
    if (problem == EAGAIN) {
        fprintf(stderr, "weft lab: %s does not answer, and too many wait for it\n", name);
    } else if (n == 0 || problem != 0) {
        report_missing(folder, name);
    } else if (n > 1) {
        fprintf(stderr, "weft lab: %zu labs are up: name one (weft lab ls)\n", n);
    }
    return fd;
}

/* ---- asking ---- */

static bool send_all(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;

    while (n > 0) {
        ssize_t now = backend_lab_send(fd, at, n);

        if (now < 0 && errno != EINTR) {
            return false;
        }
        at += now > 0 ? now : 0;
        n -= now > 0 ? (size_t)now : 0;
    }
    return true;
}

bool lab_ask(int fd, const struct weft_text *words, const struct weft_text *input)
{
    const struct lab_request request = {.n_words = (uint32_t)words->n,
                                        .n_input = (uint32_t)input->n};

    return send_all(fd, &request, sizeof(request)) &&
           send_all(fd, words->bytes, words->n) && send_all(fd, input->bytes, input->n);
}

void lab_add_word(struct weft_text *text, const char *word)
{
    weft_text_add_bytes(text, word, strlen(word) + 1);
}

bool lab_await(int fd)
{
    struct pollfd answer = {.fd = fd, .events = POLLIN};

    if (poll(&answer, 1, PATIENCE_MS) != 0) {
        return true;
    }
    fprintf(
        stderr,
        "weft lab: no answer yet: it is being brought up, or a program keeps its clock "
        "(`weft lab down` ends it), or its process %d is stopped (kill -9 %d ends it)\n",
        (int)backend_lab_peer(fd), (int)backend_lab_peer(fd));
    return false;
}

void lab_ask_words(int fd, const char *word, const char *more, bool waits,
                   struct weft_text *out)
{
    const struct weft_text none = {NULL, 0, 0};
    struct weft_text words = {NULL, 0, 0};
    char bytes[4096];
    ssize_t n;

    lab_add_word(&words, word);
    if (more != NULL) {
        lab_add_word(&words, more);
    }
    if (lab_ask(fd, &words, &none) && (lab_await(fd) || waits)) {
        while ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR)) {
            weft_text_add_bytes(out, bytes, n > 0 ? (size_t)n : 0);
        }
    }
    weft_text_add(out, "%s", "");
    weft_text_fini(&words);
}

int lab_usage(const char *problem)
{
    fprintf(stderr,
            "%s%s%susage: weft lab up FILE [--name NAME]\n"
            "       weft lab exec [--name NAME] HOST... -- COMMAND... [: ...]\n"
            "       weft lab run [--name NAME] -- COMMAND... [: ...]\n"
            "       weft lab fault [--name NAME] '{on: HOST:PORT, kind: ..., for: ...}'\n"
            "       weft lab clear [--name NAME]\n"
            "       weft lab capture [--name NAME] [FILE]\n"
            "       weft lab diagnose [--name NAME]\n"
            "       weft lab ls\n"
            "       weft lab down [NAME]\n",
            problem != NULL ? "weft lab: " : "", problem != NULL ? problem : "",
            problem != NULL ? "\n" : "");
    return CLI_USAGE;
}
