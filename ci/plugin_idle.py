"""A line of three hosts: the first sends to the last, and the process in the middle, whose plugin
relays, makes no call. The hosts are network namespaces, as ci/mesh-namespaces gives them:

    ci/mesh-namespaces 3 "0-1 1-2" ci/plugin_idle.py OBJECT BYTES SECONDS --netns A --netns B --netns C

Sends messages of 4 MiB until BYTES are there and SECONDS have passed, each compared with what was
sent; prints how many bytes came, and in how many messages."""

import ctypes
import sys
import time
from multiprocessing import get_context

from nccl_net import Plugin, until

MESSAGE_BYTES = 4 << 20
CLONE_NEWNET = 0x40000000
TAG = 5


def start(object_path, namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(namespace, encoding="ascii") as file:
        assert libc.setns(file.fileno(), CLONE_NEWNET) == 0, ctypes.get_errno()
    return Plugin(object_path)


def first(object_path, namespace, pipe):
    plugin = start(object_path, namespace)
    handle, comm = ctypes.create_string_buffer(pipe.recv(), 128), ctypes.c_void_p()

    def is_connected():
        plugin.call("connect", 0, handle, ctypes.byref(comm), None)
        return comm

    until("connection", is_connected)
    data = ctypes.create_string_buffer(MESSAGE_BYTES)
    memory = plugin.register(comm, data)
    while (number := pipe.recv()) is not None:
        ctypes.memset(data, number % 251, MESSAGE_BYTES)
        sent = []
        until("send", lambda: sent.append(plugin.isend(comm, data, TAG, memory)) or sent[-1])
        until("end of the send", lambda: plugin.is_done(sent[-1]))


def middle(object_path, namespace, pipe):
    """Starts, and is not heard of again."""
    _plugin = start(object_path, namespace)
    pipe.send("started")
    pipe.recv()


def last(object_path, namespace, pipe):
    plugin = start(object_path, namespace)
    (handle, listener), comm = plugin.listen(), ctypes.c_void_p()
    pipe.send(handle.raw)

    def is_accepted():
        plugin.call("accept", listener, ctypes.byref(comm), None)
        return comm

    until("connection", is_accepted)
    data = ctypes.create_string_buffer(MESSAGE_BYTES)
    memory = plugin.register(comm, data)
    while (number := pipe.recv()) is not None:
        received = []
        until("receive",
              lambda: received.append(plugin.irecv(comm, data, TAG, memory)) or received[-1])
        until("message", lambda: plugin.is_done(received[-1]))
        pipe.send(data.raw == bytes([number % 251]) * MESSAGE_BYTES)


def main():
    object_path, n_bytes, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    namespaces = sys.argv[5::2]
    assert len(namespaces) == 3, sys.argv
    context = get_context("spawn")
    pipes, processes = [], []
    for role, namespace in zip((first, middle, last), namespaces):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=role, args=(object_path, namespace, theirs)))
        processes[-1].start()
        theirs.close()
        pipes.append(ours)
    assert pipes[1].recv() == "started"
    pipes[0].send(pipes[2].recv())
    begin, number = time.monotonic(), 0
    while number * MESSAGE_BYTES < n_bytes or time.monotonic() - begin < seconds:
        pipes[0].send(number)
        pipes[2].send(number)
        assert pipes[2].recv(), f"message {number} came with other bytes"
        number += 1
    for pipe in pipes[0], pipes[2], pipes[1]:
        pipe.send(None)
    for process in processes:
        process.join()
        assert process.exitcode == 0, process.exitcode
    print(number * MESSAGE_BYTES, "bytes in", number, "messages")


if __name__ == "__main__":
    main()
