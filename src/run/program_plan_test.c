#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "run/program_plan.h"

#define WORDS_MAX 16

/* Two cables between a and b; c without a rank, with a port without a cable and a port without an
 * address. */
static const char mesh[] =
    "name: t\n"
    "description: d\n"
    "topology:\n"
    "  nodes:\n"
    "    a: {ports: [p0, p1]}\n"
    "    b: {ports: [p0, p1, p2]}\n"
    "    c: {ports: [p0, p1, p2], ranks: 0}\n"
    "  links:\n"
    "    - {endpoints: [\"a:p0\", \"b:p1\"], subnet: 10.0.1.0/24}\n"
    "    - {endpoints: [\"a:p1\", \"b:p0\"], subnet: 10.0.2.0/24}\n"
    "    - {endpoints: [\"b:p2\", \"c:p0\"], subnet: 10.0.3.0/24}\n"
    "ranks: [b, a]\n"
    "jobs:\n"
    "  - barrier: {}\n";

static struct scenario *scenario;
static struct scenario_world *world;

static void set_up(void)
{
    struct scenario_diagnostics diagnostics;

    ck_assert_int_eq(
        scenario_load_text("mesh", mesh, strlen(mesh), NULL, 0, &scenario, &diagnostics),
        WEFT_OK);
    scenario_diagnostics_fini(&diagnostics);
    ck_assert_int_eq(scenario_to_world(scenario, &world), WEFT_OK);
}

static void tear_down(void)
{
    scenario_world_free(world);
    scenario_free(scenario);
}

static void device(const struct world_spec *spec, uint32_t host, uint32_t port, char *out,
                   size_t n_bytes)
{
    weft_format(out, n_bytes, "<%s.%s>", spec->hosts[host].name,
                spec->hosts[host].ports[port].name);
}

/* Plans "a -- x y : b -- z" as "0a[x][y] 1b[z]", or appends the error as "! ...". */
static void plan(const char *line, struct weft_text *out)
{
    struct weft_text why = {NULL, 0, 0};
    struct program_plan made;
    char copy[512];
    char *words[WORDS_MAX];
    size_t n = 0;
    size_t n_hosts = 0;

    weft_format(copy, sizeof(copy), "%s ", line);
    for (char *at = copy; *at != '\0'; at += strlen(at) + 1) {
        at[strcspn(at, " ")] = '\0'; /* the text ends with a blank, too */
        ck_assert_uint_lt(n, WORDS_MAX);
        words[n++] = at;
    }
    while (n_hosts < n && strcmp(words[n_hosts], "--") != 0) {
        n_hosts++;
    }
    ck_assert_uint_lt(n_hosts, n);
    weft_text_add(out, "%s", "");
    if (!program_plan_make(world, device, words, n_hosts, words + n_hosts + 1,
                           n - n_hosts - 1, &made, &why)) {
        weft_text_add(out, "! %s", why.bytes);
        ck_assert_uint_eq(made.n, 0);
    }
    for (uint32_t i = 0; i < made.n; i++) {
        weft_text_add(out, "%s%u%s", i > 0 ? " " : "", made.items[i].step,
                      world->spec.hosts[made.items[i].host].name);
        for (size_t j = 0; made.items[i].argv[j] != NULL; j++) {
            weft_text_add(out, "[%s]", made.items[i].argv[j]);
        }
    }
    program_plan_fini(&made);
    weft_text_fini(&why);
}

