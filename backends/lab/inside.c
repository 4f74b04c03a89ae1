#define _GNU_SOURCE
#include "backends/lab/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

#define DEVICES_DIR "/sys/class/infiniband"
#define NODES_DIR "/sys/class/infiniband_verbs"
#define DEV_DIR "/dev/infiniband"
#define ABI_FILE NODES_DIR "/abi_version"
#define CM_NODE DEV_DIR "/rdma_cm"
#define HOSTS_FILE "/etc/hosts"
#define PATH_BYTES 512
#define TARGET_BYTES 256

/* ---- names ---- */

static void add_name(struct weft_text *out, const struct io_ip *ip, const char *name)
{
    char text[IO_IP_TEXT_BYTES];

    weft_text_add(out, "%s\t%s\n", io_ip_format(ip, text, sizeof(text)), name);
}

/* Returns NULL if the host has no address. */
static const struct io_ip *any_address(const struct world_host *host)
{
    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (host->ports[i].n_addresses > 0) {
            return &host->ports[i].addresses[0].ip;
        }
    }
    return NULL;
}

static const struct io_ip *address_of(const struct world_spec *spec, uint32_t from,
                                      uint32_t host)
{
    const struct world_host *to = &spec->hosts[host];
    const struct io_ip *ip = NULL;
    uint32_t port = 0;
    uint32_t peer_port = 0;

    if (spec->management.exists && !io_ip_is_zero(&to->management_ip)) {
        return &to->management_ip;
    }
    if (world_facing(spec, from, host, &port, &peer_port)) {
        ip = world_port_address(&to->ports[peer_port], &spec->hosts[from].ports[port]);
    }
    return ip != NULL ? ip : any_address(to);
}

void lab_inside_names(const struct world_spec *spec, uint32_t host, struct weft_text *out)
{
    weft_text_add(out, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n");
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        const struct io_ip *ip = address_of(spec, host, i);

        if (ip != NULL) {
            add_name(out, ip, spec->hosts[i].name);
        }
    }
}

/* ---- files ---- */

/* Returns an errno. */
static int write_file(const char *path, const char *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int problem = 0;

    if (fd < 0) {
        return errno;
    }
    if (write(fd, bytes, n) != (ssize_t)n) {
        problem = EIO;
    }
    close(fd);
    return problem;
}

/* Reads the first line of a small file, without its newline; "" if it cannot be read. */
static void read_line(const char *path, char *out, size_t n_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, n_bytes - 1) : -1;

    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

/* Mounts a file with this text over /etc/hosts in the current mount namespace. Returns an errno;
 * ENOENT if this machine has no such file to mount over. */
static int replace_hosts(const struct lab_fabric *fabric, uint32_t host)
{
    struct weft_text text = {NULL, 0, 0};
    char path[PATH_BYTES];
    int problem;

    lab_inside_names(fabric->spec, host, &text);
    weft_format(path, sizeof(path), "/run/weft-%d-%u-hosts", fabric->owner, host);
    problem = write_file(path, text.bytes, text.n);
    if (problem == 0 && mount(path, HOSTS_FILE, NULL, MS_BIND, NULL) != 0) {
        problem = errno;
    }
    unlink(path); /* the mount keeps the file */
    weft_text_fini(&text);
    return problem;
}

/* ---- devices ---- */

/* A uverbs device of the host. */
struct node {
    char name[64];   /* "uverbs3" */
    char device[64]; /* "titanic-p0" */
    dev_t number;
    /* Targets of the links in /sys. */
    char target[TARGET_BYTES], device_target[TARGET_BYTES];
};

static bool is_own(const struct lab_fabric *fabric, uint32_t host, const char *device)
{
    for (uint32_t i = 0; i < fabric->spec->hosts[host].n_ports; i++) {
        char name[LAB_NAME_BYTES];

        lab_device_name(fabric, host, i, name, sizeof(name));
        if (fabric->hosts[host].ports[i].has_device && strcmp(name, device) == 0) {
            return true;
        }
    }
    return false;
}

