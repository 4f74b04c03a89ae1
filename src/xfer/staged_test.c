/* GPU memory that no NIC reaches, staged through the host: every byte, and how fast, by the number
 * of pieces. The hosts are as two DGX Sparks with one cable: its two functions are two rails of
 * 100 Gb/s, each behind PCIe of its own, and the GPU copies at 200 GB/s. */
#include "xfer/staged.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "xfer/grid_testing.h"

#define MIB ((size_t)1 << 20)

static struct grid grid;
static struct staged ends[2]; /* sender, receiver */
static uint8_t *memory[2];    /* of their GPUs */
static size_t memory_bytes;
static const struct fabric_cable twins[] = {{0, 1}, {0, 1}};

static void open_pair(uint64_t pcie_root_bps, uint32_t n_pieces, size_t piece_bytes,
                      size_t n_bytes)
{
    struct weft_error error = {0};

    grid_open(&grid, &(struct fabric_config){.n_hosts = 2,
                                             .cables = twins,
                                             .n_cables = 2,
                                             .pcie_root_bps = pcie_root_bps});
    grid_route(&grid, 0, 1, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    memory_bytes = n_bytes;
    memset(ends, 0, sizeof(ends));
    for (uint32_t i = 0; i < 2; i++) {
        struct fabric_host *host = &grid.fabric.hosts[i];
        void *at;

        ck_assert_int_eq(
            host->env->gpu->ops->alloc(host->env->gpu, IO_MEMORY_DEVICE, n_bytes, &at),
            0);
        memory[i] = at;
        ck_assert_int_eq(
            staged_open(&ends[i],
                        &(struct staged_config){.flow = i == 0 ? grid.flows[0].out
                                                               : grid.flows[0].in,
                                                .gpu = host->env->gpu,
                                                .task = &host->task,
                                                .n_pieces = n_pieces,
                                                .piece_bytes = piece_bytes},
                        &error),
            WEFT_OK);
        while (!ends[i].is_registered) {
            ck_assert_int_eq(staged_progress(&ends[i]), WEFT_OK);
            (void)fabric_step(&grid.fabric, 10 * FABRIC_S);
        }
    }
}

static void close_pair(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct io_gpu *gpu = grid.fabric.hosts[i].env->gpu;

        staged_close(&ends[i]);
        gpu->ops->free(gpu, memory[i]);
    }
    grid_close(&grid);
}

static uint8_t byte_of(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 10) + (i >> 20));
}

/* Messages of these lengths, one after another in memory; returns the time they took. */
static weft_ns send_all(const size_t *sizes, uint32_t n)
{
    weft_ns began = fabric_now(&grid.fabric);
    uint32_t n_posted[2] = {0}, n_done[2] = {0};
    size_t at[2] = {0};

    for (size_t i = 0; i < memory_bytes; i++) {
        memory[0][i] = byte_of(i);
    }
    memset(memory[1], 0, memory_bytes);
    while (n_done[0] < n || n_done[1] < n) {
        for (uint32_t i = 0; i < 2; i++) {
            while (n_posted[i] < n && staged_post(&ends[i], memory[i] + at[i],
                                                  sizes[n_posted[i]]) == WEFT_OK) {
                at[i] += sizes[n_posted[i]++];
            }
            ck_assert_msg(staged_progress(&ends[i]) == WEFT_OK, "end %u: %s", i,
                          ends[i].error.message);
            while (n_done[i] < n_posted[i] && staged_test(&ends[i]) == WEFT_OK) {
                n_done[i]++;
            }
        }
        ck_assert_msg(fabric_step(&grid.fabric, began + 10 * FABRIC_S) ||
                          (n_done[0] == n && n_done[1] == n),
                      "%u sent, %u received", n_done[0], n_done[1]);
    }
    ck_assert(memcmp(memory[0], memory[1], at[1]) == 0);
    return fabric_now(&grid.fabric) - began;
}

/* Lengths of no bytes, of less than a piece, of exactly some, of some and a bit. */
START_TEST(messages_of_all_lengths_come_right)
{
    const size_t sizes[] = {0, 1,     4095, 4096, 4097, 0,    65536, 100001, 7, 40960,
                            0, 12288, 3,    2,    1,    8192, 8191,  8193,   0, 5000};
    const uint32_t n_pieces[] = {1, 2, 3, 16};
    size_t n_bytes = 0;

    for (size_t i = 0; i < WEFT_LENGTH(sizes); i++) {
        n_bytes += sizes[i];
    }
    open_pair(0, n_pieces[_i], 4096, n_bytes);
    (void)send_all(sizes, WEFT_LENGTH(sizes));
    close_pair();
}
END_TEST

/* Per mille of what the slowest of wire, PCIe and copy allows; of 4096 bytes of payload 4178 and
 * 20 of preamble and gap are on the wire, 4178 on PCIe. */
static int64_t per_mille(uint64_t pcie_root_bps, uint32_t n_pieces)
{
    const size_t size = 8 * MIB;
    uint64_t wire_bps = (uint64_t)200000000000u * 4096 / 4198;
    uint64_t pcie_bps = pcie_root_bps * 4096 / 4178;
    uint64_t copy_bps = (uint64_t)200000000000u * 8;
    uint64_t least = pcie_root_bps > 0 && pcie_bps < wire_bps ? pcie_bps : wire_bps;
    weft_ns took;

    least = copy_bps < least ? copy_bps : least;
    open_pair(pcie_root_bps, n_pieces, 256 << 10, size);
    took = send_all(&size, 1);
    close_pair();
    return (int64_t)((uint64_t)size * 8 * 1000000000u / (uint64_t)took * 1000 / least);
}

START_TEST(four_pieces_keep_the_slowest_busy)
{
    static const uint64_t roots_bps[] = {0, 126000000000u, 60000000000u};
    static const uint32_t counts[] = {1, 2, 4, 8, 16};
    int64_t before = 0;

    for (size_t i = 0; i < WEFT_LENGTH(counts); i++) {
        int64_t reached = per_mille(roots_bps[_i], counts[i]);

        printf("PCIe %llu Gb/s, %u pieces: %lld of 1000\n",
               (unsigned long long)(roots_bps[_i] / 1000000000u), counts[i],
               (long long)reached);
        ck_assert_int_le(reached, 1000);
        ck_assert_int_ge(reached + 20, before);
        if (counts[i] == 1) {
            ck_assert_int_lt(reached, 900);
        }
        if (counts[i] >= 4) {
            ck_assert_int_ge(reached, 900);
        }
        before = reached;
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/staged");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, messages_of_all_lengths_come_right, 0, 4);
    tcase_add_loop_test(tcase, four_pieces_keep_the_slowest_busy, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
