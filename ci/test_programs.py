"""Scenarios whose jobs are programs (exec), over the kernel's soft-RoCE in a guest."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
NO_TIME_STAMPS = "weft: guest: this machine lets programs read its own time stamp counter"


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"SKIP lab program: {program} is not installed; enable with: ci/deps lab")


def weft(*args, kernel=None, cache=None, cwd=ROOT, shell=None):
    """(exit status, stdout, stderr without what this machine's hypervisor does); `shell`: variables besides."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")
           or name in ("WEFT_GUEST_KERNEL", "WEFT_GUEST_MEMORY", "WEFT_BUILD")}
    if kernel is not None:
        env["WEFT_GUEST_KERNEL"] = kernel
    if cache is not None:
        env["XDG_CACHE_HOME"] = str(cache)
    env.update(shell or {})
    done = subprocess.run([WEFT, *args], cwd=cwd, timeout=400, env=env, capture_output=True, text=True,
                          check=False)
    errors = [line for line in done.stderr.splitlines() if not line.startswith(NO_TIME_STAMPS)]
    return done.returncode, done.stdout, "\n".join(errors)


PAIR = """\
name: p
topology:
  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}
  links: [{endpoints: ["a:p0", "b:p0"], subnet: 10.1.0.0/30}]
"""
# Says what is done to it, and ends well once it got SIGTERM.
LISTENS = "trap 'echo asked; exit 0' TERM; while :; do sleep 1; done"


def scenario(folder, jobs, rest=""):
    path = folder / "p.yaml"
    path.write_text(PAIR + "jobs:\n" + "".join(f"  - exec: {job}\n" for job in jobs) + rest)
    return path


def run(path, *args):
    """(exit status, document)."""
    code, out, errors = weft("run", "--backend", "rxe", "--json", path, *args)
    assert out, errors
    return code, json.loads(out)


def judged(document):
    return [(entry["expect"], entry["got"], entry["ok"]) for entry in document["expectations"]]


JUDGED = [
    # nothing said: all end with 0
    ('{a: "true", "*": "echo x"}', [("job 0, a: status 0", "status 0", True),
                                     ("job 0, b: status 0", "status 0", True)]),
    ('{a: "exit 3"}', [("job 0, a: status 0", "status 3, it wrote nothing", False)]),
    ('{a: "kill -9 $$"}', [("job 0, a: status 0", "signal 9, it wrote nothing", False)]),
    ("{a: [./no-such-program]}", [
        ("job 0, a: status 0", "status 127, its last line is 'weft exec: a: ./no-such-program: No such "
         "file or directory'", False)]),
    # what is cut is text still: a line that is not has no place in a document
    ("""{a: "printf '%119sä' x; exit 3"}""", [
        ("job 0, a: status 0", f"status 3, its last line is '{'x':>119}'", False)]),
    # of each host, or of all
    ('{a: "exit 3", b: "true", expect: {status: {a: 3}}}', [
        ("job 0, a: status 3", "status 3", True), ("job 0, b: status 0", "status 0", True)]),
    ('{"*": "exit 4", expect: {status: 4}}', [("job 0, a: status 4", "status 4", True),
                                              ("job 0, b: status 4", "status 4", True)]),
    ('{a: "kill -SEGV $$", expect: {status: 139}}', [("job 0, a: status 139", "signal 11", True)]),
    ('{a: "exit 9", expect: {status: any}}', [("job 0, a: any end", "any end: status 9", True)]),
    ('{a: "true", expect: {status: killed}}', [
        ("job 0, a: killed by a fault", "status 0, it wrote nothing", False)]),
    # output: both streams, by lines
    ('{a: "echo one; echo two >&2; printf three", expect: {output: "^(one|two|three)$"}}', [
        ("job 0, a: status 0", "status 0", True),
        ("job 0, a: output ^(one|two|three)$", "output ^(one|two|three)$", True)]),
    ('{a: "echo one; echo two >&2", b: "echo two", expect: {output: {a: "^two$", b: one}}}', [
        ("job 0, a: status 0", "status 0", True), ("job 0, a: output ^two$", "output ^two$", True),
        ("job 0, b: status 0", "status 0", True),
        ("job 0, b: output one", "no such line, its last line is 'two'", False)]),
    ('{a: [echo, "{address:b}", "{rank}", "{{rank}}"], expect: {output: "^10.1.0.2 0 [{]rank[}]$"}}', [
        ("job 0, a: status 0", "status 0", True),
        ("job 0, a: output ^10.1.0.2 0 [{]rank[}]$", "output ^10.1.0.2 0 [{]rank[}]$", True)]),
]


