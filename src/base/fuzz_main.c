/* The main() of a fuzz target that is linked without libFuzzer: executes a corpus and inputs
 * derived from it. The inputs depend only on the seed, so the same commit executes the same ones
 * on any machine.
 *
 *   TARGET [-n INPUTS] [-s SEED] [-d DICTIONARY] [-o FAILED] [FILE...]
 *
 * Executes every FILE, then INPUTS made by changing, cutting and joining these and the words of
 * DICTIONARY (libFuzzer's format). An input that makes the process end is written to FAILED, as
 * is one that takes longer than LIMIT_S, which ends the process too. */
#define _DEFAULT_SOURCE 1 /* sigaltstack */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/rng.h"

#define INPUT_BYTES_MAX 65536
#define LIMIT_S 120

/* Sanitizers call this callback before they end the process; other builds only have signals. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    uint8_t *bytes;
    size_t n;
};

/* A growing list of files or words. */
struct inputs {
    struct input *all;
    size_t n;
};

static struct inputs corpus, words;
static struct input now; /* the input being executed */
static const char *failed_path;

static void input_keep(void)
{
    static const char hint[] = "the input that failed is in ";
    int file =
        failed_path == NULL ? -1 : open(failed_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (file >= 0 && write(file, now.bytes, now.n) == (ssize_t)now.n) {
        (void)!write(STDERR_FILENO, hint, sizeof(hint) - 1);
        (void)!write(STDERR_FILENO, failed_path, strlen(failed_path));
        (void)!write(STDERR_FILENO, "\n", 1);
    }
}

static void signal_end(int number)
{
    static const char late[] = "an input takes too long\n";

    if (number == SIGALRM) {
        (void)!write(STDERR_FILENO, late, sizeof(late) - 1);
    }
    input_keep();
    signal(number, SIG_DFL);
    raise(number);
}

/* Handles signals on a stack of its own, because a deep recursion has used up the other. Sanitizers
 * report SIGSEGV, SIGBUS and SIGFPE themselves. */
static void signals_catch(void)
{
    static const int numbers[] = {SIGABRT, SIGALRM, SIGILL, SIGTRAP,
                                  SIGSEGV, SIGBUS,  SIGFPE};
    static uint8_t memory[65536];
    const stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
    bool is_watched = __sanitizer_set_death_callback != NULL;
    struct sigaction action = {.sa_handler = signal_end};

    if (is_watched) {
        __sanitizer_set_death_callback(input_keep);
    } else {
        weft_check(sigaltstack(&stack, NULL) == 0);
        action.sa_flags = SA_ONSTACK;
    }
    for (size_t i = 0; i < (is_watched ? 4 : WEFT_LENGTH(numbers)); i++) {
        weft_check(sigaction(numbers[i], &action, NULL) == 0);
    }
}

/* Executes a copy that ends exactly where the input does, so that a read beyond it is reported. */
static void input_execute(const uint8_t *bytes, size_t n)
{
    now = (struct input){malloc(n > 0 ? n : 1), n};
    weft_check(now.bytes != NULL);
    memcpy(now.bytes, bytes, n);
    alarm(LIMIT_S);
    LLVMFuzzerTestOneInput(now.bytes, now.n);
    alarm(0);
    free(now.bytes);
    now = (struct input){0};
}

static void inputs_add(struct inputs *inputs, const uint8_t *bytes, size_t n)
{
    struct input *all = realloc(inputs->all, (inputs->n + 1) * sizeof(inputs->all[0]));
    uint8_t *copy = malloc(n > 0 ? n : 1);

    weft_check(all != NULL && copy != NULL);
    memcpy(copy, bytes, n);
    inputs->all = all;
    inputs->all[inputs->n++] = (struct input){copy, n};
}

static void inputs_free(struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        free(inputs->all[i].bytes);
    }
    free(inputs->all);
    *inputs = (struct inputs){0};
}

/* Reads a file and returns its length. Exits with status 2 if it cannot be read or is too long. */
static size_t file_read(const char *path, uint8_t *out, size_t n_max)
{
    FILE *file = fopen(path, "rb");
    size_t n = file == NULL ? 0 : fread(out, 1, n_max, file);

    if (file == NULL || ferror(file) || fgetc(file) != EOF) {
        fprintf(stderr, "%s: %s\n", path, file == NULL ? strerror(errno) : "is too long");
        exit(2);
    }
    fclose(file);
    return n;
}

/* Adds the words of a dictionary: "word" on its own line, optionally after a name and =, with \xHH,
 * \" and \\ in it. */
static void words_read(char *text)
{
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *from = strchr(line, '"'), *end = strrchr(line, '"'), *to = line;

        if (line[0] == '#' || from == NULL || from == end) {
            continue;
        }
        for (from++; from < end; from++) {
            unsigned code;

            if (from[0] == '\\' && sscanf(from, "\\x%2x", &code) == 1) {
                *to++ = (char)code;
                from += 3;
            } else {
                from += from[0] == '\\' ? 1 : 0;
                *to++ = *from;
            }
        }
        inputs_add(&words, (const uint8_t *)line, (size_t)(to - line));
    }
}

