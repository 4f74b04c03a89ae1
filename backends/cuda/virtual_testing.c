#define _GNU_SOURCE
#include "backends/cuda/virtual_testing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

#define PHYSICAL_MAX 256

struct virtual_testing virtual_now;

/* Physical memory, indexed by number from 1. */
static struct physical {
    int fd; /* 0: unused */
    unsigned n_users, kinds;
    size_t n_bytes;
} physicals[PHYSICAL_MAX];

struct range {
    struct range *next;
    uint8_t *at;
    size_t n_bytes;
    cuda_physical physical; /* 0: reserved only */
    unsigned long long id;
    bool is_of_pool; /* unknown to cuMemRetainAllocationHandle */
};
static struct range *ranges;
static unsigned long long last_id = 1u << 20;
static struct cuda_driver before;

static int failing(void)
{
    int result = virtual_now.fails_with;

    if (result == CUDA_OK || virtual_now.fails_after-- > 0) {
        return CUDA_OK;
    }
    virtual_now.fails_with = CUDA_OK;
    return result;
}

static struct range *find(cuda_pointer at)
{
    struct range *range = ranges;

    while (range != NULL && at - (uintptr_t)range->at >= range->n_bytes) {
        range = range->next;
    }
    return range;
}

static cuda_physical add(int fd, size_t n_bytes, unsigned kinds)
{
    cuda_physical number = 1;

    while (physicals[number].fd != 0) {
        number++;
        weft_check(number < PHYSICAL_MAX);
    }
    physicals[number] =
        (struct physical){.fd = fd, .n_users = 1, .n_bytes = n_bytes, .kinds = kinds};
    virtual_now.n_physical++;
    return number;
}

static int physical(cuda_physical *out, void *memory)
{
    const struct range *range = find((uintptr_t)memory);
    int result = failing();

    if (result != CUDA_OK || range == NULL || range->physical == 0 || range->is_of_pool) {
        return result != CUDA_OK ? result : CUDA_INVALID_VALUE;
    }
    *out = range->physical;
    physicals[*out].n_users++;
    return CUDA_OK;
}

static int physical_release(cuda_physical number)
{
    weft_check(number < PHYSICAL_MAX && physicals[number].n_users > 0);
    if (--physicals[number].n_users == 0) {
        close(physicals[number].fd);
        physicals[number].fd = 0;
        virtual_now.n_physical--;
    }
    return CUDA_OK;
}

static int physical_export(void *out, cuda_physical number, int kind,
                           unsigned long long flags)
{
    struct cuda_ipc_handle handle = {{0}};
    int result = failing();

    weft_check(flags == 0 && physicals[number].n_users > 0);
    if (result != CUDA_OK) {
        return result;
    }
    if ((physicals[number].kinds & (unsigned)kind) == 0) {
        return CUDA_INVALID_VALUE;
    }
    if (kind == CUDA_HANDLE_FABRIC) {
        memcpy(handle.bytes, &number, sizeof(number));
        memcpy(out, &handle, sizeof(handle));
        return CUDA_OK;
    }
    *(int *)out = dup(physicals[number].fd);
    return *(int *)out >= 0 ? CUDA_OK : CUDA_OPERATING_SYSTEM;
}

static int physical_import(cuda_physical *out, void *handle, int kind)
{
    struct stat status;
    int fd = (int)(intptr_t)handle, result = failing();

    if (result != CUDA_OK) {
        return result;
    }
    if (kind == CUDA_HANDLE_FABRIC) {
        memcpy(out, handle, sizeof(*out));
        if (*out == 0 || *out >= PHYSICAL_MAX || physicals[*out].fd == 0) {
            return CUDA_INVALID_HANDLE;
        }
        physicals[*out].n_users++;
        return CUDA_OK;
    }
    weft_check(kind == CUDA_HANDLE_FD);
    if (fstat(fd, &status) != 0 || status.st_size == 0) {
        return CUDA_INVALID_HANDLE;
    }
    *out = add(dup(fd), (size_t)status.st_size, CUDA_HANDLE_FD);
    return CUDA_OK;
}

static int reserve(cuda_pointer *out, size_t n_bytes, size_t alignment,
                   cuda_pointer wanted, unsigned long long flags)
{
    struct range *range;
    int result = failing();

    weft_check(alignment == 0 && wanted == 0 && flags == 0);
    if (result != CUDA_OK) {
        return result;
    }
    range = weft_calloc(1, sizeof(*range));
    range->at = mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    weft_check(range->at != MAP_FAILED);
    range->n_bytes = n_bytes;
    range->next = ranges;
    ranges = range;
    *out = (uintptr_t)range->at;
    virtual_now.n_reserved++;
    return CUDA_OK;
}

