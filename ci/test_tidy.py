"""Every rule of ci/tidy is broken once, on purpose, and must be found where it is broken."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TIDY = ROOT / "ci" / "tidy"

HEADER = "#ifndef WEFT_{0}_H\n#define WEFT_{0}_H\n{1}\n#endif\n"

# path, text, line of the finding, words of the message
PLANTED = [
    ("src/conn/a.c", '#include "xfer/x.h"\n', 1, "layer conn must not include"),
    ("src/mesh/a.c", '#include "rdma/x.h"\n', 1, "layer mesh must not include"),
    ("src/base/a.c", '#include "io/x.h"\n', 1, "layer base must not include"),
    ("src/diag/a.c", '#include "run/x.h"\n', 1, "layer diag must not include"),
    ("src/diag/b.c", '#include "scenario/x.h"\n', 1, "layer diag must not include"),
    ("src/diag/c.c", '#include "sim/nic.h"\n', 1, "layer diag must not include"),
    ("src/host/a.c", '#include "backends/registry.h"\n', 1, "layer host must not include"),
    ("src/cli/a.c", '#include "backends/sim/x.h"\n', 1, "layer cli must not include"),
    ("sim/a.c", '#include "io/x.h"\n', 1, "layer sim must not include"),
    ("backends/verbs/a.c", '#include "sim/x.h"\n', 1, "layer backends/verbs must not"),
    ("backends/linux/a.c", '#include "conn/x.h"\n', 1, "layer backends/linux must not"),
    ("src/conn/b.c", '#include "conn.h"\n', 1, "by its full name"),
    ("src/rdma/a.c", "int f(void)\n{\n    return ibv_fork_init();\n}\n", 3, "backends/verbs only"),
    ("src/rdma/b.c", "#include <infiniband/mlx5dv.h>\n", 1, "only <infiniband/verbs.h>"),
    ("src/xfer/a.c", "#include <cuda.h>\n", 1, "backends/cuda"),
    ("src/xfer/b.c", "void f(void)\n{\n    cudaFree(0);\n}\n", 3, "backends/cuda"),
    ("src/coll/a.c", "ncclResult_t f(void);\n", 1, "src/plugin"),
    ("src/boot/a.c", "#include <sys/socket.h>\n", 1, "io/oob.h"),
    ("src/boot/b.c", "void f(void)\n{\n    time(NULL);\n}\n", 3, "io_now()"),
    ("sim/b.c", "void f(void)\n{\n    clock_gettime(0, 0);\n}\n", 3, "io_now()"),
    ("sim/c.c", "void f(void)\n{\n    usleep(1);\n}\n", 3, "never wait"),
    ("sim/d.c", "int f(void)\n{\n    return rand();\n}\n", 3, "base/rng.h"),
    ("src/conn/c.c", "#include <pthread.h>\n", 1, "threads live at the edges"),
    ("src/conn/d.c", "#include <poll.h>\n", 1, "io/loop.h"),
    ("src/conn/e.c", 'void f(void)\n{\n    getenv("X");\n}\n', 3, "io_env_ops.setting"),
    ("src/conn/f.c", "#define _GNU_SOURCE\n", 1, "only in backends"),
    ("sim/e.c", "double f(void);\n", 1, "picoseconds"),
    ("src/conn/g.c", "static float f(void);\n", 1, "integers only"),
    ("src/conn/h.c", "void f(char *t)\n{\n    strcpy(t, t);\n}\n", 3, "base/text.h"),
    ("src/conn/i.c", "void f(void)\n{\n    if (simulated) {\n    }\n}\n", 3, "device fact"),
    ("src/conn/j.c", "void f(int a)\n{\n    if (a) f(0);\n}\n", 3, "braces"),
    ("src/conn/k.c", "void f(int a)\n{\n    if (a) {\n    } else f(0);\n}\n", 4, "braces"),
    ("src/conn/l.c", "void f(void)\n{\n    while (g(1))\n        h();\n}\n", 3, "braces"),
    ("src/conn/m.c", "\n" * 2001, 2001, "at most 2000"),
    ("src/conn/n.c", "void f(void)\n{\n" + "    g();\n" * 71 + "}\n", 2, "at most 70"),
    ("src/conn/o.c", "int a_name" + "x" * 80 + ";\n", 1, "columns of code; at most 90"),
    ("src/conn/p.c", "/* " + "x" * 100 + " */\n", 1, "at most 100"),
    ("src/coll/of.c", "/* Of a host\n * that left. */\n", 1, "begin with the noun"),
    ("src/coll/told.c", "int x; /* what\n * it was told */\n", 2, "report, send, log"),
    ("src/coll/who.c", "/* Nobody waits. */\n", 1, "name the process"),
    ("src/coll/many.c", "/* Reads so many bytes. */\n", 1, "at most"),
    ("src/conn/q.h", HEADER.format("CONN_OTHER", ""), 1, "header guard"),
    ("src/conn/r.h", "int f(void);\n", 1, "header guard"),
    ("src/conn/s.c", "/* TO" + "DO: later */\n", 1, "open an issue"),
    ("src/conn/t.c", "int x; \n", 1, "blanks at the end"),
    ("src/conn/u.c", "int x;", 1, "no newline"),
    ("ci/x.c", "\n" * 2001, 2001, "at most 2000"),
    ("ci/x/y.c", "\n" * 2001, 2001, "at most 2000"),
    ("ci/x.py", "x = '" + "y" * 130 + "'\n", 1, "at most 120"),
    ("docs/x.md", "see /work/" + "shared/x\n", 1, "no paths of one machine"),
]

# What must stay silent.
GOOD = [
    ("src/conn/good.c", '#include "base/text.h"\n#include "mesh/x.h"\n'),
    ("src/run/good.c", '#include "backends/registry.h"\n#include "scenario/x.h"\n'),
    ("src/cli/good.c", 'void f(void)\n{\n    getenv("WEFT_SEED");\n}\n'),
    ("src/conn/good_test.c", '#include "backends/sim/x.h"\n'),
    ("backends/sim/good.c", '#include "sim/nic.h"\n#include "io/world.h"\n'),
    ("backends/verbs/good.c", "int f(void)\n{\n    return ibv_fork_init();\n}\n"),
    ("backends/linux/good.c", "#include <poll.h>\n#include <sys/socket.h>\n"),
    ("sim/good.c", "#include <infiniband/verbs.h>\nenum ibv_qp_state f(void);\n"),
    ("src/conn/calls.c", "/* time(NULL), rand() */\nint f(struct x *x)\n{\n"
                         '    return x->ops->poll(x) + x->time("rand()");\n}\n'),
    ("src/coll/words.c", 'const char *x = "told so many"; /* Offers; NOBODY if `told`. */\n'),
    ("src/conn/good.h", HEADER.format("CONN_GOOD", "")),
    ("src/conn/loops.c", "void f(int a)\n{\n    do {\n        a--;\n    } while (a);\n"
                         "    if (a &&\n        g(a)) {\n        h();\n    }\n}\n"),
]


def tidy(root, *arguments):
    result = subprocess.run(["python3", str(TIDY), "--root", str(root), *arguments],
                            capture_output=True, text=True, check=False)
    return result.returncode, result.stdout


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture(scope="module", name="planted")
def fixture_planted(tmp_path_factory):
    """What tidy says of a tree with all violations, of which no two are in a file."""
    root = tmp_path_factory.mktemp("planted")
    for path, text, _, _ in PLANTED:
        write(root, path, text)
    status, output = tidy(root, "--no-tools")
    assert status == 1
    return output


@pytest.mark.parametrize("path,line,words", [(path, line, words) for path, _, line, words in PLANTED],
                         ids=[path for path, *_ in PLANTED])
def test_planted_violation_is_found(planted, path, line, words):
    assert re.search(rf"^{re.escape(path)}:{line}: .*{re.escape(words)}", planted, re.MULTILINE), \
        planted


def test_no_violation_is_found_twice_or_elsewhere(planted):
    found = [line.split(":")[0] for line in planted.splitlines() if re.match(r"\S+:\d+: ", line)]
    assert sorted(set(found)) == sorted(path for path, *_ in PLANTED)
    assert len({path for path, *_ in PLANTED}) == len(PLANTED)


def test_good_code_is_silent(tmp_path):
    for path, text in GOOD:
        write(tmp_path, path, text)
    assert tidy(tmp_path, "--no-tools") == (0, "")


def test_two_headers_with_one_guard(tmp_path):
    for path in ("src/conn/codec.h", "src/xfer/codec.h"):
        write(tmp_path, path, HEADER.format("CODEC", ""))
    status, output = tidy(tmp_path, "--no-tools")
    assert status == 1
    assert "header guard WEFT_CODEC_H is src/conn/codec.h's" in output


def test_mutable_globals_are_found_in_objects(tmp_path):
    text = ("#include <stdlib.h>\n"
            "static const char *const names[] = {\"a\", \"b\"};\n"
            "static const int numbers[] = {1, 2};\n"
            "static int count;\n"
            "int total = 7;\n"
            "const char *f(int i)\n{\n"
            "    static long calls;\n"
            "    total += ++count + (int)calls++ + numbers[i];\n"
            "    return names[i] != NULL ? names[i] : (getenv)(\"X\");\n}\n")
    write(tmp_path, "src/conn/state.c", text)
    (tmp_path / "build/obj/src/conn").mkdir(parents=True)
    subprocess.run(["gcc", "-O1", "-fPIC", "-c", "-o", "build/obj/src/conn/state.o",
                    "src/conn/state.c"], cwd=tmp_path, check=True)
    status, output = tidy(tmp_path, "--no-tools", "--build", "build")
    found = {tuple(line.split(": ")[0].split(":")[1:]) + (line.split("`")[1],)
             for line in output.splitlines() if "`" in line}
    assert status == 1
    assert found == {("4", "count"), ("5", "total"), ("8", "calls"), ("10", "getenv")}


# A tree whose files call each other in circles: path -> what it defines and calls.
CALLS = {
    "src/base/a.c": "int b(int);\nint c(int);\nint a(int x);\nint a(int x)\n{\n    return b(x) + c(x);\n}\n",
    "src/base/b.c": "int a(int);\nint b(int x);\nint b(int x)\n{\n    return a(x);\n}\n",
    "src/base/c.c": "extern const int d;\nint c(int x);\nint c(int x)\n{\n    return d * x;\n}\n",
    "src/base/d.c": "int f(int);\nextern const int d;\nconst int d = 5;\nint e(int x);\n"
                    "int e(int x)\n{\n    return f(x);\n}\n",
    "src/base/f.c": "int c(int);\nint f(int x);\nint f(int x)\n{\n    return c(x);\n}\n",
    # A function whose address is passed, and a test that calls back.
    "src/base/g.c": "int h(int (*)(int), int);\nint g(int x);\nstatic int of_g(int x)\n{\n    return -x;\n}\n\n"
                    "int g(int x)\n{\n    return h(of_g, x);\n}\n",
    "src/base/h.c": "int h(int (*of)(int), int x);\nint h(int (*of)(int), int x)\n{\n    return of(x);\n}\n",
    "src/base/g_test.c": "int g(int);\nint main(void)\n{\n    return g(1);\n}\n",
    # A default that another file replaces: main.c needs i.c and not the reverse.
    "src/base/i.c": "int ends(void);\n__attribute__((weak)) int ends(void)\n{\n    return 1;\n}\n",
    "src/base/j.c": "int ends(void);\nint j(void);\nint j(void)\n{\n    return ends();\n}\n",
    "src/base/main.c": "int ends(void);\nint j(void);\nint ends(void)\n{\n    return 2;\n}\n\n"
                       "int main(void)\n{\n    return j();\n}\n",
}
# what ci/circles.txt says, and what is found then
CIRCLES = {
    "no list": ("", [("src/base/a.c", 6, "a.c calls b of src/base/b.c, which calls a of src/base/a.c"),
                     ("src/base/b.c", 5, "b.c calls a of src/base/a.c"),
                     ("src/base/c.c", 5, "c.c calls d of src/base/d.c, which calls f of src/base/f.c, which calls c"),
                     ("src/base/d.c", 7, "d.c calls f of"), ("src/base/f.c", 5, "f.c calls c of")]),
    "all listed": ("# Why.\nsrc/base/a.c src/base/b.c\n\n# Why.\nsrc/base/c.c\nsrc/base/d.c src/base/f.c\n", []),
    "no reason": ("src/base/a.c src/base/b.c\n\n# Why.\nsrc/base/c.c src/base/d.c src/base/f.c\n",
                  [("ci/circles.txt", 1, "no reason")]),
    "a file more": ("# Why.\nsrc/base/a.c src/base/b.c\n\n# Why.\nsrc/base/c.c src/base/d.c\n",
                    [("src/base/f.c", 5, "f.c calls c of")]),
    "a circle over two groups": ("# Why.\nsrc/base/a.c\n\n# Why.\nsrc/base/b.c\n\n# Why.\nsrc/base/c.c\n"
                                 "src/base/d.c src/base/f.c\n", [("ci/circles.txt", 1, "a circle joins 2 groups")]),
    "a line that is not needed": ("# Why.\nsrc/base/a.c src/base/b.c src/base/g.c\nsrc/base/gone.c\n\n# Why.\n"
                                  "src/base/c.c src/base/d.c src/base/f.c\n",
                                  [("ci/circles.txt", 2, "src/base/g.c is in no circle"),
                                   ("ci/circles.txt", 3, "src/base/gone.c is in no circle")]),
}


def compile_tree(root, tree):
    for path, text in tree.items():
        write(root, path, text)
        if path.endswith(".c"):
            obj = (root / "build/obj" / path).with_suffix(".o")
            obj.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["gcc", "-O2", "-fPIC", "-fno-semantic-interposition", "-ffunction-sections", "-c",
                            "-o", obj, path], cwd=root, check=True)


def compare(output, wanted):
    """Each line of tidy's `output` with what is `wanted`: path, line, words."""
    found = [line.split(":", 2) for line in output.splitlines()]
    assert len(found) == len(wanted), output
    for (path, line, words), (in_path, in_line, in_words) in zip(found, wanted):
        assert (path, int(line)) == (in_path, in_line)
        assert in_words in words


