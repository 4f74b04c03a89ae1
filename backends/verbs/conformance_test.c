/* The conformance suite of the I/O interface over the kernel's soft-RoCE: two namespaces, a veth
 * pair, an rxe device on each end, libibverbs. Needs a kernel whose rdma_rxe supports namespaces
 * (7.1 or newer); ci/guest/conformance runs it in one. */
#include <stdio.h>

#include "backends/verbs/veth_testing.h"
#include "base/suite_testing.h"
#include "io/conformance_testing.h"

int main(void)
{
    const char *why;
    if (!veth_testing_has_rxe(&why)) {
        printf("SKIP io conformance, verbs: %s\n", why);
        return 77;
    }
    veth_testing = (struct veth_testing){veth_testing_open_verbs, {true, true}};
    Suite *suite = suite_create("io conformance, verbs");
    conformance_add(suite, &veth_testing_ops, WEFT_PROFILE_RXE);
    return suite_run(suite);
}
