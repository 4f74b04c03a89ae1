"""Settings of `ci/findings --programs`: programs of others on random meshes, each with one cause of failure or none.

A setting is a mesh, two of its hosts, a program that runs as a server at one of them and as its client at the other,
and one cause, planted at the cable between them, at one of the hosts, or in the command of one end. It runs once,
with `weft run --backend rxe`, and is judged by the findings of the document alone: code and place. A cause that a
program survives leaves nothing to name. Causes in a program itself have no finding of their own: `undetermined` is
right there, and any cause in the network is wrong.
"""

import json
import os
import random
import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path

import failures
import finding_matrix as matrix
import finding_places as places
from finding_matrix import Drawn, Place, Planted, pairs_of

ROOT = Path(__file__).resolve().parent.parent
STATUSES = ROOT / "build/ci/statuses"
KEPT = ROOT / "build/ci/programs"
LIMIT_S = 240
WITHIN_S = 10
MAX_WRONG = 0.01
MESHES = ["pair", "twins", "triangle", "ring", "line", "star", "two triangles"]
# The time of a run is that of building its hosts.
SMALL = {"ring": (4, [(i, (i + 1) % 4) for i in range(4)]), "line": (3, [(0, 1), (1, 2)]),
         "star": (4, [(0, 1), (0, 2), (0, 3)])}
CABLELESS = {"ring", "line", "star", "two triangles"}
EARLY, WHILE = "before start", "while it runs"


class End:
    """The command of one host, while it is drawn."""

    def __init__(self, host, port):
        self.host, self.port = host, port
        self.device = f"{{device:{host}:{port}}}"  # completed by device_of()
        self.index = 1
        self.options = ""
        self.before = self.after = ""  # of the shell
        self.instead = None  # another program


# ---- programs ----

# All take a device and the slot of a GID but those of the RDMA connection manager.
PINGPONGS = {f"ibv_{kind}_pingpong": kind for kind in ("rc", "uc", "ud", "srq")}
PERFTEST = {"ib_send_bw": "-s 4096", "ib_write_bw": "-s 4096", "ib_read_bw": "-s 4096", "ib_send_lat": "",
            "ib_write_lat": ""}
MANAGED = ["rping", "udaddy", "ucmatose"]
SILENT = "statuses"
PROGRAMS = [*PINGPONGS, *PERFTEST, *MANAGED, "fi_pingpong", "ucx_perftest", SILENT]
IPV4_ONLY = {SILENT}
# UCX waits by the time stamp counter, which must be the guest's (docs/lab.md).
BY_TIME_STAMPS = {"ucx_perftest"}
SLOW = {"fi_pingpong", "ucx_perftest", "ibv_srq_pingpong", *PERFTEST}
# Those whose command names the slot of a GID.
HAS_SLOT = {*PINGPONGS, *PERFTEST, SILENT}
LONG = {"ibv_srq_pingpong": 40000, **{name: 40000 for name in PINGPONGS}, **{name: 20000 for name in PERFTEST},
        "rping": 20000, "fi_pingpong": 20000, "ucmatose": 1000, "udaddy": 1000, "ucx_perftest": 100000}
SHORT = {**{name: 200 for name in PINGPONGS}, **{name: 200 for name in PERFTEST}, "rping": 50, "fi_pingpong": 10,
         "ucmatose": 10, "udaddy": 10, "ucx_perftest": 100}


def command(setting, end, peer):
    """Return what an end executes; `peer` is the server's address of a client, otherwise ""."""
    name, n = setting.program, setting.n
    if end.instead is not None:
        return end.instead
    device = end.device
    if name in PINGPONGS:
        wait = "" if setting.is_polling else "-e "
        slot = "" if end.index is None else f"-g {end.index} "
        words = f"{name} {wait}{slot}-d {device} -n {n} {end.options} {peer}"
    elif name in PERFTEST:
        words = f"{name} -F -x {end.index} -d {device} -n {n} {PERFTEST[name]} {end.options} {peer}"
    elif name == "rping":
        own = f"-a {{address:{end.host}:{end.port}}}"
        words = f"rping {'-c -a ' + peer if peer else '-s ' + own} -C {n} {end.options}"
    elif name in MANAGED:
        own = f"-b {{address:{end.host}:{end.port}}}"
        words = f"{name} {'-s ' + peer if peer else own} -C {n} {end.options}"
    elif name == "fi_pingpong":
        words = (f"FI_UNIVERSE_SIZE=2 fi_pingpong -p 'verbs;ofi_rxm' -e rdm -d {device} -I {n} {end.options} {peer}")
    elif name == "ucx_perftest":
        words = (f"UCX_TLS=rc,self UCX_NET_DEVICES={device}:1 ucx_perftest -t tag_lat -w 10 -n {n} "
                 f"{end.options} {peer}")
    else:
        words = f"{STATUSES} silent {device} {end.index} {peer}"
    return f"{end.before}{words.rstrip()}{end.after}"


