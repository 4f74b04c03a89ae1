"""Processes of this machine as hosts of a mesh on loopback addresses, each with the plugin; every one
sends to the next, round the ring, and compares what comes. For ci/test_plugin.py.

    plugin_ring.py OBJECT HOSTS "0-1 1-2" [BYTES]
"""

import ctypes
import os
import sys
from multiprocessing import get_context

from nccl_net import Plugin, until


def rank(number, object_path, cables, n_bytes, handles, my_handle, result):
    os.environ.update(NCCL_MESH_LOOPBACK=f"{number}: {cables}", NCCL_HOSTID=f"host-{number}")
    plugin = Plugin(object_path)
    handle, listener = plugin.listen()
    my_handle.send(handle.raw)
    sender, receiver = plugin.join(ctypes.create_string_buffer(handles.recv(), 128), listener)
    out = ctypes.create_string_buffer(bytes([number + 1]) * n_bytes, n_bytes)
    into = ctypes.create_string_buffer(n_bytes)
    memory = plugin.register(sender, out), plugin.register(receiver, into)
    received = plugin.irecv(receiver, into, 3, memory[1])
    sent = []

    def has_sent():
        sent.append(plugin.isend(sender, out, 3, memory[0]))
        return sent[-1]

    until("send", has_sent)
    until("end of the send", lambda: plugin.is_done(sent[-1]))
    until("message", lambda: plugin.is_done(received))
    result.send(into.raw[0] if into.raw == into.raw[:1] * n_bytes else -1)
    handles.recv()  # a host that goes away would take its relay with it


def main():
    object_path, n, cables = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    n_bytes = int(sys.argv[4]) if len(sys.argv) > 4 else 100_000
    context = get_context("spawn")
    handles, mine, results, processes = [], [], [], []
    for number in range(n):
        (get, give), (out, into), (result, send_result) = (context.Pipe(False) for _ in range(3))
        processes.append(context.Process(target=rank, args=(number, object_path, cables, n_bytes,
                                                            get, into, send_result)))
        processes[-1].start()
        handles.append(give)
        mine.append(out)
        results.append(result)
    known = [pipe.recv() for pipe in mine]
    for number in range(n):
        handles[number].send(known[(number + 1) % n])
    came = [pipe.recv() - 1 for pipe in results]
    for number in range(n):
        handles[number].send(b"")
        processes[number].join()
    print("from", *came)


if __name__ == "__main__":
    main()
