/* Memory sharing over a fake driver: kinds of handles, imports, and errors. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "backends/cuda/driver_testing.h"
#include "backends/cuda/virtual_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"

#define N ((size_t)2 << 20)
#define ALL_KINDS                                                                        \
    (1u << IO_GPU_HANDLE_LEGACY | 1u << IO_GPU_HANDLE_FD | 1u << IO_GPU_HANDLE_FABRIC)

static struct io_gpu *gpu;

/* Reports a fabric for the driver's GPUs. */
static bool is_in_fabric(const char *uuid, uint8_t out_cluster[16], uint32_t *out_clique)
{
    ck_assert_int_eq(strncmp(uuid, "GPU-", 4), 0);
    memset(out_cluster, 0xc1, 16);
    *out_clique = 5;
    return true;
}

static void open_gpu(bool has_fd, bool has_fabric)
{
    struct cuda_driver driver = driver_testing();

    driver.fabric = is_in_fabric;
    virtual_testing(&driver);
    driver_now.attributes[CUDA_ATTR_HANDLE_FD] = has_fd;
    driver_now.attributes[CUDA_ATTR_HANDLE_FABRIC] = has_fabric;
    ck_assert_int_eq(cuda_open_with(&driver, NULL, 0, &gpu, NULL), WEFT_OK);
}

/* Checks that nothing remains of shared memory. */
static void close_gpu(void)
{
    cuda_close(gpu);
    ck_assert_int_eq(virtual_now.n_physical, 0);
    ck_assert_int_eq(virtual_now.n_reserved, 0);
    ck_assert_int_eq(virtual_now.n_mapped, 0);
    ck_assert_int_eq(driver_now.n_allocated, 0);
    ck_assert_int_eq(driver_now.n_contexts_pushed, 0);
}

static void *address(cuda_pointer at, size_t offset)
{
    return (void *)(uintptr_t)(at + offset);
}

static uint32_t kinds(void)
{
    struct io_gpu_identity identity;

    ck_assert_int_eq(gpu->sharing->identify(gpu, &identity), 0);
    return identity.kinds;
}

static int export_at(const void *at, uint32_t allowed, struct io_gpu_export *out)
{
    return gpu->sharing->export_memory(gpu, at, allowed, out);
}

static int count_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 200; fd++) {
        int copy = dup(fd);

        n += copy >= 0;
        (void)close(copy);
    }
    return n;
}

START_TEST(each_memory_is_told_by_the_kind_that_it_allows)
{
    struct io_gpu_export out;
    cuda_pointer both, fd, none;
    void *legacy;

    open_gpu(true, true);
    ck_assert_uint_eq(kinds(), ALL_KINDS);
    both = virtual_testing_create(N, CUDA_HANDLE_FD | CUDA_HANDLE_FABRIC);
    fd = virtual_testing_create(N, CUDA_HANDLE_FD);
    none = virtual_testing_create(N, 0);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, N, &legacy), 0);

    ck_assert_int_eq(export_at(legacy, ALL_KINDS, &out), 0);
    ck_assert_int_eq(out.kind, IO_GPU_HANDLE_LEGACY);
    ck_assert_int_eq(export_at(legacy, 1u << IO_GPU_HANDLE_FD, &out), EOPNOTSUPP);
    ck_assert_int_eq(export_at(address(both, 777), ALL_KINDS, &out), 0);
    ck_assert_int_eq(out.kind, IO_GPU_HANDLE_FABRIC);
    ck_assert_uint_eq(out.base, both);
    ck_assert_uint_eq(out.n_bytes, N);
    ck_assert_int_eq(export_at(address(both, 0), 1u << IO_GPU_HANDLE_FD, &out), 0);
    ck_assert_int_eq(out.kind, IO_GPU_HANDLE_FD);
    ck_assert_int_eq(export_at(address(fd, 0), ALL_KINDS, &out), 0);
    ck_assert_int_eq(out.kind, IO_GPU_HANDLE_FD);
    ck_assert_int_eq(export_at(address(fd, 0), 1u << IO_GPU_HANDLE_LEGACY, &out),
                     EOPNOTSUPP);
    ck_assert_int_eq(export_at(address(none, 0), ALL_KINDS, &out), EOPNOTSUPP);
    ck_assert_int_eq(export_at(&out, ALL_KINDS, &out), EINVAL);

    gpu->ops->free(gpu, legacy);
    virtual_testing_free(both);
    virtual_testing_free(fd);
    virtual_testing_free(none);
    close_gpu();
    open_gpu(false, false);
    ck_assert_uint_eq(kinds(), 1u << IO_GPU_HANDLE_LEGACY);
    out.kind = IO_GPU_HANDLE_FD;
    ck_assert_int_eq(gpu->sharing->import_memory(gpu, &out, &legacy), EOPNOTSUPP);
    close_gpu();
}
END_TEST