def make_statuses():
    """Build the verbs program that prints nothing, once."""
    if not STATUSES.exists():
        STATUSES.parent.mkdir(parents=True, exist_ok=True)
        made = STATUSES.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        subprocess.run(["cc", "-O1", "-o", made, ROOT / "ci/guest/statuses.c", "-libverbs"], check=True)
        made.rename(STATUSES)


# ---- meshes ----

def ends_of(link):
    return [end.split(":") for end in link["endpoints"]]


def draw_mesh(rng, setting):
    """Return a mesh, with the cable between server and client as its only choice for any_link()."""
    mesh = Drawn(rng, "weft", setting.addressing, profile="rxe", mtu=rng.choice([1500, 4200, 9000]))
    mesh.kind = setting.kind
    n, cables = SMALL[setting.kind] if setting.kind in SMALL else pairs_of(setting.kind, rng)
    mesh.host(n)
    for a, b in cables:
        ends = [mesh.hosts[a], mesh.hosts[b]]
        if rng.random() < 0.5:
            ends.reverse()
        mesh.cable(*ends, subnet=mesh.subnet())
    order = list(mesh.hosts)
    rng.shuffle(order)
    mesh.nodes = {host: mesh.nodes[host] for host in order}
    for node in mesh.nodes.values():
        rng.shuffle(node["ports"])
    if rng.random() < 0.2:
        mesh.top["management"] = "none"
    link = rng.choice(mesh.links)
    mesh.any_link = lambda: link
    ends = [End(*end) for end in ends_of(link)]
    if rng.random() < 0.5:
        ends.reverse()
    mesh.server, mesh.client = ends
    mesh.calls = setting.calls
    return mesh


def other_ports(mesh, end, is_same_pair):
    """Return ports of a host whose cables lead to the peer (or to others), other than the one in use."""
    peer = mesh.client.host if end is mesh.server else mesh.server.host
    found = []
    for link in mesh.links:
        one, two = ends_of(link)
        for near, far in ((one, two), (two, one)):
            if near[0] == end.host and near[1] != end.port and (far[0] == peer) == is_same_pair:
                found.append(near[1])
    return found


def device_of(host, port):
    """Return the name of a device in the guest (docs/lab.md, "What a host is")."""
    return f"{host}-{port}"


# ---- causes ----

def any_end(rng, mesh):
    return rng.choice([mesh.server, mesh.client])


def pair_of(mesh):
    hosts = [mesh.server.host, mesh.client.host]
    return Place(*hosts, *(f"{end.host}:{end.port}" for end in (mesh.server, mesh.client)), peers=hosts)


def at_of(setting, rng, low_us=2000, high_us=40000):
    if setting.moment == EARLY:
        return "0s"
    if setting.program == SILENT:
        return f"jobs+{rng.randrange(100, 1500)}ms"
    if setting.program in MANAGED:
        return f"jobs+{rng.randrange(2010, 2300)}ms" if rng.random() < 0.5 else f"jobs+{rng.randrange(5, 2010)}ms"
    return f"jobs+{rng.randrange(low_us, high_us)}us"


def planted_by(plant):
    """A cause of the matrix of Weft's own jobs, at the cable that the program uses."""
    def at_cable(rng, mesh, setting):
        return plant(rng, mesh, at_of(setting, rng))
    return at_cable


def healthy(rng, mesh, setting):
    return Planted((), pair_of(mesh))


def wrong_device(rng, mesh, setting):
    end = any_end(rng, mesh)
    ports = other_ports(mesh, end, is_same_pair=False)
    if setting.program not in HAS_SLOT | {"fi_pingpong", "ucx_perftest"} or not ports:
        return None
    end.device = device_of(end.host, rng.choice(ports))
    return Planted({"route.wrong_nic"}, pair_of(mesh))