static int unreserve(cuda_pointer at, size_t n_bytes)
{
    struct range **from = &ranges, *gone;

    while (*from != NULL && (uintptr_t)(*from)->at != at) {
        from = &(*from)->next;
    }
    gone = *from;
    weft_check(gone != NULL && gone->n_bytes == n_bytes && gone->physical == 0);
    *from = gone->next;
    munmap(gone->at, gone->n_bytes);
    free(gone);
    virtual_now.n_reserved--;
    return CUDA_OK;
}

static int map(cuda_pointer at, size_t n_bytes, size_t offset, cuda_physical number,
               unsigned long long flags)
{
    struct range *range = find(at);
    int result = failing();

    weft_check(offset == 0 && flags == 0 && range != NULL && range->physical == 0);
    if (result != CUDA_OK || n_bytes > physicals[number].n_bytes) {
        return result != CUDA_OK ? result : CUDA_INVALID_VALUE;
    }
    range->physical = number;
    range->id = ++last_id;
    physicals[number].n_users++;
    virtual_now.n_mapped++;
    return CUDA_OK;
}

static int unmap(cuda_pointer at, size_t n_bytes)
{
    struct range *range = find(at);

    weft_check(range != NULL && range->physical != 0 && range->n_bytes == n_bytes);
    (void)physical_release(range->physical);
    range->physical = 0;
    virtual_now.n_mapped--;
    return CUDA_OK;
}

static int set_access(cuda_pointer at, size_t n_bytes, const struct cuda_access *access,
                      size_t n)
{
    const struct range *range = find(at);
    int result = failing();
    void *mapped;

    weft_check(n == 1 && access->location_type == CUDA_LOCATION_DEVICE &&
               access->flags == CUDA_ACCESS_READ_WRITE && range->n_bytes == n_bytes);
    if (result != CUDA_OK) {
        return result;
    }
    mapped = mmap(range->at, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                  physicals[range->physical].fd, 0);
    return mapped == range->at ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

static int range_of(cuda_pointer *out_base, size_t *out_n_bytes, cuda_pointer at)
{
    const struct range *range = find(at);

    if (range == NULL) {
        return before.range(out_base, out_n_bytes, at);
    }
    *out_base = (uintptr_t)range->at;
    *out_n_bytes = range->n_bytes;
    return CUDA_OK;
}

static int pointer(void *out, int which, cuda_pointer at)
{
    const struct range *range = find(at);
    unsigned long long number = 0;

    if (range == NULL || range->physical == 0) {
        return before.pointer(out, which, at);
    }
    number = which == CUDA_PTR_BUFFER_ID      ? range->id
             : which == CUDA_PTR_MEMORY_TYPE  ? CUDA_MEMORY_DEVICE
             : which == CUDA_PTR_HANDLE_KINDS ? physicals[range->physical].kinds
                                              : 0;
    if (which == CUDA_PTR_BUFFER_ID || which == CUDA_PTR_HANDLE_KINDS) {
        memcpy(out, &number, sizeof(number));
    } else {
        memcpy(out, &number, sizeof(unsigned));
    }
    return CUDA_OK;
}

void virtual_testing(struct cuda_driver *driver)
{
    before = *driver;
    virtual_now = (struct virtual_testing){.n_physical = 0};
    driver->range = range_of;
    driver->pointer = pointer;
    driver->physical = physical;
    driver->physical_release = physical_release;
    driver->physical_export = physical_export;
    driver->physical_import = physical_import;
    driver->reserve = reserve;
    driver->unreserve = unreserve;
    driver->map = map;
    driver->unmap = unmap;
    driver->set_access = set_access;
}

cuda_pointer virtual_testing_create(size_t n_bytes, unsigned kinds)
{
    const struct cuda_access access = {CUDA_LOCATION_DEVICE, 0, CUDA_ACCESS_READ_WRITE};
    int fd = memfd_create("weft-virtual", MFD_CLOEXEC);
    cuda_physical number;
    cuda_pointer at = 0;

    weft_check(fd > 0 && ftruncate(fd, (off_t)n_bytes) == 0);
    number = add(fd, n_bytes, kinds);
    weft_check(reserve(&at, n_bytes, 0, 0, 0) == CUDA_OK &&
               map(at, n_bytes, 0, number, 0) == CUDA_OK &&
               set_access(at, n_bytes, &access, 1) == CUDA_OK);
    (void)physical_release(number);
    return at;
}

cuda_pointer virtual_testing_of_pool(size_t n_bytes, unsigned kinds)
{
    cuda_pointer at = virtual_testing_create(n_bytes, kinds);

    find(at)->is_of_pool = true;
    return at;
}

void virtual_testing_free(cuda_pointer at)
{
    size_t n_bytes = find(at)->n_bytes;

    (void)unmap(at, n_bytes);
    (void)unreserve(at, n_bytes);
}
