#!/usr/bin/env python3
"""Puts the questions of sim/rules/*.csv to this kernel's soft-RoCE: run inside a guest, as root.

    rules.py gid_table FILE [CASE...]     rules.py neighbour FILE [CASE...]     rules.py bond

Prints one JSON line for each row that soft-RoCE can answer (RoCE v2 only): what the kernel said, in
the words of the row. It knows nothing of what the rows expect.
"""

import csv
import ctypes
import ipaddress
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, Structure, Union, byref, c_int, c_uint8, c_uint16, c_uint32, c_uint64

VERBS = ctypes.CDLL("libibverbs.so.1", use_errno=True)
for call in ("get_device_list", "open_device", "alloc_pd", "create_cq", "create_qp"):
    getattr(VERBS, f"ibv_{call}").restype = ctypes.c_void_p
VERBS.ibv_get_device_name.restype = ctypes.c_char_p
QP_STATE, ACCESS, PKEY, PORT, AV, MTU = 1 << 0, 1 << 3, 1 << 4, 1 << 5, 1 << 7, 1 << 8
RNR_TIMER, RQ_PSN, DEST_RD, DEST_QPN = 1 << 15, 1 << 12, 1 << 17, 1 << 20
GID_CHANGE = 18
OPENING = threading.Lock()  # which file is whose is seen by what is new
SETTLE_S = 0.12  # GIDs follow addresses by way of a work queue


class Gid(Union):
    _fields_ = [("raw", c_uint8 * 16), ("aligned", c_uint64 * 2)]


class GlobalRoute(Structure):
    _fields_ = [("dgid", Gid), ("flow_label", c_uint32), ("sgid_index", c_uint8),
                ("hop_limit", c_uint8), ("traffic_class", c_uint8)]


class AddressVector(Structure):
    _fields_ = [("grh", GlobalRoute), ("dlid", c_uint16), ("sl", c_uint8), ("path", c_uint8),
                ("static_rate", c_uint8), ("is_global", c_uint8), ("port_num", c_uint8)]


class Capacity(Structure):
    _fields_ = [(name, c_uint32) for name in ("send_wr", "recv_wr", "send_sge", "recv_sge", "inline")]


class QpAttr(Structure):
    _fields_ = [
        *((name, c_int) for name in ("qp_state", "cur_qp_state", "path_mtu", "path_mig_state")),
        *((name, c_uint32) for name in ("qkey", "rq_psn", "sq_psn", "dest_qp_num", "access")),
        ("cap", Capacity), ("ah", AddressVector), ("alt_ah", AddressVector),
        ("pkey_index", c_uint16), ("alt_pkey_index", c_uint16),
        *((name, c_uint8) for name in (
            "en_sqd", "draining", "max_rd", "max_dest_rd", "min_rnr", "port_num", "timeout",
            "retry", "rnr", "alt_port", "alt_timeout")), ("rate_limit", c_uint32)]


class QpInit(Structure):
    _fields_ = [("context", ctypes.c_void_p), ("send_cq", ctypes.c_void_p),
                ("recv_cq", ctypes.c_void_p), ("srq", ctypes.c_void_p), ("cap", Capacity),
                ("qp_type", c_int), ("sq_sig_all", c_int)]


class AsyncEvent(Structure):
    _fields_ = [("element", c_uint64), ("type", c_int)]


def event_files():
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{name}"):
                found.add(int(name))
        except OSError:
            pass
    return found


