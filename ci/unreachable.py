"""Functions that neither product reaches, for ci/tidy: the linker says which sections it leaves out of both.

Takes the object files of a build with -ffunction-sections, links build/weft's and the plugin's once more
with --gc-sections, and yields the functions of src, sim and backends that are in neither. A function whose
only section was left out may be inlined where it is called: one that a reached function of its file names
counts as reached.
"""

import fnmatch
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ALLOWED = "ci/unreachable.txt"
# What each product is linked from besides the library, and how.
PRODUCTS = {
    "weft": (["src/cli/main.c"], ["-pie", "-Wl,-e,main"]),
    "libnccl-net-mesh.so": (["backends/linux/netlink_late.c"],
                            ["-shared", "-Wl,--version-script=src/plugin/exports.map"]),
}
OUTSIDE = {path for own, _ in PRODUCTS.values() for path in own}
REMOVED = re.compile(r"removing unused section '\.text\.([^']+)' in file '([^']+)'")


def functions(source):
    """Yield name, first line, last line and text of each function that `source` defines."""
    start = None
    for number, line in enumerate(source.code):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            first = start
            while first > 0 and source.code[first - 1].strip() \
                    and not source.code[first - 1].startswith(("}", "#")) \
                    and not source.code[first - 1].rstrip().endswith((";", "\\")):
                first -= 1
            head = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", " ".join(source.code[first:start]))
            name = re.search(r"(\w+)\s*\(", head)
            if name is not None:
                yield name[1], first + 1, number + 1, "\n".join(source.code[start:number + 1])
            start = None


def sections(objects):
    """The functions of `objects` and the sections of their code: path -> {(function, section)}. Two functions
    with the same code may share a section."""
    found = defaultdict(set)
    printed = subprocess.run(["objdump", "-t", *objects], capture_output=True, text=True, check=True).stdout
    parts = re.split(r"^(.+):\s+file format \S+$", printed, flags=re.MULTILINE)
    for path, table in zip(parts[1::2], parts[2::2]):
        found[path] = {(name.split(".")[0], section)
                       for section, name in re.findall(r"^\w+ .{6}F \.text\.(\S+)\s\w+ (?:\.hidden )?(\S+)$",
                                                       table, re.MULTILINE)}
    return found


def left_out(root, objects, flags):
    """The sections that a link with `flags` leaves out: (path, name)."""
    with tempfile.NamedTemporaryFile("w", suffix=".objects") as response:
        response.write("\n".join(objects))
        response.flush()
        done = subprocess.run(
            ["gcc", "-nostdlib", *flags, "-Wl,--gc-sections", "-Wl,--print-gc-sections", "-Wl,-O0",
             "-Wl,--strip-all", "-Wl,--unresolved-symbols=ignore-all", "-o", "/dev/null", f"@{response.name}"],
            cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the linker fails: {done.stderr.strip().splitlines()[-1]}")
    return {(path, name) for name, path in REMOVED.findall(done.stderr)}


def unreachable(root, build, sources):
    """Source, name, first and last line of every function that is in no product; None of a build that is not
    whole, or was made without -ffunction-sections."""
    objects = {}
    for source in sources:
        path = Path(build) / "obj" / Path(source.path).with_suffix(".o")
        if (root / path).exists():
            objects[str(path)] = source
    present = {source.path for source in objects.values()}
    if not OUTSIDE <= present:
        return None
    has = sections([str(root / path) for path in objects])
    has = {path: has[str(root / path)] for path in objects}
    if not any(has.values()):
        print(f"tidy: {build} is without -ffunction-sections: what nothing reaches not checked", file=sys.stderr)
        return None
    kept = {path: set() for path in objects}
    for own, flags in PRODUCTS.values():
        linked = [path for path, source in objects.items() if source.path in own or source.path not in OUTSIDE]
        removed = left_out(root, linked, flags)
        for path in linked:
            kept[path] |= {name for name, section in has[path] if (path, section) not in removed}
    return [(source, name, first, last) for path, source in objects.items()
            for name, first, last in dead_of(source, kept[path])]


def dead_of(source, alive):
    """Yield name, first and last line of the functions of `source` that nothing in `alive` calls."""
    defined = list(functions(source))
    alive, names = set(alive), {name for name, *_ in defined}
    waiting = set(alive)
    macros = {name: set(re.findall(r"\b\w+\b", body)) for name, body in
              re.findall(r"^#define (\w+)((?:.*\\\n)*.*)$", "\n".join(source.code), re.MULTILINE)}
    while waiting:
        words = {word for name, _, _, text in defined if name in waiting
                 for word in re.findall(r"\b\w+\b", text)}
        reached = words.union(*(macros[word] for word in words if word in macros)) & names
        waiting = reached - alive
        alive |= waiting
    for name, first, last, _ in defined:
        if name not in alive:
            yield name, first, last


class Allowed:
    """ci/unreachable.txt: groups of `FILE FUNCTION` (patterns of a shell) under a reason each."""

    def __init__(self, root):
        self.rows, self.used = [], set()
        path, reason = root / ALLOWED, None
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
            if line.startswith("#"):
                reason = line
            elif line.strip():
                file, function = line.split()
                self.rows.append((number, file, function, reason))
            else:
                reason = None

    def holds(self, path, name):
        rows = [number for number, file, function, _ in self.rows
                if fnmatch.fnmatchcase(path, file) and fnmatch.fnmatchcase(name, function)]
        self.used.update(rows)
        return bool(rows)


def check(root, build, sources):
    """Yield path, line and message of what nothing reaches, as ci/tidy prints it."""
    try:
        dead = unreachable(root, build, sources)
    except RuntimeError as error:
        yield "ci/unreachable.py", 1, str(error)
        return
    except FileNotFoundError as error:
        print(f"tidy: {error.filename} is not installed: what nothing reaches not checked", file=sys.stderr)
        return
    if dead is None:
        return
    allowed = Allowed(root)
    for source, name, first, _ in dead:
        if not allowed.holds(source.path, name):
            yield source.path, first, (f"`{name}` is in neither product: delete it, move what tests use into a "
                                       f"*_testing.c, or give {ALLOWED} the reason why it stays")
    for number, file, function, reason in allowed.rows:
        if reason is None:
            yield ALLOWED, number, "no reason: put `# why` above the group"
        if number not in allowed.used:
            yield ALLOWED, number, f"`{file} {function}` is reached, or is gone: remove the line"