@pytest.fixture(scope="module", name="calls")
def fixture_calls(tmp_path_factory):
    root = tmp_path_factory.mktemp("calls")
    compile_tree(root, CALLS)
    return root


@pytest.mark.parametrize("case", CIRCLES)
def test_circles_of_calls(calls, case):
    text, wanted = CIRCLES[case]
    write(calls, "ci/circles.txt", text)
    compare(tidy(calls, "--no-tools", "--build", "build")[1], wanted)


def test_a_build_that_is_not_whole_says_nothing_of_circles(tmp_path):
    compile_tree(tmp_path, {path: CALLS[path] for path in ("src/base/a.c", "src/base/b.c")})
    write(tmp_path, "src/base/c.c", CALLS["src/base/c.c"])
    assert tidy(tmp_path, "--no-tools", "--build", "build") == (0, "")


# A tree with both products, and functions that they reach or not: path -> text.
PRODUCTS = {
    "src/plugin/exports.map": "{ global: table; local: *; };\n",
    "src/cli/main.c": "int used(int);\nint main(int argc, char **argv)\n{\n    return used(argc) + argv[0][0];\n}\n",
    "src/plugin/tables.c": "int engine(int);\nint (*const table)(int) = engine;\n",
    "backends/linux/netlink_late.c": "int late(void);\nint late(void)\n{\n    return 1;\n}\n",
    "src/base/a.c": "int used(int a);\nint engine(int a);\nint inlined(int a);\nint dead(int a);\n"
                    "int inlined(int a)\n{\n    return a + 1;\n}\n\n"
                    "int used(int a)\n{\n    return inlined(a);\n}\n\n"
                    "int engine(int a)\n{\n    return 3 * a;\n}\n\n"
                    "static int of_dead(int a)\n{\n    return 5 * a;\n}\n\n"
                    "/* Nothing calls it. */\nint dead(int a)\n{\n    return of_dead(a) + used(a);\n}\n",
    "src/base/a_test.c": "int dead(int a);\nint main(void)\n{\n    return dead(1);\n}\n",
}
# what ci/unreachable.txt says, and what is found then
ALLOWED = {
    "no list": ("", [("backends/linux/netlink_late.c", 2, "`late` is in neither product"),
                     ("src/base/a.c", 20, "`of_dead` is in neither product"),
                     ("src/base/a.c", 26, "`dead` is in neither product")]),
    "all allowed": ("# Why.\nsrc/base/a.c *dead\n*/netlink_late.c *\n", []),
    "no reason": ("src/base/a.c dead\n\n# Why.\n* of_dead\n* late\n", [("ci/unreachable.txt", 1, "no reason")]),
    "a reason ends with its group": ("# Why.\n* *dead\n\n* late\n", [("ci/unreachable.txt", 4, "no reason")]),
    "a line that is not needed": ("# Why.\n* *dead\n* late\n* inlined\n* gone\n",
                                  [("ci/unreachable.txt", 4, "is reached, or is gone"),
                                   ("ci/unreachable.txt", 5, "is reached, or is gone")]),
}