class Device:
    def __init__(self, name):
        for _ in range(200):  # its character device comes a moment after it
            n = c_int()
            devices = ctypes.cast(VERBS.ibv_get_device_list(byref(n)), POINTER(ctypes.c_void_p))
            found = [devices[i] for i in range(n.value)
                     if VERBS.ibv_get_device_name(ctypes.c_void_p(devices[i])).decode() == name]
            if found:
                break
            time.sleep(0.05)
        before = event_files()
        self.context = ctypes.c_void_p(VERBS.ibv_open_device(ctypes.c_void_p(found[0])))
        [self.events_fd] = event_files() - before
        self.pd = ctypes.c_void_p(VERBS.ibv_alloc_pd(self.context))
        self.cq = ctypes.c_void_p(VERBS.ibv_create_cq(self.context, 16, None, None, 0))
        self.name = name

    def close(self):
        for call, what in (("destroy_cq", self.cq), ("dealloc_pd", self.pd),
                           ("close_device", self.context)):
            assert getattr(VERBS, f"ibv_{call}")(what) == 0

    def to_rtr(self, index, dgid):
        """(QP or None, errno, milliseconds)"""
        init = QpInit(send_cq=self.cq, recv_cq=self.cq, cap=Capacity(4, 4, 1, 1, 0), qp_type=2)
        qp = ctypes.c_void_p(VERBS.ibv_create_qp(self.pd, byref(init)))
        attr = QpAttr(qp_state=1, port_num=1)
        assert VERBS.ibv_modify_qp(qp, byref(attr), QP_STATE | ACCESS | PKEY | PORT) == 0
        attr = QpAttr(qp_state=2, path_mtu=3, dest_qp_num=17)
        attr.ah.is_global = attr.ah.port_num = 1
        attr.ah.grh.sgid_index = index
        attr.ah.grh.dgid.raw[:] = list(raw_of(dgid))
        began = time.monotonic()
        error = VERBS.ibv_modify_qp(qp, byref(attr), QP_STATE | AV | MTU | DEST_QPN | RQ_PSN |
                                    DEST_RD | RNR_TIMER)
        took_ms = int(1000 * (time.monotonic() - began))
        if error:
            assert VERBS.ibv_destroy_qp(qp) == 0
            return None, error, took_ms
        return qp, 0, took_ms

    def gid_changes(self):
        """How many GID_CHANGE events came since the last look."""
        n = 0
        event = AsyncEvent()
        while select.select([self.events_fd], [], [], 0)[0]:
            assert VERBS.ibv_get_async_event(self.context, byref(event)) == 0
            n += event.type == GID_CHANGE
            VERBS.ibv_ack_async_event(byref(event))
        return n

    def table(self):
        """`ADDRESS/v2` or `-` of each slot, empty ones at the end left out."""
        base = f"/sys/class/infiniband/{self.name}/ports/1"
        slots = []
        for index in range(16):
            with open(f"{base}/gids/{index}", encoding="ascii") as file:
                gid = ipaddress.IPv6Address(file.read().strip())
            try:
                with open(f"{base}/gid_attrs/types/{index}", encoding="ascii") as file:
                    gid_type = file.read().split()[-1]
                with open(f"{base}/gid_attrs/ndevs/{index}", encoding="ascii") as file:
                    vlan = file.read().strip().partition(".")[2]
                slots.append(f"{gid.ipv4_mapped or gid}/{gid_type}" + (f"@{vlan}" if vlan else ""))
            except OSError:  # EINVAL: the slot is empty
                assert int(gid) == 0
                slots.append("-")
        while slots and slots[-1] == "-":
            slots.pop()
        return slots


def raw_of(text):
    ip = ipaddress.ip_address(text)
    return ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed


def sh(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False)


def must(command):
    done = sh(command)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def address_errno(done):
    text = done.stderr
    if done.returncode == 0:
        return 0
    return 17 if "exists" in text or "already assigned" in text else 99


def add_command(address, netdev, prefix=""):
    nodad = " nodad" if ":" in address else ""
    return f"{prefix}ip address add {address} dev {netdev}{nodad}"


