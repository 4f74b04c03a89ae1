/* Removes what killed runs have left behind. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/lab/fabric.h"
#include "backends/lab/place.h"
#include "backends/linux/shm.h"
#include "base/check.h"
#include "base/text.h"

/* Deletes devices before their namespace, because kernels up to 7.2 mishandle the reverse
 * order. */
static void delete_devices(int owner, struct weft_log *log)
{
    char prefix[32];
    char device[LAB_NAME_BYTES];
    int fd;

    weft_format(prefix, sizeof(prefix), "weft%dh", owner);
    if (netlink_open(NETLINK_RDMA, &fd) != 0) {
        return;
    }
    while (netlink_find_rdma(fd, prefix, device, sizeof(device)) == 0 &&
           netlink_delete_rdma(fd, device) == 0) {
        weft_log(log, WEFT_LOG_INFO, "removed device %s", device);
    }
    close(fd);
}

unsigned lab_cleanup(struct weft_log *log)
{
    DIR *folder = opendir(LAB_NETNS_DIR);
    struct dirent *entry;
    unsigned n = linux_shm_sweep(log);

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        int owner;

        if (sscanf(entry->d_name, LAB_NAME_PREFIX "%d-", &owner) != 1 || owner <= 0 ||
            kill(owner, 0) == 0 || errno != ESRCH) {
            continue;
        }
        delete_devices(owner, log);
        lab_unpin(entry->d_name);
        weft_log(log, WEFT_LOG_INFO, "removed namespace %s", entry->d_name);
        n++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}
