#include "backends/rxe/live_faults.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

struct live_fault {
    struct world_fault fault;
    weft_ns end_ns; /* WEFT_NEVER: it does not end by itself */
};

int live_faults_add(struct live_faults *faults, const struct world_fault *fault,
                    weft_ns now)
{
    int problem = faults->apply(faults->context, fault, false);

    if (problem == 0) {
        faults->items =
            weft_realloc(faults->items, (faults->n + 1) * sizeof(*faults->items));
        faults->items[faults->n++] = (struct live_fault){
            .fault = *fault,
            .end_ns = fault->for_ns > 0 ? now + fault->for_ns : WEFT_NEVER};
    }
    return problem;
}

static int end(struct live_faults *faults, uint32_t i)
{
    int problem = faults->apply(faults->context, &faults->items[i].fault, true);

    faults->n--;
    memmove(&faults->items[i], &faults->items[i + 1],
            (faults->n - i) * sizeof(*faults->items));
    return problem;
}

weft_ns live_faults_due(struct live_faults *faults, weft_ns now)
{
    for (;;) {
        uint32_t first = 0;

        for (uint32_t i = 1; i < faults->n; i++) {
            first = faults->items[i].end_ns < faults->items[first].end_ns ? i : first;
        }
        if (faults->n == 0) {
            return WEFT_NEVER;
        }
        if (faults->items[first].end_ns > now) {
            return faults->items[first].end_ns;
        }
        (void)end(faults, first);
    }
}

int live_faults_clear(struct live_faults *faults)
{
    int problem = 0;

    while (faults->n > 0) {
        int one = end(faults, faults->n - 1);

        problem = problem != 0 ? problem : one;
    }
    return problem;
}

void live_faults_fini(struct live_faults *faults)
{
    free(faults->items);
    faults->items = NULL;
    faults->n = 0;
}

void live_fault_write(const struct world_fault *fault, char out[LIVE_FAULT_WORD_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = (const unsigned char *)fault;

    for (size_t i = 0; i < sizeof(*fault); i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * sizeof(*fault)] = '\0';
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool live_fault_read(const char *word, struct world_fault *out)
{
    unsigned char *bytes = (unsigned char *)out;

    if (strlen(word) != 2 * sizeof(*out)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(*out); i++) {
        int high = digit(word[2 * i]);
        int low = digit(word[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    out->send = NULL; /* of another process */
    return true;
}
