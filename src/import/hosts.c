/* Reads files as hosts(5), an address and names a line. They either describe the mesh (`weft import
 * hosts`), or list the addresses of the management network (--hosts). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "import/model.h"

#define NAMES_MAX 16u

/* The words of one line. */
struct line {
    uint32_t number;
    struct io_ip ip;
    unsigned prefix_len; /* 0 if the line has none, as hosts(5) says */
    const char *names[NAMES_MAX];
    bool is_shared[NAMES_MAX]; /* another line of the mesh has the name, too */
    uint32_t n_names;
    bool has_more_names; /* than NAMES_MAX */
    /* Set last: index of the host, and name of the port, or NULL if no name has one. */
    uint32_t host;
    const char *port;
};

/* A file, and how far it is read. */
struct text {
    struct import *import;
    const char *path;
    const char *at, *end;
    uint32_t n_lines;
};

/* Returns the next word of the line, and removes it from the text; NULL at the end of the line. */
static char *next_word(struct text *text)
{
    const char *begin;
    char *word;
    size_t n = 0;

    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t')) {
        text->at++;
    }
    begin = text->at;
    while (begin + n < text->end && strchr(" \t\r\n#", begin[n]) == NULL) {
        n++;
    }
    if (n == 0) {
        return NULL;
    }
    word = arena_calloc(text->import->arena, n + 1, 1);
    memcpy(word, begin, n);
    text->at += n;
    return word;
}

/* Reads an address, with its prefix if the line has one. Ignores the zone of "fe80::1%lo0". */
static bool read_address(const char *word, struct line *out)
{
    size_t n = strcspn(word, "%");
    char address[IO_IP_TEXT_BYTES];
    struct io_prefix prefix;

    if (n < sizeof(address) && word[n] == '%') {
        weft_format(address, sizeof(address), "%.*s", (int)n, word);
        word = address;
    }
    if (io_ip_parse(word, &out->ip)) {
        return true;
    }
    if (!io_prefix_parse(word, &prefix) || prefix.prefix_len == 0) {
        return false;
    }
    out->ip = prefix.ip;
    out->prefix_len = prefix.prefix_len;
    return true;
}

