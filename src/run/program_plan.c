#include "run/program_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scenario/diagnose.h"

#define NO_HOST UINT32_MAX
#define LETTERS "abcdefghijklmnopqrstuvwxyz"

struct parse {
    const struct scenario_world *world;
    program_device_name device;
    struct program_group *groups; /* Owned [n_groups] */
    size_t n_groups;
    bool *is_named; /* Owned [n_hosts of the world]; true if a command names the host */
    uint32_t n_named;
    struct program_plan *out;
    struct weft_text *why;
};

/* ---- hosts ---- */

static uint32_t find_host(const struct world_spec *spec, const char *name, size_t n)
{
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        if (strlen(spec->hosts[i].name) == n &&
            strncmp(spec->hosts[i].name, name, n) == 0) {
            return i;
        }
    }
    return NO_HOST;
}

static void add_hosts(const struct world_spec *spec, struct weft_text *out)
{
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        weft_text_add(out, "%s%s", i > 0 ? ", " : "", spec->hosts[i].name);
    }
}

static bool refuse_host(const struct parse *parse, const char *before, const char *name)
{
    const struct world_spec *spec = &parse->world->spec;
    const char **names = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*names));
    char quoted[DIAGNOSE_QUOTE_BYTES];
    char hint[64];

    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        names[i] = spec->hosts[i].name;
    }
    weft_text_add(parse->why, "%sno such host: %s%s (the hosts are ", before,
                  diagnose_quote(name, quoted),
                  diagnose_hint(name, names, spec->n_hosts, hint, sizeof(hint)));
    add_hosts(spec, parse->why);
    weft_text_add(parse->why, ")");
    free(names);
    return false;
}

/* ---- commands ---- */

static bool is_word(const struct program_group *all, size_t at, const char *word)
{
    return at < all->n_words && strcmp(all->words[at], word) == 0;
}

/* Returns how many host names follow, starting at word `at`. */
static size_t names_at(const struct parse *parse, const struct program_group *all,
                       size_t at)
{
    size_t n = 0;

    while (at + n < all->n_words && find_host(&parse->world->spec, all->words[at + n],
                                              strlen(all->words[at + n])) != NO_HOST) {
        n++;
    }
    return n;
}

static void add_group(struct parse *parse, const struct program_group *group)
{
    parse->groups =
        weft_realloc(parse->groups, (parse->n_groups + 1) * sizeof(*parse->groups));
    parse->groups[parse->n_groups++] = *group;
}

/* Splits the words at each ":" that begins another command. */
static bool divide(struct parse *parse, const struct program_group *all)
{
    struct program_group group = {
        .hosts = all->hosts, .n_hosts = all->n_hosts, .words = all->words};

    for (size_t i = 0; i < all->n_words; i++) {
        size_t n = is_word(all, i, ":") ? names_at(parse, all, i + 1) : 0;

        if (is_word(all, i, ":") && n == 0 && is_word(all, i + 2, "--") &&
            !is_word(all, i + 1, "--")) {
            return refuse_host(parse, "", all->words[i + 1]);
        }
        if (n > 0 && !is_word(all, i + 1 + n, "--")) {
            weft_text_add(parse->why, "\"--\" is missing between \": %s\" and a command",
                          all->words[i + n]);
            return false;
        }
        if (is_word(all, i, ":") && is_word(all, i + 1 + n, "--")) {
            add_group(parse, &group);
            group = (struct program_group){.hosts = all->words + i + 1,
                                           .n_hosts = n,
                                           .words = all->words + i + 1 + n + 1};
            i += n + 1;
        } else {
            group.n_words++;
        }
    }
    add_group(parse, &group);
    return true;
}

/* ---- placeholders ---- */

/* The context in which a word of a host's command is expanded. */
struct place {
    const struct parse *parse;
    const struct world_spec *spec;
    uint32_t host;
    const char *text; /* the placeholder [n] with its braces, for messages */
    size_t n;
};

static bool refuse(const struct place *place, const char *reason)
{
    weft_text_add(place->parse->why, "%.*s on %s: %s", (int)place->n, place->text,
                  place->spec->hosts[place->host].name, reason);
    return false;
}

static bool add_rank(const struct place *place, struct weft_text *out)
{
    const struct scenario_world *world = place->parse->world;

    for (uint32_t i = 0; i < world->n_ranks; i++) {
        if (world->ranks[i].host == place->host) {
            weft_text_add(out, "%u", i);
            return true;
        }
    }
    return refuse(place, "the host has no rank (ranks: 0)");
}

