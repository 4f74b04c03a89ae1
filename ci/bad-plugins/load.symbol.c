/* Knows an interface that NCCL dropped only. */
#include "plugin/nccl_abi.h"

const struct abi_net_v8 ncclNetPlugin_v4 = {.name = "Bad"};
