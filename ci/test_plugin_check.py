"""`weft plugin-check`: it accepts a plugin that keeps the contract, over every version of the
interface, and names the clause that each plugin of ci/bad-plugins breaks."""

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The optimised build where there is one: what is judged is another process's.
WEFT = os.environ.get("WEFT_FAST") or os.environ.get("WEFT", "build/weft")
BAD = sorted((ROOT / "ci/bad-plugins").glob("*.c"))
VERSIONS = [8, 9, 10, 11, 12]
# Names those that are found only when patience runs out, since all there is to see is that something
# never happens. The others are found as soon as they break their clause.
SPENDS_PATIENCE = {"accept.blocks", "call.blocks", "comm.again", "comm.independent",
                   "connect.blocks", "connect.reused-memory", "handle.elsewhere", "message.lost",
                   "requests.recycled", "setup.ends"}
# Keeps a check on one processor. Patience is counted in looks of the process that watches, and there
# it cannot look 200 times while one of those it watches waits for its turn, whatever else runs.
ON_ONE_PROCESSOR = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]


def build(source, folder, *flags):
    out = folder / (source.stem + ".so")
    subprocess.run(["cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-pthread", "-w", "-Isrc",
                    *flags, "-o", str(out), str(source)], cwd=ROOT, check=True)
    return out


def check(*arguments, under=()):
    ran = subprocess.run([*under, WEFT, "plugin-check", "-q", "--json", *map(str, arguments)],
                         cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.stdout, f"{arguments}: exit status {ran.returncode}: {ran.stderr[-2000:]}"
    return ran.returncode, json.loads(ran.stdout)["results"]


def clauses():
    listed = subprocess.run([WEFT, "plugin-check", "--list"], cwd=ROOT, capture_output=True,
                            text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if not line.startswith(" ")}


@pytest.mark.parametrize("name", ["reference", "late"])
def test_good_plugins_keep_the_contract(name, tmp_path):
    """`late` fills its tables in init, and of those before v11 that may be called only once."""
    code, results = check("--messages", 100, build(ROOT / f"ci/good-plugins/{name}.c", tmp_path))
    assert (code, results[0]["result"], results[0]["clause"]) == (0, "pass", None)
    assert results[0]["versions"] == VERSIONS
    assert results[0]["messages"] > 10000


def test_what_a_host_got_meanwhile_is_no_leak(tmp_path):
    """`follows` has one more descriptor after each of two communicators, but not after the third."""
    plugin = build(ROOT / "ci/good-plugins/follows.c", tmp_path)
    code, results = check("--netversion", 11, "--patience", 4, plugin)
    assert (code, results[0]["detail"]) == (0, None)


def test_every_clause_has_a_plugin_that_breaks_it():
    assert {source.stem for source in BAD} == clauses()
    assert SPENDS_PATIENCE <= clauses()


def test_clauses_are_documented():
    documented = set(re.findall(r"^\| `([a-z-]+\.[a-z-]+)` \|",
                                (ROOT / "docs/plugin-reference.md").read_text(), re.MULTILINE))
    assert documented == clauses()


@pytest.fixture(scope="module")
def judged(tmp_path_factory, request):
    """What is said of each that a test was chosen for. Those that spend their patience have little,
    and wait one after the other beside the rest."""
    chosen = {item.callspec.params["source"] for item in request.session.items
              if "judged" in item.fixturenames}
    folder = tmp_path_factory.mktemp("bad")

    def judge(source):
        plugin = build(source, folder, "-O0")
        if source.stem in SPENDS_PATIENCE:
            return check("--patience", 1, plugin, under=ON_ONE_PROCESSOR)
        # Its init fails as where there is no device, of which a simulated mesh has some.
        simulated = ["--backend", "sim"] if source.stem == "init.result" else []
        return check("--patience", 10, *simulated, plugin)

    with ThreadPoolExecutor(1) as one_by_one, ThreadPoolExecutor(2) as pool:
        yield {source: (one_by_one if source.stem in SPENDS_PATIENCE else pool).submit(judge, source)
               for source in sorted(chosen)}


@pytest.mark.parametrize("source", BAD, ids=lambda source: source.stem)
def test_a_bad_plugin_is_named(source, judged):
    code, results = judged[source].result()
    assert (results[0]["clause"], results[0]["result"]) == (source.stem, "fail")
    assert results[0]["detail"]
    assert code == (2 if source.stem in ("load.open", "load.symbol") else 1)
    assert results[0]["versions"] == []


def test_a_plugin_that_finds_no_device_is_not_judged(tmp_path):
    """Its init fails as that of a plugin for NICs does, where there is none."""
    source = tmp_path / "nothing.c"
    source.write_text('#define BAD_PLUGIN\n#include "%s"\n'
                      "static abi_status bad(void **context, uint64_t id, struct abi_config *config,\n"
                      "                      abi_logger logger, abi_profiler profiler)\n"
                      "{ return ABI_SYSTEM_ERROR; }\n"
                      "SPOIL(net) { net->init = bad; }\n" % (ROOT / "ci/good-plugins/reference.c"))
    plugin = build(source, tmp_path)
    ran = subprocess.run([WEFT, "plugin-check", "-q", "--json", plugin], cwd=ROOT, text=True,
                         capture_output=True, timeout=60, check=False)
    result = json.loads(ran.stdout)["results"][0]
    assert result["clause"] == "init.result"
    if any(os.access(f"/dev/infiniband/uverbs{i}", os.R_OK | os.W_OK) for i in range(256)):
        assert (ran.returncode, result["result"]) == (1, "fail")
        return
    assert (ran.returncode, result["result"]) == (3, "error")
    assert f"type: weft plugin-check --backend sim {plugin}" in ran.stderr
    assert check("--backend", "sim", plugin)[0] == 1  # simulated NICs are there


def test_a_plugin_in_this_folder_needs_a_path(tmp_path):
    """NCCL, too, looks up a name without a slash in the library path."""
    (tmp_path / "mine.so").write_text("")
    for name, is_said in (("mine.so", True), ("./mine.so", False), ("other.so", False)):
        done = subprocess.run([ROOT / WEFT, "plugin-check", name], cwd=tmp_path, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 2
        assert ("type ./mine.so for the file in this folder" in done.stderr) == is_said


def test_what_is_no_plugin_is_an_input_error(tmp_path):
    text = tmp_path / "text.so"
    text.write_text("no object\n")
    code, results = check(text)
    assert (code, results[0]["clause"]) == (2, "load.open")
    assert subprocess.run([WEFT, "plugin-check"], cwd=ROOT, capture_output=True,
                          check=False).returncode == 2
    for words, said in ((["--messages", "0"], "--messages: expected 1 to 1000000, got '0'"),
                        (["--sequences", "x"], "--sequences: expected 0 to 1000000, got 'x'"),
                        (["--netversion", "8,"],
                         "--netversion: expected 8 to 12, or up to 4 of them with commas, got '8,'"),
                        (["--netns", "x"], "--netns: expected 2 to 4 of them, one a rank, got 1")):
        done = subprocess.run([WEFT, "plugin-check", *words, text], cwd=ROOT, capture_output=True, text=True,
                              check=False)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"weft plugin-check: {said}\n")
