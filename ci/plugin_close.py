"""Connections that end at once: messages, after which each end closes as soon as its own requests are
done; or nothing, each end closing as soon as it has its comm. The other end has to succeed. Hosts are
network namespaces, as ci/mesh-namespaces gives them; the first and the last are the ends.

    ci/mesh-namespaces 2 "0-1" ci/plugin_close.py OBJECT message|set-up ROUNDS SEED --netns A --netns B

A round draws the direction, how many connections there are at a time, sizes, and whether an end looks
only when the other has closed. Every EXIT_EVERY rounds an end's process exits as soon as its closes
have returned, and another takes its place. Prints the rounds, and how many failed at which end; exit
1 if any did."""

import ctypes
import os
import random
import sys
import time
from multiprocessing import get_context

from nccl_net import LIMIT_S, PTR_HOST, Plugin

CLONE_NEWNET = 0x40000000
SIZES = (0, 1, 7, 8, 64, 4095, 4096, 4097, 8192, 32768, 32769, 65536, 131072, 131073, 1 << 20)
WEIGHTS = (6, 6, 2, 6, 3, 1, 1, 1, 8, 1, 1, 3, 1, 1, 1)
EXIT_EVERY = 100


class Failed(Exception):
    pass


class End:
    """One of both processes."""

    def __init__(self, object_path, namespace, pipe):
        libc = ctypes.CDLL(None, use_errno=True)
        with open(namespace, encoding="ascii") as file:
            assert libc.setns(file.fileno(), CLONE_NEWNET) == 0, ctypes.get_errno()
        self.plugin, self.pipe = Plugin(object_path), pipe

    def call(self, name, *arguments):
        result = self.plugin.functions[name](*arguments)
        if result != 0:
            raise Failed(f"{name}: {result}: {' | '.join(self.plugin.lines[-2:])}")

    def until(self, what, done):
        end = time.monotonic() + LIMIT_S
        while not done():
            if time.monotonic() > end:
                raise Failed(f"no {what}")
            os.sched_yield()

    def open_all(self, draw, handles, listeners):
        """Comms, as many as there are handles or listeners; the call is repeated until each is there."""
        comms = [ctypes.c_void_p() for _ in range(draw.n)]

        def all_there():
            for i, comm in enumerate(comms):
                if not comm and handles:
                    self.call("connect", 0, handles[i], ctypes.byref(comm), None)
                elif not comm:
                    self.call("accept", listeners[i], ctypes.byref(comm), None)
                if comm and draw.is_set_up and not comm.closed:
                    self.close(comm, bool(handles))
            return all(comms)

        for comm in comms:
            comm.closed = False
        self.until("comm", all_there)
        return comms

    def close(self, comm, is_sender):
        self.call("closeSend" if is_sender else "closeRecv", comm)
        comm.closed = True

    def start(self, comm, is_sender, data, size, memory):
        """A request, or None: not now."""
        request = ctypes.c_void_p()
        if is_sender:
            self.call("isend", comm, data, size, 1, memory, ctypes.byref(request))
        else:
            self.call("irecv", comm, 1, (ctypes.c_void_p * 1)(ctypes.addressof(data)),
                      (ctypes.c_int * 1)(size), (ctypes.c_int * 1)(1),
                      (ctypes.c_void_p * 1)(memory), ctypes.byref(request))
        return request if request else None

    def move(self, comms, is_sender, draw):
        """A message on each; a comm is closed as soon as its own is done."""
        data, memories, requests = [], [], [None] * len(comms)
        for comm, size, byte in zip(comms, draw.sizes, draw.fill):
            data.append(ctypes.create_string_buffer(max(size, 1)))
            ctypes.memset(data[-1], byte if is_sender else 0, max(size, 1))
            memories.append(ctypes.c_void_p())
            self.call("regMr", comm, data[-1], ctypes.c_size_t(max(size, 1)), PTR_HOST,
                      ctypes.byref(memories[-1]))
        done, sizes = ctypes.c_int(), (ctypes.c_int * 8)()

        def step(i):
            comm, size = comms[i], draw.sizes[i]
            if requests[i] is None:
                requests[i] = self.start(comm, is_sender, data[i], size, memories[i])
            if requests[i] is None:
                return
            self.call("test", requests[i], ctypes.byref(done), sizes)
            if not done.value:
                return
            if sizes[0] != size or (not is_sender
                                    and data[i].raw[:size] != bytes([draw.fill[i]]) * size):
                raise Failed(f"{sizes[0]} bytes, not the {size} that were sent")
            self.call("deregMr", comm, memories[i])
            self.close(comm, is_sender)

        if draw.late == (0 if is_sender else 1):
            for i in range(len(comms)):  # what the other needs to be done
                requests[i] = self.start(comms[i], is_sender, data[i], draw.sizes[i], memories[i])
            self.until("request", lambda: all(requests) or self.fill_in(requests, comms, is_sender,
                                                                        draw, data, memories))
            self.pipe.recv()  # it has closed
        self.until("completion",
                   lambda: [step(i) for i, comm in enumerate(comms) if not comm.closed] == [])
        if draw.late == (1 if is_sender else 0):
            self.pipe.send("closed")

    def fill_in(self, requests, comms, is_sender, draw, data, memories):
        for i, request in enumerate(requests):
            if request is None:
                requests[i] = self.start(comms[i], is_sender, data[i], draw.sizes[i], memories[i])
        return all(requests)

    def play(self, number, draw):
        is_sender = draw.sender == number
        handles, listeners = [], []
        if is_sender:
            handles = [ctypes.create_string_buffer(raw, 128) for raw in self.pipe.recv()]
        else:
            listeners = [ctypes.c_void_p() for _ in range(draw.n)]
            raws = []
            for listener in listeners:
                raws.append(ctypes.create_string_buffer(128))
                self.call("listen", 0, raws[-1], ctypes.byref(listener))
            self.pipe.send([raw.raw for raw in raws])
        comms = self.open_all(draw, handles, listeners)
        for listener in listeners:
            self.call("closeListen", listener)
        if not draw.is_set_up:
            self.move(comms, is_sender, draw)


