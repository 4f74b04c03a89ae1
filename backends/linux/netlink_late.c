/* Opens libnl on the first call. For a shared object that must need only libc when it is loaded
 * (NCCL's plugin), and is linked with this file instead of libnl (docs/plugin-design.md). */
#include <dlfcn.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define NL "libnl-3.so.200"
#define NL_ROUTE "libnl-route-3.so.200"

/* Returns the function with this name; NULL if the library is not installed. Only one thread at a
 * time may call this. */
static void *find(const char *library, const char *name)
{
    void *object = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    return object == NULL ? NULL : dlsym(object, name);
}

/* Without libnl there is no socket, so no other function of this file is called. */
struct nl_sock *nl_socket_alloc(void)
{
    static struct nl_sock *(*real)(void);

    if (real == NULL && find(NL_ROUTE, "rtnl_link_alloc_cache") != NULL) {
        void *found = find(NL, "nl_socket_alloc");

        memcpy(&real, &found, sizeof(real));
    }
    return real == NULL ? NULL : real();
}

#define LATE(library, type, name, parameters, arguments)                                 \
    type name parameters                                                                 \
    {                                                                                    \
        static type(*real) parameters;                                                   \
                                                                                         \
        if (real == NULL) {                                                              \
            void *found = find(library, #name);                                          \
                                                                                         \
            weft_check(found != NULL);                                                   \
            memcpy(&real, &found, sizeof(real));                                         \
        }                                                                                \
        return real arguments;                                                           \
    }

LATE(NL, void *, nl_addr_get_binary_addr, (const struct nl_addr *addr), (addr))
LATE(NL, unsigned int, nl_addr_get_len, (const struct nl_addr *addr), (addr))
LATE(NL, struct nl_object *, nl_cache_get_first, (struct nl_cache * cache), (cache))
LATE(NL, struct nl_object *, nl_cache_get_next, (struct nl_object * object), (object))
LATE(NL, int, nl_cache_nitems, (struct nl_cache * cache), (cache))
LATE(NL, int, nl_connect, (struct nl_sock * sock, int protocol), (sock, protocol))
LATE(NL_ROUTE, int, rtnl_addr_alloc_cache, (struct nl_sock * sock, struct nl_cache **out),
     (sock, out))
LATE(NL_ROUTE, uint32_t, rtnl_addr_get_create_time, (struct rtnl_addr * addr), (addr))
LATE(NL_ROUTE, int, rtnl_addr_get_family, (struct rtnl_addr * addr), (addr))
LATE(NL_ROUTE, int, rtnl_addr_get_ifindex, (struct rtnl_addr * addr), (addr))
LATE(NL_ROUTE, struct nl_addr *, rtnl_addr_get_local, (struct rtnl_addr * addr), (addr))
LATE(NL_ROUTE, int, rtnl_addr_get_prefixlen, (struct rtnl_addr * addr), (addr))
LATE(NL_ROUTE, int, rtnl_link_alloc_cache,
     (struct nl_sock * sock, int family, struct nl_cache **out), (sock, family, out))
LATE(NL_ROUTE, struct nl_addr *, rtnl_link_get_addr, (struct rtnl_link * link), (link))
LATE(NL_ROUTE, unsigned int, rtnl_link_get_flags, (struct rtnl_link * link), (link))
LATE(NL_ROUTE, int, rtnl_link_get_ifindex, (struct rtnl_link * link), (link))
LATE(NL_ROUTE, int, rtnl_link_get_master, (struct rtnl_link * link), (link))
LATE(NL_ROUTE, unsigned int, rtnl_link_get_mtu, (struct rtnl_link * link), (link))
LATE(NL_ROUTE, char *, rtnl_link_get_name, (struct rtnl_link * link), (link))
LATE(NL_ROUTE, char *, rtnl_link_get_type, (struct rtnl_link * link), (link))

#define LATE_VOID(library, name, parameters, arguments)                                  \
    void name parameters                                                                 \
    {                                                                                    \
        static void(*real) parameters;                                                   \
                                                                                         \
        if (real == NULL) {                                                              \
            void *found = find(library, #name);                                          \
                                                                                         \
            weft_check(found != NULL);                                                   \
            memcpy(&real, &found, sizeof(real));                                         \
        }                                                                                \
        real arguments;                                                                  \
    }

LATE_VOID(NL, nl_cache_free, (struct nl_cache * cache), (cache))
LATE_VOID(NL, nl_socket_free, (struct nl_sock * sock), (sock))
