"""The command's contract (docs/cli.md), driven as a user drives it."""

import hashlib
import json
import os
import pty
import re
import resource
import shutil
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT", str(ROOT / "build" / "weft"))
FAST = os.environ.get("WEFT_FAST", WEFT)  # optimised, where a run has to be long
PAIR = "scenarios/basic/pair.yaml"
TRIANGLE = "scenarios/basic/triangle.yaml"
SMALL = ["--set", "jobs.0.all_reduce.bytes=64KiB", "--set", "expect={}"]

DOCUMENT_KEYS = {
    "schema_version", "weft", "file", "error", "scenario", "backend", "policy", "seed", "trace_hash",
    "result", "symptom", "connected", "connections", "completions", "jobs", "links", "findings", "expectations",
    "counters", "warnings", "sim_time_ns", "replay",
}
CONNECTION_KEYS = {
    "from", "to", "from_host", "to_host", "rail", "local_port", "remote_port", "local_gid",
    "remote_gid", "gid_type", "path_mtu", "qps", "via", "setup_ns",
}
JOB_KEYS = {
    "job", "algorithm", "size_bytes", "count", "dtype", "op", "root", "time_ns",
    "alg_bw_gBps", "bus_bw_gBps", "limit_gBps", "nwrong",
}


def weft(*args, code=0, env=None, command=WEFT, **kwargs):
    done = subprocess.run(
        [command, *map(str, args)], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "NO_COLOR": "1", **(env or {})}, check=False, **kwargs)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def run_json(*args, **kwargs):
    done = weft("run", *args, "--json", **kwargs)
    return json.loads(done.stdout)


def scenario(tmp_path, text):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    return path


def test_without_a_verb_it_says_what_there_is():
    assert "usage: weft VERB" in weft(code=2).stderr
    assert "usage: weft VERB" in weft("--help").stdout
    assert weft("--version").stdout.split()[0] == "weft"
    assert "no such verb: dance" in weft("dance", code=2).stderr


def test_a_slip_of_the_hand_is_told_and_what_was_meant():
    expected = {
        ("rnu",): "weft: no such verb: rnu; did you mean 'run'?",
        ("run", "--sed", "3"): "weft run: no such flag: --sed; did you mean --seed?",
        ("run", "--sed=3"): "weft run: no such flag: --sed=3; did you mean --seed?",
        ("run", "--j=3"): "weft run: several flags begin so: --j=3",
        ("run", "--" + "z" * 200): "weft run: no such flag: --" + "z" * 38 + "...",
        ("run", "x.yaml", "--zzzzzzzz"): "weft run: no such flag: --zzzzzzzz",
        ("run", "--j", "3"): "weft run: several flags begin so: --j",
        ("run", "--quiet=3"): "weft run: --quiet: takes no value",
        ("run", "--seed"): "weft run: --seed: a value is missing",
        ("run", "--backend", "foo"): "weft run: --backend: expected sim, soft, rxe or verbs, got 'foo'",
        ("run", "--policy", "wfet"): "weft run: --policy: expected weft, nccl-2.25, nccl-2.30-subnet-aware, "
                                     "mesh-plugin-2026-01, mooncake-2026-06 or nccl-2.29-port-recovery, got "
                                     "'wfet'; did you mean 'weft'?",
        ("run", "--seed", "x"): "weft run: --seed: expected a number from 0 to 2^64-1, got 'x'",
        ("run", "--set", "x"): "weft run: --set: expected PATH=VALUE, got 'x'",
        ("explain", "rout.wrong_nic"): "weft explain: no such code: rout.wrong_nic; did you mean "
                                       "'route.wrong_nic'? (weft explain lists the findings; an errno, a "
                                           "completion status or a line of NCCL's log can be explained, "
                                           "too: weft explain ETIMEDOUT, 'status 12')",
        ("run", "-qx"): "weft run: no such flag: -x",
        ("run", "--seeds", "1..2"): "weft run: no such flag: --seeds; did you mean --seed?",
    }
    for args, line in expected.items():
        done = weft(*args, code=2)
        assert done.stderr.splitlines()[0] == line
        assert done.stdout == ""


def test_the_policies_that_a_flag_takes_are_those_of_scenarios():
    refusal = weft("run", TRIANGLE, "--policy", "none", code=2).stderr
    listed = re.fullmatch(r"weft run: --policy: expected (.*) or (\S+), got 'none'\n", refusal)
    schema = json.loads((ROOT / "docs/scenario.schema.json").read_text())
    assert [*listed[1].split(", "), listed[2]] == schema["properties"]["policy"]["enum"]


def test_every_verb_has_help():
    for verb in ("run", "validate", "list", "show", "bench", "diagnose", "explain", "doctor"):
        assert f"usage: weft {verb}" in weft(verb, "--help").stdout
        assert weft("help", verb).stdout == weft(verb, "--help").stdout


# What must not stand in the help of a verb, because it is said of another verb's flag, and what each
# verb's shared flags say.
FOREIGN = {
    "run": r"--plan|a plugin|the plugin|node|swarm|launcher|clause",
    "show": r"torchrun|a plugin|the plugin|a node|swarm",
    "paths": r"--plan|torchrun|only that", "bench": r"clause",
    "plugin-check": r"benchmark|PXN|ranks not|file's",
    "node": r"--plan|a plugin|the plugin|swarm|--qualify",
    "relayd": r"a plugin|the plugin|a node|swarm|--qualify",
    "doctor": r"--plan|a plugin|the plugin|a node|swarm|scenario all",
    "guest": r"swarm|a run", "exec": r"swarm|a plugin|a run|node", "swarm": r"command is killed|3600",
    "lab": r"swarm|a plugin|a run|node",
}
SAYS = {
    ("run", "backend"): "sim (default)", ("node", "backend"): "verbs (default)",
    ("doctor", "backend"): "verbs (default)", ("plugin-check", "backend"): "NCCL_MESH_BACKEND",
    ("plugin-check", "seed"): "random calls", ("run", "seed"): "the file's",
    ("node", "patience"): "900", ("doctor", "patience"): "900", ("plugin-check", "patience"): "20",
    ("guest", "time-limit"): "3600", ("exec", "patience"): "10", ("exec", "seed"): "the file's",
    ("exec", "clock"): "default: virtual", ("lab", "name"): "of the lab", ("swarm", "time-limit"): "600",
    ("show", "rank"): "--plan", ("node", "rank"): "torchrun", ("paths", "rank"): "rank",
    ("doctor", "save"): "--qualify", ("bench", "list"): "benchmarks", ("plugin-check", "list"): "clauses",
}