def other_cable(rng, mesh, setting):
    """Each end uses another one of the two cables that join them."""
    end = any_end(rng, mesh)
    ports = other_ports(mesh, end, is_same_pair=True)
    if setting.program not in HAS_SLOT | {"fi_pingpong", "ucx_perftest"} or not ports:
        return None
    end.device = device_of(end.host, rng.choice(ports))
    return Planted({"route.wrong_nic", "route.crossed_planes"}, pair_of(mesh))


def link_local(rng, mesh, setting):
    end = any_end(rng, mesh)
    if setting.program not in HAS_SLOT:
        return None
    end.index = 0
    return Planted({"gid.link_local"}, Place(end.host, f"{end.host}:{end.port}"), also={"gid.type_mismatch"})


def no_slot(rng, mesh, setting):
    end = any_end(rng, mesh)
    if setting.program not in PINGPONGS:
        return None
    end.index = None
    return Planted({"gid.missing"}, Place(end.host, f"{end.host}:{end.port}"))


def slot_beyond(rng, mesh, setting):
    end = any_end(rng, mesh)
    if setting.program not in HAS_SLOT:
        return None
    end.index = rng.choice([3, 7, 200, 5000])
    return Planted({"gid.missing", "gid.fixed_index"}, Place(end.host, f"{end.host}:{end.port}"))


def no_device(rng, mesh, setting):
    end = any_end(rng, mesh)
    if setting.program in MANAGED:
        return None
    end.device = rng.choice(["mlx5_9", "nosuch", device_of(end.host, "px")])
    return Planted({"host.no_device"}, Place(end.host), also={"conn.refused"})


def mtu_mismatch(rng, mesh, setting):
    if setting.program not in ("ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_uc_pingpong", "ib_send_bw", "ib_write_bw"):
        return None
    planted = matrix.mtu_mismatch(rng, mesh, None)
    for end in (mesh.server, mesh.client):
        end.options += " -m 4096" + (" -s 4096" if setting.program in PINGPONGS else "")
    return planted


def outage(rng, mesh, setting):
    mesh.fault(on=rng.choice(mesh.any_link()["endpoints"]), kind="down", at=at_of(setting, rng),
               **{"for": f"{rng.choice([5, 40, 300, 2000])}ms"})
    return Planted({"link.down"}, pair_of(mesh), also={"link.flapping"})


def some_loss(rng, mesh, setting):
    mesh.fault(on=rng.choice(mesh.any_link()["endpoints"]), kind="loss", share=f"{rng.choice([1, 3, 10])}%", at="0s")
    return Planted({"link.lossy"}, pair_of(mesh), also={"link.one_way"})


def killed(rng, mesh, setting):
    host = any_end(rng, mesh).host
    mesh.fault(on=host, kind="kill", at=at_of(setting, rng))
    return Planted({"peer.dead"}, Place(host))


def stopped(rng, mesh, setting):
    host = any_end(rng, mesh).host
    mesh.fault(on=host, kind="stop", at=at_of(setting, rng))
    return Planted({"peer.silent"}, Place(host))


# What a client meets whose server is not there.
NO_SERVER = {"conn.refused", "peer.late", "peer.dead"}


def no_server(rng, mesh, setting):
    mesh.server.instead = rng.choice(["sleep 60", "true", "sleep 1.5"])
    return Planted(NO_SERVER, pair_of(mesh), also={"undetermined"})


def late_server(rng, mesh, setting):
    mesh.server.before = f"sleep {rng.choice([3, 5])}; "
    return Planted(NO_SERVER, pair_of(mesh), also={"undetermined"})


def server_gone(rng, mesh, setting):
    """It ends by itself before its client comes, or while it runs."""
    mesh.server.before = f"timeout -s KILL {rng.choice([0.5, 1.003, 1.01, 1.03])} "
    if setting.program in ("fi_pingpong", "ucx_perftest"):
        mesh.server.before += "env "
    return Planted(NO_SERVER, pair_of(mesh), also={"undetermined"})


def crashed(rng, mesh, setting):
    end = any_end(rng, mesh)
    at_s = 1 if end is mesh.server else 0
    signal = rng.choice(["SEGV", "ABRT", "KILL"])
    end.before, end.after = "", f" & p=$!; sleep {at_s + rng.choice([0.01, 0.03, 0.2])}; kill -{signal} $p; wait $p"
    return Planted(NO_SERVER, pair_of(mesh), also={"undetermined", "peer.silent"})


def two_servers(rng, mesh, setting):
    setting.are_both_servers = True
    return Planted({"peer.deadlock"}, pair_of(mesh), also={"undetermined"} if setting.program not in HAS_SLOT else ())


