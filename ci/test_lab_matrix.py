"""Unmodified programs of Debian in a triangle and between twins: each works, and twice the same, to the byte.

Rows that are not there are in LEFT_OUT, each with the reason that the program itself prints.
"""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from guest_kernel import needs_guest
from test_lab import exec_in, lines_of, needs, needs_time_stamps
from test_programs import FILES_OF, judged, run

ROOT = Path(__file__).resolve().parent.parent
TRIANGLE, TWINS = (ROOT / "scenarios" / "basic" / name for name in ("triangle.yaml", "twin-triangle.yaml"))
# Hosts, their devices, and the server's address: between twins those of the second cable.
MESHES = {
    "triangle": (TRIANGLE, "{device:iceberg}", "{device:titanic}", "{address:titanic}"),
    "twins": (TWINS, "{device:iceberg:p3}", "{device:titanic:p1}", "{address:titanic:p1}"),
}
MEASURE_BY_TIME_STAMPS = ("ib_", "ucx_")  # how the names of such programs begin

# perftest: what it measures, over which transports; FIGURES is in the client's one row of them.
PERFTEST = {"write": ("RC", "UC"), "read": ("RC",), "send": ("RC", "UC", "UD"), "atomic": ("RC",)}
FIGURES = r"^ (2|8|1024|4096) +\d+ +\d+\.\d\d "


def perftest_rows():
    for verb, transports in PERFTEST.items():
        for kind in ("bw", "lat"):
            for transport in transports:
                size = ("-s", "1024" if transport == "UD" else "4096") if kind == "bw" and verb != "atomic" else ()
                for flag in ("", "-R", "-e", "-q"):
                    if (verb, kind, transport, flag) in left_out():
                        continue
                    options = ("-q", "8") if flag == "-q" else (flag,) if flag else ()
                    name = "-".join(word for word in (f"ib_{verb}_{kind}", transport, flag.lstrip("-")) if word)
                    yield name, (f"ib_{verb}_{kind}", "-F", "-x", "1", "-n", "20", "-d", "{own}", "-c", transport,
                                 *size, *options), FIGURES


# Options that a program of perftest does not have: what it prints then.
LEFT_OUT = [
    (("write", "read", "atomic"), ("bw", "lat"), ("UD",), ("",), "UD connection only possible in SEND verb"),
    (("read", "atomic"), ("bw", "lat"), ("UC",), ("",), "UC connection not possible in READ/ATOMIC verbs"),
    (("write",), ("bw", "lat"), ("RC", "UC"), ("-e",), "Events feature not available on WRITE verb"),
    (("write", "read", "send", "atomic"), ("lat",), ("RC", "UC", "UD"), ("-q",),
     "Multiple QPs only available on bw tests"),
    (("write", "send"), ("bw", "lat"), ("UC",), ("-R",), "UC is not supported in librdmacm"),
]


def left_out():
    return {(verb, kind, transport, flag): reason for verbs, kinds, transports, flags, reason in LEFT_OUT
            for verb in verbs for kind in kinds for transport in transports for flag in flags
            if transport in PERFTEST[verb] or flag == ""}


PINGPONG = r"^100 iters in .* usec/iter$"
UCP = ("env", "UCX_TLS=rc,self", "UCX_NET_DEVICES={own}:1", "ucx_perftest", "-n", "100", "-w", "10")
UCT = ("ucx_perftest", "-n", "100", "-w", "10", "-t", "am_lat")
# Name: the command of both ends (the client has the server's address as well), and a line of the client.
PROGRAMS = {
    **{name: (command, line) for name, command, line in perftest_rows()},
    **{f"ibv_{kind}_pingpong": ((f"ibv_{kind}_pingpong", "-g", "1", "-n", "100", "-d", "{own}"), line)
       for kind, line in (("rc", PINGPONG), ("uc", PINGPONG), ("ud", PINGPONG))},
    # Asleep: on a busy machine one of six captures of a polling one is another (docs/lab.md).
    "ibv_srq_pingpong": (("ibv_srq_pingpong", "-e", "-g", "1", "-n", "100", "-d", "{own}"), r"^100 iters in "),
    "ucx_perftest-tag_lat": ((*UCP, "-t", "tag_lat"), r"^Final: +100 "),
    "ucx_perftest-put_bw": ((*UCP, "-t", "ucp_put_bw"), r"^Final: +100 "),
    "fi_pingpong": (("env", "FI_UNIVERSE_SIZE=2", "fi_pingpong", "-p", "verbs;ofi_rxm", "-e", "rdm", "-d", "{own}",
                     "-I", "10"), r"^1m +10 "),
}
# Those whose two ends have other commands.
PAIRS = {
    "rping": (("rping", "-s", "-C", "3", "-v"), ("rping", "-c", "-C", "3", "-v", "-a"), r"^ping data: rdma-ping-2"),
    "ucmatose": (("ucmatose",), ("ucmatose", "-s"), r"^test complete"),
    "udaddy": (("udaddy",), ("udaddy", "-s"), r"^test complete"),
    "ucx_info": (("ucx_info", "-d"), ("ucx_info", "-d"), r"^# +Transport: rc_verbs"),
    **{f"ucx_perftest-uct-{kind}": ((*UCT, "-x", f"{kind}_verbs", "-d", "titanic-p0:1"),
                                    (*UCT, "-x", f"{kind}_verbs", "-d", "iceberg-p1:1"),
                                    f"UCX +ERROR Cannot use {kind}_verbs/iceberg-p1:1") for kind in ("rc", "ud")},
    "ibv_xsrq_pingpong": (("ibv_xsrq_pingpong", "-g", "1"), ("ibv_xsrq_pingpong", "-g", "1"),
                          r"^Couldn't Open the XRC Domain 95"),
}
# Exit statuses of those that fail: rdma_rxe has no XRC (errno 95), and a client of UCT sends the name of its own
# device to the server, whose devices have other names.
FAILS = {"ibv_xsrq_pingpong": 1, "ucx_perftest-uct-rc": 255, "ucx_perftest-uct-ud": 255, "ib_send_lat-RC-e": 17}
# What the client prints that fails, if it is not what its program prints of success. ib_send_lat 4.5 takes the event
# of its receive queue for one of its send queue, because both share a channel, and reads a completion that it never
# polled, of any status (linux-rdma/perftest PR 127).
FAILS_WITH = {"ib_send_lat-RC-e": r"^ Failed status -?\d+: wr_id 0 "}
# A client of UCX whose server failed polls for ever, and its time passes slowly (docs/lab.md, "Not supported").
PATIENCE_S = "1"


