/* Sockets of labs: files in a folder, through which clients reach the daemon of a lab. */
#ifndef WEFT_BACKENDS_RXE_LIVE_SOCKET_H
#define WEFT_BACKENDS_RXE_LIVE_SOCKET_H

#include <stddef.h>
#include <sys/types.h>

/* Listens at FOLDER/NAME; the socket is non-blocking. It gets its name once it listens, so that no
 * one takes it for a socket of a killed daemon. Returns 0, or an errno such as ENAMETOOLONG. */
int live_listen(const char *folder, const char *name, int backlog, int *out_fd);
/* Accepts the next connection, and makes it non-blocking. Returns its descriptor, or -1 and sets
 * errno. */
int live_accept(int listen_fd);
/* Connects to FOLDER/NAME; `*out_fd` is blocking. Returns 0, or an errno: ENOENT, ECONNREFUSED (the
 * listener is gone), EAGAIN (its backlog is full). */
int live_connect(const char *folder, const char *name, int *out_fd);
/* Returns the process that listens, or listened, at the other end; 0 if it is unknown. */
pid_t live_peer(int fd);
/* Creates both ends of a connection. Returns 0, or an errno. */
int live_pair(int out_fds[2]);
/* Writes as write(2) does, but EPIPE comes without a signal. */
ssize_t live_send(int fd, const void *bytes, size_t n);

#endif
