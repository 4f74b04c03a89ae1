"""A process that forks once the plugin is up, as data loaders do: what the child gets, and a message
in the parent afterwards. For ci/test_plugin.py; argument: the object.
"""

import ctypes
import os
import sys

from nccl_net import Plugin, until


def child(plugin, handle, listener):
    """Each call, whatever it is given, ends, and says so."""
    comm, memory, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    data = ctypes.create_string_buffer(64)
    calls = {"devices": (ctypes.byref(count),),
             "listen": (0, ctypes.create_string_buffer(128), ctypes.byref(comm)),
             "connect": (0, handle, ctypes.byref(comm), None),
             "accept": (listener, ctypes.byref(comm), None),
             "regMr": (listener, data, ctypes.c_size_t(64), 1, ctypes.byref(memory)),
             "closeListen": (listener,),
             "init": (plugin.logger,)}
    results = [f"{name} {plugin.functions[name](*given)}" for name, given in calls.items()]
    print(f"child: {', '.join(results)}: {plugin.lines[-1]}", flush=True)


def main():
    os.environ.update(NCCL_MESH_LOOPBACK="0: 0-1", NCCL_HOSTID="host-0")
    plugin = Plugin(sys.argv[1])
    handle, listener = plugin.listen()
    pid = os.fork()
    if pid == 0:
        child(plugin, handle, listener)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    sender, receiver = plugin.join(handle, listener)
    out, into = ctypes.create_string_buffer(b"x" * 64, 64), ctypes.create_string_buffer(64)
    received = plugin.irecv(receiver, into, 1, plugin.register(receiver, into))
    sent = []
    memory = plugin.register(sender, out)
    until("send", lambda: sent.append(plugin.isend(sender, out, 1, memory)) or sent[-1])
    until("message", lambda: plugin.is_done(received))
    assert into.raw == out.raw
    print("parent: a message came")


main()
