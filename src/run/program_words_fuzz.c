/* Checks that no command or output makes the parser crash, hang, leak or return a value out of
 * range. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "run/program_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_gid(const char *text)
{
    struct io_ip ip;

    weft_check(text[0] == '\0' || io_ip_parse(text, &ip));
}

/* The first line is the command, the rest the output; NULs become blanks. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *command = weft_calloc(size + 1, 1);
    char *output = command + size; /* "" */
    struct program_words words;

    for (size_t i = 0; i < size; i++) {
        command[i] = data[i] == '\0' ? ' ' : (char)data[i];
    }
    if (strchr(command, '\n') != NULL) {
        output = strchr(command, '\n');
        *output++ = '\0';
    }
    program_words_read(command, output, &words);
    weft_check(words.gid_index >= PROGRAM_NO_INDEX && words.gid_index < 100000000);
    weft_check(words.path_mtu >= 0 && words.path_mtu < 100000000);
    weft_check(words.error.sys_errno >= 0 && words.error.sys_errno <= 4095);
    weft_check(words.error.wc_status >= 0 && words.error.wc_status <= 4095);
    check_gid(words.local_gid);
    check_gid(words.remote_gid);
    weft_check(command[0] == '\0' || program_words_have(command, command));
    program_words_have(output, command);
    free(command);
    return 0;
}