static bool has_name(const struct line *line, const char *name)
{
    for (uint32_t i = 0; i < line->n_names; i++) {
        if (strcmp(line->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void add_name(struct line *line, const char *name)
{
    if (has_name(line, name)) {
        return;
    }
    if (line->n_names == NAMES_MAX) {
        line->has_more_names = true;
        return;
    }
    line->names[line->n_names++] = name;
}

/* Reads the address and the names of a line. Returns false if it has none, or after a complaint. */
static bool read_line(struct text *text, const char *end, struct line *out)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];
    const char *word;

    if (memchr(text->at, '\0', (size_t)(end - text->at)) != NULL) {
        import_complain(text->import, "%s:%u: a NUL byte in a text file", text->path,
                        text->n_lines);
        return false;
    }
    word = next_word(text);
    if (word == NULL) {
        return false;
    }
    if (!read_address(word, out)) {
        import_complain(text->import,
                        "%s:%u: expected an address and its names, as in /etc/hosts, "
                        "got '%s'",
                        text->path, text->n_lines, diagnose_quote(word, quoted));
        return false;
    }
    while ((word = next_word(text)) != NULL) {
        add_name(out, word);
    }
    return true;
}

/* Reads the next line that has an address. Returns false at the end of the file, or after a
 * complaint about its length. */
static bool next_line(struct text *text, struct line *out)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which some editors write */
    size_t n_mark = sizeof(mark) - 1;

    if (text->n_lines == 0 && (size_t)(text->end - text->at) >= n_mark &&
        memcmp(text->at, mark, n_mark) == 0) {
        text->at += n_mark;
    }
    while (text->at < text->end) {
        const char *end = memchr(text->at, '\n', (size_t)(text->end - text->at));
        bool has_address;

        end = end != NULL ? end : text->end;
        if (text->n_lines++ == IMPORT_HOSTS_LINES_MAX) {
            import_complain(text->import,
                            "%s: more than %u lines; give a file of only the addresses "
                            "in the %s",
                            text->path, IMPORT_HOSTS_LINES_MAX,
                            text->import->is_of_hosts ? "mesh" : "management network");
            return false;
        }
        *out = (struct line){.number = text->n_lines};
        has_address = read_line(text, end, out);
        text->at = end < text->end ? end + 1 : end;
        if (has_address) {
            return true;
        }
    }
    return false;
}

void import_read_management(struct import *import,
                            void (*visit)(struct import *import, const struct io_ip *ip))
{
    const struct import_answers *answers = import->answers;
    struct text text = {.import = import,
                        .path = answers->hosts_path,
                        .at = answers->hosts,
                        .end = answers->hosts + answers->n_hosts};
    struct line line;

    while (next_line(&text, &line)) {
        visit(import, &line.ip);
    }
}

/* ---- the mesh ---- */

struct lines {
    struct line *items; /* [n] */
    const char **paths; /* [n] */
    uint32_t n, cap;
};

/* Returns true if no cable has the address of the line: loopback, multicast and broadcast, which
 * hosts(5) files name, too. */
static bool is_of_no_port(const struct line *line)
{
    static const struct io_ip loopback = {.bytes = {[15] = 1}};
    const struct io_ip *ip = &line->ip;

    if (io_ip_is_link_local(ip) && has_name(line, "localhost")) {
        return true; /* fe80::1%lo0 of macOS */
    }
    if (io_ip_is_v4(ip)) {
        return ip->bytes[12] == 127 || ip->bytes[12] >= 224 || io_ip_is_zero(ip);
    }
    return ip->bytes[0] == 0xff || io_ip_is_zero(ip) || io_ip_equal(ip, &loopback) ||
           (ip->bytes[0] == 0xfe && ip->bytes[1] == 0); /* Debian's ip6-localnet */
}

/* Returns true if the lines have the address and a name in common, and adds the names of `line` to
 * `to`. The files of several hosts have such lines. */
static bool join_lines(struct line *to, const struct line *line)
{
    bool is_same = false;

    if (!io_ip_equal(&to->ip, &line->ip)) {
        return false;
    }
    for (uint32_t i = 0; i < line->n_names; i++) {
        is_same = is_same || has_name(to, line->names[i]);
    }
    for (uint32_t i = 0; is_same && i < line->n_names; i++) {
        add_name(to, line->names[i]);
    }
    to->has_more_names = to->has_more_names || (is_same && line->has_more_names);
    return is_same;
}

static void add_line(struct import *import, struct lines *lines, const struct line *line,
                     const char *path)
{
    char quoted[DIAGNOSE_QUOTE_BYTES], ip[IO_IP_TEXT_BYTES];

    if (is_of_no_port(line)) {
        return;
    }
    if (line->n_names == 0) {
        import_complain(import, "%s:%u: %s has no name", diagnose_quote(path, quoted),
                        line->number, io_ip_format(&line->ip, ip, sizeof(ip)));
        return;
    }
    for (uint32_t i = 0; i < lines->n; i++) {
        if (join_lines(&lines->items[i], line)) {
            return;
        }
    }
    if (lines->n == IMPORT_HOSTS_LINES_MAX) {
        import_complain(import, "%s:%u: more than %u addresses",
                        diagnose_quote(path, quoted), line->number,
                        IMPORT_HOSTS_LINES_MAX);
        return;
    }
    if (lines->n == lines->cap) {
        uint32_t cap = lines->cap == 0 ? 64 : 2 * lines->cap;

        lines->items =
            arena_grow(import->arena, lines->items, lines->n, cap, sizeof(*lines->items));
        lines->paths =
            arena_grow(import->arena, lines->paths, lines->n, cap, sizeof(*lines->paths));
        lines->cap = cap;
    }
    lines->items[lines->n] = *line;
    lines->paths[lines->n++] = path;
}

/* One name of a line. */
struct name {
    const char *text;
    struct line *line;
    bool *is_shared;
};

static int compare_names(const void *a, const void *b)
{
    const struct name *x = a;
    const struct name *y = b;

    return strcmp(x->text, y->text);
}

/* Finds the names that several lines have. A line has each of its names once. */
static void find_shared(struct lines *lines)
{
    struct name *names = weft_calloc((size_t)lines->n * NAMES_MAX + 1, sizeof(*names));
    size_t n = 0;

    for (uint32_t i = 0; i < lines->n; i++) {
        struct line *line = &lines->items[i];

        for (uint32_t k = 0; k < line->n_names; k++) {
            names[n++] = (struct name){line->names[k], line, &line->is_shared[k]};
        }
    }
    qsort(names, n, sizeof(*names), compare_names);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1].text, names[i].text) == 0) {
            *names[i - 1].is_shared = *names[i].is_shared = true;
        }
    }
    free(names);
}

