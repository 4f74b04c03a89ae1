/* Keeps this library out of the environment that the program sees, and in that of its children.
 * A program that copies or prints its environment would otherwise do so with a variable more. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/watch/record.h"
#include "backends/watch/records.h"
#include "backends/watch/symbol.h"

#define EXPORTED __attribute__((visibility("default")))
#define VARIABLE "LD_PRELOAD="
#define VALUE_MAX 2048  /* bytes of LD_PRELOAD with which children are still watched */
#define ENTRIES_MAX 800 /* variables with which children are still watched */
#define ARGUMENTS_MAX                                                                    \
    250               /* of execl() and its kind, which are written out in the source */
#define GO_BUILD_ID 4 /* type of the note "Go", cmd/link/internal/ld/elf.go */

typedef char *const *list;
typedef int spawn_function(pid_t *pid, const char *path,
                           const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, list arguments,
                           list entries);

/* This library as LD_PRELOAD names it; empty if children are not given it. */
static char own[128];

/* The environment of a child. */
struct space {
    char *entries[ENTRIES_MAX + 2];
    char entry[VALUE_MAX + sizeof(own) + 2];
};

/* ---- the variable ---- */

/* Returns the place of LD_PRELOAD; that of the final NULL if there is none. */
static size_t place_of(list entries)
{
    size_t i = 0;

    while (entries != NULL && entries[i] != NULL && !watch_begins(entries[i], VARIABLE)) {
        i++;
    }
    return i;
}

/* Returns this library's name at the end of an entry; NULL if another one or none is there. */
static char *own_in(char *entry)
{
    size_t n = strlen(entry), n_own = strlen(own);
    char *at = entry + n - n_own;

    return n_own != 0 && n >= n_own + sizeof(VARIABLE) - 1 && watch_is_same(at, own) &&
                   (at[-1] == ':' || at[-1] == '=')
               ? at
               : NULL;
}

static void remove_entry(char **at)
{
    for (; at[0] != NULL; at++) {
        at[0] = at[1];
    }
}

/* Ends the environment of /proc/PID/environ at `end` if it now ends with zeros. */
static void shorten(const char *end, const char *old_end)
{
    if ((uintptr_t)old_end == getauxval(AT_EXECFN)) { /* which is behind the last entry */
        watch_set_environment_end(end);
    }
}

/* Takes this library out of a list, and its name out of memory. */
static void take_out(char **entries)
{
    size_t i = place_of(entries);
    char *at = entries[i] != NULL ? own_in(entries[i]) : NULL;
    char *end;

    if (at == NULL) {
        return;
    }
    end = at + strlen(at) + 1;
    if (at[-1] == '=') {
        at = entries[i];
        remove_entry(&entries[i]);
        memset(at, 0, (size_t)(end - at));
        shorten(at, end);
    } else {
        memset(at - 1, 0, (size_t)(end - at) + 1);
        shorten(at, end);
    }
}

/* Returns true if the note says that Go's linker made the program. */
static bool is_go_note(const char *note, const char *end)
{
    for (const ElfW(Nhdr) *it = (const void *)note; note + sizeof(*it) < end;
         it = (const void *)note) {
        const char *name = note + sizeof(*it);

        if (it->n_type == GO_BUILD_ID && it->n_namesz == 4 && watch_is_same(name, "Go")) {
            return true;
        }
        note = name + (it->n_namesz + 3) / 4 * 4 + (it->n_descsz + 3) / 4 * 4;
    }
    return false;
}

/* Returns true for a program of Go, which executes others without libc and so passes on no more
 * than it has itself. */
static bool is_go(void)
{
    const ElfW(Phdr) *header = (const void *)getauxval(AT_PHDR);
    size_t n = header != NULL && _r_debug.r_map != NULL ? getauxval(AT_PHNUM) : 0;

    for (size_t i = 0; i < n; i++) {
        const char *note = (const char *)(_r_debug.r_map->l_addr + header[i].p_vaddr);

        if (header[i].p_type == PT_NOTE && is_go_note(note, note + header[i].p_memsz)) {
            return true;
        }
    }
    return false;
}

__attribute__((constructor)) static void leave(int argc, char **argv, char **entries)
{
    size_t n = watch_folder(own, sizeof(own) - sizeof(WATCH_LIBRARY));

    (void)argc;
    (void)argv;
    if (n == 0 || is_go()) {
        own[0] = '\0';
        return;
    }
    memcpy(own + n, WATCH_LIBRARY, sizeof(WATCH_LIBRARY));
    if (environ != NULL &&
        environ != entries) { /* changed by a library that came earlier */
        take_out(environ);
    }
    take_out(entries);
}

