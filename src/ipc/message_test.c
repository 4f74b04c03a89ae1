/* Tests encoding and decoding of every message, and rejection of invalid ones. */
#include "ipc/message.h"

#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"

static struct io_gpu_export an_export(void)
{
    struct io_gpu_export exported = {.kind = IO_GPU_HANDLE_FABRIC,
                                     .base = 0x7f0000001000u,
                                     .n_bytes = 4096,
                                     .buffer_id = 77};

    memset(exported.handle.bytes, 0xab, sizeof(exported.handle.bytes));
    return exported;
}

static struct ipc_identity an_identity(void)
{
    struct ipc_identity identity = {.nonce = {1, 2},
                                    .host = {3, 4},
                                    .gpu = {.uuid = "GPU-1",
                                            .pci_bus_id = "0000:0f:00.0",
                                            .ordinal = 1,
                                            .driver = 13000,
                                            .kinds = 5,
                                            .cluster = {9},
                                            .clique = 2,
                                            .pid = 3,
                                            .pid_ns = 4},
                                    .has_probe = true};

    identity.probe = an_export();
    return identity;
}

static const uint8_t chunk[3] = {7, 8, 9};

static struct ipc_message a_message(enum ipc_type type)
{
    struct ipc_message message = {.type = type,
                                  .epoch = 3,
                                  .about = 2,
                                  .is_again = true,
                                  .reason = IPC_NO_KIND,
                                  .transfer = 12345678901234u,
                                  .n_bytes = 99,
                                  .chunk = chunk,
                                  .n_chunk = sizeof(chunk),
                                  .generation = 6,
                                  .buffer_id = 7,
                                  .original = 11};

    message.identity = an_identity();
    message.offer = (struct ipc_offer){
        .generation = 8, .offset = 96, .n_bytes = 4000, .event = {{1, 2, 3}}};
    message.offer.memory = an_export();
    return message;
}

/* A message decodes to one that encodes to the same bytes. Shorter and longer ones are rejected. */
START_TEST(each_comes_back_as_it_was)
{
    static uint8_t bytes[IPC_MESSAGE_MAX], again[IPC_MESSAGE_MAX];
    struct ipc_message message = a_message((enum ipc_type)_i), decoded;
    size_t n = ipc_encode(&message, bytes);

    ck_assert_int_eq(ipc_decode(bytes, n, &decoded, NULL), WEFT_OK);
    ck_assert_uint_eq(ipc_encode(&decoded, again), n);
    ck_assert_mem_eq(bytes, again, n);
    if (_i != IPC_CHUNK) {
        for (size_t i = 0; i < n; i++) {
            ck_assert_int_eq(ipc_decode(bytes, i, &decoded, NULL), WEFT_ERR_PROTOCOL);
        }
        ck_assert_int_eq(ipc_decode(bytes, n + 1, &decoded, NULL), WEFT_ERR_PROTOCOL);
    }
}
END_TEST

START_TEST(what_an_offer_says_must_lie_in_its_allocation)
{
    static uint8_t bytes[IPC_MESSAGE_MAX];
    struct ipc_message message = a_message(IPC_OFFER), decoded;

    message.offer.n_bytes = 4001;
    ck_assert_int_eq(ipc_decode(bytes, ipc_encode(&message, bytes), &decoded, NULL),
                     WEFT_ERR_PROTOCOL);
    message.offer.n_bytes = UINT64_MAX;
    ck_assert_int_eq(ipc_decode(bytes, ipc_encode(&message, bytes), &decoded, NULL),
                     WEFT_ERR_PROTOCOL);
    message = a_message(IPC_OFFER);
    message.offer.memory.base = UINT64_MAX - 100;
    ck_assert_int_eq(ipc_decode(bytes, ipc_encode(&message, bytes), &decoded, NULL),
                     WEFT_ERR_PROTOCOL);
}
END_TEST

START_TEST(names_are_there_for_all)
{
    for (uint32_t i = 1; i <= IPC_GO; i++) {
        ck_assert_ptr_nonnull(ipc_type_name(i));
    }
    ck_assert_ptr_null(ipc_type_name(0));
    ck_assert_ptr_null(ipc_type_name(IPC_GO + 1));
    for (int i = 0; i < IPC_N_REASONS; i++) {
        ck_assert_uint_gt(strlen(ipc_reason_name((enum ipc_reason)i)), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ipc message");
    TCase *tcase = tcase_create("message");

    tcase_add_loop_test(tcase, each_comes_back_as_it_was, IPC_HELLO, IPC_GO + 1);
    tcase_add_test(tcase, what_an_offer_says_must_lie_in_its_allocation);
    tcase_add_test(tcase, names_are_there_for_all);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
