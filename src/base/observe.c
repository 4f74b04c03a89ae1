#include "base/observe.h"

__attribute__((weak)) void weft_observe_begin(void)
{
}

__attribute__((weak)) void weft_observe_end(void)
{
}
