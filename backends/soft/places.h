/* Network namespaces for whoever may have them: root, or root of a user namespace of its own. */
#ifndef WEFT_BACKENDS_SOFT_PLACES_H
#define WEFT_BACKENDS_SOFT_PLACES_H

/* 0: this process can make namespaces from now on; an ordinary user's is in a user namespace,
 * with a /run and a network of its own. Else an errno, and nothing changed. Before any thread. */
int soft_places_enter(void);

#endif