def no_cable(rng, mesh, setting):
    """Two hosts that no cable joins, each with a device of another one's cable."""
    if setting.kind not in CABLELESS or setting.program not in HAS_SLOT:
        return None
    joined = {frozenset(host for host, _ in ends_of(link)) for link in mesh.links}
    pairs = [(a, b) for a in mesh.hosts for b in mesh.hosts if a != b and frozenset((a, b)) not in joined]
    for end, host in zip((mesh.server, mesh.client), rng.choice(pairs)):
        end.host, end.port = host, rng.choice(mesh.nodes[host]["ports"])
        end.device = device_of(host, end.port)
    if "management" in mesh.top:
        return None
    mesh.calls = "name"
    return Planted({"mesh.no_cable"}, pair_of(mesh))


def addressed(plant, with_moment=False):
    """A cause of addresses: the hosts call each other by their names."""
    def at_cable(rng, mesh, setting):
        if "management" in mesh.top or setting.program in MANAGED:
            return None
        mesh.calls = "name"
        planted = plant(rng, mesh, at_of(setting, rng) if with_moment else None)
        planted.also |= {"gid.fixed_index", "gid.missing"}  # the slot that the command names is empty
        return planted
    return at_cable


def arp_ignored(rng, mesh, setting):
    if mesh.addressing == "ipv6":
        return None
    host = any_end(rng, mesh).host
    mesh.nodes[host]["sysctl"] = {"arp_ignore": 8}
    return Planted({"neigh.arp_ignored"}, Place(host))


def bad_arguments(rng, mesh, setting):
    end = any_end(rng, mesh)
    if setting.program == SILENT:
        return None
    end.options += rng.choice([" --no-such-option", " -n", " --count=x -Q"])
    return Planted({"conn.refused"}, pair_of(mesh), also={"undetermined"})


def own_status(rng, mesh, setting):
    end = any_end(rng, mesh)
    end.after = rng.choice(["; exit 3", "; echo 'assertion failed' >&2; exit 1", "; kill -ABRT $$"])
    return Planted({"undetermined"}, pair_of(mesh))


def not_there(rng, mesh, setting):
    end = any_end(rng, mesh)
    end.instead = rng.choice(["./no-such-program", "/bin/false", "exit 2"])
    return Planted({"conn.refused"}, pair_of(mesh), also={"undetermined", "peer.dead"})


BOTH = [EARLY, WHILE]
CAUSES = {
    "none": (healthy, [EARLY]), "wrong_device": (wrong_device, [EARLY]), "other_cable": (other_cable, [EARLY]),
    "link_local": (link_local, [EARLY]), "no_slot": (no_slot, [EARLY]), "slot_beyond": (slot_beyond, [EARLY]),
    "no_device": (no_device, [EARLY]), "mtu_mismatch": (mtu_mismatch, [EARLY]),
    "cut": (planted_by(matrix.cut), BOTH), "outage": (outage, BOTH), "flapping": (planted_by(matrix.flapping), BOTH),
    "silent": (planted_by(matrix.silent), BOTH), "silent_one_way": (planted_by(matrix.silent_one_way), BOTH),
    "lossy": (planted_by(matrix.lossy), BOTH), "some_loss": (some_loss, [EARLY]),
    "corrupting": (planted_by(matrix.corrupting), BOTH),
    "killed": (killed, [WHILE]), "stopped": (stopped, [WHILE]),
    "no_server": (no_server, [EARLY]), "late_server": (late_server, [EARLY]), "server_gone": (server_gone, [EARLY]),
    "crashed": (crashed, [WHILE]), "two_servers": (two_servers, [EARLY]), "no_cable": (no_cable, [EARLY]),
    "misnumbered": (addressed(matrix.misnumbered), [EARLY]), "unnumbered": (addressed(matrix.unnumbered), [EARLY]),
    "one_address": (addressed(matrix.one_address), [EARLY]),
    "address_gone": (addressed(matrix.address_gone, True), BOTH),
    "readdressed": (addressed(matrix.readdressed, True), BOTH),
    "arp_ignored": (arp_ignored, [EARLY]),
    "bad_arguments": (bad_arguments, [EARLY]), "own_status": (own_status, [EARLY]), "not_there": (not_there, [EARLY]),
}
# Those of which the program itself is the reason: undetermined is as right as a finding can be.
OWN = {"no_server", "late_server", "server_gone", "crashed", "bad_arguments", "own_status", "not_there"}


