"""Tests that need rdma_rxe, in a guest that has it. Skipped by name where no guest kernel is built."""

import json
import os
import re
import resource
import subprocess
import time
from pathlib import Path

import pytest

from guest_kernel import needs_guest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("WEFT_BUILD", "build")
GUEST = ROOT / "ci" / "guest" / "conformance"


def in_guest(program):
    return subprocess.run([GUEST, BUILD / "test" / program], cwd=ROOT, timeout=400,
                          capture_output=True, text=True, check=False)


@needs_guest
def test_the_waist_over_soft_roce():
    done = in_guest("backends/verbs/conformance_test")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "SKIP" not in done.stdout
    counts = re.search(r"100%: Checks: (\d+), Failures: 0, Errors: 0", done.stdout)
    assert counts and int(counts[1]) >= 35, done.stdout[-2000:]


@needs_guest
def test_the_simulated_nic_and_soft_roce_keep_one_contract():
    """The conformance suite between the two, each on either side of the cable."""
    done = in_guest("backends/soft/interop_test")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "SKIP" not in done.stdout
    counts = re.findall(r"100%: Checks: (\d+), Failures: 0, Errors: 0", done.stdout)
    assert len(counts) == 2 and all(int(count) >= 35 for count in counts), done.stdout[-2000:]