@pytest.fixture(scope="module", name="products")
def fixture_products(tmp_path_factory):
    root = tmp_path_factory.mktemp("products")
    compile_tree(root, PRODUCTS)
    return root


@pytest.mark.parametrize("case", ALLOWED)
def test_what_neither_product_reaches(products, case):
    text, wanted = ALLOWED[case]
    write(products, "ci/unreachable.txt", text)
    compare(tidy(products, "--no-tools", "--build", "build")[1], wanted)


@pytest.mark.skipif(shutil.which("clang-format-14") is None,
                    reason="SKIP clang-format-14: not installed; enable with: ci/deps test")
def test_format(tmp_path):
    shutil.copy(TIDY.parent.parent / ".clang-format", tmp_path)
    write(tmp_path, "src/conn/format.c", "int  f ( void ) ;\n")
    status, output = tidy(tmp_path)
    assert status == 1
    assert "src/conn/format.c:1: run clang-format -i" in output


@pytest.mark.skipif(shutil.which("clang-format-14") is None,
                    reason="SKIP clang-format-14: not installed; enable with: ci/deps test")
@pytest.mark.heavy
def test_what_was_clean_is_asked_about_again_when_it_or_the_rules_change(tmp_path):
    style = (TIDY.parent.parent / ".clang-format").read_text()
    says = "src/conn/format.c:1: run clang-format -i"
    (tmp_path / "build").mkdir()
    (tmp_path / ".clang-format").write_text(style)
    write(tmp_path, "src/conn/format.c", "int f(void);\n")
    for _ in range(2):
        assert says not in tidy(tmp_path)[1]
    write(tmp_path, "src/conn/format.c", "int  f(void);\n")
    for _ in range(2):
        assert says in tidy(tmp_path)[1]
    write(tmp_path, "src/conn/format.c", "int f(void);\n")
    assert says not in tidy(tmp_path)[1]
    (tmp_path / ".clang-format").write_text(style + "SpaceBeforeParens: Always\n")
    assert says in tidy(tmp_path)[1]