class Setting:
    """What is drawn of one number."""

    def __init__(self, seed, index, want=None):
        want = want or {}
        self.are_both_servers = False
        if "case" in want:
            (self.cause, self.kind, self.program, self.moment, self.addressing, self.calls, self.number) = want["case"]
            return
        rng = random.Random(f"{seed} programs {index}")
        while True:
            self.cause = want.get("cause") or rng.choice([*sorted(CAUSES), "none"])
            self.kind = want.get("mesh") or rng.choice([*MESHES, *MESHES[:3]])
            # Those that poll take as much time as all others together.
            programs = [name for name in want.get("programs", PROGRAMS) for _ in range(1 if name in SLOW else 3)]
            self.program = want.get("program") or rng.choice(programs)
            self.moment = rng.choice(CAUSES[self.cause][1])
            self.addressing = rng.choice(["/24", "/24", "/31", "ipv6"])
            self.calls = rng.choice(["name", "address"])
            self.number = rng.randrange(2**32)
            if self.draw() is not None:
                return

    def case(self):
        return (self.cause, self.kind, self.program, self.moment, self.addressing, self.calls, self.number)

    def draw(self):
        """Return the mesh and what is planted in it, or None where a cause does not fit."""
        if self.addressing == "ipv6" and self.program in IPV4_ONLY:
            return None
        if self.addressing == "ipv6" and self.calls == "address" and self.program not in MANAGED:
            return None  # their servers listen on the first address that they find, which is one of IPv4
        rng = random.Random(self.number)
        self.are_both_servers = False
        self.is_polling = rng.random() < 0.2 and self.moment == EARLY
        self.n = (LONG if self.moment == WHILE else SHORT).get(self.program)
        mesh = draw_mesh(rng, self)
        for end in (mesh.server, mesh.client):
            end.device = device_of(end.host, end.port)
        if self.addressing == "ipv6" and "management" in mesh.top and self.program not in MANAGED:
            return None
        planted = CAUSES[self.cause][0](rng, mesh, self)
        return None if planted is None else (mesh, planted)

    def text(self, mesh):
        document = mesh.document("p")
        document["seed"] = self.number % 2**31
        document["topology"]["defaults"] = {"mtu": mesh.mtu, "rate": "100Gbps"}
        del document["policy"], document["expect"]
        document.pop("boot", None)
        server, client = mesh.server, mesh.client
        calls = "address" if self.program in MANAGED or "management" in mesh.top else mesh.calls
        peer = server.host if calls == "name" else f"{{address:{server.host}:{server.port}}}"
        if self.are_both_servers:
            peer = ""
        document["jobs"] = [{"exec": {
            server.host: command(self, server, ""), client.host: command(self, client, peer),
            "expect": {"status": {server.host: "any", client.host: "any"}, "within": f"{WITHIN_S}s"}}}]
        return json.dumps(document, indent=1)


def here(weft):
    """Return the programs that are installed, and can run where they are."""
    programs = [name for name in PROGRAMS if name == SILENT or shutil.which(name)]
    if not has_own_time_stamps(weft):
        programs = [name for name in programs if name not in BY_TIME_STAMPS]
    return programs


def has_own_time_stamps(weft):
    done = subprocess.run([weft, "guest", "--clock", "virtual", "--", "true"], capture_output=True, text=True,
                          timeout=60, check=False)
    return "time stamp counter" not in done.stderr


# Settings that were judged otherwise once, and what is right now.
ONCE_WRONG = {
    # perftest prints that its port is down, and ends.
    ("cut", "twins", "ib_send_lat", "before start", "/31", "name", 462073971): "right",
    # librdmacm does not resolve the neighbour; a host may have several ports, and no command names one.
    ("silent", "pair", "rping", "before start", "ipv6", "name", 96546936): "right",
    ("lossy", "pair", "rping", "before start", "/31", "name", 2649713055): "right",
    # libfabric looks for the largest queue pair of a device, and failed later for another reason.
    ("misnumbered", "two triangles", "fi_pingpong", "before start", "/31", "name", 2038487910): "undetermined",
}


# ---- judging ----

def has_failed(program):
    return program["ended"] in ("hangs", "signal", "signalled") or (
        program["ended"] == "exited" and program["status"] != 0)