/* Returns the name of the port if `name` is the host's, a dash, and that; else NULL. */
static const char *port_in(const char *name, const char *host)
{
    size_t n = strlen(host);

    return strncmp(name, host, n) == 0 && name[n] == '-' && name[n + 1] != '\0'
               ? name + n + 1
               : NULL;
}

/* Returns the name of the port: that of the first name without a domain that has one, else of the
 * first. NULL if no name of the line has one. */
static const char *port_of(const struct line *line, const char *host)
{
    const char *best = NULL;

    for (uint32_t i = 0; i < line->n_names; i++) {
        const char *port = port_in(line->names[i], host);

        if (port != NULL &&
            (best == NULL || (strchr(best, '.') != NULL && strchr(port, '.') == NULL))) {
            best = port;
        }
    }
    return best;
}

/* Returns the name of the host of a line: one that other lines have, too, else one of its own. Of
 * several it is one without a domain, of these one with which a port's name of the line begins, and
 * of these the first. */
static const char *host_of(const struct line *line)
{
    const char *best = NULL;
    int best_rank = -1;

    for (uint32_t i = 0; i < line->n_names; i++) {
        const char *name = line->names[i];
        bool is_short = strchr(name, '.') == NULL;
        int rank = 4 * line->is_shared[i] + 2 * is_short + (port_of(line, name) != NULL);

        if (rank > best_rank) {
            best = name;
            best_rank = rank;
        }
    }
    return best;
}

/* Returns the port of the host with this name, which is added if it is new. Returns NULL after a
 * complaint. */
static struct import_device *add_port(struct import *import, struct import_host *host,
                                      const char *name)
{
    struct import_device *port = import_find(host, name);

    if (port != NULL) {
        return port;
    }
    if (host->n_devices == IMPORT_DEVICES_MAX) {
        import_complain(import, "%s: more than %u addresses of one host", host->name,
                        IMPORT_DEVICES_MAX);
        return NULL;
    }
    if (host->n_devices == host->cap) {
        uint32_t cap = host->cap == 0 ? 8 : 2 * host->cap;

        host->devices =
            arena_grow(import->arena, host->devices, host->n_devices, cap, sizeof(port));
        host->cap = cap;
    }
    port = arena_calloc(import->arena, 1, sizeof(*port));
    port->kind = IMPORT_ETHERNET;
    port->id = port->name = name;
    port->host = (uint32_t)(host - import->hosts);
    port->mtu_bytes = IMPORT_MTU_DEFAULT; /* unknown */
    host->devices[host->n_devices++] = port;
    return port;
}

/* Returns the prefix's length of an address: the line's, else --prefix; 0 if there is none. */
static unsigned prefix_of(const struct import *import, const struct line *line)
{
    return line->prefix_len != 0    ? line->prefix_len
           : io_ip_is_v4(&line->ip) ? import->answers->prefix_len[0]
                                    : import->answers->prefix_len[1];
}

static void add_address(struct import *import, struct import_host *host,
                        const char *port_name, const struct line *line)
{
    struct import_device *port = add_port(import, host, port_name);
    char place[IMPORT_PLACE_BYTES];

    if (port == NULL) {
        return;
    }
    if (port->n_addresses == IMPORT_ADDRESSES_MAX) {
        import_complain(import, "%s: more than %u addresses of one port",
                        import_place(import, port, place, sizeof(place)),
                        IMPORT_ADDRESSES_MAX);
        return;
    }
    port->addresses = arena_grow(import->arena, port->addresses, port->n_addresses,
                                 port->n_addresses + 1, sizeof(*port->addresses));
    port->addresses[port->n_addresses++] =
        (struct io_prefix){line->ip, (uint8_t)prefix_of(import, line)};
}

/* Returns "e0", "e1" or so on: the first that is no port of the host yet. */
static const char *new_port(struct import *import, const struct import_host *host)
{
    char name[16];
    uint32_t i = 0;

    do {
        weft_format(name, sizeof(name), "e%u", i++);
    } while (import_find(host, name) != NULL);
    return arena_strdup(import->arena, name);
}

