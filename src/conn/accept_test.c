/* Tests which client of a full listener loses its place to a newcomer (client_place()). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "conn/client.h"

enum { PLACES = 24, SOURCES = 5 };

static struct weft_rng rng;

static void draw(struct io_env *env, void *out, size_t n_bytes)
{
    (void)env;
    weft_rng_bytes(&rng, out, n_bytes);
}

static const struct io_env_ops ops = {.random = draw};
static struct io_env env = {.ops = &ops};
static const struct client_identity identity = {.key = {1, 2, 3}};

static struct io_ip source_of(uint32_t n)
{
    return io_ip_v4(10, 0, 0, (uint8_t)n);
}

static struct client *place_for(struct client *clients, uint32_t source)
{
    const struct io_ip ip = source_of(source);

    return client_place(clients, PLACES, &env, &identity, &ip);
}

static struct client make(uint32_t source, enum client_state state, bool is_vouched)
{
    return (struct client){
        .state = state, .is_vouched = is_vouched, .source.ip = source_of(source)};
}

static bool is_vouched(const struct client *client)
{
    return client->state == CLIENT_AUTH && client->is_vouched;
}

static bool is_authenticated(const struct client *client)
{
    return client->state == CLIENT_FACTS;
}

/* Returns how many clients of the source can lose their place. Clients with a voucher count only if
 * `vouched` is true. */
static uint32_t n_of(const struct client *clients, uint32_t source, bool vouched)
{
    const struct io_ip ip = source_of(source);
    uint32_t n = 0;

    for (uint32_t i = 0; i < PLACES; i++) {
        n += !is_authenticated(&clients[i]) && (vouched || !is_vouched(&clients[i])) &&
             io_ip_equal(&clients[i].source.ip, &ip);
    }
    return n;
}

/* Checks each rule of client_place() for the client that loses its place to a newcomer from
 * `source`. */
static void check_victim(const struct client *clients, const struct client *victim,
                         uint32_t source)
{
    const struct io_ip ip = source_of(source);
    uint32_t of_victim = 0;
    uint32_t most = 0;
    bool vouched = is_vouched(victim);

    ck_assert(!is_authenticated(victim));
    for (uint32_t s = 0; s < SOURCES; s++) {
        const struct io_ip other = source_of(s);
        uint32_t n = n_of(clients, s, vouched);

        most = n > most ? n : most;
        of_victim = io_ip_equal(&other, &victim->source.ip) ? n : of_victim;
        ck_assert(!vouched || n_of(clients, s, false) == 0);
    }
    if (!io_ip_equal(&victim->source.ip, &ip)) {
        ck_assert_uint_eq(of_victim, most);
        ck_assert_uint_lt(n_of(clients, source, vouched) + 1, most + (most == 1));
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        bool is_same = io_ip_equal(&clients[i].source.ip, &victim->source.ip);

        ck_assert(!is_same || clients[i].state != CLIENT_HELLO ||
                  victim->state == CLIENT_HELLO);
    }
}

START_TEST(the_rule_holds_for_any_crowd)
{
    uint32_t n_other_sources = 0;

    weft_rng_init(&rng, 1, "crowds");
    for (uint32_t k = 0; k < SWEEP(20000); k++) {
        struct client clients[PLACES];
        uint32_t n_sources = 1 + (uint32_t)weft_rng_below(&rng, SOURCES);
        uint64_t n_states = 1 + weft_rng_below(&rng, 4);
        uint32_t source = (uint32_t)weft_rng_below(&rng, n_sources);
        const struct io_ip ip = source_of(source);
        struct client *victim;

        for (uint32_t i = 0; i < PLACES; i++) {
            uint64_t state = weft_rng_below(&rng, n_states);

            clients[i] = make((uint32_t)weft_rng_below(&rng, n_sources),
                              state == 0   ? CLIENT_HELLO
                              : state == 3 ? CLIENT_FACTS
                                           : CLIENT_AUTH,
                              state == 2);
        }
        victim = place_for(clients, source);
        ck_assert_ptr_nonnull(victim);
        check_victim(clients, victim, source);
        n_other_sources += !io_ip_equal(&victim->source.ip, &ip);
    }
    ck_assert_uint_gt(n_other_sources, SWEEP(20000) / 20);
}
END_TEST

START_TEST(a_free_place_is_taken_first)
{
    struct client clients[PLACES];

    for (uint32_t i = 0; i < PLACES; i++) {
        clients[i] = make(0, i == 17 ? CLIENT_NONE : CLIENT_HELLO, false);
    }
    ck_assert_ptr_eq(place_for(clients, 0), &clients[17]);
}
END_TEST

START_TEST(no_authenticated_client_goes)
{
    struct client clients[PLACES];

    for (uint32_t i = 0; i < PLACES; i++) {
        clients[i] = make(0, CLIENT_FACTS, false);
    }
    ck_assert_ptr_null(place_for(clients, 1));
    clients[3] = make(0, CLIENT_AUTH, true);
    ck_assert_ptr_eq(place_for(clients, 1), &clients[3]);
}
END_TEST

/* Among equal clients, a client outlasts about as many newcomers as there are places on average. */
START_TEST(among_equals_chance_decides)
{
    uint32_t n_lived = 0;

    weft_rng_init(&rng, 2, "chance");
    for (uint32_t k = 0; k < 200; k++) {
        struct client clients[PLACES];

        for (uint32_t i = 0; i < PLACES; i++) {
            clients[i] = make(0, CLIENT_HELLO, false);
        }
        while (place_for(clients, 0) != &clients[5]) {
            n_lived++;
        }
    }
    ck_assert_uint_gt(n_lived, 200 * PLACES * 3 / 4);
    ck_assert_uint_lt(n_lived, 200 * PLACES * 4 / 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conn/accept");
    TCase *all = tcase_create("places");

    tcase_add_test(all, the_rule_holds_for_any_crowd);
    tcase_add_test(all, a_free_place_is_taken_first);
    tcase_add_test(all, no_authenticated_client_goes);
    tcase_add_test(all, among_equals_chance_decides);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
