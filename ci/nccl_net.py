"""A net plugin for NCCL as Python sees it: table v8, host memory. For scripts that ci/ starts."""

import ctypes
import time

PTR_HOST = 1
LIMIT_S = 250  # of a machine with too much to do
LOGGER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int,
                          ctypes.c_char_p, ctypes.c_char_p)
NAMES = ("init devices getProperties listen connect accept regMr regMrDmaBuf deregMr isend irecv "
         "iflush test closeSend closeRecv closeListen").split()


class Plugin:
    """The object at `path`, initialised if it `starts`."""

    def __init__(self, path, starts=True):
        table = ctypes.c_void_p.in_dll(ctypes.CDLL(path), "ncclNetPlugin_v8")
        rows = (ctypes.c_void_p * (1 + len(NAMES))).from_address(ctypes.addressof(table))
        self.functions = {name: ctypes.CFUNCTYPE(ctypes.c_int)(rows[1 + i])
                          for i, name in enumerate(NAMES)}
        self.lines = []  # NCCL's own has a variable list, of which a string is the first
        self.logger = LOGGER(lambda *arguments: self.lines.append((arguments[5] or b"").decode()))
        if starts:
            self.call("init", self.logger)

    def call(self, name, *arguments):
        result = self.functions[name](*arguments)
        assert result == 0, f"{name}: {result}"

    def listen(self):
        handle, listener = ctypes.create_string_buffer(128), ctypes.c_void_p()
        self.call("listen", 0, handle, ctypes.byref(listener))
        return handle, listener

    def join(self, handle, listener):
        """Both a comm to `handle` and one from the peer that connects to `listener`."""
        sender, receiver = ctypes.c_void_p(), ctypes.c_void_p()

        def both():
            if not sender:
                self.call("connect", 0, handle, ctypes.byref(sender), None)
            if not receiver:
                self.call("accept", listener, ctypes.byref(receiver), None)
            return sender and receiver

        until("connection", both)
        return sender, receiver

    def register(self, comm, data):
        memory = ctypes.c_void_p()
        self.call("regMr", comm, data, ctypes.c_size_t(len(data)), PTR_HOST, ctypes.byref(memory))
        return memory

    def isend(self, comm, data, tag, memory):
        request = ctypes.c_void_p()
        self.call("isend", comm, data, len(data), tag, memory, ctypes.byref(request))
        return request

    def irecv(self, comm, data, tag, memory):
        request = ctypes.c_void_p()
        self.call("irecv", comm, 1, (ctypes.c_void_p * 1)(ctypes.addressof(data)),
                  (ctypes.c_int * 1)(len(data)), (ctypes.c_int * 1)(tag),
                  (ctypes.c_void_p * 1)(memory), ctypes.byref(request))
        return request

    def is_done(self, request):
        done, sizes = ctypes.c_int(), (ctypes.c_int * 8)()
        self.call("test", request, ctypes.byref(done), sizes)
        return done.value != 0


def until(what, done):
    end = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end, f"no {what} within {LIMIT_S} s"
        time.sleep(0.001)