@needs_guest
def test_programs_are_judged_by_their_ends_and_what_they_wrote(tmp_path):
    """All cases are jobs of one scenario: what one does not bring ends none of the others."""
    code, document = run(scenario(tmp_path, [job for job, _ in JUDGED]))
    expected = [(expect.replace("job 0", f"job {index}"), got, ok)
                for index, (_, lines) in enumerate(JUDGED) for expect, got, ok in lines]
    assert judged(document) == expected
    assert code == 1 and document["result"] == "fail"
    assert [job["index"] for job in document["jobs"]] == list(range(len(JUDGED)))


@needs_guest
def test_programs_have_their_time(tmp_path):
    """What still runs is asked to end, and killed two seconds later; what had not begun does not."""
    code, document = run(scenario(tmp_path, [
        f'{{a: "{LISTENS}", b: "sleep 1", expect: {{status: {{a: hangs}}, within: 10s}}}}',
        '{a: "trap \'\' TERM; while :; do sleep 1; done", expect: {status: hangs, within: 3s}}',
        '{a: "true", b: "true", expect: {status: {b: any}, within: 500ms}}',
        '{a: "sleep 9", b: "true", expect: {within: 4s}}',
        '{a: "sleep 9", b: "true", expect: {status: hangs, within: 4s}}']))
    assert code == 1
    assert [(text.rpartition(": ")[0], ok) for text, _, ok in judged(document)] == [
        ("job 0, a", True), ("job 0, b", True), ("job 0", True),
        ("job 1, a", True), ("job 1", True),
        ("job 2, a", True), ("job 2, b", False), ("job 2", False),
        ("job 3, a", False), ("job 3, b", True), ("job 3", False),
        ("job 4, a", True), ("job 4, b", False), ("job 4", True)]
    ends = [[(program["ended"], program["status"]) for program in job["programs"]]
            for job in document["jobs"]]
    assert ends == [[("hangs", None), ("exited", 0)], [("hangs", None)],
                    [("exited", 0), ("not started", None)], [("hangs", None), ("exited", 0)],
                    [("hangs", None), ("exited", 0)]]
    assert "asked\n" in document["jobs"][0]["programs"][0]["output"]  # and how sleep ended
    took = [job["time_ns"] // 1_000_000 for job in document["jobs"]]
    assert took == [10000, 5000, 500, 4000, 4000]


@needs_guest
def test_a_loop_that_stops_the_clock_has_a_limit_in_real_time(tmp_path):
    # It counts, and so is no spin: no time of the guest passes so soon.
    path = scenario(tmp_path, ['{a: "while :; do :; done", expect: {within: 1s}}'])
    code, _, errors = weft("run", "--backend", "rxe", "--time-limit", "5", path)
    assert code == 124 and "5 s" in errors, errors


@needs_guest
def test_a_loop_that_counts_ends_with_its_job_and_twice_the_same(tmp_path):
    """Its time passes after 10 s of this machine's processor; another program runs beside it."""
    path = scenario(tmp_path, ['{a: "while :; do :; done", b: "sleep 1; echo ended", '
                               'expect: {status: {a: hangs}, output: {b: "^ended$"}, within: 3s}}'])
    (code, one), (_, other) = run(path), run(path)
    assert code == 0, judged(one)
    assert one["trace_hash"] == other["trace_hash"]


def test_a_time_limit_is_refused_where_no_guest_runs(tmp_path):
    path = scenario(tmp_path, ['{a: "true"}'])
    code, _, errors = weft("run", "--time-limit", "5", path)
    assert code == 2 and "this run is in no guest" in errors


@needs_guest
def test_nothing_of_a_job_is_left_to_the_next(tmp_path):
    code, document = run(scenario(tmp_path, [
        '{a: "setsid sleep 600 & sleep 600 & echo done"}',
        '{a: "ps -e -o comm= | grep -c sleep; true", expect: {output: "^0$"}}']))
    assert code == 0, judged(document)


@needs_guest
def test_faults_come_at_times_and_at_moments_of_the_jobs(tmp_path):
    """A time counts from when the first command begins, `jobs` from when the last one does."""
    path = scenario(tmp_path, ['{a: "sleep 3", b: "sleep 3"}', '{b: "sleep 3", expect: {status: killed}}',
                               '{b: "sleep 5"}'], """
faults:
  - {at: 500ms, on: "a:p0", kind: down, for: 100ms}
  - {at: jobs+500ms, on: "a:p0", kind: loss, share: 100%}
  - {at: row 2+2s, on: b, kind: kill}
  - {at: row 3+1s, on: b, kind: stop, for: 2s}
  - {at: row 3+60s, on: a, kind: kill}
""")
    events = tmp_path / "events"
    code, document = run(path, f"--events={events}")
    assert code == 0, judged(document)
    assert document["warnings"] == ["fault 5 at row 3+1m0s never came: the programs were over before"] \
        or document["warnings"] == ["fault 5 at row 3+60s never came: the programs were over before"]
    begun = {}
    for line in events.read_text().splitlines():
        at, _, what, event, *rest = line.split(" ")
        if (what, event) == ("exec", "begins"):
            begun.setdefault(int(rest[0].removeprefix("job=")), int(at))
    came = [(int(line.split(" ")[0]), *line.split(" ")[2:5]) for line in events.read_text().splitlines()
            if " fault" in line]
    assert [(what, event, kind) for _, what, event, kind in came] == [
        ("p0", "fault", "kind=down"), ("p0", "fault_ends", "kind=down"), ("p0", "fault", "kind=loss"),
        ("host", "fault", "kind=kill"), ("host", "fault", "kind=stop"), ("host", "fault_ends", "kind=stop")]
    due = [begun[0] + 500_000_000, begun[0] + 600_000_000, begun[0] + 1_500_000_000,
           begun[1] + 2_000_000_000, begun[2] + 1_000_000_000, begun[2] + 3_000_000_000]
    assert all(abs(at - want) < 1_000_000 for (at, *_), want in zip(came, due)), (came, due)


@needs_guest
@pytest.mark.parametrize("waits", ["-e", ""], ids=["asleep", "polling"])
def test_a_seed_has_one_story_and_a_replay_line_repeats_it(tmp_path, waits):
    needs("ibv_rc_pingpong")
    path = scenario(tmp_path, [
        f'{{a: "ibv_rc_pingpong {waits} -g 1 -d {{device}} -n 50", b: "ibv_rc_pingpong {waits} -g 1 -d {{device}} '
        '-n 50 {address}", expect: {output: "^50 iters"}}'],
        'faults: [{at: jobs+100us, on: "a:p0", kind: loss, share: 20%, for: 300ms}]\n')

    def bytes_of(name, *args):
        files = [tmp_path / f"{name}.{kind}" for kind in ("json", "events", "pcapng")]
        code, _, errors = weft("run", path, *args, *(f"--{kind}={file}" for kind, file in zip(
            ("json", "events", "pcap"), files)))
        assert code == 0, errors
        text = [file.read_bytes().replace(name.encode(), b"x") for file in files]
        return [hashlib.sha256(one).hexdigest() for one in text], json.loads(files[0].read_text())
    first, document = bytes_of("first", "--backend", "rxe")
    assert (tmp_path / "first.pcapng").stat().st_size > 50_000
    replay = shlex.split(document["replay"])
    assert replay[:2] == ["weft", "run"] and "rxe" in replay and "virtual" in replay
    again, same = bytes_of("again", *[word for word in replay[2:] if word != str(path)
                                      and not word.startswith(("--json", "--events", "--pcap"))])
    assert same["trace_hash"] == document["trace_hash"] and again[1:] == first[1:]
    other, another = bytes_of("other", "--backend", "rxe", "--seed", "77")
    assert another["trace_hash"] != document["trace_hash"] and other[1] != first[1]


@needs_guest
def test_people_and_parsers_see_what_programs_did(tmp_path):
    path = scenario(tmp_path, ['{a: "seq 40; exit 5", b: "printf \'\\\\033[31mred\\\\377\\\\000.\'"}'])
    junit, page = tmp_path / "junit.xml", tmp_path / "page.html"
    code, out, errors = weft("run", "--backend", "rxe", path, f"--junit={junit}", f"--html={page}")
    assert code == 1
    assert re.search(r"^  a +5 +0\.\d+ms +[\d.]+ms +seq 40; exit 5$", out, re.M), out
    assert "a: ... (28 lines more: -v, or --json)\n  a: 29\n" in out and "  a: 40\n" in out
    assert "  b: ?[31mred??.\n" in out
    assert "not ok job 0, a: expected status 0, got status 5, its last line is '40'" in out
    assert f"replay: weft run {path} --backend rxe" in errors
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failure = suite.find("testcase/failure")
    assert "40" in failure.text and "replay: weft run" in failure.text
    assert "not ok job 0, a" in page.read_text() and "<svg" not in page.read_text()
    assert "  a: 1\n" in weft("run", "--backend", "rxe", "-v", path)[1]


@needs_guest
def test_what_a_program_writes_is_kept_up_to_a_bound(tmp_path):
    code, document = run(scenario(tmp_path, ['{a: "seq 300000"}']))
    program = document["jobs"][0]["programs"][0]
    assert code == 0 and len(program["output"]) <= 1 << 20
    assert len(program["output"]) + program["output_left_out"] == len("".join(
        f"{number}\n" for number in range(1, 300001)))
    assert program["output"].startswith("1\n2\n") and program["output"].endswith("\n299999\n300000\n")


@needs_guest
def test_programs_have_the_environment_of_their_scenario(tmp_path):
    """Each folder of PATH costs a call: a shell with another one, or other variables, changes no hash."""
    path = tmp_path / "p.yaml"
    path.write_text(PAIR.replace("b: {ports: [p0]}", "b: {ports: [p0], env: {PATH: /bin, HOME: /, X: y}}")
                    + 'jobs: [{exec: {"*": "env | sort"}}]\n')
    cache = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    documents = [json.loads(weft("run", "--backend", "rxe", "--json", path, cache=cache, shell=shell)[1])
                 for shell in ({}, {"PATH": "/a:/b/c:" + os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C",
                                    "LANG": "x", "TZ": "UTC", "TMPDIR": str(tmp_path), "NCCL_DEBUG": "INFO",
                                    "LD_LIBRARY_PATH": "/a:/b"})]
    assert documents[0]["trace_hash"] == documents[1]["trace_hash"]
    a, b = ([line for line in program["output"].splitlines() if not line.startswith(("PWD=", "WEFT_IN_GUEST="))]
            for program in documents[0]["jobs"][0]["programs"])
    assert a == ["HOME=/run", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "TMPDIR=/run", "UCX_UD_VERBS_ETH_DGID_CHECK=n"]
    assert b == ["HOME=/", "LANG=C.UTF-8", "PATH=/bin", "TMPDIR=/run", "UCX_UD_VERBS_ETH_DGID_CHECK=n", "X=y"]


PINGPONG = "ibv_rc_pingpong -e -d {device}"
FLAP = "ip link set p0 down; sleep 0.1; ip link set p0 up"
FOUND_IN_JOBS = [
    # A host that one job stops is there in the next.
    ([f'{{a: "{PINGPONG} -g 1 -n 100000", b: "{PINGPONG} -g 1 -n 100000 {{address}}", '
      'expect: {status: hangs, within: 9s}}',
      f'{{a: "{PINGPONG} -g 1", b: "{PINGPONG} -g 0 {{address}}", expect: {{status: 1, within: 9s}}}}'],
     "faults: [{at: jobs+2ms, on: a, kind: stop}]\n", ["peer.silent", "gid.link_local"]),
    # A carrier that one job lost is not lost in the next; that needs no fault.
    ([f'{{a: "{FLAP}; sleep 2"}}',
      f'{{a: "{PINGPONG} -g 1", b: "sleep 99", expect: {{status: hangs, within: 3s}}}}'],
     "", ["undetermined"]),
    # Whose turn to send it is, its own port is down.
    ([f'{{a: "{PINGPONG} -g 1 -n 5000 & sleep 1.01; {FLAP}; wait $!", '
      f'b: "{PINGPONG} -g 1 -n 5000 {{address}} & sleep 0.01; {FLAP}; wait $!", expect: {{status: any, within: 9s}}}}'],
     "", ["link.down"]),
    # What comes after the failure does not explain it.
    ([f'{{a: "{PINGPONG} -g 1 -n 100000", b: "{PINGPONG} -g 1 -n 9 -d x", '
      'expect: {status: any, within: 9s}}'],
     'faults: [{at: jobs+3s, on: "a:p0", kind: down, for: 1s}, {at: jobs+5s, on: a, kind: kill}]\n',
     ["host.no_device"]),
]


@needs_guest
@pytest.mark.parametrize("jobs,rest,found", FOUND_IN_JOBS)
def test_a_finding_is_of_its_own_job(tmp_path, jobs, rest, found):
    needs("ibv_rc_pingpong")
    _, document = run(scenario(tmp_path, jobs, rest))
    assert [finding["code"] for finding in document["findings"]] == found, judged(document)


@pytest.mark.parametrize("backend", ["sim", "soft"])
def test_another_backend_says_what_to_do(tmp_path, backend):
    path = scenario(tmp_path, ['{a: "true"}'])
    args = () if backend == "sim" else ("--clock", "real")
    code, _, errors = weft("run", "--backend", backend, *args, path)
    assert code == 3 and "use --backend rxe (make rxe-guest builds it, once)" in errors


def test_without_a_guest_it_says_how_to_build_one(tmp_path):
    path = scenario(tmp_path, ['{a: "true"}'])
    code, _, errors = weft("run", "--backend", "rxe", path, kernel="", cache=tmp_path)
    assert code == 3 and "make rxe-guest" in errors


@pytest.mark.parametrize("job,rest,code,said", [
    ('{a: "echo {adress:b}"}', "", 2, "p.yaml:6:5: exec: {adress:b}: no such placeholder"),
    ('{a: "x", b: "y {device:b}"}', "", 2, "{device:b} on b: no cable joins the two"),
    ('{a: "true"}', 'faults: [{at: a sent 1MiB, on: "a:p0", kind: down}]', 3,
     "fault 1 (down) comes when a host has sent so much"),
    ('{a: "true"}', "faults: [{on: a, kind: verb_error, verb: create_qp, errno: 12}]", 3,
     "fault 1 (verb_error) is made within Weft's own processes")])
def test_mistakes_are_known_before_a_guest_starts(tmp_path, job, rest, code, said):
    path = scenario(tmp_path, [job], rest)
    ended, _, errors = weft("run", "--backend", "rxe", path, kernel="/bin/false")
    assert ended == code and said in errors, errors
    ended, _, errors = weft("validate", path)
    assert ended == (2 if code == 2 else 0) and said in errors


def test_other_commands_know_such_scenarios(tmp_path):
    path = scenario(tmp_path, ['{a: "true"}'])
    assert weft("validate", path)[:2] == (0, f"{path}: ok\n")
    listed, = json.loads(weft("list", "--json", tmp_path)[1])["scenarios"]
    assert listed["backends"] == ["rxe"]
    code, out, _ = weft("show", path)
    assert code == 0 and "physical bounds" not in out
    code, _, errors = weft("show", "--plan", path)
    assert code == 2 and "the jobs are programs" in errors
    code, _, errors = weft("node", "--scenario", path, "--name", "a")
    assert code == 3 and "its jobs are programs" in errors


PROGRAMS = ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ibv_xsrq_pingpong",
            "ibv_devinfo", "rping", "ucmatose", "udaddy", "ucx_info", "ucx_perftest", "ib_send_bw",
            "ib_write_bw", "fi_pingpong", "mpirun")
