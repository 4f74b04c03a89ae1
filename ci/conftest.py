"""Holds pytest files to their class: ci/wire-tests.txt says which tests depend on real time.

WEFT_TESTS says which tests are run: all (default), pure, wire, real, virtual, or wire-gate and
virtual-gate, those of them that the gate runs. While a test runs that the list does not name, fixtures
included, it fails if it starts a thread, opens a socket, asks for the time or sleeps, or starts a program
that lives in real time. What libraries do by themselves is not looked at, nor are the workers of a
ThreadPoolExecutor, which only run several programs side by side.

With WEFT_SAMPLE a test that is marked heavy is run by one commit in eight (ci/sampling.py); those that
share a fixture which is heavy have one name in the mark, and their turn together.
"""

import functools
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import sampling
import wire

HERE = Path(__file__).resolve().parent
KINDS = wire.read()
REAL_BACKENDS = {"soft", "rxe", "verbs"}
REAL_VERBS = {"node", "relayd", "plugin-check", "guest"}  # of weft
REAL_PROGRAMS = {"unshare", "nsenter", "machines", "mesh-namespaces"}
HARMLESS = {"--help", "--list", "show"}  # nothing is run with these
running = []  # the name of the pure test that runs, if one does


def name_of(item):
    """As ci/wire-tests.txt names it, wherever pytest thinks that its root is."""
    path = Path(item.fspath).resolve().relative_to(HERE.parent)
    return "::".join([str(path), *item.nodeid.split("::", 1)[1:]])


def pytest_configure(config):
    config.addinivalue_line("markers", "heavy: one commit in eight runs it")


def pytest_collection_modifyitems(config, items):
    choice = os.environ.get("WEFT_TESTS") or "all"
    if choice not in wire.CHOICES:
        raise pytest.UsageError(f"WEFT_TESTS: expected {', '.join(wire.CHOICES)}, not {choice}")
    taken, others = [], []
    for item in items:
        name = name_of(item)
        heavy = item.get_closest_marker("heavy")
        is_turn = heavy is None or sampling.is_turn_of(heavy.args[0] if heavy.args else name)
        (taken if is_turn and wire.takes(choice, name, KINDS) else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = taken


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if wire.kind_of(name_of(item), KINDS) == "pure":
        running.append(name_of(item))
    yield
    running.clear()


def refuse(what):
    pytest.fail(f"{running[0]} is a pure test and {what}: do without, or list it in "
                "ci/wire-tests.txt with a reason")


def watch(owner, name, check):
    """Has `check` look at the arguments of each call, and at who calls, while a pure test runs."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def watched(*args, **kwargs):
        if running:
            check(sys._getframe(1).f_code.co_filename, *args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, watched)


def check_time(name):
    def check(caller, *_args, **_kwargs):
        if HERE in Path(caller).resolve().parents:
            refuse(f"calls time.{name}")
    return check


def check_thread(_caller, thread):
    target = getattr(thread, "_target", None)
    if getattr(target, "__module__", None) != "concurrent.futures.thread":
        refuse("starts a thread")


def check_socket(_caller, *_args, **_kwargs):
    refuse("opens a socket")


def words_of(argv, shell):
    """The words of a command, and those of a script that it hands to a shell."""
    argv = [argv] if isinstance(argv, (str, bytes, os.PathLike)) else list(argv)
    words = [os.fsdecode(word) for word in argv]
    at = 0 if shell else words.index("-c") + 1 if "-c" in words else len(words)
    script = " ".join(words[at:at + 1]).split()
    return words[:at] + script + words[at + 1:]


def in_real_time(words):
    """The word by which a command lives in real time, or None."""
    if HARMLESS & set(words):
        return None
    names = [word.rpartition("/")[2] for word in words]
    is_simulated = "sim" in words
    for before, word in zip([""] + names, names):
        if (word in REAL_PROGRAMS or (before, word) == ("ip", "netns")
                or (before == "--backend" and word in REAL_BACKENDS)
                or word in {f"--backend={backend}" for backend in REAL_BACKENDS}
                or (before == "weft" and word in REAL_VERBS and not is_simulated)):
            return word
    return None


def check_process(_caller, _process, args, *_rest, **kwargs):
    word = in_real_time(words_of(args, kwargs.get("shell")))
    if word is not None:
        refuse(f"starts what lives in real time, by the word {word}")


for function in ("sleep", "time", "monotonic", "perf_counter"):
    watch(time, function, check_time(function))
watch(threading.Thread, "start", check_thread)
watch(socket.socket, "__init__", check_socket)
watch(subprocess.Popen, "__init__", check_process)