def rows_of(path, cases):
    with open(path, encoding="ascii", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if not cases or row["case"] in cases:
                yield row


# ---- histories of one table ----

class History:
    def __init__(self):
        # No duplicate address detection: the link-local address is there at once.
        must("sysctl -qw net.ipv6.conf.default.accept_dad=0")
        must("ip link add v0 type veth peer name v1")
        must("ip link set v0 address 02:00:00:00:00:01")
        must("ip link set v0 up && ip link set v1 up")
        time.sleep(0.3)
        # The link-local address is the default GID's, and comes of its own accord.
        must("rdma link add rx0 type rxe netdev v0")
        time.sleep(SETTLE_S)
        self.device = Device("rx0")
        self.held = {}
        self.device.gid_changes()

    def close(self):
        for qp in sum(self.held.values(), []):
            assert VERBS.ibv_destroy_qp(qp) == 0
        self.device.close()
        must("rdma link delete rx0 && ip link delete v0")

    def hold(self, index):
        table = self.device.table()
        own = table[index].split("/")[0] if index < len(table) else "10.0.0.1"
        qp, error, _ = self.device.to_rtr(index, own if own != "-" else "10.0.0.1")
        if qp:
            self.held.setdefault(index, []).append(qp)
        return error

    def do(self, op, argument):
        argument, _, vlan = argument.partition(" dev ")
        netdev = f"v0.{vlan}" if vlan else "v0"
        if op == "add":
            return address_errno(sh(add_command(argument, netdev)))
        if op == "del":
            full = re.search(rf" ({re.escape(argument)}(?: peer \S+|/\d+)) ", must("ip -o address"))
            # A host without the address says so by itself.
            return address_errno(sh(f"ip address del {full[1] if full else argument} dev {netdev}"))
        if op == "vlan":
            name = f"v0.{argument}"
            return address_errno(sh(f"ip link add link v0 name {name} type vlan id {argument} && "
                                    f"ip link set {name} up"))
        if op == "hold":
            return self.hold(int(argument))
        if op == "release":
            for qp in self.held.get(int(argument), [])[-1:]:  # nothing to do if it is gone
                assert VERBS.ibv_destroy_qp(qp) == 0
                self.held[int(argument)].pop()
        elif op == "promote_secondaries":
            must(f"sysctl -qw net.ipv4.conf.all.promote_secondaries={argument}")
        elif op == "scan":
            self.device.close()
            must("rdma link delete rx0 && rdma link add rx0 type rxe netdev v0")
            time.sleep(SETTLE_S)
            self.device = Device("rx0")
        return 0


def tell_gid_tables(path, cases):
    history, case = None, None
    for number, row in enumerate(rows_of(path, cases)):
        if row["types"] != "v2":
            continue
        error = ""
        if row["op"] == "start":
            if history:
                history.close()
            history, case = History(), row["case"]
        else:
            assert row["case"] == case
            error = history.do(row["op"], row["argument"])
            time.sleep(SETTLE_S)
        events = history.device.gid_changes()
        print(json.dumps({"row": number, "case": case, "op": row["op"], "errno": error,
                          "events": events, "table": history.device.table()}), flush=True)
    history.close()


# ---- one question between two hosts ----

def host_up(host, number, addresses, sysctls):
    """A namespace with its ports (made before), addresses and settings."""
    inside = f"ip netns exec {host} "
    for setting in sysctls.replace("-", "").split():
        name, value = setting.split("=")
        must(f"{inside}sysctl -qw net.ipv4.conf.all.{name}={value}")
    for part in re.split(r" (?=p\d=)", addresses):
        port, address = part.split("=")
        index = int(port[1:])
        must(f"ip -n {host} link set {port} address 02:00:00:00:{number:02x}:{index + 1:02x} up")
        must(add_command(address, port, inside))


def ask(number, row):
    hosts = [f"a{number}", f"b{number}"]
    device_name = f"rx{number}"
    for name in hosts:
        must(f"ip netns add {name} && ip -n {name} link set lo up")
        # No duplicate address detection: the link-local address is there at once.
        must(f"ip netns exec {name} sysctl -qw net.ipv6.conf.default.accept_dad=0")
    for port in re.findall(r"(p\d)=", row["a"]):
        must(f"ip link add {port} netns {hosts[0]} type veth peer name {port} netns {hosts[1]}")
    for which, name in enumerate(hosts):
        host_up(name, which, row["ab"[which]], row[f"sysctl_{'ab'[which]}"])
    port, gid_type = row["from"].split("/")
    must(f"ip netns exec {hosts[0]} rdma link add {device_name} type rxe netdev {port}")
    time.sleep(SETTLE_S)
    with OPENING:
        device = Device(device_name)
    index = device.table().index(f"{row['sgid']}/{gid_type}")
    qp, error, took_ms = device.to_rtr(index, row["dgid"])
    known = must(f"ip -n {hosts[0]} neighbour show dev {port} to {row['dgid']}")
    mac = re.search(r"lladdr (\S+)", known)
    if qp:
        assert VERBS.ibv_destroy_qp(qp) == 0
    device.close()
    must(f"rdma link delete {device_name}")
    must(f"ip netns delete {hosts[0]} && ip netns delete {hosts[1]}")
    return {"row": number, "case": row["case"], "errno": error, "ms": took_ms,
            "mac": mac[1].replace(":", "") if mac else "-"}


def tell_neighbours(path, cases):
    questions = [(number, row) for number, row in enumerate(rows_of(path, cases))
                 if row["from"].endswith("/v2")]
    with ThreadPoolExecutor(max_workers=6) as pool:  # they wait, most of the time
        for answer in pool.map(lambda question: ask(*question), questions):
            print(json.dumps(answer), flush=True)


# ---- a bond ----

def tell_bond():
    """Tables of both devices: after the bond was made, and after its first port lost its carrier."""
    must("sysctl -qw net.ipv6.conf.default.accept_dad=0")
    for index, name in enumerate("vw"):
        must(f"ip link add {name}0 type veth peer name {name}1")
        must(f"ip link set {name}0 address 02:00:00:00:00:0{index + 1}; ip link set {name}1 up")
    sh("ip link delete bond0")  # the kernel makes one
    must("ip link add bond0 type bond mode active-backup miimon 100")
    must("ip link set v0 master bond0 && ip link set w0 master bond0")
    must("ip link set bond0 up && ip link set v0 up && ip link set w0 up")
    time.sleep(0.5)
    must("ip address add 10.0.0.1/24 dev bond0")
    must("rdma link add rx0 type rxe netdev v0 && rdma link add rx1 type rxe netdev w0")
    time.sleep(0.5)
    devices = [Device("rx0"), Device("rx1")]
    for step in ("made", "p0 down", "p0 up", "p1 down"):
        if step != "made":
            must(f"ip link set {'v1' if 'p0' in step else 'w1'} {step.split()[1]}")
            time.sleep(0.5)
        print(json.dumps({"step": step, "active": must(
            "cat /sys/class/net/bond0/bonding/active_slave").strip(),
            "tables": [device.table() for device in devices]}), flush=True)


def main():
    kind, *rest = sys.argv[1:]
    must("mount -t tmpfs none /run")  # names of namespaces are not the machine's
    if kind == "bond":
        tell_bond()
    else:
        path, *cases = rest
        {"gid_table": tell_gid_tables, "neighbour": tell_neighbours}[kind](path, cases)


if __name__ == "__main__":
    main()