/* Replaces `n_old` bytes at `at` by `n_new` bytes, as far as there is room. */
static void input_replace(struct input *input, size_t at, size_t n_old,
                          const uint8_t *bytes, size_t n_new)
{
    n_new = n_new < INPUT_BYTES_MAX - (input->n - n_old)
                ? n_new
                : INPUT_BYTES_MAX - (input->n - n_old);
    memmove(input->bytes + at + n_new, input->bytes + at + n_old, input->n - at - n_old);
    memcpy(input->bytes + at, bytes, n_new);
    input->n += n_new - n_old;
}

/* Overwrites 1, 2, 4 or 8 bytes with a random number or one near a power of two. */
static void input_set_number(struct input *input, struct weft_rng *rng)
{
    size_t width = (size_t)1 << weft_rng_below(rng, 4);
    uint64_t value = weft_rng_below(rng, 2) == 0
                         ? weft_rng_next(rng)
                         : (UINT64_C(1) << weft_rng_below(rng, 64)) -
                               weft_rng_below(rng, 3); /* 2^k, 2^k - 1, 2^k - 2 */
    bool is_big = weft_rng_below(rng, 2) == 0;
    size_t at;

    if (input->n < width) {
        return;
    }
    at = weft_rng_below(rng, input->n - width + 1);
    for (size_t i = 0; i < width; i++) {
        input->bytes[at + (is_big ? width - 1 - i : i)] = (uint8_t)(value >> (8 * i));
    }
}

static void input_change(struct input *input, struct weft_rng *rng)
{
    size_t at = weft_rng_below(rng, input->n + 1);
    size_t n = weft_rng_below(rng, input->n - at + 1);
    uint8_t piece[64];

    n = n < 64 || weft_rng_below(rng, 4) == 0 ? n : weft_rng_below(rng, 64);
    switch (weft_rng_below(rng, words.n > 0 ? 8 : 6)) {
    case 0: /* flip one bit */
        if (at < input->n) {
            input->bytes[at] ^= (uint8_t)(1u << weft_rng_below(rng, 8));
        }
        break;
    case 1:
        input_set_number(input, rng);
        break;
    case 2: /* delete a piece */
        input_replace(input, at, n, piece, 0);
        break;
    case 3: /* duplicate a piece */
        n = n < sizeof(piece) ? n : sizeof(piece);
        memcpy(piece, input->bytes + at, n);
        input_replace(input, at, 0, piece, n);
        break;
    case 4: /* insert or overwrite with random bytes */
        weft_rng_bytes(rng, piece, sizeof(piece));
        input_replace(input, at, n < 8 ? n : 0, piece, weft_rng_below(rng, 9));
        break;
    case 5: /* replace the rest by that of another input */
        if (corpus.n > 0) {
            const struct input *other = &corpus.all[weft_rng_below(rng, corpus.n)];
            size_t from = weft_rng_below(rng, other->n + 1);

            input_replace(input, at, input->n - at, other->bytes + from, other->n - from);
        }
        break;
    default: {
        const struct input *word = &words.all[weft_rng_below(rng, words.n)];

        input_replace(input, at, n < word->n ? n : 0, word->bytes, word->n);
    }
    }
}

static void inputs_make(unsigned long long n, unsigned long long seed)
{
    struct input made = {malloc(INPUT_BYTES_MAX), 0};
    struct weft_rng rng;

    weft_check(made.bytes != NULL);
    weft_rng_init(&rng, seed, "fuzz");
    for (unsigned long long i = 0; i < n; i++) {
        uint64_t n_changes = 1 + weft_rng_below(&rng, 6);

        made.n = 0;
        if (corpus.n > 0 && weft_rng_below(&rng, 50) > 0) {
            const struct input *from = &corpus.all[weft_rng_below(&rng, corpus.n)];

            input_replace(&made, 0, 0, from->bytes, from->n);
        }
        while (n_changes-- > 0) {
            input_change(&made, &rng);
        }
        input_execute(made.bytes, made.n);
    }
    free(made.bytes);
}

static int usage(const char *name)
{
    fprintf(stderr,
            "usage: %s [-n INPUTS] [-s SEED] [-d DICTIONARY] [-o FAILED] [FILE...]\n",
            name);
    return 2;
}

int main(int argc, char **argv)
{
    static uint8_t text[INPUT_BYTES_MAX + 1];
    unsigned long long n = 0, seed = 1;
    int option;

    while ((option = getopt(argc, argv, "n:s:d:o:")) != -1) {
        switch (option) {
        case 'n':
            n = strtoull(optarg, NULL, 10);
            break;
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'd':
            text[file_read(optarg, text, INPUT_BYTES_MAX)] = '\0';
            words_read((char *)text);
            break;
        case 'o':
            failed_path = optarg;
            break;
        default:
            return usage(argv[0]);
        }
    }
    signals_catch();
    for (int i = optind; i < argc; i++) {
        inputs_add(&corpus, text, file_read(argv[i], text, INPUT_BYTES_MAX));
        input_execute(corpus.all[corpus.n - 1].bytes, corpus.all[corpus.n - 1].n);
    }
    inputs_make(n, seed);
    printf("%llu inputs\n", (unsigned long long)corpus.n + n);
    inputs_free(&corpus);
    inputs_free(&words);
    return EXIT_SUCCESS;
}
