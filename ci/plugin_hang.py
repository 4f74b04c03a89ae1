"""A job that hangs, for ci/test_plugin.py: a send in one process that is never received, and then what
the plugin says of it when it is asked by signal. Prints the file; argument: the object."""

import ctypes
import os
import signal
import sys
from pathlib import Path

from nccl_net import Plugin, until


def main():
    plugin = Plugin(sys.argv[1])
    sender, _ = plugin.join(*plugin.listen())
    data = ctypes.create_string_buffer(4096)
    assert plugin.isend(sender, data, 7, plugin.register(sender, data))

    state = Path(f"{os.environ['NCCL_MESH_DUMP']}.{os.getpid()}")

    def has_told():
        """A state that was written before the plugin's thread saw the send says so."""
        size = state.stat().st_size if state.exists() else 0
        os.kill(os.getpid(), signal.SIGUSR2)
        until("state", lambda: state.exists() and state.stat().st_size > size)
        return "just now" not in state.read_text()[size:]

    until("state with the send", has_told)
    print(state.read_text())


main()
