/* The version of this build, from the file VERSION. */
#ifndef WEFT_BASE_VERSION_H
#define WEFT_BASE_VERSION_H

/* For example "0.2.0". The Makefile defines it for version.c alone, so that a new version does not
 * compile everything again. */
extern const char weft_version[];

#endif
