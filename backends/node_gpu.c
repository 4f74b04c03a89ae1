#include "backends/node_gpu.h"

#include <string.h>

#include "backends/cuda/cuda.h"

weft_status node_gpu_choose(struct io_env *env, struct node_gpu *out,
                            struct weft_error *error)
{
    const char *choice = env->ops->setting(env, "WEFT_GPU");
    const struct cuda_choice cuda = {
        .kernels = env->ops->setting(env, "WEFT_GPU_KERNELS"), .process = env->process};
    weft_status status;

    *out = (struct node_gpu){.gpu = NULL};
    if (choice == NULL || strcmp(choice, "") == 0 || strcmp(choice, "host") == 0) {
        return WEFT_OK;
    }
    if (strncmp(choice, "cuda", 4) != 0 || (choice[4] != '\0' && choice[4] != ':')) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_START,
                         "WEFT_GPU: host, cuda or cuda:WHICH, not %.40s", choice);
    }
    status = cuda_choose(&cuda, choice[4] == ':' ? choice + 5 : NULL, &out->gpu, error);
    if (status == WEFT_OK) {
        out->wake_fd = cuda_wake_fd(out->gpu);
        out->progress = cuda_progress;
        out->close = cuda_close;
        weft_log(env->log, WEFT_LOG_INFO, "%s: GPU memory of %s (%s)", env->name,
                 out->gpu->name, out->gpu->uuid);
    }
    return status;
}