FILES_OF = {"mpirun": "/usr/lib/python3/dist-packages/mpi4py", "run_tests.py": "/usr/share/doc/rdma-core/tests"}
FILES = sorted((ROOT / "scenarios" / "programs").glob("*.yaml"))


def needs_programs_of(path):
    text = path.read_text().partition("jobs:")[2]
    used = [program for program in PROGRAMS if re.search(rf"\b{program}\b", text)]
    needs(*used)
    for word, file in FILES_OF.items():
        if word in text and not Path(file).exists():
            pytest.skip(f"SKIP lab program: {file} is not installed; enable with: ci/deps lab")
    assert used or any(word in text for word in FILES_OF)


def run_of(path):
    """(exit status, document), unless a program of it is not here."""
    needs_programs_of(path)
    return run(path)


@needs_guest
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_scenario_of_programs_ends_as_it_says(path):
    """Foreign programs, unchanged: what works, and how each fails when something is wrong."""
    code, document = run_of(path)
    assert code == 0, judged(document)


@needs_guest
def test_a_cable_under_mpi_is_named_with_its_port():
    """UCX prints the address that it sent to, and not the port from which."""
    code, document = run_of(ROOT / "scenarios" / "programs" / "mpi-down.yaml")
    assert code == 0, judged(document)
    assert [finding["where"] for finding in document["findings"]] == [
        {"host": "titanic", "port": "p0", "peer": "iceberg"}]