static bool read_link(const char *folder, const char *name, char out[TARGET_BYTES])
{
    char path[PATH_BYTES];
    ssize_t n;

    weft_format(path, sizeof(path), "%s/%s", folder, name);
    n = readlink(path, out, TARGET_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Returns false if the device does not belong to the host. */
static bool read_node(const struct lab_fabric *fabric, uint32_t host, const char *name,
                      struct node *out)
{
    char path[PATH_BYTES];
    char numbers[32];
    unsigned major_number;
    unsigned minor_number;

    weft_format(out->name, sizeof(out->name), "%s", name);
    weft_format(path, sizeof(path), NODES_DIR "/%s/ibdev", name);
    read_line(path, out->device, sizeof(out->device));
    weft_format(path, sizeof(path), NODES_DIR "/%s/dev", name);
    read_line(path, numbers, sizeof(numbers));
    if (!is_own(fabric, host, out->device) ||
        sscanf(numbers, "%u:%u", &major_number, &minor_number) != 2) {
        return false;
    }
    out->number = makedev(major_number, minor_number);
    return read_link(NODES_DIR, name, out->target) &&
           read_link(DEVICES_DIR, out->device, out->device_target);
}

/* Finds the nodes of the host, at most `n_max`. */
static uint32_t find_nodes(const struct lab_fabric *fabric, uint32_t host,
                           struct node *out, uint32_t n_max)
{
    DIR *folder = opendir(NODES_DIR);
    struct dirent *entry;
    uint32_t n = 0;

    while (folder != NULL && n < n_max && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, "uverbs", 6) == 0 &&
            read_node(fabric, host, entry->d_name, &out[n])) {
            n++;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}

static int mount_empty(const char *where)
{
    return mount("weft", where, "tmpfs", MS_NOSUID, "mode=755") == 0 ? 0 : errno;
}

static int make_link(const char *folder, const char *name, const char *target)
{
    char path[PATH_BYTES];

    weft_format(path, sizeof(path), "%s/%s", folder, name);
    return symlink(target, path) == 0 ? 0 : errno;
}

static int make_node(const char *path, dev_t number)
{
    /* chmod() overrides the umask, because programs of the host may not be root. */
    return mknod(path, S_IFCHR, number) == 0 && chmod(path, 0666) == 0 ? 0 : errno;
}

static int show_nodes(const struct node *nodes, uint32_t n)
{
    struct stat cm;
    bool has_cm = stat(CM_NODE, &cm) == 0;
    char abi[32];
    int problem;

    read_line(ABI_FILE, abi, sizeof(abi));
    problem = mount_empty(DEV_DIR);
    problem = problem != 0 ? problem : mount_empty(NODES_DIR);
    problem = problem != 0 ? problem : mount_empty(DEVICES_DIR);
    problem = problem != 0 ? problem : write_file(ABI_FILE, abi, strlen(abi));
    if (problem == 0 && has_cm) {
        problem = make_node(CM_NODE, cm.st_rdev);
    }
    for (uint32_t i = 0; i < n && problem == 0; i++) {
        char path[PATH_BYTES];

        weft_format(path, sizeof(path), DEV_DIR "/%s", nodes[i].name);
        problem = make_node(path, nodes[i].number);
        problem =
            problem != 0 ? problem : make_link(NODES_DIR, nodes[i].name, nodes[i].target);
        problem = problem != 0
                      ? problem
                      : make_link(DEVICES_DIR, nodes[i].device, nodes[i].device_target);
    }
    return problem;
}

static int show_own_devices(const struct lab_fabric *fabric, uint32_t host)
{
    uint32_t n_ports = fabric->spec->hosts[host].n_ports;
    struct node *nodes = weft_calloc((size_t)n_ports + 1, sizeof(*nodes));
    uint32_t n = find_nodes(fabric, host, nodes, n_ports);
    int problem = access(DEV_DIR, F_OK) == 0 ? show_nodes(nodes, n) : 0;

    free(nodes);
    return problem;
}

/* ---- namespaces ---- */

/* Report of a host's keeper: the step that failed, and its errno. */
struct report {
    int problem; /* errno */
    char what[32];
};

#define STEP(text, call)                                                                 \
    do {                                                                                 \
        report->problem = (call);                                                        \
        if (report->problem != 0) {                                                      \
            weft_format(report->what, sizeof(report->what), "%s", text);                 \
            return;                                                                      \
        }                                                                                \
    } while (0)

static int own_namespaces(void)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return errno;
    }
    return 0;
}

static int own_sys(void)
{
    umount2("/sys", MNT_DETACH);
    return mount("weft", "/sys", "sysfs", 0, NULL) == 0 ? 0 : errno;
}