class Judged:
    """One setting and what was found of it."""

    def __init__(self, weft, seed, index, want=None):
        self.weft, self.seed, self.index, self.want = weft, seed, index, want or {}
        self.setting = Setting(seed, index, want)
        self.verdict, self.detail, self.said, self.text, self.document = "broken", "", [], "", ""

    def judge(self):
        with tempfile.TemporaryDirectory(prefix="weft-programs-") as name:
            try:
                self.run_in(Path(name))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                self.detail = f"{type(error).__name__}: {error}"
        return self

    def run_in(self, work):
        mesh, planted = self.setting.draw()
        self.place = str(planted.place)
        self.text = self.setting.text(mesh)
        if self.setting.program == SILENT:
            make_statuses()
        scenario = work / "p.yaml"
        scenario.write_text(self.text)
        done = subprocess.run([self.weft, "run", "--quiet", "--backend", "rxe", "--json", scenario],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              env={key: value for key, value in os.environ.items()
                                   if not key.startswith("WEFT_") or key in ("WEFT_GUEST_KERNEL", "WEFT_BUILD")})
        if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
            raise RuntimeError(f"exit {done.returncode}: {done.stderr[-600:]}{done.stdout[-300:]}")
        self.document = done.stdout
        document = json.loads(done.stdout)
        programs = document["jobs"][0]["programs"]
        self.detail = ", ".join(f"{one['host']}: {one['ended']} {one['status']}" for one in programs)
        failed = any(has_failed(one) for one in programs)
        self.said = [places.says(finding) for finding in document["findings"]]
        self.verdict = self.verdict_of(document["findings"], planted, failed)

    def verdict_of(self, findings, planted, failed):
        if self.setting.cause == "none":
            return "alarm" if findings or failed else "quiet"
        verdict = places.verdict(findings, [planted], failed)
        if verdict == "undetermined" and self.setting.cause in OWN:
            return "right"
        return verdict

    def explain(self):
        setting = self.setting
        return (f"{self.verdict}: {self.index} {setting.cause}, {setting.program}, {setting.kind}, {setting.moment}, "
                f"{setting.addressing}, by {setting.calls}: planted at {getattr(self, 'place', '?')}; "
                f"{'; '.join(self.said) or 'nothing'}; {self.detail}")

    def again(self):
        if "case" in self.want:
            return f"ci/findings --programs --case '{json.dumps(self.want['case'])}'"
        more = "".join(f" --{key} '{value}'" for key, value in self.want.items() if key != "programs")
        return f"ci/findings --programs --seed {self.seed} --first {self.index} --count 1{more}"

    def keep(self):
        KEPT.mkdir(parents=True, exist_ok=True)
        stem = KEPT / f"{self.seed}-{self.index}"
        stem.with_suffix(".yaml").write_text(self.text)
        stem.with_suffix(".json").write_text(self.document)


def report(judged):
    if judged.verdict not in ("right", "quiet"):
        judged.keep()
        print(f"{judged.explain()}\n  again: {judged.again()}\n  case: {json.dumps(judged.setting.case())}", flush=True)


def main(options, weft, seed):
    """Draw settings, judge and print them; return the exit status."""
    want = {key: value for key, value in (
        ("mesh", options.mesh), ("program", options.program), ("cause", (options.cause or [None])[0])) if value}
    if options.case:
        want = {"case": json.loads(options.case)}
    if "program" not in want:
        want["programs"] = here(weft)
    settings = places.judge_all(lambda index: Judged(weft, seed, index, want),
                                range(options.first, options.first + options.count), report, min(options.jobs, 2))
    print(places.table(settings, lambda setting: setting.kind, MESHES))
    print(places.table(settings, lambda setting: setting.program, PROGRAMS))
    print(places.table(settings, lambda setting: setting.cause, sorted(CAUSES)))
    verdicts = Counter(judged.verdict for judged in settings)
    bad = [judged for judged in settings if judged.verdict in places.BAD]
    print(f"{len(settings)} settings: " + ", ".join(f"{verdicts[name]} {name}" for name in places.VERDICTS)
          + f"; seed {seed}")
    is_ok = len(bad) <= MAX_WRONG * len(settings)
    for judged in [] if is_ok else bad:
        failures.keep(f"findings: programs {judged.setting.cause}", judged.explain(), judged.again())
    print("findings: PASS" if is_ok else "findings: FAIL")
    n_failed = 0 if is_ok else len(bad)
    print(f"{len(settings) - n_failed} passed, {n_failed} failed, 0 skipped")
    return 0 if is_ok else 1