@needs_guest
def test_a_guest_that_does_not_end_is_ended():
    done = subprocess.run([GUEST, "/bin/sleep", "600"], cwd=ROOT, timeout=120,
                          env={**os.environ, "WEFT_GUEST_SECONDS": "5"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "without a result" in done.stderr


@needs_guest
@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_a_guest_names_the_clock_rate_of_its_processor(clock):
    """Without it perftest shows 0.00 MB/s. Once, and with all else that was there."""
    done = subprocess.run([BUILD / "weft", "guest", "--clock", clock, "--", "cat", "/proc/cpuinfo"], cwd=ROOT,
                          timeout=400, capture_output=True, text=True, check=True)
    assert len(re.findall(r"^cpu MHz\t*: [0-9.]+$", done.stdout, re.M)) == 1
    assert len(re.findall(r"^processor\t*: 0$", done.stdout, re.M)) == 1 and "bogomips" in done.stdout


def guest_of(folder, script, *flags, **environment):
    """Runs `true` in a guest whose kernel is a shell script that knows $scratch."""
    kernel = folder / "kernel"
    kernel.write_text("""#!/bin/sh
for word; do
    case $word in WEFT_GUEST_SCRATCH=*) scratch=${word#*=} ;; esac
done
""" + script)
    kernel.chmod(0o755)
    return subprocess.run([BUILD / "weft", "guest", *flags, "--", "true"], cwd=ROOT, timeout=400,
                          env={**os.environ, "WEFT_GUEST_KERNEL": str(kernel), **environment},
                          capture_output=True, text=True, check=False)


def test_a_kernel_that_stays_after_its_result_is_ended(tmp_path):
    """As user-mode Linux did once: "Power down", and then nothing for ever."""
    done = guest_of(tmp_path, 'echo 7 >"$scratch/exit"\nexec sleep 600\n', "--time-limit", "500")
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize("script,first,last,n_lines", [
    ("exit 1", [], "its console has nothing", 1),
    ("echo panic", ["panic"], "its console is above", 2),
    ("seq -f 'line %g' 3000", ["line 1", "line 2"], "its console is above", None),
    # One line that is longer than both ends.
    ("printf '%09000d' 0", ["[...]"], "its console is above", None)])
def test_what_a_kernel_said_at_both_ends_is_shown(tmp_path, script, first, last, n_lines):
    done = guest_of(tmp_path, script + "\n")
    lines = done.stderr.splitlines()
    assert done.returncode == 3 and lines[:len(first)] == first, lines[:3]
    assert lines[-1] == (f"weft guest: guest: the guest ended without a result; {last}")
    assert n_lines in (None, len(lines))
    if "seq" in script:
        gap = lines.index("[...]")
        assert lines[gap - 1] == f"line {gap}" and lines[-2] == "line 3000"
        assert lines[gap + 1].startswith("line ") and len(done.stderr) < 4200


def test_a_slow_reader_gets_all_that_a_guest_writes(tmp_path):
    """Through a pipe that does not block, as a terminal that another program has made so."""
    kernel = tmp_path / "kernel"
    kernel.write_text("""#!/bin/sh
for word; do
    case $word in WEFT_GUEST_SCRATCH=*) scratch=${word#*=} ;; esac
done
seq 100000 >"$scratch/out"
echo 0 >"$scratch/exit"
""")
    kernel.chmod(0o755)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, encoding="ascii") as out, subprocess.Popen(
            [BUILD / "weft", "guest", "--", "true"], cwd=ROOT, stdout=writing,
            env={**os.environ, "WEFT_GUEST_KERNEL": str(kernel)}) as running:
        os.close(writing)
        time.sleep(0.5)
        assert out.read().split() == [str(i) for i in range(1, 100001)]
        assert running.wait(timeout=60) == 0


@needs_guest
def test_what_a_guest_writes_is_not_lost_unnoticed():
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([BUILD / "weft", "guest", "--", "sh", "-c", "echo a; sleep 1; echo b; exit 1"], cwd=ROOT,
                              stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == 2 and done.stderr.count("weft: stdout: No space left on device") == 1, done.stderr


def test_a_guest_removes_what_a_killed_one_left(tmp_path):
    """Its scratch folder, empty or not, of a process that is no more."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for name in ("empty", "killed"):
        (tmp_path / f"weft-guest.{ended.pid}.{name}").mkdir()
    (tmp_path / f"weft-guest.{ended.pid}.killed" / "argv").write_text("true")
    done = guest_of(tmp_path, 'echo 0 >"$scratch/exit"\n', TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.glob("weft-guest.*")) == []


def kernel_of(folder, body):
    """Makes a kernel for virtual time: a program that works in the guest's folder."""
    subprocess.run(["gcc", "-x", "c", "-", "-o", folder / "kernel"], check=True, text=True, timeout=60, input=f"""
        #include <stdio.h>
        #include <unistd.h>
        int main(int n, char **words)
        {{
            fprintf(stderr, "/proc/um_seed %d %s\\n", n, words[0]);
            {body}
        }}""")
    return folder / "kernel"


def swarm_of(kernel, *args, env=(), **kwargs):
    return subprocess.run(
        [BUILD / "weft", "swarm", *args, "--backend", "soft", "--seeds", "1..1"], cwd=kernel.parent, timeout=60,
        env={**os.environ, "WEFT_GUEST_KERNEL": str(kernel), **dict(env)}, capture_output=True, text=True,
        check=False, **kwargs)


def test_a_crash_in_a_guest_is_told_from_an_error(tmp_path):
    """The guest reports the exit status of the command, as the guest's first process does: 128 and the
    signal of one that died. A limit of file sizes ends the guest's supervisor itself."""
    kernel = kernel_of(tmp_path, 'FILE *file = fopen("exit", "w"); fprintf(file, "%s", "@@@@"); return fclose(file);')
    program = kernel.read_bytes()

    def row_of(status, code, **kwargs):
        kernel.write_bytes(program.replace(b"@@@@", status.rjust(4).encode()))
        done = swarm_of(kernel, ROOT / "scenarios/basic/pair.yaml", **kwargs)
        assert done.returncode == code, done.stderr
        row = json.loads(done.stdout)
        failed, = row["failed"]
        assert failed["expect"] == "the run ends"
        return row["result"], failed["got"]

    assert row_of("139", 1) == ("crash", "exit status 139")
    assert row_of("1", 1) == ("crash", "exit status 1")
    assert row_of("2", 2) == ("error", "exit status 2")
    assert row_of("124", 124) == ("timeout", "exit status 124")
    assert row_of("0", 2) == ("error", "it said nothing")

    def without_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    assert row_of("0", 1, preexec_fn=without_files) == ("crash", "signal 25 (File size limit exceeded)")


def test_the_last_line_of_a_run_is_in_its_row_whatever_its_bytes(tmp_path):
    kernel = kernel_of(tmp_path, 'FILE *file = fopen("err", "w"); fputs("first\\nb\\xe9 bad\\n", file); fclose(file);'
                                 'file = fopen("exit", "w"); fputs("2", file); return fclose(file);')
    done = swarm_of(kernel, ROOT / "scenarios/basic/pair.yaml")
    assert done.returncode == 2, done.stderr
    row = json.loads(done.stdout)
    assert (row["result"], row["failed"]) == ("error", [{"expect": "the run ends", "got": "b? bad"}])


def test_a_guest_of_a_swarm_that_does_not_end_leaves_no_scenario(tmp_path):
    kernel = kernel_of(tmp_path, "return (int)sleep(100);")
    done = swarm_of(kernel, "--space", "packets", "--time-limit", "1", env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 124, done.stderr
    row = json.loads(done.stdout)
    assert (row["result"], row["failed"][0]["got"]) == ("timeout", "out of time")
    assert not list(tmp_path.glob("weft-swarm-*"))