@needs_guest
@pytest.mark.parametrize("name", ["fi-pingpong", "pyverbs", "rc-pingpong-down", "ucx-perftest",
                                  "ucx-perftest-wrong-device"])
def test_a_foreign_program_does_the_same_twice(name):
    one, other = (run_of(ROOT / "scenarios" / "programs" / f"{name}.yaml") for _ in range(2))
    assert one[0] == other[0] == 0 and one[1]["trace_hash"] == other[1]["trace_hash"]
    assert [job["programs"] for job in one[1]["jobs"]] == [job["programs"] for job in other[1]["jobs"]]


@needs_guest
def test_seeds_over_programs(tmp_path):
    """weft swarm: a program that fails on some seeds fails on each of these every time."""
    path = scenario(tmp_path, ['{a: "test $((0x$(od -An -N1 -tx1 /dev/urandom | tr -d \' \'))) -lt 128"}'])
    code, out, errors = weft("swarm", path, "--backend", "rxe", "--seeds", "1..4", "--jobs", "1")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["seed"] for row in rows] == ["1", "2", "3", "4"], errors
    results = [row["result"] for row in rows]
    assert set(results) == {"pass", "fail"} and code == 1
    for row, result in zip(rows, results):
        assert run(path, "--seed", row["seed"])[1]["result"] == result


