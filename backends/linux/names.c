#define _GNU_SOURCE
#include "backends/linux/names.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

weft_status linux_resolve(const char *name, struct io_ip *out, struct weft_error *error)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int result = getaddrinfo(name, NULL, &hints, &list);

    if (result != 0) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_RESOLVE, "%s",
                         gai_strerror(result));
    }
    *out = (struct io_ip){0};
    if (list->ai_family == AF_INET6) {
        const struct sockaddr_in6 *address = (const void *)list->ai_addr;

        memcpy(out->bytes, &address->sin6_addr, sizeof(out->bytes));
    } else {
        const struct sockaddr_in *address = (const void *)list->ai_addr;

        out->bytes[10] = 0xff; /* ::ffff:a.b.c.d */
        out->bytes[11] = 0xff;
        memcpy(out->bytes + 12, &address->sin_addr, 4);
    }
    freeaddrinfo(list);
    return WEFT_OK;
}

void linux_host_name(char *out, size_t n_bytes)
{
    if (gethostname(out, n_bytes - 1) == 0) {
        out[n_bytes - 1] = '\0';
    }
}

uint16_t linux_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t n = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint16_t port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, n) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &n) == 0) {
        port = ntohs(address.sin_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}
