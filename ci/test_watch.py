"""libweft-watch.so, which weft preloads into programs: findings for programs that print nothing, and nothing else."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest
from test_lab import PAIR, TRIANGLE, clean_environment, exec_in, lines_of, needs, needs_time_stamps
from test_lab_stays import Labs

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "scenarios" / "programs"
LIBRARY = Path(WEFT).parent / "libweft-watch.so"

pytestmark = needs_guest


def run(path, *args):
    """The document of a scenario."""
    done = subprocess.run([WEFT, "run", "--backend", "rxe", "--json", *map(str, args), path], cwd=ROOT, timeout=400,
                          env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def compile_program(folder, source, *flags):
    program = folder / "program"
    (folder / "program.c").write_text(source)
    subprocess.run(["cc", "-O1", "-o", program, folder / "program.c", *flags], check=True, capture_output=True)
    return program


# ---- programs do not notice ----

PERFTEST = ("-F", "-x", "1", "-n", "100", "-d", "{device}")


@pytest.mark.parametrize("program,flags", [
    ("ibv_rc_pingpong", ("-g", "1", "-d", "{device}")), ("ib_send_lat", PERFTEST), ("ib_write_lat", PERFTEST),
    ("ib_send_bw", (*PERFTEST, "-e"))])
def test_output_times_and_captures_are_those_of_a_program_that_is_not_watched(tmp_path, program, flags):
    needs(program)
    if program.startswith("ib_"):
        needs_time_stamps()
    runs = [exec_in("--watch", watch, "--pcap", tmp_path / watch, PAIR, "titanic", "--", program, *flags, ":",
                    "iceberg", "--", program, *flags, "{address}") for watch in ("on", "off")]
    assert runs[0] == runs[1] and runs[0][0] == 0
    assert (tmp_path / "on").read_bytes() == (tmp_path / "off").read_bytes()


@pytest.mark.parametrize("name", ["rc-pingpong-loss", "rping-triangle", "ucx-perftest", "mpi-triangle"])
def test_a_job_has_the_same_events_and_capture(tmp_path, name):
    """mpirun and Python copy their environment."""
    needs({"rping-triangle": "rping", "ucx-perftest": "ucx_perftest", "mpi-triangle": "mpirun"}.get(
        name, "ibv_rc_pingpong"))
    if name in ("ucx-perftest", "mpi-triangle"):
        needs_time_stamps()
    documents = [run(PROGRAMS / f"{name}.yaml", "--watch", watch, "--pcap", tmp_path / watch)
                 for watch in ("on", "off")]
    assert documents[0]["trace_hash"] == documents[1]["trace_hash"]
    assert documents[0]["jobs"] == documents[1]["jobs"]
    assert (tmp_path / "on").read_bytes() == (tmp_path / "off").read_bytes()


# ---- programs that print nothing ----

# Scenarios of scenarios/programs: what is found there from output and flags is found without both.
SILENT = {"rc-pingpong-wrong-device": "route.wrong_nic", "rc-pingpong-wrong-gid": "gid.link_local",
          "rc-pingpong-mtu-mismatch": "link.mtu_mismatch", "rc-pingpong-down": "link.down",
          "rc-pingpong-no-such-gid": "gid.missing", "rc-pingpong-no-cable": "mesh.no_cable",
          "rc-pingpong-flap": "link.flapping"}


def silence(folder, name):
    """The scenario with commands whose flags are in a file, and whose output is nowhere."""
    lines = []
    for line in (PROGRAMS / f"{name}.yaml").read_text().splitlines():
        host, _, command = line.strip().partition(": ")
        if "ibv_rc_pingpong" in command and host in ("titanic", "iceberg", "carpathia"):
            for peer in ("", ":titanic", ":iceberg", ":carpathia"):
                command = command.replace("{device" + peer + "}", f"{host}-p0")
            script = folder / f"{host}.sh"
            script.write_text(command.replace("{address}", "192.168.101.1") + " >/dev/null 2>&1\n")
            line = f"      {host}: sh {script}"
        lines.append(line.partition(", output:")[0] + ", within: 30s}" if ", output:" in line else line)
    path = folder / "silent.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", SILENT)
def test_a_program_that_prints_nothing_has_its_finding(tmp_path, name):
    needs("ibv_rc_pingpong")
    path = silence(tmp_path, name)
    assert SILENT[name] in [finding["code"] for finding in run(path)["findings"]]
    assert "undetermined" in [finding["code"] for finding in run(path, "--watch", "off")["findings"]]


def test_a_silent_program_of_exec_and_of_a_lab_ends_with_its_finding(tmp_path):
    """The flag and its variable."""
    needs("ibv_rc_pingpong")
    for host, server in (("titanic", ""), ("iceberg", " titanic")):
        (tmp_path / f"{host}.sh").write_text(f"exec ibv_rc_pingpong -g 1 -d {host}-p0{server} >/dev/null 2>&1\n")
    line = ("titanic", "--", "sh", tmp_path / "titanic.sh", ":", "iceberg", "--", "sh", tmp_path / "iceberg.sh")
    code, _, errors = exec_in("--patience", "1", TRIANGLE, *map(str, line))
    assert code == 1 and "\nerror route.wrong_nic at iceberg:p0 → titanic\n" in errors, errors
    for args, env in ((("--watch", "off"), {}), ((), {"WEFT_WATCH": "off"})):
        code, _, errors = exec_in("--patience", "1", *args, TRIANGLE, *map(str, line), env=env)
        assert code == 1 and "error route" not in errors, errors
    labs = Labs()
    try:
        labs.up(TRIANGLE)
        for args, has in (((), True), (("--watch", "off"), False), ((), True)):
            code, _, errors = labs("exec", *args, "titanic", "--", "timeout", "3", "sh", tmp_path / "titanic.sh", ":",
                                   "iceberg", "--", "sh", tmp_path / "iceberg.sh")
            assert (code, "error route.wrong_nic at iceberg:p0" in errors) == (1, has), errors
    finally:
        labs.end()


# ---- findings while programs run ----

def compile_chooser(folder):
    program = folder / "chooser"
    subprocess.run(["cc", "-O1", "-o", program, ROOT / "ci" / "guest" / "chooser.c", "-libverbs"], check=True)
    return str(program)


def swallowing(program, nap):
    """Two that fail as with NCCL's net_ib, print nothing, and sleep; and one that has nothing to do with it."""
    return (TRIANGLE, "titanic", "--", program, "nccl", "0", nap, ":", "iceberg", "--", program, "nccl", "0", nap,
            "titanic", ":", "carpathia", "--", "sh", "-c", "sleep 9; echo here; exit 0")


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_the_finding_comes_before_the_end_of_a_program_that_swallows_its_error(tmp_path, clock):
    """All are in one file of the guest, so that the order of their lines is that in which they were written."""
    code, out, errors = exec_in("--clock", clock, "--findings", "now",
                                *swallowing(compile_chooser(tmp_path), "30" if clock == "virtual" else "5"))
    lines = errors.splitlines()
    assert (code, out) == (0, "carpathia: here\n"), errors
    found = [line for line in lines if line.startswith("error ")]
    assert found == ["error route.wrong_nic at iceberg:p0 → titanic"]
    assert lines.index(found[0]) < min(lines.index(f"{host}: over") for host in ("titanic", "iceberg"))


