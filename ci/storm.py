#!/usr/bin/env python3
"""Run jobs of real processes over namespaces (backend soft) under kills, stops, flaps and floods.

    ci/storm.py [--seconds 30] [--rounds N] [--seed N] [--first 0] [--build build]

Each round draws a connected mesh of 2 to 5 hosts, a job, and a schedule: SIGKILL, SIGSTOP and
SIGCONT of a host's process, cables whose link goes down and comes back (ip link), floods of forged
packets to UDP port 4791, and floods of connections to every TCP port that listens. Some rounds kill
the command itself. The last part of the time is one long job under all of it but death.

What is asked of each round: the command ends within a time; no byte is wrong; what failed says so
by a typed error; a round with floods, short stops and short flaps only passes; every process ends
by itself, with a verdict and by no signal that this driver did not send; nothing is left in
/dev/shm and /run/netns, and no process. In the long job, descriptors and memory of each process
stay flat. A job can be over before the events of its round; a storm in which none happened shows
nothing, and is bad.

Without --seed one is drawn, and printed; --seed S --first I --rounds 1 draws round I of seed S
again: the mesh, the job and the schedule, but not the kernel's timing. Exit 77: no namespaces.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import children, kill_session

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 150  # the longest deadline that a host of a round can meet is 90 s (TIMER_HANG_NS)
STOP_SHORT_S = 0.6  # an end that stands still for less than 1.6 s costs nothing (docs/soft.md)
FLAP_SHORT_S = 0.3
PORTS = range(4791, 4807)
STATUSES = {"nomem", "system", "completion", "protocol", "auth", "timeout", "closed", "limit",
            "route", "unsupported", "environment"}
# Whether memory and descriptors stay flat is judged from this length on. In a shorter job a handful of
# faults decides when a process first has as many connections and buffers as it needs.
FLAT_FROM_S = 60
RSS_SLACK_KB = 3 * 1024
FD_SLACK = 8
FLOOD = r"""
import os, random, socket, sys, time
seed, seconds, tcp = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "tcp"
rng, end = random.Random(seed), time.monotonic() + seconds
def listeners(table, state):
    found = []
    for line in open(f"/proc/net/{table}").read().splitlines()[1:]:
        column = line.split()
        if column[3] == state:
            address, port = column[1].split(":")
            found.append((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return found
n, streams = 0, []
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while time.monotonic() < end:
    if tcp:
        for door in listeners("tcp", "0A"):
            stream = socket.socket()
            stream.setblocking(False)
            stream.connect_ex(door)
            streams = streams[-200:] + [stream]
            try:
                stream.send(rng.choice([b"WEFT", b"GET / HTTP/1.1\r\n\r\n", rng.randbytes(64),
                                        b"WEFT\0\1\0\1\0\0\0\x30" + rng.randbytes(48)]))
            except OSError:
                pass
            n += 1
        time.sleep(0.002)
        continue
    for door in listeners("udp", "07"):
        if not 4791 <= door[1] <= 4806:
            continue
        for _ in range(50):
            word = bytearray(rng.randbytes(rng.choice([0, 11, 12, 16, 28, 60, 1000])))
            if len(word) >= 12:
                word[0] = rng.choice([0, 1, 2, 4, 6, 10, 11, 12, 16, 17, 18])  # opcodes of RC
                word[1], word[4] = 0x40, rng.choice([0, 0, 0x10])
                word[5:8] = rng.choice([rng.randbytes(3), bytes([0, 0, rng.randrange(256)])])
            try:
                udp.sendto(bytes(word), door)
                n += 1
            except OSError:
                pass
    time.sleep(0.001)
print(n)
"""


def enter(pid):
    own = ["--user", "--preserve-credentials"] if os.geteuid() != 0 else []
    return ["nsenter", f"--target={pid}", *own, "--net"]


# ---- drawing ----

def draw_mesh(rng, name, job, n=None):
    n = n or rng.randrange(2, 6)
    ports = [0] * n
    links = []
    cables = [(rng.randrange(i), i) for i in range(1, n)]
    cables += [tuple(rng.sample(range(n), 2)) for _ in range(rng.randrange(n))]
    ends = []
    for i, (a, b) in enumerate(cables):
        here = [(a, ports[a]), (b, ports[b])]
        ports[a] += 1
        ports[b] += 1
        ends += here
        links.append(f'    - {{endpoints: ["h{a}:p{here[0][1]}", "h{b}:p{here[1][1]}"], '
                     f"subnet: 10.1.{i}.0/24}}")
    nodes = [f"    h{i}: {{ports: [{', '.join(f'p{k}' for k in range(ports[i]))}]}}"
             for i in range(n)]
    lines = [f"name: {name}", f"seed: {rng.randrange(1 << 32)}", "topology:",
             *(["  management: none"] if rng.random() < 0.3 else []),
             "  nodes:", *nodes, "  links:", *links, f"jobs: [{{{job}}}]", "expect: {data: exact}"]
    return n, ends, "\n".join(lines) + "\n"


def draw_events(rng, n, ends, kinds, seconds):
    """[(at, kind, host, port, how long)]"""
    events = []
    for _ in range(rng.randrange(1, 6)):
        kind = rng.choice(kinds)
        host, port = rng.choice(ends) if kind == "flap" else (rng.randrange(n), 0)
        long = {"stop": rng.choice([0.05, 0.3, STOP_SHORT_S, 3.0, 8.0]),
                "flap": rng.choice([0.005, 0.05, FLAP_SHORT_S, 2.0, 8.0])}.get(
                    kind, rng.uniform(0.3, 2.0))
        events.append((round(rng.uniform(0.05, seconds), 3), kind, host, port, round(long, 3)))
    return sorted(events)


def draw(rng, name):
    kind = rng.choice(["all_reduce", "all_to_all", "all_gather", "reduce_scatter", "send_recv"])
    size = rng.choice(["8", "64KiB", "300001", "1MiB"])
    repeat = {"8": 3000, "64KiB": 1200, "300001": 500, "1MiB": 150}[size]
    n, ends, text = draw_mesh(rng, name, f"{kind}: {{bytes: {size}, repeat: {repeat}}}")
    kinds = rng.choice([["flood", "crowd"], ["flap", "flood"], ["stop", "flood", "crowd"],
                        ["kill", "stop", "flap", "flood", "crowd"], ["kill", "flood"],
                        ["command", "flap", "stop"]])
    return text, n, draw_events(rng, n, ends, kinds, 2.5)


# ---- a run ----

class Run:
    """A weft run and its members by host."""

    def __init__(self, weft, text, rng):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-storm-")
        self.path = Path(self.folder.name) / "storm.yaml"
        self.path.write_text(text)
        self.observations = Path(self.folder.name) / "observations.json"
        self.rng = rng
        self.children, self.pending, self.pids = [], [], {}
        self.out = open(Path(self.folder.name) / "out", "w+", encoding="utf-8")
        self.err = open(Path(self.folder.name) / "err", "w+", encoding="utf-8")
        self.began = time.monotonic()
        self.job = subprocess.Popen(
            [weft, "run", "--backend", "soft", str(self.path), "--json", "--observations",
             str(self.observations)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self.out,
            stderr=self.err, start_new_session=True,
            env={**os.environ, "WEFT_SOFT_LAYOUT": "namespaces"})

    def at(self):
        return time.monotonic() - self.began

    def members(self):
        """Return the pid of each host seen so far, ended or not."""
        for pid in children(self.job.pid):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                self.pids[words[words.index(b"--name") + 1].decode()] = pid
            except (OSError, ValueError):
                pass
        return self.pids

    def is_running(self, pid):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[1]) == self.job.pid and fields[0] != "Z"
        except (OSError, IndexError):
            return False

    def act(self, kind, host, port, seconds):
        if kind == "command":
            self.job.kill()
            return True
        pid = self.members().get(f"h{host}")
        if pid is None or not self.is_running(pid):
            return False
        if kind == "kill":
            os.kill(pid, signal.SIGKILL)
        elif kind == "stop":
            os.kill(pid, signal.SIGSTOP)
            self.pending.append((self.at() + seconds, lambda: self.is_running(pid) and
                                 os.kill(pid, signal.SIGCONT)))
        elif kind == "flap":
            set_link = [*enter(pid), "ip", "link", "set", f"p{port}"]
            subprocess.run([*set_link, "down"], check=False, stderr=subprocess.DEVNULL)
            self.pending.append((self.at() + seconds, lambda: self.is_running(pid) and
                                 subprocess.run([*set_link, "up"], check=False,
                                                stderr=subprocess.DEVNULL)))
        else:
            self.children.append(subprocess.Popen(
                [*enter(pid), sys.executable, "-c", FLOOD, str(self.rng.randrange(1 << 30)),
                 str(seconds), "tcp" if kind == "crowd" else "udp"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        return True

    def undo(self, everything=False):
        due = [do for at, do in self.pending if everything or at <= self.at()]
        self.pending = [] if everything else [(at, do) for at, do in self.pending
                                              if at > self.at()]
        for do in due:
            do()

    def follow(self, events, limit_s=LIMIT_S, look=None):
        """Follow the command to its end. Return the events that happened, or None at the limit."""
        done, left = [], list(events)
        while self.job.poll() is None:
            self.undo()
            while left and left[0][0] <= self.at():
                event = left.pop(0)
                if self.act(*event[1:]):
                    done.append(event)
            if look is not None:
                look(self)
            if self.at() > limit_s:
                return None
            time.sleep(0.004)
        return done

    def close(self):
        """End all helpers. Return the number of forged packets and connections."""
        n = 0
        self.undo(everything=True)
        for child in self.children:
            out, _ = child.communicate(timeout=60)
            n += int(out or 0)
        kill_session(self.job.pid)
        self.out.seek(0)
        self.err.seek(0)
        self.stdout, self.stderr = self.out.read(), self.err.read()
        self.out.close()
        self.err.close()
        return n


def left_behind(run):
    """List files named after the command's process, and processes of its session."""
    found = [str(path) for folder in ("/run/netns", "/dev/shm") if Path(folder).is_dir()
             for path in Path(folder).iterdir() if f"weft-{run.job.pid}-" in path.name]
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[3]) == run.job.pid and fields[0] != "Z":
                found.append(f"process {entry.parent.name}")
        except (OSError, IndexError):
            continue
    return found


def wait_for_nothing(run, seconds=10):
    """Wait until no process of the session is left. Return those that are."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        left = [what for what in left_behind(run) if what.startswith("process")]
        if not left:
            return []
        time.sleep(0.05)
    return left


# ---- judging ----

def judge(run, events):
    """Return a list of complaints."""
    kinds = {event[1] for event in events}
    wrong = []
    if run.job.returncode < 0 and "command" not in kinds:
        return [f"the command ended by signal {-run.job.returncode}: {run.stderr[-600:]}"]
    if run.job.returncode < 0:
        return []
    if run.job.returncode not in (0, 1):
        return [f"status {run.job.returncode}: {run.stderr[-600:]}"]
    document = json.loads(run.stdout)
    for row in document["jobs"]:
        if row["nwrong"]:
            wrong.append(f"{row['nwrong']} wrong elements")
    errors = [{**error, "host": host.get("name")}
              for host in json.loads(run.observations.read_text())["hosts"]
              for error in host["errors"]]
    for error in errors:
        if error["status"] not in STATUSES or not error["phase"] or not error["message"]:
            wrong.append(f"untyped: {error}")
    if document["result"] != "pass" and not errors and not kinds & {"kill"}:
        wrong.append(f"failed without an error: {document['symptom']}")
    harmless = all(kind in ("flood", "crowd") or (kind == "stop" and long <= STOP_SHORT_S) or
                   (kind == "flap" and long <= FLAP_SHORT_S)
                   for _, kind, _, _, long in events)
    if document["result"] != "pass" and harmless:
        wrong.append("not survived: " + "; ".join(
            f"{e['host']}: {e['phase']}: {e['message']}" for e in errors[:4]))
    return wrong


def play_round(weft, seed, index):
    rng = random.Random(f"{seed}:{index}")
    text, _, events = draw(rng, f"storm-{index}")
    run = Run(weft, text, rng)
    happened = run.follow(events)
    if happened is None:
        wrong = [f"did not end within {LIMIT_S} s"]
        run.job.kill()
        run.job.wait()
        run.close()
        happened = events
    else:
        run.undo(everything=True)  # a stopped process cannot end
        wrong = wait_for_nothing(run)
        left = [] if any(event[1] == "command" for event in happened) else left_behind(run)
        run.strangers = run.close()
        wrong += [f"left: {what}" for what in left] + judge(run, happened)
    result = "killed" if run.job.returncode < 0 else ["pass", "fail"][min(run.job.returncode, 1)]
    return happened, result, getattr(run, "strangers", 0), wrong, text


# ---- the long job ----

def sample(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    rss = int(status.partition("VmRSS:")[2].split()[0])
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return rss, len(os.listdir(f"/proc/{pid}/fd")), ticks


def endure(weft, seed, seconds):
    """Run one job until this driver ends it, so that the same processes live through all of it."""
    rng = random.Random(f"{seed}:long")
    n, ends, text = draw_mesh(rng, "storm-long", "all_reduce: {bytes: 64KiB, repeat: 1000000}", 3)
    run = Run(weft, text, rng)
    events, at = [], 2.0
    while at < seconds:
        events += [(at + e[0], *e[1:4], min(e[4], STOP_SHORT_S if e[1] == "stop" else FLAP_SHORT_S))
                   for e in draw_events(rng, n, ends, ["flap", "stop", "flood", "crowd"], 1.0)
                   if e[1] != "flood" or rng.random() < 0.5]
        at += rng.uniform(1.5, 2.5)
    samples = {}

    def look(run):
        if run.at() > look.next:
            look.next = run.at() + 0.25
            for host, pid in run.members().items():
                try:
                    samples.setdefault(host, []).append((run.at(), *sample(pid)))
                except (OSError, ValueError, IndexError):
                    pass
        if run.at() > seconds:
            look.ended = True
            run.job.send_signal(signal.SIGINT)
            look.next = float("inf")
            time.sleep(0.05)
    look.next, look.ended = 0, False
    happened = run.follow(sorted(events), seconds + 60, look)
    wrong = []
    if not look.ended:
        wrong.append(f"the long job ended by itself after {run.at():.1f} s")
    if happened is None:
        wrong.append("the long job did not end when asked to")
        run.job.kill()
        run.job.wait()
    strangers = run.close()
    for host, rows in sorted(samples.items()):
        early = [row for row in rows if seconds * 0.2 < row[0] <= seconds * 0.5]
        late = [row for row in rows if seconds * 0.7 < row[0]]
        if not early or not late:
            continue
        rss = [max(row[1] for row in part) for part in (early, late)]
        fds = [max(row[2] for row in part) for part in (early, late)]
        print(f"    {host}: RSS {rss[0]} -> {rss[1]} KiB, descriptors {fds[0]} -> {fds[1]}")
        has_grown = rss[1] > rss[0] + RSS_SLACK_KB or fds[1] > fds[0] + FD_SLACK
        if has_grown and seconds >= FLAT_FROM_S:
            wrong.append(f"{host} grows: RSS {rss} KiB, descriptors {fds}")
    if wrong and not look.ended:
        wrong.append((run.stderr + run.stdout)[-1500:])
    if happened == []:
        wrong.append("no event happened in the long job")
    print(f"    {len(happened or [])} events, {strangers} forged packets and connections")
    return wrong, text


def has_namespaces():
    done = subprocess.run(["unshare", "--user", "--net", "--map-root-user", "true"],
                          capture_output=True, check=False)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    if not has_namespaces():
        print("SKIP storm: this user may not make network namespaces; enable with: "
              "sysctl kernel.unprivileged_userns_clone=1")
        return 77
    weft = str(ROOT / options.build / "weft")
    began, index, bad, counts, n_strangers = time.monotonic(), options.first, 0, {}, 0
    n_calm = 0
    print(f"storm: seed {options.seed}")
    while (index < options.first + options.rounds if options.rounds is not None
           else time.monotonic() - began < options.seconds * 0.65):
        happened, result, strangers, wrong, text = play_round(weft, options.seed, index)
        for event in happened:
            counts[event[1]] = counts.get(event[1], 0) + 1
        n_calm += not happened
        counts[result] = counts.get(result, 0) + 1
        n_strangers += strangers
        if wrong:
            bad += 1
            print(f"round {index} ({result}): {wrong}\n  {happened}\n{text}"
                  f"  again: ci/storm.py --seed {options.seed} --first {index} --rounds 1",
                  flush=True)
        index += 1
    print(f"  {index - options.first} rounds: "
          f"{', '.join(f'{counts[key]} {key}' for key in sorted(counts))}; "
          f"{n_strangers} forged packets and connections; {n_calm} rounds without an event")
    if n_calm == index - options.first:
        bad += 1
        print("no event happened in any round: their jobs were over before")
    if options.rounds is None:
        wrong, text = endure(weft, options.seed, max(8.0, options.seconds * 0.35))
        if wrong:
            bad += 1
            print(f"the long job: {wrong}\n{text}")
    print(f"storm: {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
