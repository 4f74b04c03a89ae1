/* Tests of mesh boot: processes find each other over the cables alone, gather, and learn the
 * mesh. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "boot/mesh_testing.h"

static const struct town_cable line[] = {{.a = 0, .b = 1}, {.a = 1, .b = 2}};
static const struct town_cable ring[] = {
    {.a = 0, .b = 1}, {.a = 1, .b = 2}, {.a = 2, .b = 3}, {.a = 3, .b = 4},
    {.a = 4, .b = 5}, {.a = 5, .b = 6}, {.a = 6, .b = 7}, {.a = 0, .b = 7}};
static const struct town_cable grid[] = {
    {.a = 0, .b = 1}, {.a = 1, .b = 2}, {.a = 3, .b = 4}, {.a = 4, .b = 5},
    {.a = 6, .b = 7}, {.a = 7, .b = 8}, {.a = 0, .b = 3}, {.a = 3, .b = 6},
    {.a = 1, .b = 4}, {.a = 4, .b = 7}, {.a = 2, .b = 5}, {.a = 5, .b = 8}};

static const struct shape {
    uint32_t n_hosts, n_cables;
    const struct town_cable *cables;
    const char *pairs;
} shapes[] = {
    {1, 0, NULL, ""},
    {3, 2, line, "0-1 1-2"},
    {8, 8, ring, "0-1 0-7 1-2 2-3 3-4 4-5 5-6 6-7"},
    {9, 12, grid, "0-1 0-3 1-2 1-4 2-5 3-4 3-6 4-5 4-7 5-8 6-7 7-8"},
};

static struct town_config shape_config(const struct shape *shape)
{
    return (struct town_config){
        .n_hosts = shape->n_hosts, .n_cables = shape->n_cables, .cables = shape->cables};
}

START_TEST(every_shape_gathers_and_knows_itself)
{
    static const size_t sizes[] = {8, 0, 0, 1, 4097, 65536, 3};
    struct town_config config = shape_config(&shapes[_i]);
    struct town town;

    town_open(&town, &config);
    town_open_all(&town);
    for (uint8_t i = 0; i < WEFT_LENGTH(sizes); i++) {
        town_round(&town, (uint8_t)(i + 1), sizes[i]);
    }
    ck_assert_int_lt(town_now(&town), TOWN_S);
    town_run(&town, TOWN_S, NULL);
    for (uint32_t i = 0; i < town.n_members; i++) {
        ck_assert_str_eq(town_pairs(&town, i), shapes[_i].pairs);
        ck_assert(boot_reaches(town.members[i].boot, 0));
    }
    town_close(&town);
}
END_TEST

/* Each end reports the port of the other. */
START_TEST(links_say_which_ports_face_each_other)
{
    struct town_config config = shape_config(&shapes[3]);
    struct boot_link links[64];
    struct town town;
    uint32_t n;

    town_open(&town, &config);
    town_open_all(&town);
    town_round(&town, 1, 8);
    town_run(&town, TOWN_S, NULL);
    n = boot_links(town.members[8].boot, links, WEFT_LENGTH(links));
    ck_assert_uint_eq(n, config.n_cables);
    ck_assert_uint_eq(boot_links(town.members[8].boot, NULL, 0), n);
    for (uint32_t i = 0; i < n; i++) {
        bool found = false;

        for (uint32_t c = 0; c < config.n_cables; c++) {
            found = found || (grid[c].a == links[i].a && grid[c].b == links[i].b &&
                              town.ports[c][0] == links[i].a_port &&
                              town.ports[c][1] == links[i].b_port);
        }
        ck_assert_msg(found, "%u.%u-%u.%u", links[i].a, links[i].a_port, links[i].b,
                      links[i].b_port);
    }
    town_close(&town);
}
END_TEST

START_TEST(splitting_the_streams_changes_nothing)
{
    static const char *const chunks[] = {"1", "3", "11", "12", "13", "59", "61"};
    struct town_config config = {
        .n_hosts = 3, .n_cables = 2, .cables = line, .tcp_chunk = chunks[_i]};
    struct town town;

    town_open(&town, &config);
    town_open_all(&town);
    town_round(&town, 1, 100);
    town_round(&town, 2, 0);
    town_close(&town);
}
END_TEST