@pytest.mark.parametrize("nap", ["0", "30"])
@pytest.mark.parametrize("seed", ["1", "5"])
def test_output_status_and_capture_are_the_same_whenever_findings_come(tmp_path, nap, seed):
    """Of programs that end by their failure or swallow it, and of others that exchange frames at that moment."""
    needs("ibv_rc_pingpong")
    program = compile_chooser(tmp_path)
    pingpong = "ibv_rc_pingpong -e -g 1 -n 400 -d"
    ask = (TRIANGLE, "carpathia", "--", *pingpong.split(), "carpathia-p0", ":",
           "titanic", "--", program, "nccl", "0", nap, ":",
           "iceberg", "--", program, "nccl", "0", nap, "titanic", ":", "titanic", "--", "sh", "-c",
           f"sleep 0.037; {pingpong} titanic-p1 carpathia; date +%s.%N; echo $$; cat /proc/sys/kernel/random/uuid")
    runs = [exec_in("--findings", when, "--seed", seed, "--pcap", tmp_path / when, *ask)
            for when in ("now", "exit", "off")]
    found = [[line for line in run[2].splitlines() if line.startswith("error ")] for run in runs]
    right = ["error route.wrong_nic at iceberg:p0 → titanic"]
    assert found == [right, right if nap == "0" else [], []], runs
    assert "400 iters" in runs[0][1] and runs[0][0] == (nap == "0")
    assert runs[0][:2] == runs[1][:2] == runs[2][:2]
    said = [[line for line in run[2].splitlines() if ": " in line.split("  ")[0]] for run in runs]
    assert said[0] == said[1] == said[2]
    captures = [(tmp_path / when).read_bytes() for when in ("now", "exit", "off")]
    assert captures[0] == captures[1] == captures[2] and len(captures[0]) > 10000