@needs_guest
def test_mpi_whose_cable_goes_down_is_one_story_a_seed():
    """A row of a swarm, and its replay line in a shell with another PATH."""
    path = ROOT / "scenarios" / "programs" / "mpi-down.yaml"
    needs_programs_of(path)
    (row,), errors = swarm_of(path, "2..2")
    code, out, _ = weft(*row["replay"].split()[1:], "--json", shell={"PATH": "/a:/b/c:" + os.environ["PATH"]})
    document = json.loads(out)
    assert (document["result"], document["trace_hash"]) == (row["result"], row["trace_hash"]), errors
    assert code == int(row["result"] != "pass")


@pytest.fixture(scope="module", name="racy")
def fixture_racy(tmp_path_factory):
    program = tmp_path_factory.mktemp("racy") / "racy"
    subprocess.run(["cc", "-O1", "-o", program, ROOT / "ci" / "guest" / "racy.c", "-libverbs", "-lpthread"],
                   check=True)
    return program


def swarm_of(path, seeds, *args, cwd=ROOT):
    """Rows of JSON, and what went wrong."""
    _, out, errors = weft("swarm", path, "--backend", "rxe", "--seeds", seeds, "--jobs", "2", *args, cwd=cwd)
    return [json.loads(line) for line in out.splitlines()], errors