static const struct {
    const char *line, *expected;
} cases[] = {
    /* hosts and commands */
    {"-- x", "0a[x] 0b[x] 0c[x]"},
    {"a -- x y", "0a[x][y]"},
    {"c a -- x", "0c[x] 0a[x]"},
    {"a -- x : b -- y z", "0a[x] 1b[y][z]"},
    {"a -- x : b c -- y", "0a[x] 1b[y] 1c[y]"},
    {"a -- x : -- y", "0a[x] 1b[y] 1c[y]"},
    {"-- x : b -- y", "0a[x] 0c[x] 1b[y]"},
    {"a -- x : a -- y", "0a[x] 1a[y]"},
    {"a -- x : b -- y : c -- z", "0a[x] 1b[y] 2c[z]"},
    {"a -- x -- y", "0a[x][--][y]"},
    {"a -- x : y", "0a[x][:][y]"},
    {"a -- x :", "0a[x][:]"},
    {"a -- x : y z --", "0a[x][:][y][z][--]"},
    /* Errors in them. */
    {"other -- x", "! no such host: other (the hosts are a, b, c)"},
    {"a -- x : other -- y", "! no such host: other (the hosts are a, b, c)"},
    {"a -- x : b y", "! \"--\" is missing between \": b\" and a command"},
    {"a -- x : b", "! \"--\" is missing between \": b\" and a command"},
    {"a -- x : b c y", "! \"--\" is missing between \": c\" and a command"},
    {"a --", "! a command is missing behind \"--\""},
    {"a -- x : b --", "! a command is missing behind \"--\""},
    {"a -- : b -- y", "! a command is missing behind \"--\""},
    {"a b c -- x : -- y",
     "! a command without a host is for all that no other names, and "
     "the others name every one"},
    /* placeholders */
    {"-- {host}", "0a[a] 0b[b] 0c[c]"},
    {"a b -- -r{rank}.", "0a[-r1.] 0b[-r0.]"},
    {"c -- {rank}", "! {rank} on c: the host has no rank (ranks: 0)"},
    {"a -- {address:b} {device:b}", "0a[10.0.1.2][<a.p0>]"},
    {"a -- {address:b:p0},{device:b:p0}", "0a[10.0.2.2,<a.p1>]"},
    {"b -- {address:c} {device:c} {address:a} {device:a}",
     "0b[10.0.3.2][<b.p2>][10.0.1.1][<b.p1>]"},
    {"a -- {address:a:p1} {address:c:p0}", "0a[10.0.2.1][10.0.3.2]"},
    {"a -- {peer} {address} {device}", "0a[b][10.0.1.2][<a.p0>]"},
    {"c -- {peer} {address} {device}", "0c[b][10.0.3.1][<c.p0>]"},
    {"b -- {device} : c -- {peer} {address}", "0b[<b.p2>] 1c[b][10.0.3.1]"},
    {"b -- {peer} : a -- {peer}", "0b[a] 1a[b]"},
    {"b -- {peer}",
     "! {peer}: b has not one neighbour alone, and the commands are not for "
     "two hosts: name the other end, as in {address:a}"},
    {"a -- {peer} : c -- {peer}", "0a[c] 1c[a]"},
    {"a -- {address} : c -- x",
     "! {address} on a: no cable joins the two: {address:HOST:PORT} is the address of a "
     "port, and names of hosts stand in /etc/hosts"},
    {"a -- {device:c:p0}", "! {device:c:p0} on a: no cable leads from here to that port"},
    {"a -- {address:c:p1}", "! {address:c:p1} on a: that port has no address"},
    {"a -- {address:b:p9}",
     "! {address:b:p9} on a: that host has no port of this name; did you mean 'p0'? "
     "(its ports are p0, p1, p2)"},
    {"a -- {address:other}",
     "! {address:other}: no such host: other (the hosts are a, b, c)"},
    {"a -- {address:other:p0}",
     "! {address:other:p0}: no such host: other (the hosts are a, b, c)"},
    {"a -- {address:}",
     "! {address:}: no such host: ; did you mean 'a'? (the hosts are a, b, c)"},
    {"a -- {adress:b}",
     "! {adress:b}: no such placeholder; there are {host} {rank} {peer} {address:PEER} "
     "{device:PEER}; {{adress:b}} stays as {adress:b}"},
    {"a -- {host:b}",
     "! {host:b}: no such placeholder; there are {host} {rank} {peer} {address:PEER} "
     "{device:PEER}; {{host:b}} stays as {host:b}"},
    /* Braces that are not placeholders. */
    {"a -- {} {1} {a,b} {1..3} {A} {a-b} { {a }",
     "0a[{}][{1}][{a,b}][{1..3}][{A}][{a-b}][{][{a][}]"},
    {"a -- ${host} ${x:-y} {{host}} {{x}} {{x} {\"a\":1}",
     "! {x}: no such placeholder; there are {host} {rank} {peer} {address:PEER} "
     "{device:PEER}; {{x}} stays as {x}"},
    {"a -- ${host} ${x:-y} {{host}} {{x}} {\"a\":1} {{host",
     "0a[${host}][${x:-y}][{host}][{x}][{\"a\":1}][{{host]"},
    {"a -- {{{host}}} x{host}{rank}y", "0a[{{host}}][xa1y]"},
};

START_TEST(a_command_line_says_what_runs_where)
{
    struct weft_text text = {NULL, 0, 0};

    plan(cases[_i].line, &text);
    ck_assert_str_eq(text.bytes, cases[_i].expected);
    weft_text_fini(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/program_plan");
    TCase *tcase = tcase_create("program_plan");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_command_line_says_what_runs_where, 0,
                        (int)WEFT_LENGTH(cases));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
