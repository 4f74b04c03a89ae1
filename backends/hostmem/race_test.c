/* Two processes as threads, and their GPUs as a third: messages in both directions, direct and
 * staged, while buffers are allocated and freed. For the thread sanitizer. Arguments: number of
 * seeds, and messages in each direction per seed. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "ipc/world_testing.h"

static unsigned n_seeds = 2;
static unsigned long n_messages = 40;

struct race {
    struct ipc_world world;
    pthread_mutex_t lock;
    atomic_int n_running;
};

static void lock(void *context)
{
    pthread_mutex_lock(context);
}

static void unlock(void *context)
{
    pthread_mutex_unlock(context);
}

struct racer {
    struct race *race;
    struct ipc_side *side;
};

/* A side that is done still answers the other's requests. */
static void *run_side(void *argument)
{
    struct racer *racer = argument;
    bool is_done = false;

    while (atomic_load(&racer->race->n_running) > 0) {
        for (int i = 0; i < 16; i++) {
            ipc_side_step(racer->side);
        }
        racer->side->now += 1000;
        sched_yield();
        if (!is_done && ipc_side_is_done(racer->side)) {
            is_done = true;
            atomic_fetch_sub(&racer->race->n_running, 1);
        }
    }
    return NULL;
}

static void *run_gpus(void *argument)
{
    struct race *race = argument;

    while (atomic_load(&race->n_running) > 0) {
        if (!hostmem_step(race->world.machine)) {
            sched_yield();
        }
    }
    return NULL;
}

START_TEST(threads_race_and_every_byte_is_right)
{
    static struct race race;
    struct racer racers[2];
    pthread_t threads[3];

    for (unsigned seed = 0; seed < n_seeds; seed++) {
        struct ipc_settings settings = ipc_world_settings();

        settings.n_open_max = 1 + seed % 5;
        settings.n_events = 1 + seed % 3;
        ipc_world_init(&race.world,
                       &(struct ipc_world_config){
                           .seed = seed,
                           .processes = {{.uuid = "GPU-a"}, {.uuid = "GPU-b"}},
                           .settings = {settings, settings}});
        pthread_mutex_init(&race.lock, NULL);
        race.world.lock = lock;
        race.world.unlock = unlock;
        race.world.context = &race.lock;
        atomic_store(&race.n_running, 2);
        ipc_world_send(&race.world, n_messages, n_messages);
        for (int i = 0; i < 2; i++) {
            racers[i] = (struct racer){&race, &race.world.sides[i]};
            ck_assert_int_eq(pthread_create(&threads[i], NULL, run_side, &racers[i]), 0);
        }
        ck_assert_int_eq(pthread_create(&threads[2], NULL, run_gpus, &race), 0);
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
        }
        for (int i = 0; i < 2; i++) {
            ck_assert(!race.world.sides[i].has_failed);
            ck_assert_uint_eq(race.world.sides[i].n_wrong, 0);
            ck_assert_uint_eq(race.world.sides[i].n_received, n_messages);
        }
        ck_assert_msg(hostmem_n_violations(race.world.machine) == 0, "seed %u: %s", seed,
                      hostmem_violation(race.world.machine));
        pthread_mutex_destroy(&race.lock);
        race.world.lock = NULL;
        race.world.unlock = NULL;
        ipc_world_fini(&race.world);
    }
}
END_TEST

/* ---- one handle opened by two threads ---- */

#define N_OPENINGS 200
#define N_SHARED 5000u

struct opener {
    struct io_gpu *gpu;
    const struct io_gpu_export *memory;
    unsigned n_wrong;
};

static void *open_and_close(void *argument)
{
    static const uint8_t owner[IPC_NONCE_BYTES] = {1};
    struct opener *opener = argument;
    struct ipc_cache cache;
    uint8_t got[N_SHARED];

    ipc_cache_init(&cache, &(struct ipc_cache_config){
                               .gpu = opener->gpu, .n_max = 1, .n_bytes_max = 1 << 20});
    for (unsigned i = 0; i < N_OPENINGS; i++) {
        struct ipc_mapping *mapping;
        bool is_right =
            ipc_cache_acquire(&cache, owner, opener->memory, 0, 0, &mapping) == 0 &&
            opener->gpu->ops->download(opener->gpu, got, mapping->at, sizeof(got)) == 0;

        for (size_t k = 0; k < sizeof(got) && is_right; k++) {
            is_right = got[k] == 0x3c;
        }
        opener->n_wrong += !is_right;
        if (is_right) {
            ipc_cache_release(&cache, mapping);
            ipc_cache_forget(&cache, owner); /* the next acquire opens it again */
        }
    }
    ipc_cache_fini(&cache);
    return NULL;
}

START_TEST(two_threads_open_the_same_handle)
{
    struct hostmem_machine *machine = hostmem_machine_create(1, 1);
    struct io_gpu *owner =
        hostmem_join(machine, &(struct hostmem_process){.uuid = "GPU-a"});
    struct opener openers[2];
    struct io_gpu_export memory;
    pthread_t threads[2];
    uint8_t bytes[N_SHARED];
    void *at;

    memset(bytes, 0x3c, sizeof(bytes));
    ck_assert_int_eq(owner->ops->alloc(owner, IO_MEMORY_DEVICE, N_SHARED, &at), 0);
    ck_assert_int_eq(owner->ops->upload(owner, at, bytes, N_SHARED), 0);
    ck_assert_int_eq(owner->sharing->export_memory(owner, at, 1, &memory), 0);
    for (int i = 0; i < 2; i++) {
        openers[i] = (struct opener){
            hostmem_join(machine, &(struct hostmem_process){.uuid = "GPU-a"}), &memory,
            0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, &openers[i]),
                         0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_uint_eq(openers[i].n_wrong, 0);
        ck_assert_uint_eq(hostmem_n_imports(openers[i].gpu), 0);
    }
    owner->ops->free(owner, at);
    ck_assert_uint_eq(hostmem_n_violations(machine), 0);
    hostmem_machine_destroy(machine);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("ipc races");
    TCase *tcase = tcase_create("races");
    int status;

    if (argc > 2) {
        n_seeds = (unsigned)strtoul(argv[1], NULL, 10);
        n_messages = strtoul(argv[2], NULL, 10);
    }
    tcase_set_timeout(tcase, argc > 2 ? 0 : 100);
    tcase_add_test(tcase, two_threads_open_the_same_handle);
    tcase_add_test(tcase, threads_race_and_every_byte_is_right);
    suite_add_tcase(suite, tcase);
    status = suite_run(suite);
    if (status == EXIT_SUCCESS) {
        printf("%u seeds, %lu messages each way\n", n_seeds, n_messages);
    }
    return status;
}