def test_one_that_waits_and_fails_in_nothing_has_no_finding(tmp_path):
    needs("ibv_rc_pingpong")
    code, _, errors = exec_in("--findings", "now", PAIR, "titanic", "--", "sh", "-c",
                              "ibv_rc_pingpong -g 1 -d titanic-p0 & sleep 60; kill $!")
    assert (code, errors) == (0, "")


def test_a_lab_prints_the_finding_while_the_programs_run(tmp_path):
    """The client whose program failed; another one prints nothing. The variable is as the flag."""
    program = compile_chooser(tmp_path)
    labs = Labs()
    try:
        labs.up(TRIANGLE)
        with labs.start("exec", "--findings", "now", "carpathia", "--", "sleep", "1000") as other, labs.start(
                "exec", "titanic", "--", program, "nccl", "0", "1000", ":",
                "iceberg", "--", program, "nccl", "0", "1000", "titanic", env={"WEFT_FINDINGS": "now"}) as running:
            line = ""
            while not line.startswith("error "):
                line = running.stderr.readline()
                assert line
            assert line == "error route.wrong_nic at iceberg:p0 → titanic\n"
            assert running.poll() is None
            for client in (running, other):
                client.terminate()
            assert "error " not in running.communicate()[1]
            assert "error " not in other.communicate()[1]
    finally:
        labs.end()


# ---- devices that others choose ----

def test_netib_s_device_at_the_same_place_is_the_wrong_nic(tmp_path):
    """Between each pair of hosts: a triangle whose cables are crossed has none that is right."""
    program = compile_chooser(tmp_path)
    for server, client in (("titanic", "iceberg"), ("iceberg", "carpathia"), ("titanic", "carpathia")):
        for place in ("0", "1"):
            code, out, errors = exec_in("--patience", "1", TRIANGLE, server, "--", program, "nccl", place, "0", ":",
                                        client, "--", program, "nccl", place, "0", server)
            found = [line for line in errors.splitlines() if line.startswith("error ")]
            assert (code, out, len(found)) == (1, "", 1) and found[0].startswith("error route.wrong_nic at "), errors
            assert {server, client} == {found[0].split()[3].split(":")[0], found[0].split()[-1].split(":")[0]}, found


def test_mooncake_s_random_places_are_the_wrong_nic_unless_they_differ_by_one(tmp_path):
    """It takes the next of both after a failure, and so reaches the right pair or none."""
    program = compile_chooser(tmp_path)
    ends = {}
    for seed in map(str, range(1, 7)):
        code, out, errors = exec_in("--patience", "1", TRIANGLE, "titanic", "--", program, "mooncake", seed, "0", ":",
                                    "iceberg", "--", program, "mooncake", seed, "0", "titanic")
        found = [line for line in errors.splitlines() if line.startswith("error ")]
        assert out == "" and (code == 0) == (not found), errors
        assert all(line.startswith("error route.wrong_nic at ") for line in found), found
        ends[seed] = code
    assert set(ends.values()) == {0, 1}, ends


# ---- the environment ----

