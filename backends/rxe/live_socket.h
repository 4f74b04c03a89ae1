/* Sockets of labs: files in a folder, by which those who ask reach those who keep a lab. */
#ifndef WEFT_BACKENDS_RXE_LIVE_SOCKET_H
#define WEFT_BACKENDS_RXE_LIVE_SOCKET_H

#include <stddef.h>
#include <sys/types.h>

/* Listens at FOLDER/NAME, without waiting. It gets its name once it listens, so that it is not
 * taken for one that was left. Returns 0, or an errno: ENAMETOOLONG. */
int live_listen(const char *folder, const char *name, int backlog, int *out_fd);
/* The next that waits, whose descriptor does not wait either; -1: errno says why not. */
int live_accept(int listen_fd);
/* Returns 0, or an errno: ENOENT, ECONNREFUSED (the listener is no more), EAGAIN (its
 * backlog is full). Reads and writes of *out_fd wait. */
int live_connect(const char *folder, const char *name, int *out_fd);
/* The process that listens, or listened, at the other end; 0: unknown. */
pid_t live_peer(int fd);
/* Two ends of a connection. Returns 0, or an errno. */
int live_pair(int out_fds[2]);
/* As write(2), but EPIPE comes without a signal. */
ssize_t live_send(int fd, const void *bytes, size_t n);

#endif
