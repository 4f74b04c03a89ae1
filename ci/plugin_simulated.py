"""Two hosts of a line of three, simulated in this process: messages from one end to the other, over
the relay between them, and how often it was asked for each. For ci/test_plugin.py.

    plugin_simulated.py OBJECT
"""

import ctypes
import os
import sys

from nccl_net import Plugin

N_BYTES = 100_000
CONNECTING, ACCEPTING = 0, 2  # host 0's port, and host 2's: devices go round the hosts


def asked_until(done):
    n = 1
    while not done():
        n += 1
        assert n < 1_000_000
    return n


def main():
    os.environ.update(NCCL_MESH_BACKEND="sim", NCCL_MESH_SIMULATED="0-1 1-2")
    plugin = Plugin(sys.argv[1])
    handle, listener = ctypes.create_string_buffer(128), ctypes.c_void_p()
    sender, receiver = ctypes.c_void_p(), ctypes.c_void_p()
    plugin.call("listen", ACCEPTING, handle, ctypes.byref(listener))
    print("device 99: listen", plugin.functions["listen"](99, handle, ctypes.byref(sender)), "connect",
          plugin.functions["connect"](99, handle, ctypes.byref(sender), None))

    def is_up():
        if not sender:
            plugin.call("connect", CONNECTING, handle, ctypes.byref(sender), None)
        if not receiver:
            plugin.call("accept", listener, ctypes.byref(receiver), None)
        return sender and receiver

    print("asked for the connection", asked_until(is_up))
    for number in range(10):
        out = ctypes.create_string_buffer(bytes([number]) * N_BYTES, N_BYTES)
        into = ctypes.create_string_buffer(N_BYTES)
        received = plugin.irecv(receiver, into, 3, plugin.register(receiver, into))
        sent = plugin.isend(sender, out, 3, plugin.register(sender, out))
        print("asked for a message", asked_until(lambda: plugin.is_done(received)),
              asked_until(lambda: plugin.is_done(sent)))
        assert into.raw == out.raw
    print(f"10 messages of {N_BYTES} bytes, as they were sent")


if __name__ == "__main__":
    main()