/* Returns NO_HOST if there are none or several. */
static uint32_t only_neighbour(const struct place *place)
{
    uint32_t found = NO_HOST;

    for (uint32_t i = 0; i < place->spec->n_hosts; i++) {
        uint32_t ports[2];

        if (i == place->host ||
            !world_facing(place->spec, place->host, i, &ports[0], &ports[1])) {
            continue;
        }
        if (found != NO_HOST) {
            return NO_HOST;
        }
        found = i;
    }
    return found;
}

/* Returns the other host if the commands name two, otherwise the only neighbour. */
static uint32_t find_peer(const struct place *place)
{
    const struct parse *parse = place->parse;

    for (uint32_t i = 0; i < place->spec->n_hosts && parse->n_named == 2; i++) {
        if (parse->is_named[i] && i != place->host) {
            return i;
        }
    }
    return only_neighbour(place);
}

static bool refuse_peer(const struct place *place)
{
    weft_text_add(
        place->parse->why,
        "%.*s: %s has not one neighbour alone, and the commands are not for two "
        "hosts: name the other end, as in {address:%s}",
        (int)place->n, place->text, place->spec->hosts[place->host].name,
        place->spec->hosts[place->host == 0 ? place->spec->n_hosts - 1 : 0].name);
    return false;
}