/* ---- the environment of children ---- */

static size_t n_of(list entries)
{
    size_t n = 0;

    while (entries != NULL && entries[n] != NULL) {
        n++;
    }
    return n;
}

/* Fills `out` with these entries and this library. Returns false if the child is not given it. */
static bool add_to(list entries, struct space *out)
{
    size_t n = n_of(entries), i = place_of(entries);
    const char *old = i < n ? entries[i] : VARIABLE;

    if (own[0] == '\0' || n > ENTRIES_MAX || strlen(old) > VALUE_MAX ||
        (i < n && own_in(entries[i]) != NULL)) {
        return false;
    }
    for (size_t k = 0; k < n; k++) {
        out->entries[k] = entries[k];
    }
    out->entries[n] = NULL;
    out->entries[n + (i == n)] = NULL;
    out->entries[i] = out->entry;
    snprintf(out->entry, sizeof(out->entry), "%s%s%s", old, i < n ? ":" : "", own);
    return true;
}

enum function {
    EXECVE,
    EXECVPE,
    FEXECVE,
    EXECVEAT,
    POSIX_SPAWN,
    POSIX_SPAWNP,
    SYSTEM,
    POPEN,
    N_FUNCTIONS
};

static void *real(enum function function)
{
    static const char *const names[N_FUNCTIONS] = {
        [EXECVE] = "execve",           [EXECVPE] = "execvpe",
        [FEXECVE] = "fexecve",         [EXECVEAT] = "execveat",
        [POSIX_SPAWN] = "posix_spawn", [POSIX_SPAWNP] = "posix_spawnp",
        [SYSTEM] = "system",           [POPEN] = "popen",
    };
    static _Atomic(void *) found[N_FUNCTIONS];

    if (found[function] == NULL) {
        found[function] = watch_libc_symbol(names[function]);
    }
    return found[function];
}

struct call {
    enum function function;
    int fd, flags;
    const char *file;
    list arguments;
    pid_t *pid;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
};

static int perform(const struct call *call, list entries)
{
    void *function = real(call->function);

    if (call->function == FEXECVE) {
        return ((int (*)(int, list, list))function)(call->fd, call->arguments, entries);
    }
    if (call->function == EXECVEAT) { /* glibc has it since 2.34 */
        return (int)syscall(SYS_execveat, call->fd, call->file, call->arguments, entries,
                            call->flags);
    }
    if (call->function == POSIX_SPAWN || call->function == POSIX_SPAWNP) {
        return ((spawn_function *)function)(call->pid, call->file, call->actions,
                                            call->attributes, call->arguments, entries);
    }
    return ((int (*)(const char *, list, list))function)(call->file, call->arguments,
                                                         entries);
}

/* Takes the space from the stack, because a child of vfork() may call it. */
static int execute(const struct call *call, list entries)
{
    struct space with;

    return perform(call, add_to(entries, &with) ? with.entries : entries);
}

EXPORTED int execve(const char *path, char *const argv[], char *const envp[])
{
    return execute(&(struct call){.function = EXECVE, .file = path, .arguments = argv},
                   envp);
}

EXPORTED int execv(const char *path, char *const argv[])
{
    return execute(&(struct call){.function = EXECVE, .file = path, .arguments = argv},
                   environ);
}

EXPORTED int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return execute(&(struct call){.function = EXECVPE, .file = file, .arguments = argv},
                   envp);
}

EXPORTED int execvp(const char *file, char *const argv[])
{
    return execute(&(struct call){.function = EXECVPE, .file = file, .arguments = argv},
                   environ);
}

EXPORTED int fexecve(int fd, char *const argv[], char *const envp[])
{
    return execute(&(struct call){.function = FEXECVE, .fd = fd, .arguments = argv},
                   envp);
}

EXPORTED int execveat(int fd, const char *path, char *const argv[], char *const envp[],
                      int flags)
{
    return execute(&(struct call){.function = EXECVEAT,
                                  .fd = fd,
                                  .file = path,
                                  .arguments = argv,
                                  .flags = flags},
                   envp);
}

EXPORTED int posix_spawn(pid_t *pid, const char *path,
                         const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attr, char *const argv[],
                         char *const envp[])
{
    return execute(&(struct call){.function = POSIX_SPAWN,
                                  .file = path,
                                  .arguments = argv,
                                  .pid = pid,
                                  .actions = actions,
                                  .attributes = attr},
                   envp);
}

