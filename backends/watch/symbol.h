/* Finds the functions that libweft-watch.so stands in front of, in the symbol tables of loaded
 * libraries. dlsym() is one of them, and RTLD_NEXT does not find a library that a program opened by
 * dlopen(). */
#ifndef WEFT_BACKENDS_WATCH_SYMBOL_H
#define WEFT_BACKENDS_WATCH_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the default version of `name` in the first loaded library whose file name begins with
 * `library`; NULL if there is none. Calls no function of another library, because sanitizers call
 * dlsym() before their own functions work. */
void *watch_symbol(const char *library, const char *name);
/* As watch_symbol(), of libc. */
void *watch_libc_symbol(const char *name);
/* Writes the folder of this library with a final "/"; returns its length, 0 if unknown. */
size_t watch_folder(char *out, size_t n_bytes);
bool watch_begins(const char *text, const char *with);
bool watch_is_same(const char *a, const char *b);

#endif