START_TEST(link_local_addresses_are_enough)
{
    struct town_config config = {
        .n_hosts = 3, .n_cables = 2, .cables = line, .no_ipv4 = true};
    struct town town;

    town_open(&town, &config);
    town_open_all(&town);
    town_round(&town, 1, 100);
    town_close(&town);
}
END_TEST

/* One rank starts late; the others wait for it. */
START_TEST(a_slow_starter_is_waited_for)
{
    struct town_config config = shape_config(&shapes[1]);
    uint32_t slow = (uint32_t)_i;
    struct town town;

    town_open(&town, &config);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != slow) {
            town_member_open(&town, i);
            town_gather(&town, i, 1, 8);
        }
    }
    ck_assert(!town_run(&town, 40 * TOWN_S, town_all_done));
    town_member_open(&town, slow);
    ck_assert(!town_run(&town, 15 * TOWN_S, town_all_done));
    town_gather(&town, slow, 1, 8);
    ck_assert(town_run(&town, TOWN_S, town_all_done));
    for (uint32_t i = 0; i < 3; i++) {
        town_check(&town, i, 1, 8);
    }
    town_close(&town);
}
END_TEST

/* A fast rank is one round ahead of the slowest, never more. */
START_TEST(a_round_ahead)
{
    struct town_config config = shape_config(&shapes[2]);
    struct town town;

    town_open(&town, &config);
    town_open_all(&town);
    town_round(&town, 1, 500);
    for (uint8_t round = 2; round < 7; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            town_gather(&town, (i + round) % 8, round, 300);
            town_run(&town, 10 * TOWN_MS, NULL);
            ck_assert(i == 7 || !town_all_done(&town));
        }
        ck_assert(town_run(&town, TOWN_S, town_all_done));
        for (uint32_t i = 0; i < 8; i++) {
            town_check(&town, i, round, 300);
        }
    }
    town_close(&town);
}
END_TEST

/* The host between two ranks has no rank. */
START_TEST(relays_take_part_without_a_rank)
{
    static const struct town_cable through[] = {{.a = 0, .b = 2}, {.a = 2, .b = 1}};
    struct town_config config = {.n_hosts = 3, .n_cables = 2, .cables = through};
    struct town town;

    town_open(&town, &config);
    for (uint32_t i = 0; i < 3; i++) {
        town.members[i].config.n_ranks = 2;
        town.members[i].config.n_members = 3;
    }
    town_open_all(&town);
    town_round(&town, 1, 40);
    town_round(&town, 2, 0);
    ck_assert_str_eq(town_pairs(&town, 0), "0-2 1-2");
    town_close(&town);
}
END_TEST

/* Two hosts with a cable and two processes each; then one host with three processes and no live
 * cable. */
START_TEST(processes_of_one_host_find_each_other)
{
    struct town_config two = {
        .n_hosts = 2, .n_cables = 1, .cables = line, .n_processes = 2};
    struct town_cable dead = {.a = 0, .b = 1, .is_down = true};
    struct town_config one = {
        .n_hosts = 2, .n_cables = 1, .cables = &dead, .n_processes = 3};
    struct town town;

    town_open(&town, &two);
    town_open_all(&town);
    town_round(&town, 1, 77);
    town_round(&town, 2, 0);
    town_run(&town, TOWN_S, NULL);
    ck_assert_str_eq(town_pairs(&town, 3), "0-1 0-2 0-3 1-2 1-3 2-3");
    town_close(&town);
    town_open(&town, &one);
    for (uint32_t i = 0; i < 3; i++) {
        town.members[i].config.n_ranks = 3;
        town_member_open(&town, i);
    }
    town_round(&town, 1, 77);
    town_run(&town, TOWN_S, NULL);
    ck_assert_str_eq(town_pairs(&town, 0), "0-1 0-2 1-2");
    town_close(&town);
}
END_TEST

