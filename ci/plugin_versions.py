"""Connects to handles as a peer with another version of the protocol would give them, on a simulated
mesh; prints what each connect returned and logged. For ci/test_plugin.py.

    plugin_versions.py OBJECT
"""

import ctypes
import os
import sys

from nccl_net import Plugin

# Where the version stands in a handle: the plugin's own part, and the handshake's.
PLACES = {"plugin": 123, "handshake": 5}


def main():
    os.environ.update(NCCL_MESH_BACKEND="sim", NCCL_MESH_SIMULATED="0-1")
    plugin = Plugin(sys.argv[1])
    for what, place in PLACES.items():
        handle, listener = plugin.listen()
        foreign = ctypes.create_string_buffer(handle.raw, 128)
        foreign[place] = handle.raw[place] + 1
        sender, result, asked = ctypes.c_void_p(), 0, 0
        plugin.lines.clear()
        while result == 0 and asked < 1000:
            result = plugin.functions["connect"](1, foreign, ctypes.byref(sender), None)
            asked += 1
        print(what, result, plugin.lines[-1] if plugin.lines else "no word")
        # The same listener is there for a peer that fits.
        receiver = ctypes.c_void_p()
        for _ in range(1000):
            if not sender:
                plugin.call("connect", 1, handle, ctypes.byref(sender), None)
            if not receiver:
                plugin.call("accept", listener, ctypes.byref(receiver), None)
        print(what, "connected afterwards" if sender and receiver else "does not connect")


if __name__ == "__main__":
    main()