EXPORTED int posix_spawnp(pid_t *pid, const char *file,
                          const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attr, char *const argv[],
                          char *const envp[])
{
    return execute(&(struct call){.function = POSIX_SPAWNP,
                                  .file = file,
                                  .arguments = argv,
                                  .pid = pid,
                                  .actions = actions,
                                  .attributes = attr},
                   envp);
}

/* ---- arguments in a list ---- */

static size_t count_arguments(va_list more)
{
    size_t n = 1; /* the first is before the list */

    while (va_arg(more, char *) != NULL) {
        n++;
    }
    return n;
}

/* Executes with arguments [n] of which all but the first are in the list; after their NULL is the
 * environment, if `has_environment`. */
static int execute_listed(struct call *call, const char *first, va_list more, size_t n,
                          bool has_environment)
{
    const char *arguments[ARGUMENTS_MAX + 1];

    if (n > ARGUMENTS_MAX) {
        errno = E2BIG;
        return -1;
    }
    arguments[0] = first;
    for (size_t i = 1; i <= n; i++) {
        arguments[i] = va_arg(more, const char *);
    }
    call->arguments = (list)(uintptr_t)arguments;
    return execute(call, has_environment ? va_arg(more, char **) : environ);
}

#define EXECUTE_LISTED(its_function, its_file, has_environment)                          \
    struct call call = {.function = its_function, .file = its_file};                     \
    va_list more;                                                                        \
    size_t n;                                                                            \
    int result;                                                                          \
                                                                                         \
    va_start(more, arg);                                                                 \
    n = count_arguments(more);                                                           \
    va_end(more);                                                                        \
    va_start(more, arg);                                                                 \
    result = execute_listed(&call, arg, more, n, has_environment);                       \
    va_end(more);                                                                        \
    return result

EXPORTED int execl(const char *path, const char *arg, ...)
{
    EXECUTE_LISTED(EXECVE, path, false);
}

EXPORTED int execle(const char *path, const char *arg, ...)
{
    EXECUTE_LISTED(EXECVE, path, true);
}

EXPORTED int execlp(const char *file, const char *arg, ...)
{
    EXECUTE_LISTED(EXECVPE, file, false);
}

/* ---- system() and popen(), which take the environment of this process ---- */

/* The environment while a thread is in one of both. */
static struct {
    atomic_flag lock;
    unsigned n_threads;
    char **before;
    char *replaced; /* LD_PRELOAD of the program; NULL if it has none */
    struct space space;
} lent = {.lock = ATOMIC_FLAG_INIT};

static void lent_lock(void)
{
    while (atomic_flag_test_and_set(&lent.lock)) {
        sched_yield();
    }
}

static void lend(void)
{
    lent_lock();
    if (lent.n_threads == 0 && add_to(environ, &lent.space)) {
        lent.before = environ;
        lent.replaced = environ != NULL ? environ[place_of(environ)] : NULL;
        environ = lent.space.entries;
    }
    lent.n_threads++;
    atomic_flag_clear(&lent.lock);
}

/* Takes the entry out, wherever another thread's setenv(3) has copied it to. */
static void take_back_entry(void)
{
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        if (*at == lent.space.entry && lent.replaced != NULL) {
            *at = lent.replaced;
        } else if (*at == lent.space.entry) {
            remove_entry(at);
            return;
        }
    }
}

static bool is_same_list(list a, list b)
{
    size_t i = 0;

    while (a != NULL && b != NULL && a[i] != NULL && a[i] == b[i]) {
        i++;
    }
    return a != NULL && b != NULL && a[i] == b[i];
}

static void take_back(void)
{
    lent_lock();
    lent.n_threads--;
    if (lent.n_threads == 0 && lent.space.entry[0] != '\0') {
        take_back_entry();
        if (environ == lent.space.entries && is_same_list(environ, lent.before)) {
            environ = lent.before;
        }
        lent.space.entry[0] = '\0';
    }
    atomic_flag_clear(&lent.lock);
}

EXPORTED int system(const char *command)
{
    int (*next)(const char *) = real(SYSTEM);
    int result;

    lend();
    result = next(command);
    take_back();
    return result;
}

EXPORTED FILE *popen(const char *command, const char *modes)
{
    FILE *(*next)(const char *, const char *) = real(POPEN);
    FILE *file;

    lend();
    file = next(command, modes);
    take_back();
    return file;
}
