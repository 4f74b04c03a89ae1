#include "backends/lab/elsewhere.h"

#include <string.h>

/* Appends `word` as a single quoted word of a shell. */
static void add_quoted(struct weft_text *out, const char *word)
{
    weft_text_add(out, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            weft_text_add(out, "'\\''");
        } else {
            weft_text_add(out, "%c", *word);
        }
    }
    weft_text_add(out, "'");
}

/* Appends the command as one word. WEFT_NOTICES=0 makes the process end when its standard input
 * does. */
static void add_command(struct weft_text *out, uint32_t process, char *const *argv)
{
    struct weft_text command = {NULL, 0, 0};

    weft_text_add(&command, "WEFT_NOTICES=0 WEFT_PROCESS=%u exec", process);
    for (; *argv != NULL; argv++) {
        weft_text_add(&command, " ");
        add_quoted(&command, *argv);
    }
    add_quoted(out, command.bytes);
    weft_text_fini(&command);
}

void lab_elsewhere_line(const char *line, const char *host, uint32_t process,
                        char *const *argv, struct weft_text *out)
{
    static const char host_word[] = "{host}", command_word[] = "{command}";

    weft_text_add(out, "exec ");
    while (*line != '\0') {
        if (strncmp(line, host_word, sizeof(host_word) - 1) == 0) {
            weft_text_add(out, "%s", host);
            line += sizeof(host_word) - 1;
        } else if (strncmp(line, command_word, sizeof(command_word) - 1) == 0) {
            add_command(out, process, argv);
            line += sizeof(command_word) - 1;
        } else {
            weft_text_add(out, "%c", *line);
            line++;
        }
    }
}
