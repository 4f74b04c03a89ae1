/* Finds the function that contains an instruction of a program. */
#ifndef WEFT_BACKENDS_RXE_SYMBOL_H
#define WEFT_BACKENDS_RXE_SYMBOL_H

#include <stdbool.h>
#include <stdint.h>

#define SYMBOL_NAME_BYTES 128

struct symbol_place {
    uint64_t address;             /* as addr2line(1) expects it */
    char name[SYMBOL_NAME_BYTES]; /* the function; "" if the file has no symbol for it */
    uint64_t into_function;       /* bytes from its start */
};

/* Finds the function at byte `offset` of the file `path`. Returns false unless that is a 64-bit
 * ELF file of this machine's byte order that loads this byte. Truncates long names. */
bool symbol_find(const char *path, uint64_t offset, struct symbol_place *out);

#endif
