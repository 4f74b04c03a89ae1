#include "cli/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGITS ((size_t)2 * CLI_SECRET_BYTES)

/* Parses 64 hexadecimal digits, followed by white space only. */
static bool parse(const char *text, uint8_t out[CLI_SECRET_BYTES])
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";

    for (size_t i = 0; i < DIGITS; i++) {
        const char *at = text[i] == '\0' ? NULL : strchr(digits, text[i]);

        if (at == NULL) {
            return false;
        }
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | ((at - digits) & 15));
    }
    return text[DIGITS + strspn(text + DIGITS, " \t\r\n")] == '\0';
}

bool cli_secret_read(const char *value, uint8_t out[CLI_SECRET_BYTES])
{
    char text[DIGITS + 16] = "";
    FILE *file;
    size_t n;

    if (parse(value, out)) {
        return true;
    }
    file = fopen(value, "rb");
    if (file == NULL) {
        fprintf(stderr, "weft: --secret: %s: %s\n", value, strerror(errno));
        return false;
    }
    n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    if (strlen(text) != n || !parse(text, out)) {
        fprintf(stderr, "weft: --secret: %s: not 64 hexadecimal digits\n", value);
        return false;
    }
    return true;
}
