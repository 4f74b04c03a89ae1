#include "base/phase.h"

#include <string.h>

#include "base/check.h"

static const char *const names[] = {[WEFT_PHASE_NONE] = "",
                                    [WEFT_PHASE_UNKNOWN] = "unknown",
#define WEFT_PHASE_NAME(enumerator, name) [WEFT_PHASE_##enumerator] = (name),
                                    WEFT_PHASES(WEFT_PHASE_NAME)
#undef WEFT_PHASE_NAME
};

const char *weft_phase_name(enum weft_phase phase)
{
    weft_check((size_t)phase < WEFT_LENGTH(names));
    return names[phase];
}

enum weft_phase weft_phase_find(const char *name)
{
    size_t n_bytes = strcspn(name, ".");

    for (size_t i = WEFT_PHASE_UNKNOWN + 1; i < WEFT_LENGTH(names); i++) {
        if (strncmp(names[i], name, n_bytes) == 0 && names[i][n_bytes] == '\0') {
            return (enum weft_phase)i;
        }
    }
    return n_bytes == 0 ? WEFT_PHASE_NONE : WEFT_PHASE_UNKNOWN;
}