static bool refuse_port(const struct place *place, const struct world_host *host,
                        const char *name)
{
    struct weft_text *why = place->parse->why;
    const char **names = weft_calloc((size_t)host->n_ports + 1, sizeof(*names));
    char hint[64];

    for (uint32_t i = 0; i < host->n_ports; i++) {
        names[i] = host->ports[i].name;
    }
    refuse(place, "that host has no port of this name");
    weft_text_add(why, "%s (its ports are ",
                  diagnose_hint(name, names, host->n_ports, hint, sizeof(hint)));
    for (uint32_t i = 0; i < host->n_ports; i++) {
        weft_text_add(why, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    weft_text_add(why, ")");
    free(names);
    return false;
}

/* Both ends of the cable that a placeholder refers to. */
struct ends {
    bool has_own; /* false if no cable connects this host to that port */
    uint32_t own_port, peer, peer_port;
};

static bool find_port(const struct place *place, uint32_t peer, const char *name,
                      struct ends *out)
{
    const struct world_host *host = &place->spec->hosts[peer];

    out->peer = peer;
    out->peer_port = world_port_index(host, name);
    if (out->peer_port == host->n_ports) {
        return refuse_port(place, host, name);
    }
    for (uint32_t i = 0; i < place->spec->n_cables; i++) {
        const struct world_end *ends = place->spec->cables[i].ends;

        for (unsigned side = 0; side < 2; side++) {
            if (!ends[side].is_switch && !ends[1 - side].is_switch &&
                ends[side].node == place->host && ends[1 - side].node == peer &&
                ends[1 - side].port == out->peer_port) {
                out->has_own = true;
                out->own_port = ends[side].port;
            }
        }
    }
    return true;
}

/* `argument` is "PEER", "PEER:PORT", or NULL for the default peer. */
static bool find_ends(const struct place *place, const char *argument, struct ends *out)
{
    const char *colon = argument != NULL ? strchr(argument, ':') : NULL;
    uint32_t peer;

    *out = (struct ends){.has_own = false};
    if (argument == NULL) {
        peer = find_peer(place);
    } else {
        peer = find_host(place->spec, argument,
                         colon != NULL ? (size_t)(colon - argument) : strlen(argument));
    }
    if (peer == NO_HOST) {
        char before[128];
        char name[64];

        weft_format(before, sizeof(before), "%.*s: ", (int)place->n, place->text);
        weft_format(name, sizeof(name), "%.*s",
                    colon != NULL ? (int)(colon - argument) : 63,
                    argument != NULL ? argument : "");
        return argument == NULL ? refuse_peer(place)
                                : refuse_host(place->parse, before, name);
    }
    if (colon != NULL) {
        return find_port(place, peer, colon + 1, out);
    }
    out->peer = peer;
    out->has_own =
        world_facing(place->spec, place->host, peer, &out->own_port, &out->peer_port);
    return out->has_own
               ? true
               : refuse(place,
                        "no cable joins the two: {address:HOST:PORT} is the "
                        "address of a port, and names of hosts stand in /etc/hosts");
}

static bool add_address(const struct place *place, const char *argument,
                        struct weft_text *out)
{
    const struct io_ip *ip;
    struct ends ends;
    char text[IO_IP_TEXT_BYTES];

    if (!find_ends(place, argument, &ends)) {
        return false;
    }
    ip = world_port_address(
        &place->spec->hosts[ends.peer].ports[ends.peer_port],
        ends.has_own ? &place->spec->hosts[place->host].ports[ends.own_port] : NULL);
    if (ip == NULL) {
        return refuse(place, "that port has no address");
    }
    weft_text_add(out, "%s", io_ip_format(ip, text, sizeof(text)));
    return true;
}

static bool add_device(const struct place *place, const char *argument,
                       struct weft_text *out)
{
    struct ends ends;
    char name[256];

    if (!find_ends(place, argument, &ends)) {
        return false;
    }
    if (!ends.has_own) {
        return refuse(place, "no cable leads from here to that port");
    }
    place->parse->device(place->spec, place->host, ends.own_port, name, sizeof(name));
    weft_text_add(out, "%s", name);
    return true;
}

static bool add_peer(const struct place *place, struct weft_text *out)
{
    uint32_t peer = find_peer(place);

    if (peer == NO_HOST) {
        return refuse_peer(place);
    }
    weft_text_add(out, "%s", place->spec->hosts[peer].name);
    return true;
}

/* `argument` is NULL if there is none. */
static bool add_value(const struct place *place, const char *name, const char *argument,
                      struct weft_text *out)
{
    if (strcmp(name, "address") == 0) {
        return add_address(place, argument, out);
    }
    if (strcmp(name, "device") == 0) {
        return add_device(place, argument, out);
    }
    if (argument == NULL && strcmp(name, "host") == 0) {
        weft_text_add(out, "%s", place->spec->hosts[place->host].name);
        return true;
    }
    if (argument == NULL && strcmp(name, "rank") == 0) {
        return add_rank(place, out);
    }
    if (argument == NULL && strcmp(name, "peer") == 0) {
        return add_peer(place, out);
    }
    weft_text_add(place->parse->why,
                  "%.*s: no such placeholder; there are {host} {rank} {peer} "
                  "{address:PEER} {device:PEER}; {%.*s} stays as %.*s",
                  (int)place->n, place->text, (int)place->n, place->text, (int)place->n,
                  place->text);
    return false;
}

/* Returns the length of the placeholder at `text`, including braces; 0 if there is none. */
static size_t placeholder_at(const char *text)
{
    size_t n_name = text[0] == '{' ? strspn(text + 1, LETTERS) : 0;
    size_t n = 1 + n_name;

    if (n_name == 0) {
        return 0;
    }
    if (text[n] == ':') {
        n += 1 + strcspn(text + n + 1, "{} \t\n\"'");
    }
    return text[n] == '}' ? n + 1 : 0;
}

/* Appends the value of the placeholder `text` [n]. */
static bool replace(const struct parse *parse, uint32_t host, const char *text, size_t n,
                    struct weft_text *out)
{
    const struct place place = {
        .parse = parse, .spec = &parse->world->spec, .host = host, .text = text, .n = n};
    struct weft_text name = {NULL, 0, 0};
    char *colon;
    bool ok;

    weft_text_add_bytes(&name, text + 1, n - 2);
    weft_text_add_bytes(&name, "", 1);
    colon = strchr(name.bytes, ':');
    if (colon != NULL) {
        *colon = '\0';
    }
    ok = add_value(&place, name.bytes, colon != NULL ? colon + 1 : NULL, out);
    weft_text_fini(&name);
    return ok;
}

/* Expands a word of a command for `host`. The caller frees the result. Returns NULL after an error,
 * which is in *why. */
static char *expand(const struct parse *parse, uint32_t host, const char *word)
{
    struct weft_text out = {NULL, 0, 0};

    weft_text_add_bytes(&out, "", 0);
    for (size_t i = 0; word[i] != '\0';) {
        size_t inner = word[i] == '{' ? placeholder_at(word + i + 1) : 0;
        size_t n = placeholder_at(word + i);

        if (word[i] == '$' && placeholder_at(word + i + 1) > 0) {
            n = 1 + placeholder_at(word + i + 1);
            weft_text_add_bytes(&out, word + i, n);
        } else if (inner > 0 && word[i + 1 + inner] == '}') {
            weft_text_add_bytes(&out, word + i + 1, inner);
            n = inner + 2;
        } else if (n == 0) {
            weft_text_add_bytes(&out, word + i, 1);
            n = 1;
        } else if (!replace(parse, host, word + i, n, &out)) {
            weft_text_fini(&out);
            return NULL;
        }
        i += n;
    }
    return out.bytes;
}

/* ---- all of it ---- */

static bool add_program(struct parse *parse, size_t step, uint32_t host)
{
    const struct program_group *group = &parse->groups[step];
    struct program_plan *plan = parse->out;
    char **argv = weft_calloc(group->n_words + 1, sizeof(*argv));
    bool ok = true;

    plan->items = weft_realloc(plan->items, (plan->n + 1) * sizeof(*plan->items));
    plan->items[plan->n++] =
        (struct world_program){.host = host, .step = (uint32_t)step, .argv = argv};
    for (size_t i = 0; i < group->n_words && ok; i++) {
        argv[i] = expand(parse, host, group->words[i]);
        ok = argv[i] != NULL;
    }
    return ok;
}

/* Records which hosts the commands name. */
static bool name_hosts(struct parse *parse)
{
    const struct world_spec *spec = &parse->world->spec;
    bool has_rest = false;

    for (size_t i = 0; i < parse->n_groups; i++) {
        for (size_t j = 0; j < parse->groups[i].n_hosts; j++) {
            const char *name = parse->groups[i].hosts[j];
            uint32_t host = find_host(spec, name, strlen(name));

            if (host == NO_HOST) {
                return refuse_host(parse, "", name);
            }
            parse->n_named += parse->is_named[host] ? 0 : 1;
            parse->is_named[host] = true;
        }
        has_rest = has_rest || parse->groups[i].n_hosts == 0;
        if (parse->groups[i].n_words == 0) {
            weft_text_add(parse->why, "a command is missing behind \"--\"");
            return false;
        }
    }
    if (has_rest && parse->n_named == spec->n_hosts) {
        weft_text_add(parse->why,
                      "a command without a host is for all that no other names, "
                      "and the others name every one");
        return false;
    }
    return true;
}

static bool add_programs(struct parse *parse)
{
    const struct world_spec *spec = &parse->world->spec;
    bool *is_named = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*is_named));
    bool ok = true;

    memcpy(is_named, parse->is_named, spec->n_hosts * sizeof(*is_named));
    for (size_t i = 0; i < parse->n_groups; i++) {
        for (uint32_t j = 0; parse->groups[i].n_hosts == 0 && j < spec->n_hosts; j++) {
            parse->n_named += parse->is_named[j] ? 0 : 1;
            parse->is_named[j] = true;
        }
    }
    for (size_t i = 0; i < parse->n_groups && ok; i++) {
        const struct program_group *group = &parse->groups[i];

        for (size_t j = 0; j < group->n_hosts && ok; j++) {
            ok = add_program(parse, i,
                             find_host(spec, group->hosts[j], strlen(group->hosts[j])));
        }
        for (uint32_t j = 0; group->n_hosts == 0 && j < spec->n_hosts && ok; j++) {
            ok = is_named[j] || add_program(parse, i, j);
        }
    }
    free(is_named);
    return ok;
}