/* cudaMallocAsync, from the default pool and from pools that can be exported as a whole. Memory
 * of pools has no handle of its own, and trying to export it leaves nothing behind. */
START_TEST(memory_of_pools_has_no_handle)
{
    static const unsigned pools[] = {0, CUDA_HANDLE_FD, CUDA_HANDLE_FABRIC,
                                     CUDA_HANDLE_FD | CUDA_HANDLE_FABRIC};
    struct io_gpu_export out;
    cuda_pointer at;
    int n;

    open_gpu(true, true);
    n = count_descriptors();
    at = virtual_testing_of_pool(N, pools[_i]);
    ck_assert_int_eq(cuda_memory_of(gpu, address(at, 100)), CUDA_IS_DEVICE);
    for (uint32_t kind = 0; kind < 3; kind++) {
        ck_assert_int_eq(export_at(address(at, 100), 1u << kind, &out), EOPNOTSUPP);
    }
    ck_assert_int_eq(export_at(address(at, 100), ALL_KINDS, &out), EOPNOTSUPP);
    /* The memory's own descriptor, held by the test. */
    ck_assert_int_eq(count_descriptors(), n + 1);
    virtual_testing_free(at);
    close_gpu();
}
END_TEST

/* By descriptor and by fabric handle: the same bytes at another address. */
START_TEST(what_is_imported_is_the_same_memory)
{
    unsigned kind = _i == 0 ? CUDA_HANDLE_FD : CUDA_HANDLE_FABRIC;
    uint8_t bytes[64], got[64];
    struct io_gpu_export out;
    cuda_pointer at;
    void *imported;

    open_gpu(true, true);
    at = virtual_testing_create(N, kind);
    memset(bytes, 0x17, sizeof(bytes));
    ck_assert_int_eq(gpu->ops->upload(gpu, address(at, 4000), bytes, sizeof(bytes)), 0);
    ck_assert_int_eq(export_at(address(at, 4000), ALL_KINDS, &out), 0);
    ck_assert_int_eq(gpu->sharing->import_memory(gpu, &out, &imported), 0);
    ck_assert_uint_ne((uintptr_t)imported, at);
    ck_assert_int_eq(
        gpu->ops->download(gpu, got, (uint8_t *)imported + 4000, sizeof(got)), 0);
    ck_assert_mem_eq(got, bytes, sizeof(got));
    gpu->sharing->unimport(gpu, imported);
    gpu->sharing->unimport(gpu, NULL);
    ck_assert_int_eq(gpu->sharing->import_memory(gpu, &out, &imported),
                     0); /* a second import */
    gpu->sharing->unexport(gpu, &out);
    virtual_testing_free(at);
    close_gpu(); /* while the import is open */
}
END_TEST

