#include <stdio.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/memory.h"
#include "base/observe.h"
#include "cli/cli.h"
#include "cli/kept.h"

/* Replaces the library's handler, which aborts. Exits with CLI_ENVIRONMENT, because the machine
 * lacks memory and nothing was judged. */
_Noreturn void weft_out_of_memory(size_t n_bytes)
{
    fprintf(stderr,
            "weft: out of memory: this machine could not give %zu bytes more, so nothing "
            "was judged; run fewer hosts or smaller sizes, raise `ulimit -v` or the "
            "container's limit, or set `payload: timing` in the scenario\n",
            n_bytes);
    kept_write();
    _exit(CLI_ENVIRONMENT);
}

/* Replace the library's functions, which do nothing. */
void weft_observe_begin(void)
{
    backend_observe_begin();
}

void weft_observe_end(void)
{
    backend_observe_end();
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