class Draw:
    """What a round is."""

    def __init__(self, seed, number, is_set_up):
        rng = random.Random(f"{seed} {number}")
        self.is_set_up = is_set_up
        self.sender = rng.randrange(2)
        self.n = rng.choice((1, 1, 1, 1, 2, 3, 4))
        self.sizes = rng.choices(SIZES, WEIGHTS, k=self.n)
        self.fill = [rng.randrange(1, 256) for _ in range(self.n)]
        self.late = rng.choice((None, None, 0, 1))  # looks when the other has closed: sender, receiver
        self.leaver = rng.randrange(2) if number % EXIT_EVERY == EXIT_EVERY - 1 else None


def end(number, object_path, namespace, peer, parent, seed, is_set_up):
    this = End(object_path, namespace, peer)
    while (turn := parent.recv()) is not None:
        draw, why = Draw(seed, turn, is_set_up), None
        try:
            this.play(number, draw)
        except Failed as failed:
            why = f"round {turn}: {'sender' if draw.sender == number else 'receiver'}: {failed}"
        parent.send(why)
        if why is not None or draw.leaver == number:
            os._exit(0)  # as soon as its closes have returned


class Pair:
    """Both ends, started again when one has left or failed."""

    def __init__(self, arguments, namespaces):
        self.arguments, self.namespaces = arguments, namespaces
        self.context, self.processes, self.pipes = get_context("spawn"), [None, None], [None, None]

    def start(self):
        object_path, seed, is_set_up = self.arguments
        ends = self.context.Pipe()
        for i in range(2):
            ours, theirs = self.context.Pipe()
            self.pipes[i] = ours
            self.processes[i] = self.context.Process(
                target=end, args=(i, object_path, self.namespaces[i], ends[i], theirs, seed,
                                  is_set_up))
            self.processes[i].start()
            theirs.close()
        for pipe in ends:
            pipe.close()

    def stop(self):
        for process, pipe in zip(self.processes, self.pipes):
            try:
                pipe.send(None)
            except OSError:
                pass
            process.join(20)
            if process.exitcode is None:
                process.kill()
                process.join()

    def play(self, turn, limit_s):
        """What failed."""
        failures = []
        for pipe in self.pipes:
            pipe.send(turn)
        end_s = time.monotonic() + limit_s
        for i, pipe in enumerate(self.pipes):
            try:
                if not pipe.poll(max(0.1, end_s - time.monotonic())):
                    failures.append(f"round {turn}: end {i} does not come to its end")
                elif (why := pipe.recv()) is not None:
                    failures.append(why)
                    end_s = time.monotonic() + 5
            except EOFError:
                failures.append(f"round {turn}: end {i} is gone")
        return failures


def main():
    object_path, kind, rounds, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    namespaces = sys.argv[6::2]
    pair = Pair((object_path, seed, kind == "set-up"), (namespaces[0], namespaces[-1]))
    failed, by_end = 0, {"sender": 0, "receiver": 0}
    limit_s = float(os.environ.get("CLOSE_LIMIT_S", LIMIT_S))
    begin = time.monotonic()
    pair.start()
    for turn in range(rounds):
        if turn % 1000 == 0 and turn > 0:
            print(f"{kind}: {turn} rounds so far, {failed} failed", file=sys.stderr, flush=True)
        failures = pair.play(turn, limit_s)
        for why in failures:
            print(why, file=sys.stderr)
            for name in by_end:
                by_end[name] += f" {name}:" in why
        failed += bool(failures)
        if failures or Draw(seed, turn, False).leaver is not None:
            pair.stop()
            pair.start()
    pair.stop()
    print(f"{kind}: {rounds} rounds, {failed} failed (senders {by_end['sender']}, receivers "
          f"{by_end['receiver']}), {time.monotonic() - begin:.0f} s")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
