/* Selects one of several GPUs and its kernels. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/private.h"
#include "base/check.h"
#include "base/text.h"

#define KERNELS_BYTES_MAX ((size_t)64 << 20)

/* Copies entry `index` modulo the number of entries of a comma-separated list. */
static void take_entry(const char *list, uint32_t index, char *out, size_t n_bytes)
{
    uint32_t n = 1;

    for (const char *at = list; *at != '\0'; at++) {
        n += *at == ',';
    }
    for (index %= n; index > 0; index--) {
        list = strchr(list, ',') + 1;
    }
    weft_format(out, n_bytes, "%.*s", (int)strcspn(list, ","), list);
}

static weft_status by_uuid(const struct cuda_driver *driver, int n, const char *begins,
                           unsigned *out, struct weft_error *error)
{
    int found = -1;

    for (int i = 0; i < n; i++) {
        struct cuda_uuid bytes;
        cuda_device device;
        char text[48];

        if (driver->device(&device, i) != CUDA_OK ||
            driver->uuid(&bytes, device) != CUDA_OK) {
            continue;
        }
        cuda_format_uuid(&bytes, text, sizeof(text));
        if (strncmp(text, begins, strlen(begins)) != 0) {
            continue;
        }
        if (found >= 0) {
            return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_CUDA,
                             "several devices have a UUID that begins with %s", begins);
        }
        found = i;
    }
    *out = (unsigned)found;
    return found >= 0
               ? WEFT_OK
               : weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA,
                           "no CUDA device is %s, of %d that are visible", begins, n);
}

static weft_status find(const struct cuda_driver *driver, const char *which,
                        uint32_t process, unsigned *out, struct weft_error *error)
{
    char entry[48], *end;
    int n = 0, result = driver->count(&n);
    unsigned long number;

    if (result != CUDA_OK || n <= 0) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA, "no CUDA device");
    }
    *out = process % (unsigned)n;
    if (which == NULL) {
        return WEFT_OK;
    }
    take_entry(which, process, entry, sizeof(entry));
    if (strncmp(entry, "GPU-", 4) == 0) {
        return by_uuid(driver, n, entry, out, error);
    }
    number = strtoul(entry, &end, 10);
    if (entry[0] < '0' || entry[0] > '9' || *end != '\0') {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_CUDA,
                         "a device is an ordinal or GPU-..., not %.40s", entry);
    }
    if (number >= (unsigned long)n) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA,
                         "no CUDA device %s, of %d that are visible", entry, n);
    }
    *out = (unsigned)number;
    return WEFT_OK;
}

/* Reads a kernel image and appends a NUL, because the CUDA driver requires PTX to be
 * terminated. */
static weft_status read_kernels(const char *path, char **out, struct weft_error *error)
{
    FILE *file = fopen(path, "rb");
    size_t n = 0;
    long size = -1;

    *out = NULL;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
    }
    if (size > 0 && (size_t)size <= KERNELS_BYTES_MAX && fseek(file, 0, SEEK_SET) == 0) {
        *out = weft_calloc((size_t)size + 1, 1);
        n = fread(*out, 1, (size_t)size, file);
    }
    if (file != NULL) {
        fclose(file);
    }
    if (*out == NULL || n != (size_t)size) {
        free(*out);
        *out = NULL;
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA, "no kernels in %s",
                         path);
    }
    return WEFT_OK;
}

static weft_status open_found(struct cuda_driver *driver,
                              const struct cuda_choice *choice, const char *which,
                              struct io_gpu **out, struct weft_error *error)
{
    char *file = NULL;
    unsigned ordinal = 0;
    weft_status status = find(driver, which, choice->process, &ordinal, error);

    if (status == WEFT_OK && choice->kernels != NULL) {
        status = read_kernels(choice->kernels, &file, error);
    } else if (status == WEFT_OK && cuda_built_image() == NULL) {
        status = weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA,
                           "built without nvcc, and WEFT_GPU_KERNELS names no kernels");
    }
    if (status == WEFT_OK) {
        status = cuda_open_with(driver, file != NULL ? file : cuda_built_image(), ordinal,
                                out, error);
    }
    free(file);
    return status;
}

weft_status cuda_choose(const struct cuda_choice *choice, const char *which,
                        struct io_gpu **out, struct weft_error *error)
{
    struct cuda_driver driver;
    weft_status status = cuda_driver_open(&driver, error);

    *out = NULL;
    if (status != WEFT_OK) {
        return status;
    }
    status = open_found(&driver, choice, which, out, error);
    if (status == WEFT_OK) {
        cuda_gpu_of(*out)->owns_driver = true;
    } else {
        cuda_driver_close(&driver);
    }
    return status;
}