@needs_guest
def test_a_race_of_two_threads_is_lost_on_some_seeds_and_each_time(tmp_path, racy):
    """And its replay line, typed as it is, fails alike; flags that print less or more change nothing."""
    path = scenario(tmp_path, [f'{{a: "{racy} {{device}} 1"}}'])
    rows, errors = swarm_of(path, "1..12")
    results = [row["result"] for row in rows]
    assert len(rows) == 12 and set(results) == {"pass", "fail"}, errors
    assert swarm_of(path, "1..12")[0] == rows
    lost = next(row for row in rows if row["result"] == "fail")
    code, out, _ = weft(*lost["replay"].split()[1:], "--json")
    document = json.loads(out)
    assert code == 1 and document["trace_hash"] == lost["trace_hash"]
    assert document["jobs"][0]["programs"][0]["output"].startswith("Got completion with status 13")
    for flag in ("--quiet", "--verbose"):
        again = [weft("run", "--backend", "rxe", path, "--seed", row["seed"], flag)[0] for row in rows]
        assert again == [int(result == "fail") for result in results]


@needs_guest
def test_what_fails_with_a_program_is_made_small(tmp_path):
    """The program that fails stays, and nothing else: no other job, before it or after it, and no fault."""
    path = scenario(tmp_path, ['{b: "true"}', '{a: "exit 3"}', '{b: "sleep 1"}'],
                    'faults: [{at: 1ms, on: "a:p0", kind: loss, share: 1%, for: 1ms}]\n')
    rows, errors = swarm_of(path, "7..7", "--shrink", cwd=tmp_path)
    assert [row["result"] for row in rows] == ["fail"], errors
    text = (tmp_path / "p-seed-7.yaml").read_text()
    assert "exit 3" in text and not any(word in text for word in ("true", "sleep", "loss")), text
    assert run(tmp_path / "p-seed-7.yaml")[1]["jobs"][0]["programs"][0]["status"] == 3


