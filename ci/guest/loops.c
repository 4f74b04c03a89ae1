/* Loops of every kind, for what a guest in virtual time does about them: loops KIND. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TURNS 200

static volatile int flag;
static volatile double sum;
static pthread_spinlock_t lock;

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void *set_flag(void *unused)
{
    usleep(1000);
    flag = 1;
    return unused;
}

static void *hold_lock(void *unused)
{
    pthread_spin_lock(&lock);
    flag = 1;
    usleep(3000);
    pthread_spin_unlock(&lock);
    return unused;
}

static void *take_turns(void *own)
{
    int me = *(int *)own;

    for (int i = 0; i < TURNS; i++) {
        while (flag != me) {
        }
        flag = 1 - me;
    }
    return NULL;
}

static void wait_for_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, set_flag, NULL);
    while (flag == 0) {
    }
    pthread_join(thread, NULL);
}

static void wait_for_process(void)
{
    volatile int *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (fork() == 0) {
        usleep(2000);
        *shared = 1;
        _exit(0);
    }
    while (*shared == 0) {
    }
}

static void wait_for_lock(void)
{
    pthread_t thread;

    pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
    pthread_create(&thread, NULL, hold_lock, NULL);
    while (flag == 0) {
    }
    pthread_spin_lock(&lock);
    pthread_spin_unlock(&lock);
    pthread_join(thread, NULL);
}

static void pass_turns(void)
{
    int numbers[2] = {0, 1};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, take_turns, &numbers[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void count_in_memory(void)
{
    volatile unsigned long *cells = calloc(1, 1 << 20);

    while (cells[5000] < 100000000) {
        cells[5000]++;
    }
}

static void add_floats(void)
{
    while (sum < 5e7) {
        sum = sum + 1.0;
    }
}

static void poll_until(double end)
{
    while (now_us() < end) {
    }
}

static void poll_clock(void)
{
    poll_until(now_us() + 5000);
}

static void poll_for_a_minute(void)
{
    poll_until(now_us() + 60e6);
}

/* Two processes have work to do, and look at the clock for each piece of it. */
static void look_while_working(void)
{
    pid_t other = fork();

    for (int i = 0; i < 5000; i++) {
        sum = sum + now_us();
    }
    if (other == 0) {
        _exit(0);
    }
    waitpid(other, NULL, 0);
}

/* About 2 s of a processor. */
static void compute(void)
{
    while (sum < 4e8) {
        sum = sum + 1.0;
    }
}

/* Gives up waiting after a number of looks. */
static void wait_for_a_count(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, set_flag, NULL);
    for (volatile unsigned i = 0; i < 100000000 && flag == 0; i++) {
    }
    pthread_join(thread, NULL);
}

static void count_for_ever(void)
{
    for (volatile unsigned i = 0;; i++) {
    }
}

static void wait_for_ever(void)
{
    while (flag == 0) {
    }
}

/* ---- loops in code that is written here, at the same place in each program ---- */

#define CODE ((unsigned char *)0x10000000)

typedef unsigned long code(volatile int *flag);

static void map_code(void)
{
    if (mmap(CODE, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != CODE) {
        exit(1);
    }
}

static void spin_in_code(void)
{
    static const unsigned char loop[] = {0x83, 0x3f, 0x00, /* cmpl $0, (%rdi) */
                                         0x74, 0xfb,       /* je to it */
                                         0xc3};            /* ret */
    pthread_t thread;

    memcpy(CODE + 16, loop, sizeof(loop));
    pthread_create(&thread, NULL, set_flag, NULL);
    ((code *)(CODE + 16))(&flag);
    pthread_join(thread, NULL);
}

/* Code that has a number where the loop was. */
static void load_a_number(void)
{
    static const unsigned char load[] = {0x48, 0xb8, /* movabs to %rax */
                                         0xef, 0xcd, 0xab, 0x89, 0x67,
                                         0x45, 0x23, 0x01, 0xc3}; /* ret */
    unsigned long number;

    memcpy(CODE + 14, load, sizeof(load));
    usleep(100);
    number = ((code *)(CODE + 14))(&flag);
    if (number != 0x123456789abcdefUL) {
        fprintf(stderr, "0x%lx\n", number);
        exit(1);
    }
}

static void write_code_anew(void)
{
    map_code();
    spin_in_code();
    load_a_number();
}

/* Becomes another program, and that another one, whose memory is where the first's was. */
static void become_others(void)
{
    map_code();
    spin_in_code();
    execl("/proc/self/exe", "loops", "second", (char *)NULL);
}

static void become_another(void)
{
    execl("/proc/self/exe", "loops", "third", (char *)NULL);
}

static void be_another(void)
{
    map_code();
    load_a_number();
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"thread", wait_for_thread},  {"process", wait_for_process},
    {"lock", wait_for_lock},      {"turns", pass_turns},
    {"memory", count_in_memory},  {"float", add_floats},
    {"clock", poll_clock},        {"minute", poll_for_a_minute},
    {"work", look_while_working}, {"ever", wait_for_ever},
    {"compute", compute},         {"counted", wait_for_a_count},
    {"counts", count_for_ever},   {"code", write_code_anew},
    {"exec", become_others},      {"second", become_another},
    {"third", be_another},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, argv[1]) == 0) {
            double begin = now_us();

            kinds[i].run();
            printf("%.0f\n", now_us() - begin);
            return 0;
        }
    }
    return 2;
}
