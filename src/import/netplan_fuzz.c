/* Fuzzes the import: no input may make it crash, hang or leak, and a scenario that it makes must
 * load. The input is the files of several hosts, each after a 0x01, then three answers, each after
 * a 0x02; the rest is a hosts file. A first byte 0x03 says that the files are hosts files, too. */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "import/import.h"
#include "scenario/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define FILES_MAX 4
#define ANSWERS_MAX 3
#define ANSWER_BYTES 80

/* Takes the part that begins with `mark`: moves `*at` past it and returns its length without the
 * mark. */
static size_t take(const uint8_t *data, size_t n_bytes, size_t *at, uint8_t mark)
{
    size_t n = 0;

    if (*at >= n_bytes || data[*at] != mark) {
        return 0;
    }
    ++*at;
    while (*at + n < n_bytes && data[*at + n] != 1 && data[*at + n] != 2) {
        n++;
    }
    *at += n;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const char *const paths[FILES_MAX] = {"a.yaml", "b.yaml", "c/50-x.yaml",
                                                 "a/etc/netplan/60-y.yaml"};
    struct import_file files[FILES_MAX];
    char words[ANSWERS_MAX][ANSWER_BYTES];
    const char *texts[ANSWERS_MAX];
    struct import_answers answers = {.hosts_path = "hosts", .hosts = NULL};
    struct weft_text out = {NULL, 0, 0};
    struct weft_text again = {NULL, 0, 0};
    struct weft_text wrong = {NULL, 0, 0};
    enum import_source source = IMPORT_NETPLAN;
    size_t n_files = 0, at = 0;

    if (n_bytes > 0 && data[0] == 3) {
        source = IMPORT_HOSTS;
        answers.prefix_len[0] = 24;
        answers.prefix_len[1] = 64;
        at = 1;
    }

    while (n_files < FILES_MAX && at < n_bytes && data[at] == 1) {
        size_t n = take(data, n_bytes, &at, 1);

        files[n_files] =
            (struct import_file){NULL, paths[n_files], (const char *)data + at - n, n};
        n_files++;
    }
    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        size_t n = take(data, n_bytes, &at, 2);
        size_t n_kept = n < ANSWER_BYTES ? n : ANSWER_BYTES - 1;

        memcpy(words[i], data + at - n, n_kept);
        words[i][n_kept] = '\0';
        texts[i] = words[i];
    }
    answers.cables = &texts[0];
    answers.n_cables = words[0][0] != '\0';
    answers.switches = &texts[1];
    answers.n_switches = words[1][0] != '\0';
    answers.without = &texts[2];
    answers.n_without = words[2][0] != '\0';
    if (at < n_bytes) {
        answers.hosts = (const char *)data + at;
        answers.n_hosts = n_bytes - at;
    }
    if (import_scenario(source, files, n_files, &answers, &out, &wrong)) {
        weft_check(out.n > 0 && wrong.n == 0);
        weft_check(import_scenario(source, files, n_files, &answers, &again, &wrong));
        weft_check(again.n == out.n && memcmp(again.bytes, out.bytes, out.n) == 0);
    } else {
        weft_check(out.n == 0 && wrong.n > 0);
        /* Every error is one of the files; the generated text itself always parses as YAML. */
        weft_check(strstr(wrong.bytes, "not YAML: did not find expected") == NULL ||
                   strstr(wrong.bytes, "the scenario:") == NULL);
    }
    weft_text_fini(&out);
    weft_text_fini(&again);
    weft_text_fini(&wrong);
    return 0;
}
