"""Circles of calls between files of the products, for ci/tidy: what the symbol tables of the object files say.

A file depends on another if its object file refers to a symbol, a function or a table, that the other defines.
A static function whose address is passed makes no dependency. A circle is a set of files that all depend on each
other, directly or through others of the set: none of them can be understood, tested or replaced alone.
"""

import re
import subprocess
import sys
from collections import defaultdict, deque
from pathlib import Path

ALLOWED = "ci/circles.txt"


def dependencies(root, build, sources):
    """What each file needs of which: path -> {path: {symbol}}; None if a file was not built."""
    objects = {str(Path(build) / "obj" / Path(path).with_suffix(".o")): path for path in sources}
    if not all((root / obj).exists() for obj in objects):
        print(f"tidy: {build} is not whole: circles of calls not checked", file=sys.stderr)
        return None
    if not objects:
        return {}
    table = subprocess.run(["nm", "-A", "-P", *objects], cwd=root, capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[:3] for line in table.splitlines()]
    # A weak definition of a symbol counts, although another file may replace it.
    owner = {name: objects[obj[:-1]] for weak in (False, True) for obj, name, kind in symbols
             if kind.isupper() and kind != "U" and (kind in "WV") == weak}
    needs = {path: defaultdict(set) for path in sources}
    for obj, name, kind in symbols:
        path = objects[obj[:-1]]
        if kind == "U" and owner.get(name, path) != path:
            needs[path][owner[name]].add(name)
    return needs


def circles(needs):
    """The sets of files that depend on each other, by Tarjan's algorithm without recursion."""
    index, low, stack, found = {}, {}, [], []
    for start in sorted(needs):
        if start in index:
            continue
        work = [(start, iter(sorted(needs[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            path, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[path])
                if low[path] == index[path]:
                    at = stack.index(path)
                    if len(stack) - at > 1:
                        found.append(set(stack[at:]))
                    del stack[at:]
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(sorted(needs[following]))))
            elif following in stack:
                low[path] = min(low[path], index[following])
    return found


def shortest(needs, circle, start):
    """The files of the shortest way from `start` back to it inside `circle`; it begins and ends with `start`."""
    came, waiting = {}, deque([start])
    while waiting:
        path = waiting.popleft()
        for following in sorted(circle & needs[path].keys()):
            if following == start:
                way = [path, start]
                while way[0] != start:
                    way.insert(0, came[way[0]])
                return way
            if following not in came:
                came[following] = path
                waiting.append(following)
    raise ValueError(f"{start} is in no circle")


def describe(needs, way):
    """`a.c calls f of b.c, which calls g of a.c`, with up to three symbols each."""
    parts = []
    for path, following in zip(way, way[1:]):
        names = sorted(needs[path][following])
        parts.append(f"calls {', '.join(names[:3])}{' ...' if len(names) > 3 else ''} of {following}")
    return ", which ".join(parts)


class Allowed:
    """ci/circles.txt: groups of files, each one circle, under a reason each."""

    def __init__(self, root):
        self.rows, self.group = [], {}  # (line, file, has a reason); file -> its group
        path, number_of_group, reason = root / ALLOWED, 0, False
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
            if line.startswith("#"):
                reason = True
            elif not line.strip():
                number_of_group, reason = number_of_group + 1, False
            for file in line.split() if not line.startswith("#") else []:
                self.rows.append((number, file, reason))
                self.group[file] = number_of_group


def check(root, build, sources):
    """Yield path, line and message of each file that is in a circle which ci/circles.txt does not list."""
    try:
        needs = dependencies(root, build, [source.path for source in sources])
    except FileNotFoundError as error:
        print(f"tidy: {error.filename} is not installed: circles of calls not checked", file=sys.stderr)
        return
    if needs is None:
        return
    allowed, code = Allowed(root), {source.path: source.code for source in sources}
    inside = set()
    for circle in circles(needs):
        inside |= circle
        groups = {allowed.group.get(path) for path in circle} - {None}
        if len(groups) > 1:
            members = sorted(path for path in circle if path in allowed.group)
            yield ALLOWED, 1, (f"a circle joins {len(groups)} groups, of which {members[0]} and {members[-1]}: "
                               f"{describe(needs, shortest(needs, circle, members[0]))}")
        for path in sorted(circle - allowed.group.keys()):
            way = shortest(needs, circle, path)
            names = "|".join(map(re.escape, needs[path][way[1]]))
            line = next((n for n, text in enumerate(code[path], 1)
                         if text.startswith(" ") and re.search(rf"\b({names})\b", text)), 1)
            yield path, line, (f"circle of calls: {path} {describe(needs, way)}: move a function to where it belongs, "
                               f"pass what is needed, or make them one file (CONTRIBUTING.md)")
    for number, file, reason in allowed.rows:
        if not reason:
            yield ALLOWED, number, "no reason: put `# why` above the group"
        if file not in inside:
            yield ALLOWED, number, f"{file} is in no circle, or is gone: remove it from the line"
