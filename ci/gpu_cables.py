"""Hosts that are network namespaces, for the steps of ci/gpu that pull a cable: a veth and a subnet of its
own for each cable, and a router that reaches every host, for NCCL's own sockets. Needs root and `ip`;
nothing remains."""

import os
import subprocess
import time
from pathlib import Path

MANAGEMENT = "m0"  # netdev of each host towards the router
CARRIER_S = 5


class Cables:
    """A context manager. `cables` are pairs of hosts, numbered from 0."""

    def __init__(self, n_hosts, cables):
        self.cables = [tuple(sorted(cable)) for cable in cables]
        self.n_hosts = n_hosts
        self.sleepers = []

    def __enter__(self):
        try:
            own = os.readlink("/proc/self/ns/net")
            for _ in range(self.n_hosts + 1):
                self.sleepers.append(subprocess.Popen(  # pylint: disable=R1732
                    ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE))
                self.sleepers[-1].stdout.readline()
                if os.readlink(f"/proc/{self.sleepers[-1].pid}/ns/net") == own:
                    raise OSError("unshare --net made no namespace")
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for sleeper in self.sleepers:
            sleeper.kill()
            sleeper.wait()
            sleeper.stdout.close()

    def in_host(self, host, *command):
        """The command that runs `command` in a host's namespace."""
        return ["nsenter", f"--net=/proc/{self.sleepers[host].pid}/ns/net", *map(str, command)]

    def do(self, host, *command):
        done = subprocess.run(self.in_host(host, *command), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")

    def veth(self, one, other, prefix, mtu):
        """`one` and `other` are a host and the name of its end; they get the first two addresses."""
        self.do(one[0], "ip", "link", "add", one[1], "type", "veth", "peer", "name", other[1],
                "netns", self.sleepers[other[0]].pid)
        for (host, name), last in ((one, 1), (other, 2)):
            self.do(host, "ip", "addr", "add", f"{prefix}.{last}/24", "dev", name)
            self.do(host, "ip", "link", "set", name, "mtu", mtu, "up")

    def connect(self):
        router = self.n_hosts
        for host in range(self.n_hosts + 1):
            self.do(host, "ip", "link", "set", "lo", "up")
        for host in range(self.n_hosts):
            self.veth((router, f"h{host}"), (host, MANAGEMENT), f"10.99.{host}", 1500)
            self.do(host, "ip", "route", "add", "default", "via", f"10.99.{host}.1")
        self.do(router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for number, (a, b) in enumerate(self.cables):
            self.veth((a, f"p{b}"), (b, f"p{a}"), f"192.168.{101 + number}", 9000)
        for host in range(self.n_hosts):
            for netdev in (MANAGEMENT, *self.ports(host)):
                self.wait_for_carrier(host, netdev)

    def wait_for_carrier(self, host, netdev):
        """The kernel's link watch sets the state up to a second late; NCCL accepts no interface without it."""
        end = time.monotonic() + CARRIER_S
        while True:
            said = subprocess.run(self.in_host(host, "ip", "-o", "link", "show", "dev", netdev),
                                  capture_output=True, text=True, check=False).stdout
            if " state UP " in said:
                return
            if time.monotonic() > end:
                raise OSError(f"host {host}: {netdev} has no carrier after {CARRIER_S} s: {said.strip()}")
            time.sleep(0.05)

    def ports(self, host):
        """The netdevs of a host's cables."""
        return [f"p{b if a == host else a}" for a, b in self.cables if host in (a, b)]

    def pull(self, a, b):
        """Sets both ends down. Unlike after a cable is pulled, neither is up without carrier."""
        self.do(a, "ip", "link", "set", f"p{b}", "down")
        self.do(b, "ip", "link", "set", f"p{a}", "down")

    def plug(self, a, b):
        self.do(a, "ip", "link", "set", f"p{b}", "up")
        self.do(b, "ip", "link", "set", f"p{a}", "up")


def why_not():
    """Return what is missing here for Cables, or None."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("ip", "unshare", "nsenter"):
        if not any((Path(folder) / program).exists() for folder in os.environ["PATH"].split(":")):
            return f"no {program}"
    try:
        with Cables(2, [(0, 1)]):
            return None
    except OSError as error:
        return str(error)