# Becomes, or starts, CHILD by the way WAY: CHILD prints its environment and opens a device.
SPAWNER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char **more(void)
{
    static char *list[3] = {"ONLY=this", NULL, NULL};
    list[1] = getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") - strlen("LD_PRELOAD=") : NULL;
    return list;
}
static void *change(void *none)
{
    usleep(10000); /* in the middle of system() */
    setenv("CHANGED", "meanwhile", 1);
    return none;
}
static int child(void)
{
    for (char **it = environ; *it; it++) printf(" %s", *it);
    puts("");
    return ibv_open_device(ibv_get_device_list(0)[0]) == NULL;
}
int main(int argc, char **argv)
{
    char *way = argv[1], *self = argv[0], *own[] = {self, "child", way, NULL}, line[512];
    int status = 0;
    pid_t pid = 0;
    if (!strcmp(way, "child")) return child();
    snprintf(line, sizeof(line), "exec %s child %s", self, way);
    if (!strcmp(way, "execl")) execl(self, self, "child", way, NULL);
    if (!strcmp(way, "execle")) execle(self, self, "child", way, NULL, more());
    if (!strcmp(way, "execlp")) execlp(self, self, "child", way, NULL);
    if (!strcmp(way, "execv")) execv(self, own);
    if (!strcmp(way, "execve")) execve(self, own, more());
    if (!strcmp(way, "execve_none")) execve(self, own, (char *[]){NULL});
    if (!strcmp(way, "execvp")) execvp(self, own);
    if (!strcmp(way, "execvpe")) execvpe(self, own, more());
    if (!strcmp(way, "fexecve")) fexecve(open(self, O_RDONLY), own, more());
    if (!strcmp(way, "execveat")) execveat(AT_FDCWD, self, own, environ, 0);
    if (!strcmp(way, "vfork") && (pid = vfork()) == 0) { execv(self, own); _exit(1); }
    if (!strcmp(way, "posix_spawn")) posix_spawn(&pid, self, NULL, NULL, own, environ);
    if (!strcmp(way, "posix_spawnp")) posix_spawnp(&pid, self, NULL, NULL, own, more());
    if (!strcmp(way, "system")) status = system(line);
    if (!strcmp(way, "popen")) {
        FILE *from = popen(line, "r");
        while (fgets(line, sizeof(line), from)) printf("%s", line);
        status = pclose(from);
    }
    if (!strcmp(way, "threads")) {
        pthread_t thread;
        pthread_create(&thread, NULL, change, NULL);
        snprintf(line, sizeof(line), "sleep 0.1; exec %s child %s", self, way);
        status = system(line);
        pthread_join(thread, NULL);
        return child();
    }
    if (!strcmp(way, "set")) { setenv("LD_PRELOAD", "/nowhere/set.so", 1); setenv("LAST", "1", 1); execv(self, own); }
    if (!strcmp(way, "unset")) { unsetenv("LD_PRELOAD"); execv(self, own); }
    if (pid != 0) waitpid(pid, &status, 0);
    for (char **it = environ; *it; it++) printf(" %s", *it);
    puts("");
    return status != 0;
}
"""
WAYS = ("execl execle execlp execv execve execve_none execvp execvpe fexecve execveat vfork posix_spawn posix_spawnp "
        "system popen threads set unset").split()


def own_library(folder):
    """Of a user, which does nothing."""
    (folder / "own.c").write_text("int own;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "own.so", folder / "own.c"], check=True)
    return str(folder / "own.so")


@pytest.mark.parametrize("preload", ["none", "own", "empty"])
def test_the_environment_is_that_of_a_program_that_is_not_watched_and_children_are_watched(tmp_path, preload):
    """In each way in which a program starts another one; with a library that the user preloads, too."""
    program = compile_program(tmp_path, SPAWNER, "-libverbs", "-pthread")
    env = {"own": {"LD_PRELOAD": own_library(tmp_path)}, "empty": {"LD_PRELOAD": ""}}.get(preload, {})
    script = f"""for way in {' '.join(WAYS)}; do echo $way; {program} $way; done
        env; tr '\\0' ' ' </proc/$$/environ; """
    runs = [exec_in("--watch", watch, PAIR, "titanic", "--", "sh", "-c", script + "date +%N", env=env)
            for watch in ("on", "off")]
    if preload != "none":  # zeros are at the end of LD_PRELOAD in /proc
        runs = [(run[0], re.sub(" +", " ", run[1]), run[2]) for run in runs]
    assert runs[0] == runs[1] and runs[0][0] == 0 and "libweft" not in runs[0][1]
    assert f" LD_PRELOAD={env.get('LD_PRELOAD')}" in runs[0][1] or preload == "none"
    for way in WAYS:
        (tmp_path / way).symlink_to(program)
    code, out, errors = exec_in(PAIR, "titanic", "--", "sh", "-c", f"""
        for way in {' '.join(WAYS)}; do {tmp_path}/$way $way; done >/dev/null 2>&1
        tail -c +9 /run/weft-watch/0/records | tr -d '\\0'""", env=env)
    watched = [line.split()[3] for line in out.splitlines() if " open_device device=titanic-p0 errno=0" in line]
    assert (code, watched) == (0, sorted([*WAYS, "threads"], key=WAYS.index)), errors


def test_scripts_of_python_and_of_shells_see_no_variable_and_their_children_are_watched(tmp_path):
    """A finding of what a grandchild did, too: it prints nothing."""
    needs("ibv_rc_pingpong")
    program = compile_program(tmp_path, SPAWNER, "-libverbs", "-pthread")
    (tmp_path / "script.py").write_text(f"""