/* One descriptor per allocation, however often it is exported, and none for freed allocations. */
START_TEST(descriptors_are_as_many_as_buffers)
{
    struct io_gpu_export first, again, other;
    int n_before = count_descriptors(), n;
    cuda_pointer at;
    void *imported;

    open_gpu(true, false);
    n = count_descriptors();
    at = virtual_testing_create(N, CUDA_HANDLE_FD);
    ck_assert_int_eq(count_descriptors(), n + 1);
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(export_at(address(at, 0), ALL_KINDS, i == 0 ? &first : &again),
                         0);
        gpu->sharing->unexport(gpu, i == 0 ? &first : &again);
    }
    ck_assert_int_eq(count_descriptors(), n + 2);
    ck_assert_mem_eq(&first.handle, &again.handle, sizeof(first.handle));
    ck_assert_uint_eq(first.buffer_id, again.buffer_id);
    /* After freeing and allocating again the buffer id differs, and the old buffer cannot be
     * opened. */
    virtual_testing_free(at);
    at = virtual_testing_create(2 * N, CUDA_HANDLE_FD);
    ck_assert_int_eq(export_at(address(at, 0), ALL_KINDS, &other), 0);
    ck_assert_uint_ne(other.buffer_id, first.buffer_id);
    ck_assert_int_eq(count_descriptors(), n + 2);
    first.n_bytes = 4 * N;
    first.handle = other.handle;
    ck_assert_int_eq(gpu->sharing->import_memory(gpu, &first, &imported), EINVAL);
    virtual_testing_free(at);
    /* Above the maximum number of descriptors, the oldest are closed. */
    for (int i = 0; i < 70; i++) {
        at = virtual_testing_create(4096, CUDA_HANDLE_FD);
        ck_assert_int_eq(export_at(address(at, 0), ALL_KINDS, i == 0 ? &first : &other),
                         0);
        if (i == 0) {
            ck_assert_int_eq(gpu->sharing->import_memory(gpu, &first, &imported), 0);
        }
        virtual_testing_free(at);
    }
    close_gpu();
    ck_assert_int_eq(count_descriptors(), n_before);
}
END_TEST

/* Every call of an import and of an export can fail, and nothing remains. */
START_TEST(each_failure_has_its_error_and_leaves_nothing)
{
    static const struct {
        int result, sys_errno;
    } cases[] = {{CUDA_OUT_OF_MEMORY, ENOMEM}, {CUDA_NOT_SUPPORTED, EOPNOTSUPP}};
    struct io_gpu_export out;
    cuda_pointer at;
    void *imported;
    int n;

    open_gpu(true, true);
    at = virtual_testing_create(N, CUDA_HANDLE_FABRIC);
    ck_assert_int_eq(export_at(address(at, 0), ALL_KINDS, &out), 0);
    n = virtual_now.n_physical;
    for (int after = 0; after < 4; after++) { /* import, reserve, map, set_access */
        virtual_now.fails_with = cases[_i].result;
        virtual_now.fails_after = after;
        ck_assert_int_eq(gpu->sharing->import_memory(gpu, &out, &imported),
                         cases[_i].sys_errno);
        ck_assert_ptr_null(imported);
        ck_assert_int_eq(virtual_now.fails_with, 0);
        ck_assert_int_eq(virtual_now.n_physical, n);
        ck_assert_int_eq(virtual_now.n_mapped, 1);
        ck_assert_int_eq(virtual_now.n_reserved, 1);
    }
    for (int after = 0; after < 2; after++) { /* retain, export */
        virtual_now.fails_with = cases[_i].result;
        virtual_now.fails_after = after;
        ck_assert_int_eq(export_at(address(at, 0), 1u << IO_GPU_HANDLE_FABRIC, &out),
                         cases[_i].sys_errno);
    }
    virtual_testing_free(at);
    close_gpu();
}
END_TEST

