"""weft lab: a mesh that stays, and programs in its hosts."""

import contextlib
import fcntl
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest
from test_lab import NO_TIME_STAMPS, await_ends, clean_environment, guests_of, lines_of, needs

ROOT = Path(__file__).resolve().parent.parent
PAIR, TRIANGLE = (ROOT / "scenarios" / name for name in ("basic/pair.yaml", "basic/triangle.yaml"))

LIMIT_S = 300  # of a test

pytestmark = needs_guest


class Labs:
    """A user's labs, in a folder of their own: a socket has room for a short name only."""

    def __init__(self):
        self.home = Path(tempfile.mkdtemp(prefix="wl.", dir="/tmp"))
        self.folder, self.scratch = self.home / "weft-lab", self.home / "scratch"
        self.scratch.mkdir()

    def environment(self, more=None):
        return {**clean_environment(), "XDG_RUNTIME_DIR": str(self.home), "TMPDIR": str(self.scratch), **(more or {})}

    @contextlib.contextmanager
    def start(self, *args, cwd=ROOT, env=None, **more):
        """One that runs meanwhile, and not longer than what is done with it."""
        with subprocess.Popen([WEFT, "lab", *map(str, args)], cwd=cwd, env=self.environment(env), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as running:
            try:
                yield running
            finally:
                running.kill()

    def __call__(self, *args, cwd=ROOT, env=None, given=None):
        """(exit status, stdout, stderr without what this machine's hypervisor does)."""
        done = subprocess.run([WEFT, "lab", *map(str, args)], cwd=cwd, env=self.environment(env), text=True,
                              capture_output=True, timeout=100, check=False,
                              **({"stdin": subprocess.DEVNULL} if given is None else {"input": given}))
        errors = [line for line in done.stderr.splitlines() if not line.startswith(NO_TIME_STAMPS)]
        return done.returncode, done.stdout, "\n".join(errors)

    def up(self, file, *args):
        assert self("up", file, *args) == (0, "", "")

    def daemons(self):
        """Their process numbers: what runs `weft lab up`, and has no parent any more."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if ((entry / "cmdline").read_bytes().split(b"\0")[1:3] == [b"lab", b"up"]
                        and f"XDG_RUNTIME_DIR={self.home}".encode() in (entry / "environ").read_bytes()):
                    found.append(int(entry.name))
            except (OSError, ValueError):
                continue
        return found

    def ask(self, words, given=b"", name="pair"):
        """A request as src/cli/lab.h has it; the connection."""
        end = socket.socket(socket.AF_UNIX)
        end.connect(str(self.folder / name))
        words = b"".join(word.encode() + b"\0" for word in words)
        end.sendall(struct.pack("II", len(words), 0) + words + given)
        return end

    def left(self):
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*"))

    def end(self):
        """Whatever became of them: a daemon that does not do as it is asked is killed, and its guest with it."""
        try:
            for name in [line.split("\t")[0] for line in self("ls")[1].splitlines()]:
                self("down", name)
            left = self.left(), self.daemons()
        finally:
            for pid in self.daemons():
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.home)
        assert left == (["scratch"], [])


@pytest.fixture(autouse=True)
def fixture_limit():
    """A lab that stands still is a failure, and not the end of all tests."""
    def ring(_number, _frame):
        raise TimeoutError(f"not done within {LIMIT_S} s")
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(name="labs")
def fixture_labs():
    labs = Labs()
    yield labs
    labs.end()


@pytest.fixture(name="pair", scope="module")
def fixture_pair():
    """One lab for all that only runs programs in it."""
    labs = Labs()
    labs.up(PAIR)
    yield labs
    labs.end()


@pytest.mark.parametrize("command,code", [
    (("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), 137),
    (("sh", "-c", "kill -TERM $$"), 143), (("./no-such-program",), 127), (("/etc",), 126)])
def test_the_exit_status_is_the_programs(pair, command, code):
    assert pair("exec", "titanic", "--", *command)[0] == code


def test_it_writes_as_if_it_ran_here(pair, tmp_path):
    """Both streams, bytes that are no lines, much of it, working directory, environment, the host's name."""
    code, out, errors = pair("exec", "iceberg", "--", "sh", "-c", "hostname; pwd; cat; echo $NCCL_DEBUG; "
                             "printf 'no end'; echo to stderr >&2", cwd=tmp_path, env={"NCCL_DEBUG": "INFO"},
                             given="unread")
    assert (code, out, errors) == (0, f"iceberg\n{tmp_path}\nINFO\nno end", "to stderr")
    code, out, _ = pair("exec", "iceberg", "--", "seq", "200000")
    assert code == 0 and out == "".join(f"{i}\n" for i in range(1, 200001))


@pytest.mark.parametrize("given", ["", "a line\nno end", "x" * 3_000_000], ids=["nothing", "no-end", "much"])
def test_stdin_is_read_to_its_end_if_it_is_asked_for(pair, given):
    assert pair("exec", "--stdin", "titanic", "--", "cat", given=given) == (0, given, "")


def test_placeholders_are_those_of_exec(pair):
    assert pair("exec", "titanic", "--", "echo", "{host} {peer} {rank} {device} {address}", "${HOST}") == (
        0, "titanic iceberg 0 titanic-p0 192.168.101.2 ${HOST}\n", "")


def test_several_begin_together_and_a_second_apart(labs):
    """The same to the nanosecond from lab to lab; each line says whose it is."""
    def story():
        labs.up(TRIANGLE)
        said = labs("run", "--", "sh", "-c", "date +%s.%N; echo {host} {rank}; printf end >&2")
        apart = labs("exec", "titanic", "--", "date", "+%s.%N", ":", "iceberg", "carpathia", "--", "date",
                     "+%s.%N")
        assert labs("down")[0] == 0
        return said, apart
    one = (code, out, errors), apart = story()
    assert code == 0 and sorted(errors.splitlines()) == ["carpathia: end", "iceberg: end", "titanic: end"]
    for rank, host in enumerate(("titanic", "iceberg", "carpathia")):
        assert lines_of(host, out)[1] == f"{host} {rank}"
    begun = [float(lines_of(host, out)[0]) for host in ("titanic", "iceberg", "carpathia")]
    assert max(begun) - min(begun) < 0.001
    times = {host: float(lines_of(host, apart[1])[0]) for host in ("titanic", "iceberg", "carpathia")}
    assert apart[0] == 0 and abs(times["iceberg"] - times["titanic"] - 1) < 0.001
    assert abs(times["carpathia"] - times["iceberg"]) < 0.001
    other = story()
    for i in range(2):  # which host's line is read first is this machine's affair
        assert [sorted(said.splitlines()) for said in other[i][1:]] == [
            sorted(said.splitlines()) for said in one[i][1:]]


def test_of_several_the_first_that_failed_counts(pair):
    code, out, errors = pair("run", "--", "sh", "-c", "[ {host} = iceberg ] && exit 5; sleep 1; echo ended; exit 6")
    assert (code, out) == (5, "titanic: ended\n")
    assert errors.splitlines() == ["weft lab exec: iceberg: exit status 5", "weft lab exec: titanic: exit status 6"]


def test_signals_go_to_all_of_several(pair):
    with pair.start("run", "--", "sh", "-c", "trap 'echo asked; exit 0' TERM; echo up; "
                    "sleep 3600 & wait") as running:
        assert sorted(running.stdout.readline() for _ in range(2)) == ["iceberg: up\n", "titanic: up\n"]
        running.send_signal(signal.SIGTERM)
        out, errors = running.communicate(timeout=100)
    assert sorted(out.splitlines()) == ["iceberg: asked", "titanic: asked"] and errors == ""
    assert running.returncode == 0


def state_of(labs, host="titanic", before="", after=""):
    code, out, _ = labs("exec", host, "--", "sh", "-c", f"{before} cat /sys/class/net/p0/operstate {after}")
    assert code == 0
    return out.split()


def test_a_fault_comes_goes_and_is_cleared(labs):
    """Its time is the lab's: it does not pass while nothing runs."""
    labs.up(PAIR)
    assert state_of(labs) == ["up"]
    assert labs("fault", '{on: "titanic:p0", kind: down, for: 2s}') == (0, "", "")
    assert state_of(labs) == ["down"]
    assert state_of(labs, after="; sleep 3; cat /sys/class/net/p0/operstate") == ["down", "up"]
    assert labs("fault", '{on: "titanic:p0", kind: down}') == (0, "", "")
    assert state_of(labs, before="sleep 3;") == ["down"]
    assert labs("clear") == (0, "", "")
    assert state_of(labs) == ["up"]
    assert labs("clear") == (0, "", "")


@pytest.mark.parametrize("fault,end", [("kind: kill", 137), ("kind: stop, for: 1s", 0)])
def test_a_fault_of_a_host_meets_what_runs_there(pair, fault, end):
    with pair.start("run", "--", "sh", "-c", "echo up; sleep 2") as running:
        assert sorted(running.stdout.readline() for _ in range(2)) == ["iceberg: up\n", "titanic: up\n"]
        assert pair("fault", f"{{on: titanic, {fault}}}") == (0, "", "")
        running.communicate(timeout=100)
    assert running.returncode == end


@pytest.mark.parametrize("text,code,said", [
    ('{on: "titanic:p9", kind: down}', 2, "node 'titanic' has no port 'p9'; did you mean 'p0'?"),
    ('{on: "titanic:p0", kind: losss}', 2, "unknown fault kind 'losss'; did you mean 'loss'?"),
    ('{on: "titanic:p0", kind: down, at: 1s}', 2, "it comes now, without `at`"),
    ('{on: "titanic:p0", kind: down}, {on: "iceberg:p0", kind: down}', 2, "one fault at a time"),
    ('{on: titanic, kind: verb_error, verb: create_qp, errno: 12}', 2, "is made within Weft's own processes"),
    ("x", 2, "weft lab fault: a fault: expected a map, got 'x'; such as '{on: \"HOST:PORT\", kind: down, for: 2s}'"),
    ('{kind: down}', 2, "weft lab fault: a fault: 'on' is missing"),
    ("{", 2, "not YAML"), ("", 2, "one fault at a time"),
    ("{on: titanic, kind: kill}", 3, "No such process")])
def test_mistakes_of_faults(pair, text, code, said):
    result = pair("fault", text)
    assert result[0] == code and said in result[2]
    assert state_of(pair) == ["up"]


def test_a_capture_is_whole_when_it_ends(labs, tmp_path):
    """By another command, or with the lab; the same to the byte, of all ports, and of what it lasts."""
    send = ("import socket; end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            "[end.sendto(b'x', ('{address}', 9)) for _ in range(3)]")
    ask = ("run", "--", sys.executable, "-c", send)

    def story(name):
        labs.up(PAIR)
        assert labs("capture", f"{name}-1", cwd=tmp_path) == (0, "", "")
        for other in (f"{name}-1", f"{name}-3"):
            assert labs("capture", other, cwd=tmp_path)[0::2] == (
                2, "weft lab capture: one is under way: `weft lab capture` ends it")
        assert not (tmp_path / f"{name}-3").exists()
        assert labs(*ask)[0] == 0
        assert labs("capture") == (0, "", "")
        assert labs(*ask)[0] == 0
        assert labs("capture")[0::2] == (2, "weft lab capture: there is none: weft lab capture FILE")
        assert labs("capture", tmp_path / f"{name}-2") == (0, "", "")
        assert labs(*ask)[0] == 0
        assert labs("down") == (0, "", "")
        return [(tmp_path / f"{name}-{i}").read_bytes() for i in (1, 2)]
    needs("tshark")
    one = story("a")
    assert story("b") == one
    for i in (1, 2):
        sent = subprocess.run(["tshark", "-r", tmp_path / f"a-{i}", "-Y", "udp.dstport == 9 && !icmp"],
                              check=True, capture_output=True, text=True).stdout
        assert len(sent.splitlines()) == 12  # three of each host, at both ends
    assert labs("capture", tmp_path / "no" / "such")[0::2] == (
        2, f"weft lab capture: {tmp_path}/no/such: No such file or directory")
    assert labs("capture", tmp_path)[0] == 2 and labs("capture", "/dev/null")[0] == 2


def test_a_capture_takes_the_place_of_a_longer_file(labs, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"x" * 1_000_000)
    labs.up(PAIR)
    assert labs("capture", file) == (0, "", "")
    assert labs("capture") == (0, "", "")
    assert file.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a" and file.stat().st_size < 100_000


@pytest.mark.parametrize("args,said", [
    (("titanik", "--", "true"), "no such host: titanik; did you mean 'titanic'?"),
    (("titanic", "--", "x", "{adress}"), "{adress}: no such placeholder"),
    (("--", "true"), 'exec takes a host, "--" and a command'),
    (("titanic", "--"), 'exec takes a host, "--" and a command'),
    (("titanic", "true"), 'exec takes a host, "--" and a command'),
    (("--name", "other", "titanic", "--", "true"), "no lab other is up (pair): weft lab up FILE --name other"),
    (("--name", "../x", "titanic", "--", "true"), "a lab has a name of letters, digits, - and _")])
def test_mistakes_of_exec(pair, args, said):
    code, out, errors = pair("exec", *args)
    assert (code, out) == (2, "") and said in errors


@pytest.mark.parametrize("number,name", [(signal.SIGINT, "INT"), (signal.SIGTERM, "TERM"),
                                         (signal.SIGUSR1, "USR1")])
def test_output_comes_and_signals_go_while_it_runs(pair, number, name):
    command = f"trap 'echo {name}; exit 9' {name}; echo up; sleep 3600 & wait"
    with pair.start("exec", "titanic", "--", "sh", "-c", command) as running:
        assert running.stdout.readline() == "up\n"
        running.send_signal(number)
        assert running.communicate(timeout=100) == (f"{name}\n", "")
    assert running.returncode == 9


def test_signals_that_a_program_takes_are_not_counted(pair):
    """Only who asks three times what the guest does not take is let go."""
    takes = ("import signal; take = [signal.SIGUSR1, signal.SIGINT, signal.SIGTERM]\n"
             "signal.pthread_sigmask(signal.SIG_BLOCK, take); print('up', flush=True)\n"
             "while signal.sigwait(take) != signal.SIGTERM:\n    print('asked', flush=True)\n"
             "print('bye'); raise SystemExit(4)")
    with pair.start("exec", "titanic", "--", sys.executable, "-c", takes) as running:
        assert running.stdout.readline() == "up\n"
        for number in 3 * [signal.SIGUSR1, signal.SIGINT]:
            running.send_signal(number)
            assert running.stdout.readline() == "asked\n"
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=100) == ("bye\n", "")
    assert running.returncode == 4


def words_of_exec(*command):
    return ["exec", "", "1", "titanic", "/", "1", f"PATH={os.environ['PATH']}", *command]


def test_a_signal_that_comes_with_the_request_is_one_of_the_program(pair):
    with pair.ask(words_of_exec("sleep", "86400"), bytes([signal.SIGTERM])) as end:
        end.settimeout(100)
        assert lines_until_end(end)[-1].split()[2] == "143"


def lines_until_end(end):
    """What is said until a program has ended: the connection stays then."""
    with end.makefile() as lines:
        said = []
        while not said or not said[-1].startswith("ended "):
            said.append(lines.readline())
            assert said[-1], said
    return said


def test_what_was_written_stays_until_it_is_read(pair):
    """However slow who reads it is, and no longer."""
    with pair.ask(words_of_exec("echo", "hello")) as end:
        end.settimeout(100)
        begun = lines_until_end(end)[0].rstrip().split("\t")
        assert pair("exec", "titanic", "--", "true")[0] == 0
        out = Path(begun[1], f"out.{begun[2]}")
        assert (begun[0], out.read_text()) == ("begun", "hello\n")
    assert pair("exec", "titanic", "--", "true")[0] == 0
    assert not out.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_who_writes_for_ever_is_interrupted(pair, number):
    """Also while no process reads."""
    with pair.start("exec", "titanic", "--", "yes") as running:
        assert running.stdout.readline() == "y\n"
        running.send_signal(number)
        out, errors = running.communicate(timeout=100)
    assert set(out.splitlines()) <= {"y", ""} and errors == "" and running.returncode == 128 + number


def test_a_pipe_that_does_not_wait_loses_nothing(pair):
    """O_NONBLOCK of a pipe is of all who have it, and others set it."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETFL, os.O_NONBLOCK)
    with open(read, "rb") as out, subprocess.Popen(
            [WEFT, "lab", "exec", "titanic", "--", "seq", "100000"], env=pair.environment(), stdout=write) as running:
        os.close(write)
        running_out = out.read()
        assert running.wait(timeout=100) == 0
    assert running_out == b"".join(b"%d\n" % i for i in range(1, 100001))


class Terminal:
    """One with a program of a lab at it."""

    def __init__(self, labs, *command, rows=33, columns=101):
        self.fd, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave, self.said = slave, ""
        self.running = subprocess.Popen([WEFT, "lab", "exec", "--tty", "titanic", "--", *command], cwd=ROOT,
                                        env=labs.environment({"TERM": "dumb"}), stdin=slave, stdout=slave, stderr=slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.running.kill()
        self.running.wait()
        os.close(self.fd)
        os.close(self.slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def read_until(self, what):
        """What was said until then, without it."""
        while what not in self.said:
            self.said += os.read(self.fd, 4096).decode()
        before, self.said = self.said.split(what, 1)
        return before


def test_a_terminal_is_one(pair):
    """Its size, which changes; the name of it; keys that are signals; TERM; the exit status; and as it was after it."""
    with Terminal(pair, "sh") as terminal:
        terminal.type("stty -echo; PS1=; echo rea''dy\n")
        terminal.read_until("ready\r\n")  # what echo wrote, and not the echo of what was typed
        terminal.type("tty; stty size; echo $TERM; test -t 0 -a -t 1 -a -t 2 && echo all\n")
        assert terminal.read_until("all\r\n").split()[-4:] == ["/dev/pts/0", "33", "101", "dumb"]
        terminal.type("trap 'stty size; echo resized' WINCH; echo set\n")
        terminal.read_until("set\r\n")
        terminal.running.send_signal(signal.SIGSTOP)  # so that it finds both at once
        terminal.resize(44, 66)
        terminal.running.send_signal(signal.SIGWINCH)  # it is not the terminal of its session
        terminal.type("\n")
        terminal.running.send_signal(signal.SIGCONT)
        assert terminal.read_until("resized\r\n").split()[-2:] == ["44", "66"]
        terminal.type("sh -c 'echo asleep; sleep 86400; echo not here'\n")
        terminal.read_until("asleep\r\n")
        terminal.type("\x03echo status $?\n")
        assert "not here" not in terminal.read_until("status 130\r\n")
        terminal.type("exit 7\n")
        assert terminal.running.wait(timeout=100) == 7
        assert termios.tcgetattr(terminal.slave) == terminal.before


def test_much_is_typed_and_written_at_a_terminal(pair):
    script = "stty -echo -icanon -onlcr; echo up; head -c 20000 | md5sum; seq 20000; echo over"
    with Terminal(pair, "sh", "-c", script) as terminal:
        terminal.read_until("up\n")
        for _ in range(200):
            terminal.type(100 * "x")
        assert terminal.read_until("  -\n") == hashlib.md5(20000 * b"x").hexdigest()
        assert terminal.read_until("over\n") == "".join(f"{i}\n" for i in range(1, 20001))
        assert terminal.running.wait(timeout=100) == 0


def test_a_terminal_that_is_gone_is_a_hang_up(pair, tmp_path):
    script = f"trap 'echo hup >{tmp_path}/said; exit' HUP; echo up; while :; do sleep 1; done"
    with Terminal(pair, "sh", "-c", script) as terminal:
        terminal.read_until("up\r\n")
        terminal.running.kill()
        while "\t0 programs\t" not in pair("ls")[1]:
            pass
    assert (tmp_path / "said").read_text() == "hup\n"


@pytest.mark.parametrize("args,said", [
    (("exec", "--tty", "titanic", "--", "true"), "--tty: standard input is no terminal"),
    (("exec", "--tty", "--stdin", "titanic", "--", "true"), "--tty and --stdin are for one stream")])
def test_mistakes_of_terminals(pair, args, said):
    code, out, errors = pair(*args)
    assert (code, out) == (2, "") and said in errors


def test_a_terminal_is_for_one_program(pair):
    with Terminal(pair, "true", ":", "iceberg", "--", "true") as terminal:
        terminal.read_until("a terminal is for one program")
        assert terminal.running.wait(timeout=100) == 2


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_client_that_is_lost_is_a_hang_up(pair, tmp_path, number):
    """As with a terminal that closes: the program gets SIGHUP, and one that does not end is killed."""
    command = f"trap 'echo hup >{tmp_path}/said' HUP; echo up; while :; do sleep 1; done"
    with pair.start("exec", "titanic", "--", "sh", "-c", command) as running:
        assert running.stdout.readline() == "up\n"
        running.send_signal(number)
        running.communicate(timeout=100)
    while "\t0 programs\t" not in pair("ls")[1]:
        pass
    assert (tmp_path / "said").read_text() == "hup\n"
    assert pair("exec", "titanic", "--", "echo", "goes on")[1] == "goes on\n"


def test_a_program_waits_for_one_from_another_shell(pair):
    """The clock is not ahead of this machine's: else the server's 100 s would be over at once."""
    server = ("import socket; s = socket.create_server(('', 7)); s.settimeout(100); print('up', flush=True); "
              "print(s.accept()[0].recv(9).decode())")
    client = "import socket; socket.create_connection(('titanic', 7)).send(b'hello')"
    with pair.start("exec", "titanic", "--", sys.executable, "-c", server) as running:
        assert running.stdout.readline() == "up\n"
        assert pair("exec", "iceberg", "--", sys.executable, "-c", client) == (0, "", "")
        assert running.communicate(timeout=200) == ("hello\n", "")


def test_a_ping_pong_of_two_shells(pair):
    needs("ibv_rc_pingpong")
    listens = "until cat /proc/net/tcp* | grep -q ':4853 .* 0A '; do sleep 0.1; done"  # port 18515
    with pair.start("exec", "titanic", "--", "ibv_rc_pingpong", "-g", "1", "-d", "{device}") as running:
        assert pair("exec", "titanic", "--", "sh", "-c", listens)[0] == 0
        code, out, _ = pair("exec", "iceberg", "--", "ibv_rc_pingpong", "-g", "1", "-d", "{device}", "{address}")
        assert code == 0 and "1000 iters in" in out
        assert "1000 iters in" in running.communicate(timeout=100)[0]
    assert running.returncode == 0


def test_the_clock_stands_still_while_nothing_runs(labs):
    """To the nanosecond, and so does chance, whatever time passes here from command to command."""
    def story(between):
        labs.up(TRIANGLE)
        out = []
        for host in ("titanic", "iceberg", "carpathia"):
            out.append(labs("exec", host, "--", "sh", "-c", "date +%s.%N; head -c 8 /dev/urandom | od -An -tx1"))
            between()
        assert labs("down")[0] == 0
        return out

    def a_second_lab():
        labs.up(PAIR, "--name", "other")
        assert labs("down", "other")[0] == 0
    one = story(lambda: None)
    assert [code for code, _, _ in one] == [0, 0, 0]
    assert story(a_second_lab) == one


def test_the_clock_goes_on_while_a_program_runs(pair):
    code, out, _ = pair("exec", "titanic", "--", "sh", "-c", "date +%s; sleep 1; date +%s")
    begun, ended = map(int, out.split())
    assert code == 0 and ended == begun + 1


def test_several_labs_and_their_names(labs):
    labs.up(PAIR)
    labs.up(PAIR, "--name", "second")
    assert [line.split("\t")[0:4] for line in labs("ls")[1].splitlines()] == [
        [name, str(PAIR), "2 hosts", "0 programs"] for name in ("pair", "second")]
    assert labs("up", PAIR)[0::2] == (2, "weft lab up: a lab pair is up: weft lab down pair, or give this one "
                                         "another --name")
    assert labs("exec", "titanic", "--", "true")[0::2] == (
        2, "weft lab: 2 labs are up: name one (weft lab ls)")
    assert labs("exec", "--name", "second", "titanic", "--", "hostname")[1] == "titanic\n"
    assert labs("down", "pair") == (0, "", "")
    assert labs("exec", "titanic", "--", "hostname")[1] == "titanic\n"
    assert labs("down") == (0, "", "")
    assert labs("down")[0::2] == (2, "weft lab: no lab is up: weft lab up FILE")
    assert labs("ls") == (0, "", "")


@pytest.mark.parametrize("args,code,said", [
    (("up",), 2, "up takes one file, got 0"), ((), 2, "usage: weft lab up FILE"),
    (("up", "no-such.yaml"), 2, "no-such.yaml"), (("down", "a", "b"), 2, "down takes at most one name, got 2"),
    (("up", "a", "b"), 2, "up takes one file, got 2"), (("ups",), 2, "unknown command 'ups'; did you mean 'up'?"),
    (("fault",), 2, "fault takes one word, such as '{on: \"HOST:PORT\", kind: down, for: 2s}', got 0"),
    (("clear", "x"), 2, "clear takes no words (--name names the lab), got 1"),
    (("ls", "--name", "pair"), 2, "--name: not with ls, which lists all labs"),
    (("xyz", "x"), 2, "unknown command 'xyz'\n"),
    (("up", "--name", "a b", PAIR), 2, "a lab has a name of letters, digits, - and _"),
    (("up", "--findings", "off", PAIR), 2, "--findings: goes with exec and run"),
    (("up", "--json", PAIR), 2, "--json goes with diagnose"), (("ls", "--json"), 2, "--json goes with diagnose"),
    (("up", "--set", "topology.nodes.titanic.memlock=1MiB", PAIR), 3, "has no memlock: titanic")])
def test_mistakes_start_no_guest(labs, args, code, said):
    result = labs(*args, env={"WEFT_GUEST_KERNEL": "/bin/false"})
    assert result[0] == code and said in result[2]


@pytest.mark.parametrize("kernel,said", [("/no/such", "WEFT_GUEST_KERNEL is no program"),
                                         ("/bin/false", "the guest ended without a result")])
def test_a_lab_that_does_not_come_up_says_why(labs, kernel, said):
    code, _, errors = labs("up", "--clock", "real", PAIR, env={"WEFT_GUEST_KERNEL": kernel})
    assert code == 3 and said in errors
    assert labs.left() == ["scratch"]


def test_there_is_no_lab_in_a_guest(pair):
    code, _, errors = pair("exec", "titanic", "--", WEFT, "lab", "ls")
    assert (code, errors) == (3, "weft lab: this is a guest: labs are outside")
    assert pair("exec", "titanic", "--", "true")[0] == 0


def test_real_time_is_this_machines(labs):
    """Where time is virtual only some variables go in, and it is the beginning of 2026."""
    show = ("exec", "titanic", "--", "sh", "-c", "date +%s; echo ${MINE-none}; grep -c '^cpu MHz' /proc/cpuinfo")
    for clock, mine in (("real", "here"), ("virtual", "none")):
        labs.up(PAIR, "--clock", clock)
        code, out, _ = labs(*show, env={"MINE": "here"})
        assert code == 0 and out.split()[1:] == [mine, "1"]  # perftest has no figures without
        assert (abs(int(out.split()[0]) - time.time()) < 86400) == (clock == "real")
        assert f"\tclock {clock} " in labs("ls")[1]
        assert labs("down")[0] == 0


def test_the_end_of_a_guest_has_a_cause(labs):
    labs.up(PAIR)
    with labs.start("exec", "titanic", "--", "sh", "-c", "echo up; sleep 86400") as running:
        assert running.stdout.readline() == "up\n"
        for guest in guests_of(labs.scratch):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(guest, signal.SIGKILL)
            os.close(guest)
        out, errors = running.communicate(timeout=100)
    assert (out, running.returncode) == ("", 3)
    assert errors.startswith("weft lab exec: the lab went down: guest: the guest ended without a result")
    assert labs("ls") == (0, "", "")


def test_who_does_not_answer_is_named(labs):
    labs.up(PAIR)
    daemon, = labs.daemons()
    os.kill(daemon, signal.SIGSTOP)
    try:
        code, out, errors = labs("ls")
        assert (code, out) == (0, "") and f"its process {daemon} is stopped (kill -9 {daemon} ends it)" in errors
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert labs("exec", "titanic", "--", "hostname") == (0, "titanic\n", "")


def test_what_killed_ones_left_goes_but_not_while_one_comes_up(labs):
    """A socket without a listener, one without a name yet, a log; and nothing that is not ours."""
    labs.folder.mkdir(mode=0o700)
    for name in ("old", ".new"):
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(labs.folder / name))
    for name in ("old.log", "other.log", "mine.txt"):
        (labs.folder / name).touch()
    here = labs.left()
    folder = os.open(labs.folder, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert labs("ls") == (0, "", "") and labs.left() == here
    os.close(folder)
    assert labs("ls") == (0, "", "") and labs.left() == ["scratch", "weft-lab", "weft-lab/mine.txt"]
    (labs.folder / "mine.txt").unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIP another user's folder: only root can give one away")
def test_a_runtime_folder_of_another_user_is_left_alone(labs):
    """As `su` leaves it in the environment."""
    run = labs.home / "run"
    run.mkdir()
    os.chown(run, 65534, 65534)
    assert labs("ls", env={"XDG_RUNTIME_DIR": str(run)})[0] == 0
    assert not list(run.iterdir())
    run.rmdir()


def claims_of(pid):
    """The processors on which a daemon keeps its guest."""
    own = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()
            if "@weft-guest-cpu-" in line and f"socket:[{line.split()[6]}]" in own]


def test_an_idle_lab_leaves_its_processor_to_others(labs):
    labs.up(PAIR)
    daemon, = labs.daemons()
    while claims_of(daemon):
        pass
    with labs.start("exec", "titanic", "--", "sh", "-c", "echo up; sleep 86400") as running:
        assert running.stdout.readline() == "up\n"
        taken = re.findall("@weft-guest-cpu-", Path("/proc/net/unix").read_text())
        assert len(claims_of(daemon)) == 1 or len(taken) >= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_idle_guest_ends_with_its_daemon(labs, number):
    """It is stopped, and dies so."""
    labs.up(PAIR)
    guests, (daemon,) = guests_of(labs.scratch), labs.daemons()
    os.kill(daemon, number)
    await_ends(guests)
    while labs.daemons():
        pass
    assert labs("ls") == (0, "", "")
    assert labs.left() == ["scratch"]


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left(labs, number):
    """Neither when it goes down, nor when its daemon does, with orphans in hosts, and with a client: no
    process, mount, namespace, file or shared memory. What SIGKILL leaves goes with the next command."""
    def state():
        return (Path("/proc/mounts").read_text(), sorted(os.listdir("/dev/shm")),
                sorted(os.listdir("/run/netns")) if Path("/run/netns").is_dir() else [])
    before = state()
    labs.up(PAIR)
    assert labs("exec", "iceberg", "--", "sh", "-c", "setsid sleep 86400 & echo > /dev/shm/mine")[0] == 0
    with labs.start("exec", "titanic", "--", "sh", "-c", "echo up; sleep 86400") as running:
        assert running.stdout.readline() == "up\n"
        guests = guests_of(labs.scratch)
        daemon, = labs.daemons()
        assert guests
        if number is None:
            assert labs("down") == (0, "", "")
        else:
            os.kill(daemon, number)
        assert running.communicate(timeout=100) == ("", "weft lab exec: the lab went down meanwhile\n")
        assert running.returncode == 3
    await_ends(guests)
    while labs.daemons():
        pass
    assert state() == before
    if number is signal.SIGKILL:
        assert labs("ls") == (0, "", "")
    assert labs.left() == ["scratch"] and not guests_of(labs.scratch)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_who_does_not_wait_for_it_gets_none(labs, number):
    """An `up` that is interrupted before the mesh is built."""
    with labs.start("up", PAIR) as running:
        while not guests_of(labs.scratch) and running.poll() is None:
            pass
        running.send_signal(number)
        running.communicate(timeout=100)
    while labs.daemons():
        pass
    labs("down")  # if it was up before the signal came
    assert labs.left() == ["scratch"]


def test_a_lab_outlives_the_terminal_that_brought_it_up(labs):
    """The terminal closes under a shell: the program in the lab is gone with it, and the lab goes on."""
    pid, fd = pty.fork()
    if pid == 0:
        script = f"'{WEFT}' lab up '{PAIR}' && '{WEFT}' lab exec titanic -- sh -c 'echo up; sleep 86400'; sleep 86400"
        os.execve("/bin/sh", ["sh", "-c", script], labs.environment())
    said = ""
    while "up\r\n" not in said:
        said += os.read(fd, 4096).decode()
    os.close(fd)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGHUP
    while "\t0 programs\t" not in labs("ls")[1]:
        pass
    assert labs("exec", "titanic", "--", "echo", "goes on") == (0, "goes on\n", "")
    guests = guests_of(labs.scratch)
    assert labs("down") == (0, "", "")
    await_ends(guests)
    assert labs.left() == ["scratch"]


# ---- diagnose ----

def diagnose(labs, *args):
    """(exit status, {(code, severity, place)}, document)"""
    code, out, errors = labs("diagnose", "--json", *args)
    assert errors == ""
    document = json.loads(out)
    return code, {(finding["code"], finding["severity"],
                   ":".join(filter(None, (finding["where"]["host"], finding["where"]["port"]))))
                  for finding in document["findings"]}, document


def test_a_mesh_that_works_has_no_findings(labs):
    labs.up(TRIANGLE)
    code, out, errors = labs("diagnose")
    assert (code, errors) == (0, "") and "no findings" in out
    assert "cable  titanic p0 to iceberg p1" in out and "192.168.101.1/24 (GID 1)" in out
    assert labs("diagnose", "--quiet") == (0, "", "")
    assert diagnose(labs)[:2] == (0, set())


# What is done in a host of the pair, or a fault, and what is found then.
WRONG = [
    (("fault", '{on: "titanic:p0", kind: down}'), {("link.down", "error", "titanic:p0"),
                                                   ("link.down", "error", "iceberg:p0")}),
    (("exec", "iceberg", "--", "ip", "link", "set", "p0", "mtu", "1200"),
     {("link.mtu_mismatch", "warning", "titanic:p0")}),
    (("exec", "iceberg", "--", "ip", "address", "flush", "dev", "p0"), {("addr.missing", "warning", "iceberg:p0")}),
    (("exec", "iceberg", "--", "sh", "-c", "ip address flush dev p0; ip address add 10.9.9.1/24 dev p0"),
     {("route.no_facing_port", "error", "titanic:p0"), ("route.no_facing_port", "error", "iceberg:p0")}),
]


@pytest.mark.parametrize("command,found", WRONG)
def test_what_is_wrong_in_a_lab_is_found(labs, command, found):
    needs("ip")
    labs.up(PAIR)
    assert labs(*command)[0] == 0
    code, findings, _ = diagnose(labs)
    assert findings == found
    assert code == (1 if any(severity == "error" for _, severity, _ in found) else 0)


def test_why_programs_fail_wait_or_go_on(labs):
    """Findings of programs that run, with their port and peer, and after their end, until others run."""
    needs("ibv_rc_pingpong")
    labs.up(PAIR)
    pingpong = "ibv_rc_pingpong -e -g 1 -d {device} -n 100000000"
    with labs.start("exec", "titanic", "--", *pingpong.split(), ":", "iceberg", "--", *pingpong.split(),
                    "{address}"):
        states = []
        while states != [("titanic", "runs"), ("iceberg", "runs")]:  # one starts a second after the other
            code, findings, document = diagnose(labs)
            assert (code, findings) == (0, set())
            states = [(program["host"], program["state"]) for program in document["programs"]]
            assert "waits" not in dict(states).values()  # what has just begun has sent nothing yet
        assert labs("fault", '{on: "titanic:p0", kind: loss, share: 100%}') == (0, "", "")
        code, findings, document = diagnose(labs)
        assert [program["state"] for program in document["programs"]] == ["waits", "waits"]
        assert labs("fault", '{on: "titanic:p0", kind: down}') == (0, "", "")
        code, findings, document = diagnose(labs)
        assert code == 1 and ("link.down", "error", "titanic:p0") in findings
    assert labs("clear") == (0, "", "")


def test_a_program_that_waits_has_its_queue_pairs_with_their_states_and_peers(labs):
    """A server without a client, and a client whose server has ended."""
    needs("ibv_rc_pingpong")
    labs.up(PAIR)
    pingpong = "ibv_rc_pingpong -e -g 1 -d {device} -n"

    def pairs_of(host):
        """Without numbers of queue pairs, once the program waits."""
        while True:
            _, _, document = diagnose(labs)
            found = [program for program in document["programs"] if program["host"] == host]
            if found and found[-1]["state"] == "waits":
                return [re.sub(r"pair \d+", "pair N", line) for line in found[-1]["queue_pairs"]]
            assert not found or found[-1]["state"] in ("starts", "runs")

    with labs.start("exec", "titanic", "--", *pingpong.split(), "10"):
        assert pairs_of("titanic") == ["  queue pair N of titanic-p0: INIT, not connected; "
                                       "it drops what arrives until its program moves it to RTR"]
        with labs.start("exec", "iceberg", "--", *pingpong.split(), "100", "{address}") as client:
            assert pairs_of("iceberg") == ["  queue pair N of iceberg-p0: RTS, to queue pair N of titanic:p0; "
                                           "its peer has no such queue pair (any more)"]
            assert "\n  queue pair " in labs("diagnose")[1]
            client.terminate()
            client.communicate()


def test_a_program_that_failed_is_explained_afterwards(labs):
    needs("ibv_rc_pingpong")
    labs.up(PAIR)
    command = "ibv_rc_pingpong -d {device} -e -n 9"
    code, _, _ = labs("exec", "titanic", "--", *command.split(), "-g", "1", ":", "iceberg", "--", *command.split(),
                      "-g", "0", "{address}")
    assert code != 0
    code, findings, document = diagnose(labs)
    assert code == 1 and "gid.link_local" in {found for found, _, _ in findings}
    assert [program["status"] for program in document["programs"]][1] == 1
    assert labs("exec", "titanic", "--", "true")[0] == 0
    assert diagnose(labs)[:2] == (0, set())


def test_a_program_that_fails_ends_with_its_finding(labs):
    """On stderr, after its output, unless --findings off; not one that failed for a reason of its own."""
    needs("ibv_rc_pingpong")
    labs.up(TRIANGLE)
    ask = ("titanic", "--", "timeout", "5", "ibv_rc_pingpong", "-g", "1", "-d", "titanic-p0", ":", "iceberg", "--",
           "ibv_rc_pingpong", "-g", "1", "-d", "iceberg-p0", "{address:titanic}")
    code, _, errors = labs("exec", *ask)
    output, _, finding = errors.partition("\n\n")
    assert code == 1 and finding.startswith("error route.wrong_nic at iceberg:p0 → titanic\n"), errors
    assert "exit status" in output and "\nerror" not in finding
    code, _, errors = labs("exec", "--findings", "off", *ask)
    assert code == 1 and "Failed to modify QP to RTR" in errors and "error " not in errors
    assert labs("fault", '{on: "titanic:p0", kind: down}') == (0, "", "")
    assert labs("exec", "titanic", "--", "false") == (1, "", "")
    assert labs("run", "--", "true") == (0, "", "")


def test_a_command_that_is_not_utf8_or_has_many_lines_is_told(labs):
    """JSON has no other text, and a line of `weft lab diagnose` is a program."""
    labs.up(PAIR)
    assert labs("exec", "titanic", "--", "sh", "-c", os.fsdecode(b"exit 3\n# \xe9\t"))[0] == 3
    code, _, document = diagnose(labs)
    assert code == 1
    assert [(program["command"], program["status"]) for program in document["programs"]] == [
        ("sh -c exit 3\n# ?\t", 3)]
    assert labs("diagnose")[1].startswith("titanic  sh -c exit 3 # ? : exited, status 3\n")


def test_few_programs_are_kept_while_a_server_runs(labs):
    """A server can run for days, and clients by the thousand."""
    labs.up(PAIR)
    with labs.start("exec", "titanic", "--", "sleep", "1000"):
        while [program["command"] for program in diagnose(labs)[2]["programs"]] != ["sleep 1000"]:
            pass
        for i in range(70):
            assert labs("exec", "iceberg", "--", "sh", "-c", f"echo {i}")[0] == 0
        commands = [program["command"] for program in diagnose(labs)[2]["programs"]]
        assert commands == ["sleep 1000", *(f"sh -c echo {i}" for i in range(6, 70))]
