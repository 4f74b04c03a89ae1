#define _GNU_SOURCE
#include "backends/watch/symbol.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#define HIDDEN_VERSION 0x8000

struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH */
    const ElfW(Half) * versions;
};

/* glibc adds the base to these addresses where the section is writable. */
static const void *at(const struct link_map *library, ElfW(Addr) address)
{
    return (const void *)(address < library->l_addr ? library->l_addr + address
                                                    : address);
}

static bool read_tables(const struct link_map *library, struct tables *out)
{
    *out = (struct tables){NULL, NULL, NULL, NULL};
    for (const ElfW(Dyn) *entry = library->l_ld; entry != NULL && entry->d_tag != DT_NULL;
         entry++) {
        const void *table = at(library, entry->d_un.d_ptr);

        switch (entry->d_tag) {
        case DT_SYMTAB:
            out->symbols = table;
            break;
        case DT_STRTAB:
            out->names = table;
            break;
        case DT_GNU_HASH:
            out->hash = table;
            break;
        case DT_VERSYM:
            out->versions = table;
            break;
        default:
            break;
        }
    }
    return out->symbols != NULL && out->names != NULL && out->hash != NULL;
}

/* ---- strings, without functions that a sanitizer intercepts ---- */

bool watch_begins(const char *text, const char *with)
{
    while (*with != '\0' && *text == *with) {
        text++;
        with++;
    }
    return *with == '\0';
}

bool watch_is_same(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* Returns NULL if the path has no folder. */
static const char *last_slash(const char *path)
{
    const char *found = NULL;

    for (; *path != '\0'; path++) {
        found = *path == '/' ? path : found;
    }
    return found;
}

static bool is_file(const struct link_map *library, const char *name)
{
    const char *slash = last_slash(library->l_name);

    return watch_begins(slash != NULL ? slash + 1 : library->l_name, name);
}

/* ---- functions ---- */

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;

    for (; *name != '\0'; name++) {
        hash = hash * 33 + (unsigned char)*name;
    }
    return hash;
}

/* Returns the symbol's address within its library; 0 if there is none. */
static ElfW(Addr) find(const struct tables *tables, const char *name)
{
    uint32_t n_buckets = tables->hash[0], first = tables->hash[1];
    const uint32_t *buckets =
        tables->hash + 4 + tables->hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = buckets + n_buckets;
    uint32_t hash = hash_of(name);
    uint32_t i = n_buckets != 0 ? buckets[hash % n_buckets] : 0;

    for (; i >= first && i != 0; i++) {
        const ElfW(Sym) *symbol = &tables->symbols[i];

        if ((chain[i - first] | 1) == (hash | 1) && symbol->st_value != 0 &&
            watch_is_same(tables->names + symbol->st_name, name) &&
            (tables->versions == NULL || (tables->versions[i] & HIDDEN_VERSION) == 0)) {
            return symbol->st_value;
        }
        if ((chain[i - first] & 1) != 0) {
            break;
        }
    }
    return 0;
}

void *watch_symbol(const char *library, const char *name)
{
    struct tables tables;

    for (const struct link_map *it = _r_debug.r_map; it != NULL; it = it->l_next) {
        ElfW(Addr) address =
            is_file(it, library) && read_tables(it, &tables) ? find(&tables, name) : 0;

        if (address != 0) {
            return (void *)(it->l_addr + address);
        }
    }
    return NULL;
}

void *watch_libc_symbol(const char *name)
{
    void *found = watch_symbol("libc.so", name);

    return found != NULL ? found : watch_symbol("libdl.so", name); /* glibc before 2.34 */
}

size_t watch_folder(char *out, size_t n_bytes)
{
    for (const struct link_map *it = _r_debug.r_map; it != NULL; it = it->l_next) {
        const char *slash = last_slash(it->l_name);
        size_t n = slash != NULL ? (size_t)(slash - it->l_name) + 1 : 0;

        if (it->l_ld == _DYNAMIC && n < n_bytes) {
            memcpy(out, it->l_name, n);
            return n;
        }
    }
    return 0;
}
