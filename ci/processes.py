"""What the scripts of ci/ need of processes that they started."""

import os
import signal
from pathlib import Path


def kill_session(leader):
    """SIGKILL for every process of the session that `leader` began (start_new_session).

    Its group is not enough: Check runs each test in a group of its own, and one that never ends
    would keep our end of its output open for ever."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(entry.parent.name), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
