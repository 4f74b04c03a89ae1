/* Which function of a program an instruction belongs to. */
#ifndef WEFT_BACKENDS_RXE_SYMBOL_H
#define WEFT_BACKENDS_RXE_SYMBOL_H

#include <stdbool.h>
#include <stdint.h>

#define SYMBOL_NAME_BYTES 128

struct symbol_place {
    uint64_t address;             /* as addr2line(1) takes it */
    char name[SYMBOL_NAME_BYTES]; /* the function; empty: the file has no such symbol */
    uint64_t into_function;       /* bytes from its start */
};

/* Returns false if `path` is no 64-bit ELF file of this machine's byte order that loads its byte
 * `offset`. Longer names are cut. */
bool symbol_find(const char *path, uint64_t offset, struct symbol_place *out);

#endif
