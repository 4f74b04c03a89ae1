"""What the scripts of ci/ need of processes that they started."""

import os
import signal
from pathlib import Path


def processes():
    """{pid: (parent, session)} of every process that is there."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            found[int(entry.parent.name)] = (int(fields[1]), int(fields[3]))
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
    return found


def children(parent):
    """Return the processes whose parent is `parent`. The kernel lists them itself in /proc/PID/task/TID/children,
    but only with CONFIG_PROC_CHILDREN, which the guest's kernel has not."""
    return [pid for pid, (of, _) in processes().items() if of == parent]


def kill_session(leader):
    """SIGKILL for every process of the session that `leader` began (start_new_session), and for all
    that these started, in whatever session.

    Its group is not enough. Check runs each test in a group of its own, and one that never ends
    would keep our end of its output open for ever. A test may also run ci/check-run, whose jobs have
    sessions of their own."""
    found = processes()
    doomed = {pid for pid, (_, session) in found.items() if session == leader}
    while more := {pid for pid, (parent, _) in found.items() if parent in doomed} - doomed:
        doomed |= more
    for pid in doomed:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue


def session_cpu_s(leader):
    """Processor time of all processes of the session that `leader` began, the ended ones included
    for which another waited."""
    ticks = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                ticks += sum(int(field) for field in fields[11:15])
        except (OSError, ValueError, IndexError):
            continue
    return ticks / os.sysconf("SC_CLK_TCK")
