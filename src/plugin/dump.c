#define _GNU_SOURCE
#include "plugin/dump.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "base/version.h"
#include "plugin/log.h"

static struct {
    char path[256];
    sem_t asked; /* posted by the signal handler, which may call nothing else here */
    atomic_bool is_wanted;
    uint64_t n_failed; /* number of failed comms at the last dump_look() */
    void (*wake)(void *context);
    void *context;
} dump;

static void handle(int signal_number)
{
    (void)signal_number;
    sem_post(&dump.asked);
}

/* Wakes the engine's thread after a signal. A separate thread is needed because waking takes a
 * lock, which a signal handler must not. */
static void *wait_for_signals(void *context)
{
    (void)context;
    for (;;) {
        if (sem_wait(&dump.asked) == 0) {
            atomic_store(&dump.is_wanted, true);
            dump.wake(dump.context);
        }
    }
    return NULL;
}

static bool start_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, mask;
    bool ok;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    ok = pthread_create(&thread, &attributes, wait_for_signals, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_attr_destroy(&attributes);
    return ok;
}

static const char *listen_for(int signal_number)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART}, before;

    if (sigaction(signal_number, NULL, &before) == 0 &&
        ((before.sa_flags & SA_SIGINFO) != 0 ||
         (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN))) {
        return "this program has a handler for it: name a signal that it does not use";
    }
    sem_init(&dump.asked, 0, 0);
    if (sigaction(signal_number, &action, NULL) != 0) {
        return "no program can handle it: name another one, such as USR1";
    }
    if (!start_thread()) {
        sigaction(signal_number, &before, NULL);
        return "the system refused a thread to wait for it: raise the limits on threads "
               "and memory (ulimit -u, ulimit -v)";
    }
    return NULL;
}

const char *dump_start(const char *path, int signal_number, void (*wake)(void *context),
                       void *context)
{
    weft_format(dump.path, sizeof(dump.path), "%s.%d", path, (int)getpid());
    dump.wake = wake;
    dump.context = context;
    return signal_number == 0 ? NULL : listen_for(signal_number);
}

static void write_state(struct engine *const *engines, uint32_t n, const char *why)
{
    struct weft_text text = {0};
    char now[32] = "";
    time_t seconds = time(NULL);
    struct tm parts;
    FILE *file;
    bool ok;

    if (gmtime_r(&seconds, &parts) != NULL) {
        strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    weft_text_add(&text, "--- weft %s, process %d, %s: %s\n", weft_version, (int)getpid(),
                  now, why);
    for (uint32_t i = 0; i < n; i++) {
        engine_dump(engines[i], &text);
    }
    file = fopen(dump.path, "a");
    ok = file != NULL && fwrite(text.bytes, 1, text.n, file) == text.n;
    if (file != NULL) {
        ok = fclose(file) == 0 && ok; /* writes what was buffered */
    }
    if (!ok) {
        plugin_log(ABI_LOG_WARN, "NCCL_MESH_DUMP: cannot write %s", dump.path);
    } else {
        plugin_log(ABI_LOG_INFO, "state written to %s: %s", dump.path, why);
    }
    weft_text_fini(&text);
}

void dump_look(struct engine *const *engines, uint32_t n)
{
    uint64_t n_failed = 0;

    if (dump.path[0] == '\0') {
        return;
    }
    if (atomic_exchange(&dump.is_wanted, false)) {
        write_state(engines, n, "a signal asked for it");
    }
    for (uint32_t i = 0; i < n; i++) {
        struct engine_counters counters;

        engine_counters(engines[i], &counters);
        n_failed += counters.n_failed;
    }
    if (n_failed > dump.n_failed) {
        dump.n_failed = n_failed;
        write_state(engines, n, "a connection failed");
    }
}