/* Both jobs use the same cables and announcement port. */
START_TEST(jobs_of_different_keys_do_not_mix)
{
    struct town_config config = {
        .n_hosts = 3, .n_cables = 2, .cables = line, .n_processes = 2};
    struct town town;

    town_open(&town, &config);
    for (uint32_t i = 0; i < 6; i++) {
        town.members[i].config.rank = i / 2;
        town.members[i].config.n_ranks = 3;
        town.members[i].config.job_key[31] = (uint8_t)(i % 2);
    }
    for (uint32_t i = 0; i < 6; i++) {
        if (i != 3) { /* job 1 lacks its middle member */
            town_member_open(&town, i);
            town_gather(&town, i, 1, 9);
        }
    }
    town_run(&town, 5 * TOWN_S, NULL);
    for (uint32_t i = 0; i < 6; i += 2) {
        town_check(&town, i, 1, 9);
        ck_assert_str_eq(town_pairs(&town, i), "0-1 1-2");
    }
    ck_assert_int_eq(town.members[1].status, WEFT_AGAIN);
    ck_assert_int_eq(town.members[5].status, WEFT_AGAIN);
    ck_assert_str_eq(town_pairs(&town, 1), "");
    town_member_open(&town, 3);
    town_gather(&town, 3, 1, 9);
    ck_assert(town_run(&town, TOWN_S, town_all_done));
    for (uint32_t i = 1; i < 6; i += 2) {
        town_check(&town, i, 1, 9);
    }
    town_close(&town);
}
END_TEST

START_TEST(a_mesh_file_replaces_announcements)
{
    struct town_config config = shape_config(&shapes[1]);
    struct io_endpoint at[3][2] = {{{.port = 0}}};
    struct boot_neighbour neighbours[3][2];
    struct weft_error error = {0};
    struct town town;

    town_open(&town, &config);
    for (uint8_t i = 0; i < 3; i++) {
        struct boot_config *boot = &town.members[i].config;

        boot->mode = BOOT_STATIC;
        boot->control.port = 7001;
        boot->neighbours = neighbours[i];
    }
    /* The first address of rank 1 does not exist. */
    at[0][0] = (struct io_endpoint){.ip = io_ip_v4(10, 1, 0, 99), .port = 7001};
    at[0][1] = (struct io_endpoint){.ip = io_ip_v4(10, 1, 0, 2), .port = 7001};
    at[1][0] = (struct io_endpoint){.ip = io_ip_v4(10, 1, 1, 2), .port = 7001};
    neighbours[0][0] = (struct boot_neighbour){1, at[0], 2};
    neighbours[1][0] = (struct boot_neighbour){2, at[1], 1};
    town.members[0].config.n_neighbours = 1;
    town.members[1].config.n_neighbours = 1;
    town_open_all(&town);
    town_round(&town, 1, 1000);
    town_round(&town, 2, 0);
    ck_assert_str_eq(town_pairs(&town, 2), "0-1 1-2");
    neighbours[0][0].member = 3;
    ck_assert_int_eq(boot_open(town.members[0].env, &town.members[0].config, TOWN_KIND,
                               &(struct boot *){NULL}, &error),
                     WEFT_ERR_INPUT);
    town_close(&town);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, every_shape_gathers_and_knows_itself, 0,
                        WEFT_LENGTH(shapes));
    tcase_add_test(tcase, links_say_which_ports_face_each_other);
    tcase_add_loop_test(tcase, splitting_the_streams_changes_nothing, 0, 7);
    tcase_add_test(tcase, link_local_addresses_are_enough);
    tcase_add_loop_test(tcase, a_slow_starter_is_waited_for, 0, 3);
    tcase_add_test(tcase, a_round_ahead);
    tcase_add_test(tcase, relays_take_part_without_a_rank);
    tcase_add_test(tcase, processes_of_one_host_find_each_other);
    tcase_add_test(tcase, jobs_of_different_keys_do_not_mix);
    tcase_add_test(tcase, a_mesh_file_replaces_announcements);
    return suite_run(suite);
}