def twice(tmp_path, expected, *args):
    """What two runs wrote that are the same, with their captures."""
    if any(str(word).startswith(MEASURE_BY_TIME_STAMPS) for word in args):
        needs_time_stamps()
    captures = [tmp_path / name for name in ("first", "second")]
    one, other = (exec_in("--pcap", capture, *args) for capture in captures)
    assert one[0] == expected, one
    assert other == one
    assert captures[0].read_bytes() == captures[1].read_bytes()
    return one[1] + one[2]


def program_of(command):
    return command[[word != "env" and "=" not in word for word in command].index(True)]


@needs_guest
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_works_and_twice_the_same(name, mesh, tmp_path):
    command, line = PROGRAMS[name]
    needs(program_of(command))
    scenario, server, client, address = MESHES[mesh]
    out = twice(tmp_path, FAILS.get(name, 0), *(("--patience", PATIENCE_S) if name in FAILS else ()), scenario,
                "titanic", "--", *(word.replace("{own}", server) for word in command), ":",
                "iceberg", "--", *(word.replace("{own}", client) for word in command), address)
    assert any(re.search(FAILS_WITH.get(name, line), one) for one in lines_of("iceberg", out)), out


@needs_guest
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", PAIRS)
def test_two_programs_work_and_twice_the_same(name, mesh, tmp_path):
    server, client, line = PAIRS[name]
    needs(server[0])
    scenario, _, _, address = MESHES[mesh]
    out = twice(tmp_path, FAILS.get(name, 0), *(("--patience", PATIENCE_S) if name in FAILS else ()), scenario,
                "titanic", "--", *server, ":", "iceberg", "--", *client,
                *(() if client == server else (address,)))
    assert any(re.search(line, one) for host in ("titanic", "iceberg") for one in lines_of(host, out)), out


def jobs_in(mesh, name, tmp_path, device):
    """The jobs of a scenario of programs in another mesh, of which titanic has that device."""
    document = yaml.safe_load((ROOT / "scenarios" / "programs" / f"{name}.yaml").read_text())
    document["topology"] = yaml.safe_load(MESHES[mesh][0].read_text())["topology"]
    for job in document["jobs"]:
        job["exec"] = {host: text.replace("{device}", device) if isinstance(text, str) else text
                       for host, text in job["exec"].items()}
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


@needs_guest
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", ["pyverbs", "mpi-triangle"])
def test_jobs_of_programs_work_in_each_mesh_and_twice_the_same(name, mesh, tmp_path):
    word = "run_tests.py" if name == "pyverbs" else "mpirun"
    if not Path(FILES_OF[word]).exists():
        pytest.skip(f"SKIP lab program: {FILES_OF[word]} is not installed; enable with: ci/deps lab")
    if name == "mpi-triangle":
        needs_time_stamps()
    path = jobs_in(mesh, name, tmp_path, MESHES[mesh][1])
    (code, one), (_, other) = run(path), run(path)
    assert code == 0, judged(one)
    assert one["trace_hash"] == other["trace_hash"]
    assert [job["programs"] for job in one["jobs"]] == [job["programs"] for job in other["jobs"]]


@pytest.mark.parametrize("row", sorted(left_out()), ids="-".join)
def test_what_is_left_out_is_refused_by_the_program(row):
    """Before it looks for a device: no guest is needed for that."""
    verb, kind, transport, flag = row
    needs(f"ib_{verb}_{kind}")
    options = ("-q", "8") if flag == "-q" else (flag,) if flag else ()
    done = subprocess.run([f"ib_{verb}_{kind}", "-c", transport, *options], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode != 0 and left_out()[row] in done.stdout + done.stderr