@pytest.fixture(scope="module", name="statuses")
def fixture_statuses(tmp_path_factory):
    program = tmp_path_factory.mktemp("statuses") / "statuses"
    subprocess.run(["cc", "-O1", "-o", program, ROOT / "ci" / "guest" / "statuses.c", "-libverbs"], check=True)
    return program


@needs_guest
@pytest.mark.parametrize("mode,status,found", [
    ("invalid", 9, "data.request_invalid"), ("refused", 10, "data.access_refused"),
    ("unusable", 11, "data.receive_unusable"), ("long", 11, "data.receive_unusable")])
def test_what_the_peers_device_answers_has_a_cause(tmp_path, statuses, mode, status, found):
    """A program makes each of these completions; the finding is at its end of the cable, and of its peer."""
    _, document = run(scenario(tmp_path, [f'{{a: "{statuses} {mode} {{device}} 1", '
                                          f'b: "{statuses} {mode} {{device}} 1 {{address}}"}}']))
    programs = document["jobs"][0]["programs"]
    assert programs[1]["output"].startswith(f"Got completion with status {status} "), programs
    assert [(finding["code"], finding["where"]) for finding in document["findings"]] == [
        (found, {"host": "b", "port": "p0", "peer": "a"})]


@pytest.fixture(scope="module", name="static")
def fixture_static(tmp_path_factory):
    """The same program without a shared library, into which nothing can be preloaded."""
    program = tmp_path_factory.mktemp("static") / "statuses"
    done = subprocess.run(["cc", "-O1", "-static", "-w", "-DRDMA_STATIC_PROVIDERS=rxe", "-o", program,
                           ROOT / "ci" / "guest" / "statuses.c", "-Wl,--start-group", "-libverbs", "-lrxe-rdmav34",
                           "-lnl-route-3", "-lnl-3", "-lpthread"], capture_output=True, text=True, check=False)
    if done.returncode != 0 and re.search(r"cannot find -l", done.stderr):
        pytest.skip("SKIP lab program: libibverbs.a is not installed; enable with: ci/deps lab")
    assert done.returncode == 0, done.stderr
    return program


@needs_guest
@pytest.mark.parametrize("fault,found", [
    ('on: "a:p0", kind: down', [("link.down", {"host": "b", "port": "p0", "peer": "a"})]),
    ("on: a, kind: kill", [("peer.dead", {"host": "b", "port": "p0", "peer": "a"})]),
    ('on: "a:p0", kind: down, for: 40ms', [])], ids=["down", "killed", "repeated"])
def test_a_static_program_that_prints_nothing_fails_with_what_the_kernel_counted(tmp_path, static, fault, found):
    """Its device gave up repeating: status 12, which the program saw and did not report."""
    path = scenario(tmp_path, [f'{{a: "{static} silent {{device}} 1", b: "{static} silent {{device}} 1 {{address}}", '
                               "expect: {within: 9s}}"], f"faults: [{{at: jobs+300ms, {fault}}}]\n")
    _, document = run(path)
    program = document["jobs"][0]["programs"][1]
    assert (program["ended"], program["status"], program["output"]) == ("exited", int(found != []), ""), program
    assert [(finding["code"], finding["where"]) for finding in document["findings"]] == found


