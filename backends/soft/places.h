/* Creates network namespaces for users who may have them: root, and root of a user namespace. */
#ifndef WEFT_BACKENDS_SOFT_PLACES_H
#define WEFT_BACKENDS_SOFT_PLACES_H

/* Enables this process to create network namespaces. For an ordinary user it enters a user
 * namespace, with its own /run and network namespace. Returns 0, or an errno if nothing has
 * changed. Must be called before any thread is started. */
int soft_places_enter(void);

#endif
