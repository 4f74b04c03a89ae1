/* Needs a function that does not exist. */
#include "plugin/nccl_abi.h"

extern abi_status nobody_has_this(int *n);

const struct abi_net_v11 ncclNetPlugin_v11 = {.name = "Bad", .devices = nobody_has_this};