static int own_shm(void)
{
    return mount("weft", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0
               ? 0
               : errno;
}

static void settle(const struct lab_fabric *fabric, uint32_t host, struct report *report)
{
    const char *name = fabric->spec->hosts[host].name;
    int problem;

    STEP("its network namespace", lab_place_enter(&fabric->hosts[host].place));
    STEP("namespaces of its own", own_namespaces());
    STEP("its /sys", own_sys());
    STEP("its name", sethostname(name, strlen(name)) == 0 ? 0 : errno);
    STEP("its /dev/shm", own_shm());
    STEP("its devices", show_own_devices(fabric, host));
    problem = replace_hosts(fabric, host);
    if (problem == ENOENT) {
        weft_log(fabric->spec->log, WEFT_LOG_WARN,
                 "this machine has no " HOSTS_FILE
                 ": %s does not know the other hosts' names",
                 name);
        problem = 0;
    }
    STEP("its " HOSTS_FILE, problem);
}

/* Makes the namespaces, reports the result, and keeps them until the parent has opened them. */
static _Noreturn void keep(const struct lab_fabric *fabric, uint32_t host, int fd)
{
    struct report report = {0};
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    settle(fabric, host, &report);
    if (write(fd, &report, sizeof(report)) == (ssize_t)sizeof(report)) {
        while (read(fd, &byte, 1) < 0 && errno == EINTR) {
            continue;
        }
    }
    _exit(0);
}

static int open_namespace(pid_t pid, const char *name)
{
    char path[PATH_BYTES];

    weft_format(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void take(pid_t pid, int fd, struct lab_inside *out, struct report *report)
{
    if (read(fd, report, sizeof(*report)) != (ssize_t)sizeof(*report)) {
        *report = (struct report){.problem = ECHILD, .what = "its keeper"};
    }
    if (report->problem != 0) {
        return;
    }
    out->mount_fd = open_namespace(pid, "mnt");
    out->uts_fd = open_namespace(pid, "uts");
    out->ipc_fd = open_namespace(pid, "ipc");
    if (out->mount_fd < 0 || out->uts_fd < 0 || out->ipc_fd < 0) {
        *report = (struct report){.problem = errno, .what = "its namespaces"};
    }
}

static weft_status make_inside(const struct lab_fabric *fabric, uint32_t host,
                               struct lab_inside *out, struct weft_error *error)
{
    struct report report = {0};
    int fds[2];
    pid_t pid;

    *out = (struct lab_inside){-1, -1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return weft_fail_errno(error, errno, WEFT_PHASE_HOST, "cannot make %s",
                               fabric->spec->hosts[host].name);
    }
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        keep(fabric, host, fds[1]);
    }
    close(fds[1]);
    if (pid > 0) {
        take(pid, fds[0], out, &report);
    } else {
        report = (struct report){.problem = errno, .what = "a process"};
    }
    close(fds[0]);
    if (pid > 0) {
        waitpid(pid, NULL, 0);
    }
    return report.problem == 0
               ? WEFT_OK
               : weft_fail_errno(error, report.problem, WEFT_PHASE_HOST,
                                 "cannot give %s %s", fabric->spec->hosts[host].name,
                                 report.what);
}

int lab_inside_enter(const struct lab_fabric *fabric, uint32_t host,
                     const struct lab_inside *inside)
{
    int problem = lab_place_enter(&fabric->hosts[host].place);

    if (problem == 0 && (setns(inside->uts_fd, CLONE_NEWUTS) != 0 ||
                         setns(inside->ipc_fd, CLONE_NEWIPC) != 0 ||
                         setns(inside->mount_fd, CLONE_NEWNS) != 0)) {
        problem = errno;
    }
    return problem;
}

static void close_inside(struct lab_inside *inside)
{
    int *const fds[] = {&inside->mount_fd, &inside->uts_fd, &inside->ipc_fd};

    for (size_t i = 0; i < WEFT_LENGTH(fds); i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
        }
        *fds[i] = -1;
    }
}

struct lab_inside *lab_insides_new(const struct world_spec *spec)
{
    struct lab_inside *insides = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*insides));

    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        insides[i] = (struct lab_inside){-1, -1, -1};
    }
    return insides;
}

weft_status lab_insides_make(const struct lab_fabric *fabric, struct lab_inside *insides,
                             struct weft_error *error)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < fabric->spec->n_hosts && status == WEFT_OK; i++) {
        status = make_inside(fabric, i, &insides[i], error);
    }
    return status;
}

void lab_insides_free(const struct world_spec *spec, struct lab_inside *insides)
{
    for (uint32_t i = 0; insides != NULL && i < spec->n_hosts; i++) {
        close_inside(&insides[i]);
    }
    free(insides);
}