START_TEST(without_room_for_a_descriptor_it_is_said)
{
    struct rlimit before, tight;
    struct io_gpu_export out;
    cuda_pointer at, other;
    void *imported;
    int highest;

    open_gpu(true, false);
    at = virtual_testing_create(N, CUDA_HANDLE_FD);
    other = virtual_testing_create(N, CUDA_HANDLE_FD);
    ck_assert_int_eq(export_at(address(at, 0), ALL_KINDS, &out), 0);
    highest = dup(0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)highest;
    (void)close(highest);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    ck_assert_int_eq(gpu->sharing->import_memory(gpu, &out, &imported), EMFILE);
    ck_assert_int_ne(export_at(address(other, 0), ALL_KINDS, &out), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(export_at(address(other, 0), ALL_KINDS, &out), 0);
    ck_assert_int_eq(gpu->sharing->import_memory(gpu, &out, &imported), 0);
    virtual_testing_free(at);
    virtual_testing_free(other);
    close_gpu();
}
END_TEST

/* The other process: fills its memory, exports it, and exits when its input ends. */
static _Noreturn void serve(int to, int from)
{
    uint8_t bytes[100];
    struct io_gpu_export out;
    cuda_pointer at;
    char word;

    open_gpu(true, false);
    at = virtual_testing_create(N, CUDA_HANDLE_FD);
    memset(bytes, 0x2b, sizeof(bytes));
    weft_check(gpu->ops->upload(gpu, address(at, N - 100), bytes, 100) == 0);
    weft_check(export_at(address(at, 5), ALL_KINDS, &out) == 0);
    weft_check(write(to, &out, sizeof(out)) == (ssize_t)sizeof(out));
    (void)!read(from, &word, 1);
    _exit(0);
}

/* If ptrace(2) is forbidden (Yama, containers), the import fails and such memory is staged. */
START_TEST(another_processs_descriptor_is_taken_from_it)
{
    int told[2], held[2], sys_errno, status;
    struct io_gpu_export out;
    uint8_t got[100];
    void *imported;
    pid_t other;

    ck_assert_int_eq(pipe(told), 0);
    ck_assert_int_eq(pipe(held), 0);
    other = fork();
    if (other == 0) {
        (void)close(held[1]);
        serve(told[1], held[0]);
    }
    ck_assert_int_eq(read(told[0], &out, sizeof(out)), (ssize_t)sizeof(out));
    open_gpu(true, false);
    sys_errno = gpu->sharing->import_memory(gpu, &out, &imported);
    if (sys_errno == 0) {
        ck_assert_int_eq(gpu->ops->download(gpu, got, (uint8_t *)imported + N - 100, 100),
                         0);
        for (size_t i = 0; i < 100; i++) {
            ck_assert_uint_eq(got[i], 0x2b);
        }
        gpu->sharing->unimport(gpu, imported);
    } else {
        ck_assert(sys_errno == EACCES || sys_errno == EOPNOTSUPP);
    }
    (void)close(held[1]);
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    sys_errno = gpu->sharing->import_memory(gpu, &out, &imported);
    ck_assert(sys_errno == ENOENT || sys_errno == EOPNOTSUPP);
    close_gpu();
}
END_TEST

START_TEST(who_can_use_the_fabric_says_which)
{
    static const uint8_t none[16] = {0};
    struct io_gpu_identity identity;

    open_gpu(true, _i == 1);
    ck_assert_int_eq(gpu->sharing->identify(gpu, &identity), 0);
    ck_assert_uint_eq(identity.clique, _i == 1 ? 5 : 0);
    ck_assert_int_eq(memcmp(identity.cluster, none, 16) == 0, _i == 0);
    ck_assert_uint_eq(identity.cluster[15], _i == 1 ? 0xc1 : 0);
    close_gpu();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda sharing");
    TCase *tcase = tcase_create("kinds");

    tcase_add_test(tcase, each_memory_is_told_by_the_kind_that_it_allows);
    tcase_add_loop_test(tcase, memory_of_pools_has_no_handle, 0, 4);
    tcase_add_loop_test(tcase, who_can_use_the_fabric_says_which, 0, 2);
    tcase_add_loop_test(tcase, what_is_imported_is_the_same_memory, 0, 2);
    tcase_add_test(tcase, descriptors_are_as_many_as_buffers);
    tcase_add_loop_test(tcase, each_failure_has_its_error_and_leaves_nothing, 0, 2);
    tcase_add_test(tcase, without_room_for_a_descriptor_it_is_said);
    tcase_add_test(tcase, another_processs_descriptor_is_taken_from_it);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
