/* CUDA and NCCL of one rank in host memory, for ci/test_gpu.py: what ci/gpu_rank.c calls, so that
 * it can be run where there is no GPU. With FAKE_WRONG the last element of a result is wrong. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

static const void *sent; /* to itself, in the group that is open */

static ncclResult_t copy(const void *from, void *to, size_t n)
{
    memcpy(to, from, n * 4);
    if (getenv("FAKE_WRONG") != NULL) {
        ((int *)to)[n - 1]++;
    }
    return ncclSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaMalloc(void **out, size_t n)
{
    *out = malloc(n);
    return cudaSuccess;
}
cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
    (void)kind;
    memcpy(to, from, n);
    return cudaSuccess;
}
cudaError_t cudaMemset(void *to, int value, size_t n)
{
    memset(to, value, n);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    *out = NULL;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "success" : "failure";
}

ncclResult_t ncclGetVersion(int *out)
{
    *out = NCCL_VERSION_CODE;
    return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    memset(out, 0, sizeof(*out));
    return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t *out, int n, ncclUniqueId id, int rank)
{
    (void)id;
    *out = NULL;
    return n == 1 && rank == 0 ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    (void)comm;
    return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    (void)comm;
    *out = ncclSuccess;
    return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "success" : "failure";
}
ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)type, (void)op, (void)comm, (void)stream;
    return copy(in, out, n);
}
ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    (void)type, (void)comm, (void)stream;
    return copy(in, out, n);
}
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)type, (void)op, (void)comm, (void)stream;
    return copy(in, out, n);
}
ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)type, (void)root, (void)comm, (void)stream;
    return copy(in, out, n);
}
ncclResult_t ncclGroupStart(void)
{
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void)
{
    return ncclSuccess;
}
ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    (void)n, (void)type, (void)peer, (void)comm, (void)stream;
    sent = in;
    return ncclSuccess;
}
ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    (void)type, (void)peer, (void)comm, (void)stream;
    return copy(sent, out, n);
}