def flags_of(verb):
    lines = weft(verb, "--help").stdout.splitlines()
    found = (re.match(r"  (?:-\w, )?--([a-z-]+)\S* (?:\S+)? +(.*)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


@pytest.mark.parametrize("verb", sorted(FOREIGN))
def test_help_of_a_shared_flag_is_about_the_verb(verb):
    flags = flags_of(verb)
    assert len(flags) > 4
    for flag, text in flags.items():
        assert not re.search(FOREIGN[verb], text), (flag, text)
    for (of, flag), words in SAYS.items():
        if of == verb:
            assert words in flags[flag]


QUIET = {"run": "only failures", "node": "only failures", "validate": "only failures", "doctor": "only failures",
         "swarm": "only rows", "plugin-check": "only the verdicts", "cleanup": "how much was removed",
         "paths": "completed or left out", "relayd": "errors only", "guest": "errors only", "exec": "errors only",
         "lab": "errors only"}


def test_every_verb_says_what_quiet_does_to_it():
    for verb in re.findall(r"^  ([a-z-]+) ", weft("--help").stdout, re.MULTILINE):
        said = weft(verb, "--help").stdout
        for flag in ("-q, --quiet", "-v, --verbose", "-h, --help"):
            assert said.count(f"  {flag} ") == 1, (verb, flag)
        assert QUIET.get(verb, "no effect: the verb prints its result only") in flags_of(verb)["quiet"]
    assert weft("show", PAIR, "-q").stdout == weft("show", PAIR).stdout
    assert weft("list", "-q").stdout == weft("list").stdout


@pytest.mark.parametrize("words, place", [
    ([], "NAME:"), (["--set", "expect={result: fail, findings: [route.wrongnic]}"], "--set expect: ")])
@pytest.mark.parametrize("verb", ["validate", "run"])
def test_a_finding_that_weft_does_not_know_is_no_expectation(tmp_path, verb, words, place):
    path = tmp_path / "s.yaml"
    path.write_text((ROOT / "scenarios/basic/triangle-nccl-2.25.yaml").read_text().replace(
        "route.wrong_nic", "route.wrongnic"))
    said = weft(verb, path, *words, code=2).stderr
    line = "findings: unknown finding 'route.wrongnic'; did you mean 'route.wrong_nic'?"
    assert re.search(re.escape(place.replace("NAME", str(path))) + r"(\d+:\d+: )?" + re.escape(line), said), said


def test_the_timers_are_those_that_are_promised():
    said = weft("explain", "--times").stdout
    rows = {what: (nic, software) for what, nic, software in
            re.findall(r"^[* ] (\S.*?) {2,}(\S+) +(\S+)$", said, re.MULTILINE)}
    promise = re.search(r"up to (\d+) s without any route are always survived",
                        (ROOT / "docs/scenario.md").read_text()).group(1)
    assert rows["an outage of all routes of a mesh that every job survives"] == (f"{promise}s",) * 2
    assert rows["one address is tried, at first"] == ("500ms", "1.3s")
    assert rows["pause after the second failure (none after the first), doubling"] == ("4ms",) * 2
    assert len(rows) > 20 and all(len(line) <= 96 for line in said.splitlines())
    assert weft("explain", "--times", "-q").stdout == said


def test_patience_multiplies_limits_only(tmp_path):
    usual, patient = (re.findall(r"^([* ]) (\S.*?) {2,}\S+ +(\S+)$", text, re.MULTILINE) for text in (
        weft("explain", "--times").stdout, weft("explain", "--times", "--patience", "3").stdout))
    assert [row[:2] for row in usual] == [row[:2] for row in patient]
    for (mark, what, before), (_, _, after) in zip(usual, patient):
        assert (before == after) == (mark == " "), what
    assert ("*", "an outage of all routes of a mesh that every job survives", "15s") in patient
    assert "from 1 to 1000" in weft("run", "--patience", "0", "x.yaml", code=2).stderr
    path = tmp_path / "s.yaml"
    # A pair's only cable is away for 3 s, of which 1 s is promised without patience.
    path.write_text("name: away\ntopology:\n  nodes:\n    a: {ports: [p]}\n    b: {ports: [p]}\n  links:\n"
                    "    - {endpoints: ['a:p', 'b:p'], subnet: 10.1.0.0/24, rate: 10Gbps}\n"
                    "faults:\n  - {at: jobs+100us, on: 'a:p', kind: down, for: 3s}\n"
                    "jobs:\n  - all_reduce: {bytes: 8MiB}\n")
    weft("run", path, code=1)
    weft("run", path, "--patience", "4")
    weft("run", path, "--set", "patience=4")
    assert "1001 is not in 1..1000" in weft("run", path, "--set", "patience=1001", code=2).stderr


def test_doctor_saves_a_scenario_or_refuses(tmp_path):
    said = weft("doctor", PAIR, "--save", tmp_path / "s.yaml", code=2).stderr
    assert "--save: only --qualify makes a scenario" in said
    assert not (tmp_path / "s.yaml").exists()


@pytest.mark.parametrize("words, names", [
    (["110"], ["ETIMEDOUT (errno 110)"]), (["ETIMEDOUT"], ["ETIMEDOUT (errno 110)"]),
    (["12"], ["ENOMEM (errno 12)", "RETRY_EXC_ERR (completion status 12)"]),
    (["status 12"], ["RETRY_EXC_ERR (completion status 12)"]),
    (["unhandled", "system", "error"], ["unhandled system error"]),
    (["IBV_WC_RETRY_EXC_ERR"], ["RETRY_EXC_ERR (completion status 12)"])],
    ids=lambda value: " ".join(value))
def test_what_users_have_in_hand_is_explained(words, names):
    said = weft("explain", *words).stdout
    heads = [line for line in said.splitlines() if re.match(r"[A-Z_]+ \(|unhandled", line)]
    assert heads == names
    codes = set(re.findall(r"^ *\d+\. ([a-z]+\.[a-z_]+)$", said, re.MULTILINE))
    known = {line.split()[0] for line in weft("explain").stdout.splitlines()}
    assert codes and codes <= known
    # A question stands between one cause and the next.
    assert said.count("    Ask: ") == len(re.findall(r"^ *\d+\. ", said, re.MULTILINE)) - len(names)


def test_the_document_has_every_key_and_nothing_else_is_on_stdout():
    document = run_json(TRIANGLE, *SMALL)
    assert set(document) == DOCUMENT_KEYS
    assert document["schema_version"] == 1
    assert document["result"] == "pass"
    assert isinstance(document["seed"], str)
    assert document["symptom"] is None
    assert len(document["connections"]) == 6
    for connection in document["connections"]:
        assert set(connection) >= CONNECTION_KEYS
        assert connection["path_mtu"] == 4096
        assert connection["gid_type"] == "RoCE v2"
        assert connection["via"] == []
        assert isinstance(connection["setup_ns"], int)
    for job in document["jobs"]:
        assert set(job) >= JOB_KEYS
        assert job["nwrong"] == 0
        assert 0 < job["bus_bw_gBps"] <= job["limit_gBps"]
    assert {link["drops"] for link in document["links"]} == {0}
    assert all(expectation["ok"] for expectation in document["expectations"])
    assert document["findings"] == [] and document["warnings"] == []


def test_each_cable_of_the_triangle_carries_the_connections_of_its_two_hosts():
    ports = {("titanic", "iceberg"), ("iceberg", "carpathia"), ("carpathia", "titanic")}
    seen = {}
    for connection in run_json(TRIANGLE, *SMALL)["connections"]:
        key = frozenset((connection["from_host"], connection["to_host"]))
        seen.setdefault(key, set()).add(
            frozenset((connection["local_gid"], connection["remote_gid"])))
    assert set(seen) == {frozenset(pair) for pair in ports}
    assert all(len(gids) == 1 for gids in seen.values())


def test_the_hash_is_of_the_story_and_the_story_repeats(tmp_path):
    stories = []
    for name in ("a", "b"):
        events = tmp_path / name
        document = run_json(PAIR, "--events", events)
        stories.append(events.read_bytes())
        assert document["trace_hash"] == hashlib.sha256(stories[-1]).hexdigest()
    assert stories[0] == stories[1]
    for line in stories[0].decode().splitlines():
        at, host, thing, event = line.split(" ")[:4]
        assert int(at) >= 0 and host and thing and event


def test_another_seed_is_another_story_and_the_environment_sets_flags():
    first = run_json(PAIR)
    other = run_json(PAIR, env={"WEFT_SEED": "99"})
    assert other["seed"] == "99"
    assert other["trace_hash"] != first["trace_hash"]
    assert run_json(PAIR, "--seed", "99")["trace_hash"] == other["trace_hash"]
    flag_wins = run_json(PAIR, "--seed", first["seed"], env={"WEFT_SEED": "99"})
    assert flag_wins["trace_hash"] == first["trace_hash"]


def test_packet_level_adds_frames_and_leaves_the_hash_alone(tmp_path):
    story, packets = tmp_path / "story", tmp_path / "packets"
    small = ["--set", "jobs=[{all_reduce: {bytes: 8}}]"]
    plain = run_json(PAIR, *small, "--events", story)
    full = run_json(PAIR, *small, "--events", packets, "--events-level", "packet")
    assert plain["trace_hash"] == full["trace_hash"]
    lines = set(story.read_text().splitlines())
    more = packets.read_text().splitlines()
    assert lines < set(more)
    assert [line for line in more if line in lines] == story.read_text().splitlines()


def test_several_files_make_one_document_and_the_gravest_exit_code(tmp_path):
    runs = run_json(PAIR, PAIR)
    assert set(runs) == {"schema_version", "runs"} and len(runs["runs"]) == 2
    bad = scenario(tmp_path, "name: x\nbogus: 1\n")
    done = weft("run", PAIR, bad, "-q", code=2)
    assert f"{bad}:2:1: " in done.stderr


def test_ndjson_junit_html_and_trace(tmp_path):
    junit, html, trace = (tmp_path / n for n in ("j.xml", "h.html", "t.json"))
    done = weft("run", PAIR, "--ndjson", "--junit", junit, "--html", html, "--trace", trace)
    assert set(json.loads(done.stdout)) == DOCUMENT_KEYS
    suite = ElementTree.parse(junit).getroot()[0]
    assert suite.get("failures") == "0" and int(suite.get("tests")) == len(suite) > 0
    page = html.read_text()
    assert "<script" not in page and "http" not in page and "busbw" in page
    names = {e["name"] for e in json.loads(trace.read_text())["traceEvents"]}
    assert {"process_name", "thread_name"} < names


def test_people_get_the_mesh_the_connections_the_table_and_the_verdict():
    done = weft("run", TRIANGLE, *SMALL)
    for text in ("titanic", "192.168.101.1/24", "RoCE v2", "busbw", "#wrong", "of limit",
                 "PASS triangle"):
        assert text in done.stdout
    assert done.stderr == ""
    assert "\033" not in done.stdout
    assert "\033[1m" in weft("run", PAIR, "--color", "always").stdout
    assert weft("run", PAIR, "-q").stdout == ""


def on_terminal(*args):
    """What a run writes to a terminal on stderr. It waits for the reader of its story, who pauses:
    the fastest machine, too, is busy for as long as a line needs to be drawn."""
    leader, follower = pty.openpty()
    with subprocess.Popen([FAST, "run", *args, "--events", "-"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=follower, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(follower)
        while os.read(process.stdout.fileno(), 1 << 16):
            time.sleep(0.02)
        seen = b""
        try:
            while chunk := os.read(leader, 4096):
                seen += chunk
        except OSError:
            pass  # the terminal's other end is closed: the run is over
        assert process.wait(300) == 0
    os.close(leader)
    return seen


def test_progress_is_for_terminals_and_tells_rate_and_time_left():
    jobs = ["--set", "jobs=[{all_reduce: {bytes: [4MiB, 4MiB, 4MiB, 4MiB], repeat: 4}}]", "--set",
            "expect={}"]
    seen = on_terminal(TRIANGLE, *jobs)
    assert all(text in seen for text in (b"%, ", b" GB/s, ", b" s left, "))
    assert seen.endswith(b"\r\x1b[K")
    assert on_terminal(TRIANGLE, *jobs, "-q") == b""


def test_stock_nccl_fails_on_the_triangle_as_on_real_machines(tmp_path):
    observations = tmp_path / "obs.json"
    done = weft("run", TRIANGLE, *SMALL, "--policy", "nccl-2.25", "--json",
                "--observations", observations, code=1)
    document = json.loads(done.stdout)
    symptom = document["symptom"]
    assert set(symptom) == {"phase", "errno", "peer_errno", "wc_status", "text", "as_met"}
    assert (symptom["errno"] == 110) == ("95 s with errno 110" in (symptom["as_met"] or ""))
    assert symptom["errno"] in (101, 110, 113) or symptom["wc_status"] == 12
    codes = [finding["code"] for finding in document["findings"]]
    assert "route.wrong_nic" in codes
    assert "replay: weft run " + TRIANGLE in done.stderr
    assert "--policy nccl-2.25" in done.stderr
    again = json.loads(weft("diagnose", observations, "--json", code=1).stdout)
    assert again["findings"] == document["findings"]
    people = weft("run", TRIANGLE, *SMALL, "--policy", "nccl-2.25", code=1).stdout
    assert "weft explain route.wrong_nic" in people
    assert "route.wrong_nic" in weft("explain", "route.wrong_nic").stdout


@pytest.mark.parametrize("name", [b"plain.yaml", b"it's.yaml", "caf\u00e9.yaml".encode(), b"caf\xe9's \\1.yaml"])
def test_the_replay_line_is_for_a_shell(tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    shutil.copy(ROOT / PAIR, path)
    document = run_json(path, *SMALL)
    line = document["replay"].removeprefix("weft run ")
    again = subprocess.run(["bash", "-c", f"{WEFT} run --json {line}"], capture_output=True, check=False, timeout=60)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["trace_hash"] == document["trace_hash"]


def test_a_run_that_must_fail_passes_by_failing():
    weft("run", "scenarios/basic/triangle-nccl-2.25.yaml")


def test_bad_input_is_told_by_place(tmp_path):
    bad = scenario(tmp_path, "name: x\ntopology:\n  nodes: {a: {ports: [p0]}}\n"
                             "  links:\n    - {endpoints: [\"a:p0\", \"b:p0\"], rate: 5}\n")
    assert f"{bad}:5:" in weft("run", bad, code=2).stderr
    assert f"{bad}:5:" in weft("validate", bad, code=2).stderr
    weft("run", tmp_path / "absent.yaml", code=2)
    assert "no such path" or weft("run", PAIR, "--set", "jbs=1", code=2).stderr


@pytest.mark.parametrize("args", [
    ["run"], ["run", PAIR, "--seed", "x"], ["run", PAIR, "--seed", "-1"],
    ["run", PAIR, "--set", "x"], ["run", PAIR, "--backend", "moon"],
    ["run", PAIR, "--policy", "mine"], ["run", PAIR, "--color", "blue"],
    ["run", PAIR, "--events-level", "all"], ["run", PAIR, "--bogus"],
    ["run", PAIR, "--json=/nonexistent/x"], ["run", PAIR, "--events", "/nonexistent/x"],
    ["validate"], ["diagnose"], ["diagnose", "/nonexistent"], ["explain", "no.such"],
    ["list", "/nonexistent"], ["show"], ["bench", "no-such"],
])
def test_wrong_usage_exits_2_with_a_message(args):
    assert weft(*args, code=2).stderr


@pytest.mark.parametrize("words,said", [
    (["list", ".", "."], "usage: weft list [flags] [DIR]"), (["cleanup", "x"], "usage: weft cleanup [flags]"),
    (["plugin", "x"], "usage: weft plugin [flags]"), (["explain", "--times", "x"], "usage: weft explain --times"),
    (["show", PAIR, "--dot", "--json"], "weft show: --dot goes without --plan and --json"),
    (["show", PAIR, "--dot", "--plan"], "weft show: --dot goes without --plan and --json"),
    (["run", PAIR, "--json", "--ndjson"], "weft run: --json and --ndjson both write to stdout"),
    (["run", PAIR, "--ndjson", "--events", "-"], "weft run: --ndjson and --events both write to stdout"),
    (["run", PAIR, "--html", "x", "--trace=x"], "weft run: --html and --trace both write to x"),
    (["run", PAIR, "--json="], "weft run: --json: the name of the file is empty"),
    (["run", PAIR, "--rendezvous", "a:1"], "weft run: --rendezvous: only with --backend verbs"),
    (["show", PAIR, "--backend", "soft"], "weft show: --backend: only with --nic"),
    (["show", PAIR, "--set", "jobs=[]", "--plan"],
     "weft show --plan: the scenario has no jobs to plan: add one under `jobs`, e.g. "
     "--set 'jobs=[{all_reduce: {bytes: 1MiB}}]'"),
    (["show", PAIR, "--plan", "--policy", "weft"], "weft show: --policy: not with --plan"),
    (["explain", "--patience", "2"], "weft explain: --patience: only with --times"),
    (["swarm", PAIR, "--seeds", "1..1", "--print", "--shrink"],
     "weft swarm: --shrink: not with --print, which runs nothing"),
    (["bench", "--list", "sim:w1"], "usage: weft bench --list | NAME..."),
    (["paths", "x.xml", "--xml", "--json"], "weft paths: --json: not with --xml"),
    (["paths", "x.xml", "--json", "--info"], "weft paths: --info: not with --json"),
    (["paths", "x.xml", "--explain", "GPU0", "NET0", "--json"], "weft paths: --json: not with --explain"),
    (["plugin-check", "--list", "--json"], "weft plugin-check: --json: not with --list"),
    (["plugin-check", "--list", "x.so"], "usage: weft plugin-check --list"),
    (["doctor", "--set", "seed=2"], "weft doctor: --set: only with a scenario"),
    (["doctor", "x.json", "--set", "seed=2"], "weft doctor: --set: only with a scenario"),
    (["doctor", "--policy", "weft"], "weft doctor: --policy: only with a scenario"),
    (["doctor", "--rank", "0"], "weft doctor: --rank: only with --join or --qualify"),
    (["doctor", PAIR, "--netdevs", "lo"],
     "weft doctor: --netdevs: only without a file, when this machine is checked"),
    (["doctor", "--backend", "sim"], "weft doctor: --backend: expected verbs or soft, got 'sim'")],
    ids=lambda words: words[0])
def test_words_that_would_be_ignored_are_refused(words, said):
    done = weft(*words, code=2)
    assert (done.stdout, done.stderr) == ("", f"{said}\n")


def test_a_setting_of_the_shell_is_not_refused():
    """It is for several verbs: what has no effect on this one is ignored."""
    env = {"WEFT_BACKEND": "rxe", "WEFT_RENDEZVOUS": "a:1", "WEFT_RANK": "0"}
    weft("doctor", PAIR, env=env)
    weft("run", PAIR, "-q", env={**env, "WEFT_BACKEND": "sim"})


def test_help_of_no_verb_is_an_error():
    done = weft("help", "rnu", code=2)
    assert (done.stdout, done.stderr) == ("", "weft: no such verb: rnu; did you mean 'run'?\nweft --help lists them\n")


@pytest.mark.parametrize("flags,read", [
    (["--json"], json.loads), (["--trace", "-"], json.loads), (["--observations", "-"], json.loads),
    (["--junit", "-"], ElementTree.fromstring), (["--html", "-"], re.compile("<!DOCTYPE html>").match)],
    ids=lambda value: value[0] if isinstance(value, list) else "")
def test_a_document_on_stdout_is_alone_there(flags, read):
    assert read(weft("run", PAIR, *flags).stdout) is not None


def test_all_outputs_can_be_thrown_away():
    weft("run", PAIR, "--json=/dev/null", "--junit", "/dev/null", "--events", "/dev/null")


def test_a_document_that_cannot_be_read_is_named(tmp_path):
    folder, empty, text = tmp_path / "folder.json", tmp_path / "empty.json", tmp_path / "text.json"
    folder.mkdir()
    empty.write_text("")
    text.write_text("name: x\n")
    said = {tmp_path / "absent.json": ": cannot read: No such file or directory", empty: ":1:1: the file is empty",
            folder: ": cannot read: Is a directory", text: ":1:4: not JSON: '[' or '{' expected near 'name'"}
    for verb in ("diagnose", "doctor"):
        for path, words in said.items():
            done = weft(verb, path, code=2)
            assert (done.stdout, done.stderr) == ("", f"{path}{words}\n")


@pytest.mark.parametrize("launch, message", [
    ("nowhere/ssh {host} {command}", "cannot start weft (launcher exit status 127); check that 'ssh "),
    ("sh -c 'exit 255' {command}", "cannot start weft (launcher exit status 255); check that 'ssh "),
])
def test_machines_that_are_not_there_are_named(launch, message):
    done = weft("run", PAIR, "--backend", "verbs", code=3, env={"WEFT_LAUNCH": launch})
    assert message in done.stderr and "or set WEFT_LAUNCH" in done.stderr


@pytest.mark.parametrize("setting, message", [
    ("faults=[{on: titanic:p0, kind: down}]", "backend verbs has no fault: down"),
    ("topology.links.0.loss=1%", "backend verbs has no impairment of a cable: titanic"),
])
def test_what_nobody_does_to_real_cables_is_refused(setting, message):
    done = weft("run", PAIR, "--backend", "verbs", "--set", setting, "--set", "expect={}", code=3)
    assert message in done.stderr


def test_a_launcher_that_launches_nothing():
    done = weft("run", PAIR, "--backend", "verbs", code=2,
                env={"WEFT_LAUNCH": "ssh {host} weft"})
    assert "WEFT_LAUNCH without {command}" in done.stderr


def test_what_cannot_run_yet_is_named(tmp_path):
    text = (ROOT / PAIR).read_text()
    path = scenario(tmp_path, text + "\nranks: [titanic]\n" if "ranks:" in text else text)
    done = weft("run", path, "--set", "faults=[{on: titanic, kind: clock, by: 1s}]", "--set",
                "expect={}",
                code=3)
    assert "not implemented yet: " in done.stderr


@pytest.mark.parametrize("words", [
    ["run", PAIR], ["run", PAIR, "--json"], ["run", PAIR, "--ndjson"], ["run", "--help"], ["list"],
    ["list", "--json"], ["validate", PAIR], ["show", PAIR], ["explain"], ["explain", "conn.timeout"],
    ["bench", "--list"], ["plugin"], ["completion", "bash"], ["doctor", PAIR], ["--help"],
    ["--version"], ["help", "run"], ["swarm", "--space", "all", "--seeds", "1..2"],
    ["swarm", "--space", "all", "--seeds", "1..1", "--print"]], ids=" ".join)
def test_output_that_is_lost_is_an_error(words):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([WEFT, *words], cwd=ROOT, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("weft: stdout: No space left on device") == 1, done.stderr


@pytest.mark.parametrize("flag", ["--json", "--junit", "--html", "--pcap", "--trace", "--events"])
def test_a_file_that_cannot_be_written_is_an_error(flag):
    done = weft("run", PAIR, "-q", f"{flag}=/dev/full", code=2)
    assert "/dev/full: " in done.stderr


@pytest.mark.parametrize("flag", ["--json", "--junit", "--html", "--trace", "--observations", "--events", "--pcap"])
def test_a_file_without_a_folder_is_refused_before_the_run(flag, tmp_path):
    """A file that does not exist is not made to find that out."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("target")
    for name, why in (("no/file", "No such file or directory"), (".", "Is a directory"), ("file/x", "Not a directory")):
        done = weft("run", PAIR, f"{flag}={tmp_path}/{name}", code=2)
        assert (done.stdout, done.stderr) == (
            "", f"weft run: {flag}: cannot write {tmp_path}/{name}: {why}\n")
    assert weft("run", tmp_path / "absent.yaml", f"{flag}={tmp_path}/new", "--seed", "x", code=2).stdout == ""
    assert not (tmp_path / "new").exists()
    weft("run", PAIR, "-q", f"{flag}={tmp_path}/link")
    assert (tmp_path / "target").stat().st_size > 0


def test_validate_names_what_is_not_implemented():
    done = weft("validate", PAIR, "--set", "faults=[{on: titanic, kind: clock, by: 1s}]")
    assert done.stdout == f"{PAIR}: ok, but not implemented yet: faults.0.clock\n"


def test_the_document_of_validate_says_why_of_each_file(tmp_path):
    bad, crossed, xml = tmp_path / "bad: 1.yaml", tmp_path / "crossed.yaml", tmp_path / "x.xml"
    odd = tmp_path / os.fsdecode(b"b\xe9.yaml")
    bad.write_text("name: bad\nbogus: 1\nexpect: {findings: [route.wrongnic]}\n")
    crossed.write_text((ROOT / PAIR).read_text().replace("expect:", "expect:\n  findings: [route.wrongnic]"))
    xml.write_text("<system version='1'>\n<cpu>\n</system>\n")
    files = [PAIR, bad, crossed, xml, tmp_path / "absent.yaml", tmp_path / "absent.xml", odd]
    words = ["validate", *files, "--set", "jobs.0.all_reduce.bytes=7Q", "--json"]
    done = subprocess.run([WEFT, *words], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    checked = json.loads(done.stdout)["files"]
    assert [entry["file"] for entry in checked] == [*map(str, files[:-1]), f"{tmp_path}/b?.yaml"]
    said = [f"{error['place']}: {error['message']}" for entry in checked for error in entry["errors"]]
    assert said == [re.sub(r"(:\d+:\d+:)(?=\S)", r"\1 ", line.replace("b\udce9", "b?"))
                    for line in os.fsdecode(done.stderr).splitlines()]
    errors = {entry["file"]: entry["errors"] for entry in checked}
    assert errors[PAIR] == [{"place": "--set jobs.0.all_reduce.bytes", "line": None, "column": None,
                             "message": errors[PAIR][0]["message"]}]
    unknown, = (error for error in errors[str(bad)] if "bogus" in error["message"])
    assert unknown == {"place": f"{bad}:2:1", "line": 2, "column": 1, "message": unknown["message"]}
    assert errors[str(xml)][0]["line"] == 3
    absent, = errors[f"{tmp_path}/absent.yaml"]
    assert absent["place"] == f"{tmp_path}/absent.yaml" and "No such file" in absent["message"]


def test_list_and_validate_know_every_scenario():
    listed = json.loads(weft("list", "--json").stdout)["scenarios"]
    files = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "scenarios").rglob("*.yaml"))
    assert [entry["file"] for entry in listed] == files
    backends = {entry["file"]: entry["backends"] for entry in listed}
    assert backends[PAIR] == ["sim", "soft", "rxe", "verbs"]
    assert backends["scenarios/faults/black-hole.yaml"] == ["sim"]
    checked = json.loads(weft("validate", *files, "--json").stdout)["files"]
    assert all(entry["valid"] for entry in checked)
    assert TRIANGLE in weft("list").stdout


def test_list_fails_where_a_folder_or_file_cannot_be_read(tmp_path):
    shutil.copy(ROOT / PAIR, tmp_path / "pair.yaml")
    deep = tmp_path / "a/b/c/d/e"
    deep.mkdir(parents=True)
    (tmp_path / "nothing").symlink_to("nowhere")
    assert "pair.yaml" in weft("list", tmp_path).stdout
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (7, 7))  # noqa: E731
    done = weft("list", tmp_path, code=2, preexec_fn=limit)
    assert "pair.yaml" in done.stdout
    assert done.stderr == f"weft list: {tmp_path}/a/b/c/d: Too many open files\n"
    (deep / "gone.yaml").symlink_to("nowhere")
    done = weft("list", tmp_path, code=2)
    assert "pair.yaml" in done.stdout
    assert done.stderr == f"weft list: {deep}/gone.yaml: No such file or directory\n"


def test_list_follows_no_link_to_a_folder_above_and_reads_no_pipe(tmp_path):
    inside, other = tmp_path / "inside", tmp_path / "other"
    for folder in (inside, other):
        folder.mkdir()
        (folder / "s.yaml").write_text((ROOT / PAIR).read_text())
    (inside / "up").symlink_to("..")
    (inside / "self").symlink_to(".")
    os.mkfifo(inside / "pipe.yaml")
    (other / "beside").symlink_to("../inside")
    listed = json.loads(weft("list", tmp_path, "--json").stdout)["scenarios"]
    assert [entry["file"] for entry in listed] == [
        f"{tmp_path}/{name}" for name in ("inside/s.yaml", "other/beside/s.yaml", "other/s.yaml")]


def test_list_names_a_file_that_json_cannot(tmp_path):
    (tmp_path / "good.yaml").write_bytes((ROOT / PAIR).read_bytes())
    (tmp_path / os.fsdecode(b"b\xe9.yaml")).write_bytes((ROOT / PAIR).read_bytes())
    done = subprocess.run([WEFT, "list", tmp_path], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and b"/b\xe9.yaml" in done.stdout
    done = subprocess.run([WEFT, "list", tmp_path, "--json"], capture_output=True, timeout=60, check=False)
    assert done.returncode == 2 and b"b\xe9.yaml: not UTF-8, so JSON cannot name it\n" in done.stderr
    entry, = json.loads(done.stdout)["scenarios"]
    assert entry["file"].endswith("/good.yaml")


def test_list_prints_a_description_in_one_line_and_whole_characters(tmp_path):
    text = (ROOT / PAIR).read_text()
    at = text.index("description: ")
    rest = text[text.index("\n", at) + 1:]
    for n in range(150, 165):
        (tmp_path / "s.yaml").write_text(f"{text[:at]}description: {'x' * n}\u2192\U0001f4a5y\n{rest}")
        lines = weft("list", tmp_path).stdout.splitlines()
        assert len(lines) == 2 and lines[1].endswith("x" * n + "\u2192\U0001f4a5y")
    (tmp_path / "s.yaml").write_text(f"{text[:at]}description: |\n  first\n  second\n{rest}")
    lines = weft("list", tmp_path).stdout.splitlines()
    assert len(lines) == 2 and lines[1].endswith("  first ...")


@pytest.mark.parametrize("ends", ["['sw:0', 'a:p0']", "['a:p0', 'sw:0']"])
def test_show_names_the_mtu_of_a_cable_at_a_switch(tmp_path, ends):
    path = scenario(tmp_path, f"""name: s
topology:
  nodes: {{a: {{ports: [p0]}}, b: {{ports: [p0]}}}}
  switches: {{sw: {{ports: 2}}}}
  links:
    - {{endpoints: {ends}, addresses: [10.1.0.1/24], mtu: 1500}}
    - {{endpoints: ['b:p0', 'sw:1'], mtu: 1500}}
jobs: [{{barrier: {{}}}}]
""")
    cables = [line for line in weft("show", path).stdout.splitlines() if "100Gbps" in line]
    assert len(cables) == 2 and all(line.endswith(" mtu 1500") for line in cables)


def test_show_draws_an_address_to_its_end(tmp_path):
    port = "a-port-whose-name-is-31-bytes.x"
    path = scenario(tmp_path, f"""name: s
topology:
  nodes: {{a: {{ports: [{port}]}}, b: {{ports: [{port}]}}}}
  links:
    - {{endpoints: ["a:{port}", "b:{port}"],
       addresses: ["fd00:1111:2222:3333:4444:5555:6666:7775/126", "fd00:1111:2222:3333:4444:5555:6666:7776/126"]}}
jobs: [{{barrier: {{}}}}]
""")
    for args in ((), ("--dot",)):
        shown = weft("show", path, *args).stdout
        assert f"{port} fd00:1111:2222:3333:4444:5555:6666:7775/126" in shown
        assert f"{port} fd00:1111:2222:3333:4444:5555:6666:7776/126" in shown


def test_show_names_a_path_over_several_switches(tmp_path):
    path = scenario(tmp_path, """name: s
topology:
  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}
  switches: {s1: {ports: 2}, s2: {ports: 2}}
  links:
    - {endpoints: ['a:p0', 's1:0'], addresses: [10.1.0.1/24]}
    - {endpoints: ['s1:1', 's2:0']}
    - {endpoints: ['b:p0', 's2:1'], addresses: [10.1.0.2/24]}
jobs: [{barrier: {}}]
""")
    shown = weft("show", path).stdout
    assert "\n  0 a   → 1 b  over several switches\n" in shown and "null" not in shown
    assert "s2  port 0  100Gbps 1us\n" in shown


def test_without_ranks_nothing_is_shown_or_run():
    none = ["--set", "topology.nodes.titanic.ranks=0", "--set", "topology.nodes.iceberg.ranks=0"]
    for how in [], ["--plan", "--set", "jobs=[{all_gather: {bytes: 1MiB}}]"]:
        assert weft("show", PAIR, *how, *none, code=2).stderr.endswith(": no host has a rank\n")
    assert "scenario: no host has a rank\n" in weft("run", PAIR, *none, code=2).stderr


def test_show_draws_the_mesh_and_tells_the_bound():
    shown = weft("show", TRIANGLE).stdout
    assert "titanic" in shown and "GB/s" in shown
    document = json.loads(weft("show", TRIANGLE, "--json").stdout)
    assert len(document["pairs"]) == 6 and len(document["cables"]) == 3
    assert [ring["order"] for ring in document["rings"]] == [[0, 1, 2], [0, 2, 1]]
    assert sum(tree["share"] for tree in document["trees"]) == pytest.approx(1)
    assert document["hops"]["distances"] == [{"hops": 1, "pairs": 6}]
    assert "graph" in weft("show", TRIANGLE, "--dot").stdout


def torus(tmp_path, width, height):
    lines = [f"name: torus-{width}x{height}", "topology:", "  management: none", "  nodes:"]
    lines += [f"    h{x}-{y}: {{ports: [e, w, n, s]}}" for y in range(height) for x in range(width)]
    lines.append("  links:")
    cables = [(x, y, out, (x + dx) % width, (y + dy) % height, into)
              for y in range(height) for x in range(width)
              for out, into, dx, dy in (("e", "w", 1, 0), ("s", "n", 0, 1))]
    for i, (x, y, out, to_x, to_y, into) in enumerate(cables):
        subnet = f"10.{i >> 14}.{i >> 6 & 255}.{(i & 63) * 4}/30"
        lines.append(f'    - {{endpoints: ["h{x}-{y}:{out}", "h{to_x}-{to_y}:{into}"], '
                     f"subnet: {subnet}}}")
    lines.append("jobs: [{all_reduce: {bytes: 1MiB}}]")
    return scenario(tmp_path, "\n".join(lines) + "\n")


def test_show_tells_which_ranks_are_relayed_and_how(tmp_path):
    ring = scenario(tmp_path, """
name: ring
topology:
  nodes: {a: {ports: [l, r]}, b: {ports: [l, r]}, c: {ports: [l, r]}, d: {ports: [l, r]}}
  links:
    - {endpoints: ["a:r", "b:l"], subnet: 10.1.0.0/30}
    - {endpoints: ["b:r", "c:l"], subnet: 10.1.1.0/30}
    - {endpoints: ["c:r", "d:l"], subnet: 10.1.2.0/30}
    - {endpoints: ["d:r", "a:l"], subnet: 10.1.3.0/30}
""")
    document = json.loads(weft("show", ring, "--json").stdout)
    routes = {(pair["from"], pair["to"]): pair["routes"] for pair in document["pairs"]}
    assert routes[0, 1] == [{"via": [], "share": 1, "rate_bps": 10 ** 11, "delay_ns": 1000}]
    relays = [routes[pair][0]["via"][0] for pair in ((0, 2), (2, 0), (1, 3), (3, 1))]
    # Every directed cable carries one of the eight relayed hops.
    hops = {hop for pair, via in zip(((0, 2), (2, 0), (1, 3), (3, 1)), relays)
            for hop in ((pair[0], via), (via, pair[1]))}
    assert len({("abcd"[x] if isinstance(x, int) else x, "abcd"[y] if isinstance(y, int) else y)
                for x, y in hops}) == 8
    assert "via " in weft("show", ring).stdout


def test_a_bad_order_of_ranks_is_found_where_rings_follow_it(tmp_path):
    ring = scenario(tmp_path, """
name: ring
policy: nccl-2.30-subnet-aware
topology:
  nodes: {a: {ports: [l, r]}, b: {ports: [l, r]}, c: {ports: [l, r]}, d: {ports: [l, r]}}
  links:
    - {endpoints: ["a:r", "b:l"], subnet: 10.1.0.0/24}
    - {endpoints: ["b:r", "c:l"], subnet: 10.1.1.0/24}
    - {endpoints: ["c:r", "d:l"], subnet: 10.1.2.0/24}
    - {endpoints: ["d:r", "a:l"], subnet: 10.1.3.0/24}
ranks: [a, c, b, d]
jobs: [{all_reduce: {bytes: 64KiB}}]
""")
    seen = tmp_path / "seen.json"
    document = run_json(ring, "--observations", seen, code=1)
    found = [f for f in document["findings"] if f["code"] == "mesh.rank_order"]
    assert len(found) == 1 and found[0]["severity"] == "warning"
    assert found[0]["evidence"] == {"pairs_without_cable": 2, "better": 0,
                                    "better_order": "a b c d"}
    again = json.loads(weft("diagnose", seen, "--json", code=1).stdout)
    assert found[0] in again["findings"]
    shown = json.loads(weft("show", ring, "--json").stdout)
    assert shown["ring"] == {"order": ["a", "b", "c", "d"], "neighbours_without_cable": 0,
                             "better_than_given": True}


@pytest.mark.heavy
def test_show_sums_up_ten_thousand_hosts(tmp_path):
    large = torus(tmp_path, 100, 100)
    shown = weft("show", large, command=FAST).stdout
    assert "10000 hosts" in shown and "20000 x 100Gbps" in shown
    assert "4 rings through all ranks" in shown
    document = json.loads(weft("show", large, "--json", command=FAST).stdout)
    assert len(document["cables"]) == 20000 and document["pairs"] is None
    ring = document["rings"][0]["order"]
    assert sorted(ring) == list(range(10000))
    for here, there in zip(ring, ring[1:] + ring[:1]):
        assert (abs(here % 100 - there % 100) in (0, 1, 99)
                and abs(here // 100 - there // 100) in (0, 1, 99)
                and (here % 100 == there % 100) != (here // 100 == there // 100))
    assert weft("show", large, "--dot", command=FAST).stdout.count(" -- ") == 20000


def test_show_tells_the_plans():
    shown = weft("show", TRIANGLE, "--plan", "--job", 0, "--rank", 1).stdout
    assert "rank 1 of 3, direct" in shown and "rank 0 of 3" not in shown
    assert "exchange" in shown and "recv_reduce from 0" in shown
    plans = json.loads(weft("show", TRIANGLE, "--plan", "--json").stdout)["plans"]
    assert {plan["rank"] for plan in plans} == {0, 1, 2}
    large = max(plans, key=lambda plan: plan["size_bytes"])
    assert large["algorithm"] == "rings" and large["n_steps"] == large["plan"].count("\n") - 1
    weft("show", TRIANGLE, "--plan", "--rank", 3, code=2)
    weft("show", TRIANGLE, "--rank", 0, code=2)


def test_cleanup_leaves_what_a_live_run_has_just_made(tmp_path):
    """A guest's folder, in the moment before anything is in it."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    mine, left, other = (tmp_path / name for name in (f"weft-guest.{os.getpid()}.abcdef",
                                                      f"weft-guest.{dead.pid}.abcdef", "weft-guest.mine"))
    for folder in (mine, left, other):
        folder.mkdir()
    (left / "console").write_text("Linux version\n")
    weft("cleanup", env={"TMPDIR": str(tmp_path)})
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_a_capture_decodes_as_roce_v2_with_nothing_malformed(tmp_path):
    capture = tmp_path / "c.pcapng"
    weft("run", PAIR, "--set", "jobs=[{all_reduce: {bytes: 64KiB}}]", "--set", "expect={}",
         "--pcap", capture, "-q")
    fields = subprocess.run(
        ["tshark", "-r", str(capture), "--disable-protocol", "rpcordma", "-T", "fields", "-e",
         "frame.interface_name", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed"],
        capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("\t") for line in fields]
    assert {row[0] for row in rows} == {"titanic:p0", "iceberg:p0"}
    assert all(row[2] == "" for row in rows)
    opcodes = {row[1] for row in rows if row[1]}
    assert {"17", "8"} & opcodes and len(opcodes) >= 3