/* Adds hosts in the order of the lines, then ports with names, then the others, so that these get
 * names that no line has. */
static void add_addresses(struct import *import, struct lines *lines)
{
    for (uint32_t i = 0; i < lines->n; i++) {
        struct line *line = &lines->items[i];
        const char *given = host_of(line);

        line->host = import_host(import, given);
        line->port = port_of(line, given);
    }
    for (uint32_t i = 0; i < lines->n; i++) {
        const struct line *line = &lines->items[i];

        if (line->port != NULL) {
            add_address(import, &import->hosts[line->host], line->port, line);
        }
    }
    for (uint32_t i = 0; i < lines->n; i++) {
        const struct line *line = &lines->items[i];
        struct import_host *host = &import->hosts[line->host];

        if (line->port == NULL) {
            add_address(import, host, new_port(import, host), line);
        }
    }
}

/* Complains about lines of which not all can be kept. */
static void check_lines(struct import *import, const struct lines *lines)
{
    for (uint32_t i = 0; i < lines->n; i++) {
        const struct line *line = &lines->items[i];
        char quoted[DIAGNOSE_QUOTE_BYTES];

        diagnose_quote(lines->paths[i], quoted);
        if (line->has_more_names) {
            import_complain(import, "%s:%u: more than %u names", quoted, line->number,
                            NAMES_MAX);
        } else if (strlen(host_of(line)) >= IMPORT_HOST_NAME_BYTES) {
            import_complain(import,
                            "%s:%u: the name of a host has more than %d characters",
                            quoted, line->number, IMPORT_HOST_NAME_BYTES - 1);
        }
    }
}

/* Asks for the prefixes' lengths, once for each family. */
static bool has_prefixes(struct import *import, const struct lines *lines)
{
    bool lacks[2] = {false, false};

    for (uint32_t i = 0; i < lines->n; i++) {
        lacks[!io_ip_is_v4(&lines->items[i].ip)] |=
            prefix_of(import, &lines->items[i]) == 0;
    }
    if (lacks[0]) {
        import_complain(import, "a hosts file does not have the length of the networks' "
                                "prefixes: give it by --prefix, as in --prefix 24");
    }
    if (lacks[1]) {
        import_complain(import,
                        "a hosts file does not have the length of the IPv6 networks' "
                        "prefixes: give it by --prefix, as in --prefix 64");
    }
    return !lacks[0] && !lacks[1];
}

/* Asks for names if each address would be a host of its own, in several networks. */
static void check_names(struct import *import)
{
    const struct io_prefix *first = NULL;
    bool is_one = true;

    for (uint32_t h = 0; h < import->n_hosts; h++) {
        const struct import_device *port = import->hosts[h].devices[0];

        if (import->hosts[h].n_devices > 1 || port->n_addresses > 1) {
            return;
        }
        first = first == NULL ? &port->addresses[0] : first;
        is_one = is_one && import_same_network(first, &port->addresses[0]);
    }
    if (!is_one) {
        import_complain(import, "no two lines have a name in common, so that each host "
                                "would have one port: write the host's name on each line "
                                "of its addresses, as in `10.0.0.1 spark-1-p0 spark-1`");
    }
}

void import_read_hosts(struct import *import, const struct import_file *files,
                       size_t n_files)
{
    struct lines lines = {NULL, NULL, 0, 0};
    struct line line;

    for (size_t i = 0; i < n_files; i++) {
        struct text text = {.import = import,
                            .path = files[i].path,
                            .at = files[i].bytes,
                            .end = files[i].bytes + files[i].n_bytes};

        while (next_line(&text, &line)) {
            add_line(import, &lines, &line, files[i].path);
        }
    }
    import->hosts = arena_calloc(import->arena, lines.n + 1, sizeof(*import->hosts));
    if (import->n_wrong == 0 && lines.n == 0) {
        import_complain(import, "no file has an address of the mesh");
    }
    find_shared(&lines);
    check_lines(import, &lines);
    if (import->n_wrong > 0 || !has_prefixes(import, &lines)) {
        return;
    }
    add_addresses(import, &lines);
    check_names(import);
}