static bool make(struct parse *parse)
{
    bool ok = name_hosts(parse) && add_programs(parse);

    if (!ok) {
        program_plan_fini(parse->out);
    }
    return ok;
}

static void init(struct parse *parse, const struct scenario_world *world,
                 program_device_name device, struct program_plan *out,
                 struct weft_text *why)
{
    *out = (struct program_plan){NULL, 0};
    *parse = (struct parse){.world = world, .device = device, .out = out, .why = why};
    parse->is_named =
        weft_calloc((size_t)world->spec.n_hosts + 1, sizeof(*parse->is_named));
}

static void fini(struct parse *parse)
{
    free(parse->groups);
    free(parse->is_named);
}

bool program_plan_groups(const struct scenario_world *world, program_device_name device,
                         const struct program_group *groups, size_t n_groups,
                         struct program_plan *out, struct weft_text *why)
{
    struct parse parse;
    bool ok;

    init(&parse, world, device, out, why);
    for (size_t i = 0; i < n_groups; i++) {
        add_group(&parse, &groups[i]);
    }
    ok = make(&parse);
    fini(&parse);
    return ok;
}

bool program_plan_make(const struct scenario_world *world, program_device_name device,
                       char *const *hosts, size_t n_hosts, char *const *words,
                       size_t n_words, struct program_plan *out, struct weft_text *why)
{
    const struct program_group all = {hosts, n_hosts, words, n_words};
    struct parse parse;
    bool ok;

    init(&parse, world, device, out, why);
    ok = divide(&parse, &all) && make(&parse);
    fini(&parse);
    return ok;
}

void program_plan_fini(struct program_plan *plan)
{
    for (uint32_t i = 0; i < plan->n; i++) {
        char *const *argv = plan->items[i].argv;

        for (size_t j = 0; argv[j] != NULL; j++) {
            free(argv[j]);
        }
        free((void *)(uintptr_t)argv);
    }
    free(plan->items);
    *plan = (struct program_plan){NULL, 0};
}
