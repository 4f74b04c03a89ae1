"""A job that hangs, for ci/test_plugin.py: a send in one process that nobody receives, and then what
the plugin says of it when it is asked by signal. Prints the file; argument: the object."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PTR_HOST = 1
LOGGER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int,
                          ctypes.c_char_p)
NAMES = ("init devices getProperties listen connect accept regMr regMrDmaBuf deregMr isend irecv "
         "iflush test").split()
LIMIT_S = 60


def until(what, done):
    end = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end, f"no {what} within {LIMIT_S} s"
        time.sleep(0.01)


def main():
    table = ctypes.c_void_p.in_dll(ctypes.CDLL(sys.argv[1]), "ncclNetPlugin_v8")
    rows = (ctypes.c_void_p * (1 + len(NAMES))).from_address(ctypes.addressof(table))
    call = {name: ctypes.CFUNCTYPE(ctypes.c_int)(rows[1 + i]) for i, name in enumerate(NAMES)}
    logger = LOGGER(lambda *ignored: None)
    handle = ctypes.create_string_buffer(128)
    listener, sender, receiver, memory, request = (ctypes.c_void_p() for _ in range(5))
    data = ctypes.create_string_buffer(4096)

    assert call["init"](logger) == 0
    assert call["listen"](0, handle, ctypes.byref(listener)) == 0

    # connect and accept are called by turns, each until it has given its comm.
    until("sender", lambda: (sender or call["connect"](0, handle, ctypes.byref(sender), None) == 0)
          and (receiver or call["accept"](listener, ctypes.byref(receiver), None) == 0)
          and sender and receiver)
    assert call["regMr"](sender, data, ctypes.c_size_t(4096), PTR_HOST, ctypes.byref(memory)) == 0
    assert call["isend"](sender, data, 4096, 7, memory, ctypes.byref(request)) == 0 and request

    state = Path(f"{os.environ['NCCL_MESH_DUMP']}.{os.getpid()}")
    os.kill(os.getpid(), signal.SIGUSR2)
    until("state", lambda: state.exists() and state.read_text().endswith("\n"))
    print(state.read_text())


main()
