"""Hostile peers at the doors of a running job on backend soft: its rendezvous, its handshake
listeners, its relay, the proxies inside its hosts, and its UDP ports. The job goes on, and those
who belong to it get in. Replays, cuts at every byte and wrong secrets are left to
src/conn/listener_test.c and src/boot; here are processes, sockets and the kernel."""

import os
import random
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from processes import children

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft")))
N_SILENT = 1000
FDS_MAX = 400  # of a process: doors have limits, however many wait before them
WORDS = [b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
         b"SSH-2.0-OpenSSH_9.2\r\n", b"WEFT", b"WEFT" + bytes(60), b"\xff" * 300, b"\x00" * 4096]


def start(path, *args):
    return subprocess.Popen(
        [WEFT, "run", "--backend", "soft", path, "-q", *args], cwd=ROOT, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "WEFT_SOFT_LAYOUT": "loopback"})


def inodes(pid):
    """Inodes of the sockets of a process."""
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        pass
    return found


def sockets(pids, table, state):
    """(address, port) of the IPv4 sockets that these processes have in a state."""
    mine = set().union(*map(inodes, pids)) if pids else set()
    found = set()
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        column = line.split()
        if column[3] == state and column[9] in mine:
            address, port = column[1].split(":")
            found.add((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return sorted(found)


def doors(job):
    return sockets(children(job.pid), "tcp", "0A")


def until(condition, job):
    """Every few milliseconds, until it holds; the job must not end before."""
    while not condition():
        assert job.poll() is None, job.communicate()
        time.sleep(0.005)


def dial(door):
    stream = socket.create_connection(door, timeout=60)
    stream.setblocking(False)
    return stream


def say(stream, word):
    try:
        stream.send(word)
    except OSError:
        pass  # it has been shown the door


def finish(job):
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, (out + err)[-3000:]


@pytest.mark.parametrize("path, n_doors, extra", [
    ("scenarios/basic/pair.yaml", 2, ["--set", "topology.nodes.iceberg.start=1s"]),
    ("scenarios/partial/line-3-relay.yaml", 3, ["--set", "topology.nodes.h2.start=1s"]),
    ("scenarios/inside/plain-2.yaml", 0, [])], ids=["pair", "relay", "inside"])
def test_strangers_at_every_door(path, n_doors, extra):
    """Noise on TCP and UDP from the moment a process listens, to the end."""
    rng = random.Random(1)
    job = start(path, *extra, "--set", "jobs=[{all_reduce: {bytes: 256KiB, repeat: 400}}]", "--set",
                "expect={data: exact}")
    seen, streams, packets = set(), [], 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        while job.poll() is None:
            for door in doors(job):
                try:
                    stream = dial(door)
                except OSError:
                    continue
                seen.add(door)
                word = rng.choice(WORDS + [rng.randbytes(rng.randrange(1, 2000))])
                say(stream, word[:rng.randrange(1, len(word) + 1)])
                streams = streams[-64:] + [stream]
            for at in sockets(children(job.pid), "udp", "07"):
                if at[1] < 4791 or at[1] > 4806:
                    continue
                for _ in range(20):
                    word = bytearray(rng.randbytes(rng.randrange(0, 400)))
                    if len(word) > 12 and rng.random() < 0.5:
                        word[0], word[1] = rng.choice([4, 10, 12, 17]), 0x40  # an opcode
                    try:
                        noise.sendto(word, at)
                        packets += 1
                    except OSError:
                        pass
            time.sleep(0.002)
    finish(job)
    assert len(seen) >= n_doors
    assert packets > 100 or "inside" in path


def test_a_crowd_of_silent_clients():
    """1 000 wait at the rendezvous before the second rank comes. It gets in while they are there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * N_SILENT:
        pytest.skip("SKIP descriptors: the limit is too low; enable with: ulimit -Hn 4096")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * N_SILENT), hard))
    job = start("scenarios/basic/pair.yaml", "--set", "topology.nodes.iceberg.start=1500ms", "--set",
                "jobs=[{all_reduce: {bytes: 64KiB}}]", "--set", "expect={data: exact}")
    crowd = []
    try:
        until(lambda: doors(job), job)
        door = doors(job)[0]
        while len(crowd) < N_SILENT:
            stream = socket.socket()
            stream.setblocking(False)
            stream.connect_ex(door)
            crowd.append(stream)
        n_most = 0
        while job.poll() is None:
            for pid in children(job.pid):
                try:
                    n_most = max(n_most, len(os.listdir(f"/proc/{pid}/fd")))
                except OSError:
                    pass
            time.sleep(0.005)
        finish(job)
        assert 0 < n_most < FDS_MAX
    finally:
        for stream in crowd:
            stream.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Opens streams without pause, keeps the last hundred, and says what a member would say first.
FLOOD = """
import os, socket, struct, sys
os.nice(5)
door, streams = (sys.argv[1], int(sys.argv[2])), []
while True:
    hello = b"WEFT" + struct.pack(">HHI", 2, 1, 48) + os.urandom(24) + struct.pack(">II", 1, 0)
    stream = socket.socket()
    stream.setblocking(False)
    stream.connect_ex(door)
    streams.append(stream)
    if len(streams) > 100:
        streams.pop(0).close()
    try:
        streams[len(streams) // 2].send(hello + os.urandom(16) if sys.argv[3] == "hello" else b"")
    except OSError:
        pass
"""


@pytest.mark.parametrize("word", ["silence", "hello"])
def test_a_flood_from_the_members_own_host(word):
    """Four processes open streams to the rendezvous as fast as they can, from before the second rank comes to the
    end. It gets in, and the job is right; it failed with "did not come to the rendezvous"."""
    job = start("scenarios/basic/pair.yaml", "--set", "topology.nodes.iceberg.start=1s", "--set",
                "jobs=[{all_reduce: {bytes: 64KiB}}]", "--set", "expect={data: exact}")
    flooders = []
    try:
        until(lambda: any(at[1] == 29500 for at in doors(job)), job)
        door = next(at for at in doors(job) if at[1] == 29500)
        flooders = [subprocess.Popen([sys.executable, "-c", FLOOD, door[0], str(door[1]), word],
                                     stdin=subprocess.DEVNULL) for _ in range(4)]
        finish(job)
    finally:
        for process in flooders:
            process.kill()
            process.wait()
