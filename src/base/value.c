#include "base/value.h"

#include <string.h>

#include "base/check.h"

static const struct {
    const char *name;
    enum weft_kind kind;
} values[WEFT_VALUE_N] = {[WEFT_VALUE_UNKNOWN] = {"unknown", WEFT_KIND_TEXT},
#define WEFT_VALUE_PAIR(enumerator, name, kind)                                          \
    [WEFT_VALUE_LOCAL_##enumerator] = {"local_" name, WEFT_KIND_##kind},                 \
    [WEFT_VALUE_REMOTE_##enumerator] = {"remote_" name, WEFT_KIND_##kind},
                          WEFT_VALUE_PAIRS(WEFT_VALUE_PAIR)
#undef WEFT_VALUE_PAIR
#define WEFT_VALUE_ROW(enumerator, name, kind)                                           \
    [WEFT_VALUE_##enumerator] = {name, WEFT_KIND_##kind},
                              WEFT_VALUES(WEFT_VALUE_ROW)
#undef WEFT_VALUE_ROW
};

const char *weft_value_name(enum weft_value_name name)
{
    weft_check((size_t)name < WEFT_LENGTH(values));
    return values[name].name;
}

enum weft_kind weft_value_kind(enum weft_value_name name)
{
    weft_check((size_t)name < WEFT_LENGTH(values));
    return values[name].kind;
}

enum weft_value_name weft_value_find(const char *text)
{
    for (size_t i = WEFT_VALUE_UNKNOWN + 1; i < WEFT_LENGTH(values); i++) {
        if (strcmp(values[i].name, text) == 0) {
            return (enum weft_value_name)i;
        }
    }
    return WEFT_VALUE_UNKNOWN;
}

/* The two values of a pair follow each other, this end's first. */
enum weft_value_name weft_value_turned(enum weft_value_name name)
{
    int pair = (int)name - (int)WEFT_VALUE_LOCAL_PORT;

    if (name < WEFT_VALUE_LOCAL_PORT || name > WEFT_VALUE_REMOTE_ADDRESS_5) {
        return name;
    }
    return (enum weft_value_name)((int)WEFT_VALUE_LOCAL_PORT + (pair ^ 1));
}

enum weft_value_name weft_value_local_address(unsigned index)
{
    weft_check(index < WEFT_VALUE_ADDRESSES);
    return (enum weft_value_name)((unsigned)WEFT_VALUE_LOCAL_ADDRESS_0 + 2 * index);
}

enum weft_value_name weft_value_remote_address(unsigned index)
{
    return weft_value_turned(weft_value_local_address(index));
}