def test_the_documentation_lists_them_all():
    text = (ROOT / "docs" / "lab.md").read_text()
    rows = re.findall(r"^\| (?:works|survives|fails, and how|waits for ever) \| `(.*)` \|$", text, re.M)
    assert len(rows) == 4
    assert sorted(name for row in rows for name in row.split()) == sorted(path.stem for path in FILES)


SINGLE_PACKETS = "ibv_rc_pingpong -e -g 1 -d {device} -n 3000 -s 512"
MOMENTS = [  # and the packets of titanic that iceberg received
    ("titanic:p0 rts", 0),
    ("titanic:p0 packet 1", 1),
    ("titanic:p0 packet 777", 777),
    ("titanic:p0 packet 1000", 1000),
]


@needs_guest
@pytest.mark.parametrize("moment, received", MOMENTS)
def test_a_fault_comes_at_a_moment_of_the_program(tmp_path, moment, received):
    """The packet at which a host is killed has left its port, and no other does after it."""
    needs("ibv_rc_pingpong")
    path = scenario(tmp_path, [
        f'{{a: "{SINGLE_PACKETS}", b: "{SINGLE_PACKETS} {{address}}", expect: {{status: any, within: 9s}}}}'],
        f'faults: [{{at: "{moment.replace("titanic", "a")}", on: a, kind: kill}}]\n')
    code, document = run(path)
    assert document["warnings"] == []
    assert [finding["code"] for finding in document["findings"]] == ["peer.dead"], document["findings"]
    assert document["findings"][0]["evidence"]["local_rx_packets"] == received
    assert document["jobs"][0]["programs"][0]["ended"] == "killed"


@needs_guest
def test_a_fault_counts_the_queue_pairs_of_its_port_alone(tmp_path):
    """Two ping-pongs one after the other: the second one's queue pair is the second in RTS."""
    needs("ibv_rc_pingpong")
    both = f"{SINGLE_PACKETS}; {SINGLE_PACKETS}"
    path = scenario(tmp_path, [
        f'{{a: "{both}", b: "{SINGLE_PACKETS} {{address}}; sleep 1; {SINGLE_PACKETS} {{address}}", '
        f'expect: {{status: any, output: {{a: "^3000 iters"}}, within: 9s}}}}'],
        'faults: [{at: "a:p0 rts 2+1us", on: a, kind: kill}, {at: "b:p0 rts 3", on: b, kind: kill}]\n')
    _, document = run(path)
    assert document["jobs"][0]["programs"][0]["ended"] == "killed"
    assert document["jobs"][0]["programs"][1]["ended"] != "killed"
    assert document["warnings"] == ["fault 2 at b:p0 rts 3 never came: the programs were over before"]


@needs_guest
def test_who_is_not_watched_has_no_queue_pairs(tmp_path):
    path = scenario(tmp_path, ['{a: "true"}'], 'faults: [{at: "a:p0 rts", on: a, kind: kill}]\n')
    code, _, errors = weft("run", "--backend", "rxe", "--watch", "off", path)
    assert code == 3 and "only watched programs show: drop --watch off, or wait for a packet" in errors
    code, _, errors = weft("exec", "--watch", "off", path, "a", "--", "true")
    assert code == 3 and "drop --watch off" in errors and "did not come" not in errors


@needs_guest
def test_weft_exec_has_moments_of_the_program(tmp_path):
    needs("ibv_rc_pingpong")
    path = scenario(tmp_path, ['{a: "true"}'],
                    'faults: [{at: "b:p0 packet 500", on: "b:p0", kind: loss, share: 100%, for: 20ms}]\n')
    said = [weft("exec", path, "--", "sh", "-c",
                 f"if [ {{rank}} = 0 ]; then {SINGLE_PACKETS}; else sleep 1; {SINGLE_PACKETS} a; fi")
            for _ in range(2)]
    assert said[0][0] == 0, said[0]
    assert said[0] == said[1]
    assert re.findall(r"3000 iters in (0.\d+) seconds", said[0][1])[0] > "0.02", said[0]
