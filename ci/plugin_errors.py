"""What a caller and the log get where something is missing or wrong. For ci/test_plugin.py.

    plugin_errors.py OBJECT descriptors [N]  init with 0, 1, 2 ... free descriptors, until it succeeds
    plugin_errors.py OBJECT memory           buffers that are not in the memory of their handle
    plugin_errors.py OBJECT secrets          two processes, each with a secret of its own

Prints a line for each call: what, its result, and the last line of the log."""

import ctypes
import os
import resource
import sys
from multiprocessing import get_context

from nccl_net import Plugin, until


def last_line(plugin):
    return plugin.lines[-1] if plugin.lines else "no word"


def start_with(object_path, n_free):
    """Init's result, in a process of its own, which opens nothing else."""
    plugin = Plugin(object_path, starts=False)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    held = []
    try:
        while True:
            held.append(os.dup(1))
    except OSError:
        for fd in held[len(held) - n_free:]:
            os.close(fd)
    result = plugin.functions["init"](plugin.logger)
    print("free", n_free, "init", result, last_line(plugin), flush=True)
    return result


def descriptors(object_path, n_tries="200"):
    if "NCCL_MESH_BACKEND" not in os.environ:
        os.environ.update(NCCL_MESH_LOOPBACK="0: 0-1", NCCL_HOSTID="host-0")
    for n_free in range(int(n_tries)):
        pid = os.fork()
        if pid == 0:
            os._exit(start_with(object_path, n_free))
        status = os.waitpid(pid, 0)[1]
        assert os.WIFEXITED(status), f"{n_free} free descriptors: signal {os.WTERMSIG(status)}"
        if os.WEXITSTATUS(status) == 0:
            break


def memory(object_path):
    os.environ.update(NCCL_MESH_BACKEND="sim", NCCL_MESH_SIMULATED="0-1")
    plugin = Plugin(object_path)
    sender, receiver = plugin.join(*plugin.listen())
    data = ctypes.create_string_buffer(8192)
    half = ctypes.create_string_buffer(4096)
    request, handle, of_receiver = ctypes.c_void_p(), plugin.register(sender, half), None
    of_receiver = plugin.register(receiver, half)
    for what, where, n_bytes, memory_handle in (
            ("elsewhere", data, 64, handle), ("beyond", half, 4097, handle),
            ("no handle", data, 64, None), ("another's handle", half, 64, of_receiver)):
        result = plugin.functions["isend"](sender, where, n_bytes, 1, memory_handle,
                                           ctypes.byref(request))
        print(f"isend, {what}:", result, last_line(plugin))
    result = plugin.functions["irecv"](
        receiver, 1, (ctypes.c_void_p * 1)(ctypes.addressof(data)), (ctypes.c_int * 1)(64),
        (ctypes.c_int * 1)(1), (ctypes.c_void_p * 1)(of_receiver), ctypes.byref(request))
    print("irecv, elsewhere:", result, last_line(plugin))


def write_line(line):
    """In one piece: the other process writes to the same pipe, and print() writes word by word."""
    os.write(1, f"{line}\n".encode())


def member(number, object_path, ours, handles):
    os.environ.update(NCCL_MESH_LOOPBACK=f"{number}: 0-1", NCCL_HOSTID=f"host-{number}",
                      NCCL_MESH_SECRET=f"{number:02x}" * 32)
    plugin = Plugin(object_path)
    handle, listener = plugin.listen()
    if number == 0:
        ours.send(handle.raw)
        comm = ctypes.c_void_p()

        def has_refused():
            plugin.call("accept", listener, ctypes.byref(comm), None)
            return any("refused" in line for line in plugin.lines)

        until("refusal", has_refused)
        write_line(f"listener: {next(line for line in plugin.lines if 'refused' in line)}")
        handles.recv()  # the other one has its error, too
        return
    theirs = ctypes.create_string_buffer(handles.recv(), 128)
    comm, results = ctypes.c_void_p(), [0]

    def has_failed():
        results.append(plugin.functions["connect"](0, theirs, ctypes.byref(comm), None))
        return results[-1] != 0

    until("failure", has_failed)
    write_line(f"connect: {results[-1]} {last_line(plugin)}")
    ours.send(b"")


def secrets(object_path):
    context = get_context("spawn")
    (of_zero, to_one), (of_one, to_zero) = context.Pipe(False), context.Pipe(False)
    processes = [context.Process(target=member, args=(0, object_path, to_one, of_one)),
                 context.Process(target=member, args=(1, object_path, to_zero, of_zero))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    {"descriptors": descriptors, "memory": memory, "secrets": secrets}[sys.argv[2]](
        sys.argv[1], *sys.argv[3:])