import os, subprocess
print(os.environ, flush=True)
for run in (subprocess.run, os.system, lambda line: print(os.popen(line).read()),
            lambda line: os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", line], os.environ), 0)):
    run("{program} child" if run != subprocess.run else ["{program}", "child"])
os.execve("/bin/sh", ["sh", "-c", "{program} child; (env -i {program} child)"], {{"A": "B"}})
""")
    for watch in ("on", "off"):
        code, out, errors = exec_in("--watch", watch, PAIR, "titanic", "--", "sh", "-c", f"""
            exec 2>&1; {sys.executable} {tmp_path}/script.py; date +%s.%N; exec >/dev/null
            """)
        assert (code, errors, "PRELOAD" in out) == (0, "", False), out
        (tmp_path / watch).write_text(out)
    assert (tmp_path / "on").read_text() == (tmp_path / "off").read_text()
    assert records_of(sys.executable, tmp_path / "script.py", ">/dev/null") == [
        "open_device device=titanic-p0 errno=0"] * 6
    (tmp_path / "titanic.py").write_text("import os\nos.system('ibv_rc_pingpong -g 1 -d titanic-p0 >/dev/null 2>&1')")
    (tmp_path / "iceberg.py").write_text("import subprocess\nraise SystemExit(subprocess.run(\n"
                                         "'ibv_rc_pingpong -g 1 -d iceberg-p0 titanic >/dev/null 2>&1; exit $?',"
                                         "shell=True).returncode)")
    code, _, errors = exec_in("--patience", "1", TRIANGLE,
                              "titanic", "--", sys.executable, str(tmp_path / "titanic.py"), ":",
                              "iceberg", "--", sys.executable, str(tmp_path / "iceberg.py"))
    assert code == 1 and "error route.wrong_nic at iceberg:p0 → titanic\n" in errors, errors


def test_children_of_a_program_of_go_are_watched(tmp_path):
    """It executes them without libc, and so keeps the variable. This one has the note of Go's linker."""
    program = compile_program(tmp_path, r"""
#include <infiniband/verbs.h>
#include <sys/syscall.h>
#include <unistd.h>
extern char **environ;
__asm__(".pushsection .note.go.buildid, \"a\", @note\n.balign 4\n.long 4, 4, 4\n.asciz \"Go\"\n"
        ".balign 4\n.asciz \"id.\"\n.popsection");
int main(int argc, char **argv)
{
    if (argc > 1) return ibv_open_device(ibv_get_device_list(0)[0]) == NULL;
    return (int)syscall(SYS_execve, argv[0], (char *[]){argv[0], "again", NULL}, environ);
}
""", "-libverbs")
    assert records_of(program) == ["open_device device=titanic-p0 errno=0"]


# ---- what is recorded ----

EXTENDED = """
#include <infiniband/verbs.h>
#include <unistd.h>
int main(void)
{
    struct ibv_context *context = ibv_open_device(ibv_get_device_list(0)[0]);
    struct ibv_cq_init_attr_ex wanted = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_QP_NUM};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &wanted), *other = ibv_create_cq_ex(context, &wanted);
    struct ibv_qp_init_attr init = {.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq),
                                    .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_qp *qps[2] = {ibv_create_qp(pd, &init), ibv_create_qp(pd, &init)};
    struct ibv_send_wr second = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, first = second, *bad;
    struct ibv_poll_cq_attr none = {0};
    union ibv_gid gid;
    ibv_query_gid(context, 1, 1, &gid);
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024,
            .dest_qp_num = qps[!i]->qp_num, .timeout = 14, .retry_cnt = 3, .rnr_retry = 0, .min_rnr_timer = 1,
            .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 1}}};
        ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        attr.qp_state = IBV_QPS_RTR;
        ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        attr.qp_state = IBV_QPS_RTS;
        ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    }
    first.next = &second;
    ibv_post_send(qps[0], &first, &bad);
    usleep(100000);
    if (ibv_start_poll(cq, &none) != 0 || cq->status != IBV_WC_RNR_RETRY_EXC_ERR) return 1;
    if (ibv_next_poll(cq) != 0 || cq->status != IBV_WC_WR_FLUSH_ERR) return 2;
    ibv_end_poll(cq);
    if (ibv_start_poll(other, &none) == 0) return 3;
    return ibv_destroy_qp(qps[0]) || ibv_destroy_qp(qps[1]) || ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) ||
           ibv_destroy_cq(ibv_cq_ex_to_cq(other)) ? 4 : 0;
}
"""


def test_completions_of_extended_queues_are_recorded(tmp_path):
    """The first of a poll, and the next ones; each with its queue pair."""
    records = records_of(compile_program(tmp_path, EXTENDED, "-libverbs"))
    qp = next(record.split("qp=")[1].split()[0] for record in records if record.startswith("create_qp"))
    assert [record for record in records if record.startswith("completion")] == [
        f"completion device=titanic-p0 qp={qp} status={status} vendor=0 opcode=0" for status in (13, 5)]


def records_of(*command, program=0, env=None):
    """Of a program of titanic, without times."""
    code, out, errors = exec_in(PAIR, "titanic", "--", "sh", "-c", f"""{" ".join(map(str, command))}
        tail -c +9 /run/weft-watch/{program}/records | tr -d '\\0'""", env=env)
    assert code == 0, errors
    return [" ".join(line.split()[4:]) for line in out.splitlines() if " titanic " in line]


LATE = """
#include <dlfcn.h>
#include <infiniband/verbs.h>
int main(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    struct ibv_device **(*list)(int *) = dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1");
    struct ibv_context *(*open)(struct ibv_device *) = dlvsym(library, "ibv_open_device", "IBVERBS_1.1");
    int (*query)(struct ibv_context *, uint8_t, int, union ibv_gid *) = dlsym(library, "ibv_query_gid");
    union ibv_gid gid;
    return query(open(list(0)[0]), 1, 1, &gid);
}
"""


def test_a_program_that_opens_libibverbs_itself_is_watched(tmp_path):
    """As NCCL does."""
    assert records_of(compile_program(tmp_path, "#define _GNU_SOURCE\n" + LATE)) == [
        "open_device device=titanic-p0 errno=0",
        "query_gid device=titanic-p0 port=1 index=1 gid=0000:0000:0000:0000:0000:ffff:c0a8:6501 errno=0"]


def test_children_are_watched_each_with_its_number(tmp_path):
    """One that was forked, and one that was executed in its place."""
    program = compile_program(tmp_path, """
        #include <infiniband/verbs.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int argc, char **argv)
        {
            struct ibv_context *context = ibv_open_device(ibv_get_device_list(0)[0]);
            if (argc > 1) return 0;
            if (fork() == 0) { ibv_reg_mr(ibv_alloc_pd(context), 0, 1, 1 << 30); _exit(0); }
            wait(0);
            return execl(argv[0], argv[0], "again", (char *)0);
        }""", "-libverbs")
    records = records_of(program)
    calls = [record.partition(" ")[0] for record in records]
    assert calls[0] == calls[-1] == "open_device" and set(calls[1:-1]) == {"reg_mr"}  # which calls ibv_reg_mr_iova2
    assert records[1].split("errno=")[1] != "0"


def test_other_preloaded_libraries_stay_and_sanitized_and_static_programs_run(tmp_path):
    own = tmp_path / "own.so"
    (tmp_path / "own.c").write_text(
        "#include <stdio.h>\n__attribute__((constructor)) void f(void) { puts(\"own\"); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", own, tmp_path / "own.c"], check=True)
    runs = [exec_in("--watch", watch, PAIR, "titanic", "--", "sh", "-c", "exec true", env={"LD_PRELOAD": str(own)})
            for watch in ("on", "off")]
    assert runs[0] == runs[1] and runs[0][1].startswith("own\nown\n")
    for flag in ("-fsanitize=address", "-static"):
        program = compile_program(tmp_path, "#include <stdio.h>\nint main(void) { return puts(\"it\") < 0; }\n", flag)
        code, out, errors = exec_in(PAIR, "titanic", "--", str(program), env={"ASAN_OPTIONS": "detect_leaks=0"})
        assert (code, out, errors) == (0, "it\n", ""), flag


def test_the_library_needs_libc_only():
    """And its dynamic linker."""
    if shutil.which("readelf") is None:
        pytest.skip("SKIP readelf: it is not here; enable with: ci/deps test")
    text = subprocess.run(["readelf", "--dynamic", LIBRARY], check=True, capture_output=True, text=True).stdout
    needed = [line.split("[")[1] for line in text.splitlines() if "(NEEDED)" in line]
    assert needed[0] == "libc.so.6]" and all(name.startswith("ld-linux") for name in needed[1:])


def test_without_the_library_programs_run_as_before(tmp_path):
    weft = tmp_path / "weft"
    shutil.copy(WEFT, weft)
    done = subprocess.run([weft, "exec", PAIR, "--", "env"], cwd=ROOT, env=clean_environment(), timeout=200,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "libweft-watch" not in done.stdout
    assert "PATH=" in "".join(lines_of("titanic", done.stdout))
