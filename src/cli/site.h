/* Generates a scenario for `weft node` from the facts of all machines, if the user gave none. */
#ifndef WEFT_CLI_SITE_H
#define WEFT_CLI_SITE_H

#include "cli/member.h"

/* Appends the file's text, which is the same on all ranks. Fails after a message on stderr. */
weft_status cli_site_find(const struct cli_options *options,
                          const struct cli_member *member, struct weft_text *out);

#endif