@pytest.mark.skipif(shutil.which("shellcheck") is None,
                    reason="SKIP shellcheck: not installed; enable with: ci/deps test")
def test_shellcheck(tmp_path):
    write(tmp_path, "ci/script", "#!/bin/sh\ncd $1\n")
    status, output = tidy(tmp_path)
    assert status == 1
    assert re.search(r"^ci/script:2: .*SC2086", output, re.MULTILINE)


@pytest.mark.skipif(shutil.which("cppcheck") is None,
                    reason="SKIP cppcheck: not installed; enable with: ci/deps test")
def test_cppcheck(tmp_path):
    write(tmp_path, "src/conn/leak.c",
          "#include <stdio.h>\nint f(void)\n{\n    int a[4];\n    a[4] = 1;\n    return a[0];\n}\n")
    shutil.copy(tmp_path / "src/conn/leak.c", tmp_path / "src/conn/leak_test.c")
    status, output = tidy(tmp_path)
    assert status == 1
    assert "src/conn/leak.c:5: cppcheck arrayIndexOutOfBounds" in output
    assert "leak_test.c:5: cppcheck" not in output


@pytest.mark.skipif(shutil.which("patch") is None,
                    reason="SKIP patch: not installed; enable with: ci/deps test")
def test_a_mutant_that_no_longer_applies(tmp_path):
    mutant = "--- a/src/conn/a.c\n+++ b/src/conn/a.c\n@@ -1 +1 @@\n-int f(void);\n+int g(void);\n"
    write(tmp_path, "ci/mutants/a.patch", mutant)
    write(tmp_path, "src/conn/a.c", "int f(void);\n")
    assert "does not apply" not in tidy(tmp_path)[1]
    write(tmp_path, "src/conn/a.c", "int h(void);\n")
    status, output = tidy(tmp_path)
    assert status == 1
    assert "ci/mutants/a.patch:1: does not apply" in output


def test_the_map_names_files_and_functions_that_exist():
    """The table of folders in docs/architecture.md, and the routes through the code."""
    page = (ROOT / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| (`(?:src|sim|backends)[^|]*) \|[^|]*\|([^|]*)\|$", page, re.MULTILINE)
    assert len(rows) > 25
    for folders, first in rows:
        for name in re.findall(r"`([^`]+\.[ch])`", first):
            assert any((ROOT / folder / name).exists() for folder in re.findall(r"`([^`]+)`", folders)), name
    routes = re.findall(r"^\| where [^|]*\|([^|]*)\|$", page, re.MULTILINE)
    assert len(routes) == 4
    for route in routes:
        names = re.findall(r"`([^`]+)`", route)
        code = "".join((ROOT / name).read_text() for name in names if name.endswith(".c"))
        assert [name for name in names if not name.endswith(".c") and name not in code] == []
