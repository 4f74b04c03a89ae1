"""libnccl-net-mesh.so: what it exports and needs, and the contract, over simulated NICs on real
wires: a triangle of network namespaces with a subnet for each cable, and one host."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST") or os.environ.get("WEFT", "build/weft")
PLUGIN = str(Path(WEFT).parent / "libnccl-net-mesh.so")
IN_NAMESPACES = ["unshare", "--user", "--net", "--map-root-user"]
VERSIONS = [8, 9, 10, 11, 12]
# The versions are one body in different tables: each moves a little, and one in full.
FEW = ["--messages", "60"]


def has_namespaces():
    return subprocess.run([*IN_NAMESPACES, "true"], capture_output=True,
                          check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(
    not has_namespaces(), reason="SKIP namespaces: this user may not make network namespaces")


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def in_mesh(n_hosts, pairs, *arguments, code=0, **environment):
    ran = subprocess.run(
        [*IN_NAMESPACES, "ci/mesh-namespaces", str(n_hosts), pairs, WEFT, "plugin-check", "-q",
         "--json", *arguments, PLUGIN], cwd=ROOT, capture_output=True, text=True, timeout=300,
        check=False, env={**os.environ, "NCCL_MESH_BACKEND": "soft", **environment})
    assert ran.returncode == code, ran.stdout[-2000:] + ran.stderr[-2000:]
    return json.loads(ran.stdout)["results"][0], ran.stderr


def test_it_exports_its_tables_only():
    symbols = {line.split()[-1] for line in
               output("nm", "--dynamic", "--defined-only", PLUGIN).splitlines()}
    assert symbols == {f"ncclNetPlugin_v{version}" for version in VERSIONS}


def test_it_needs_the_c_library_only():
    needed = [line.split("[")[1].rstrip("]") for line in
              output("readelf", "--dynamic", PLUGIN).splitlines() if "(NEEDED)" in line]
    assert set(needed) <= {"libc.so.6", "libm.so.6", "ld-linux-aarch64.so.1"}


def test_ports_that_lead_elsewhere_are_not_fused():
    """makeVDevice is absent from every table: the 19th function, since v9."""
    for version in VERSIONS[1:]:
        row = [line.split() for line in output("nm", "--dynamic", "-S", PLUGIN).splitlines()
               if line.endswith(f"ncclNetPlugin_v{version}")][0]
        relocated = {int(line.split()[0], 16) for line in
                     output("readelf", "--relocs", "--wide", PLUGIN).splitlines()
                     if line.strip().startswith("0")}
        at = int(row[0], 16)
        assert at + 18 * 8 not in relocated or version < 9  # irecvConsumed is absent, too
        assert at + 19 * 8 not in relocated
        assert at + 13 * 8 in relocated  # test is not


@needs_namespaces
def test_the_contract_on_a_triangle():
    result, _ = in_mesh(3, "0-1 1-2 0-2", *FEW)
    assert (result["result"], result["versions"]) == ("pass", VERSIONS)
    result, _ = in_mesh(3, "0-1 1-2 0-2", "--netversion", "11")
    assert (result["result"], result["versions"]) == ("pass", [11])
    assert result["messages"] > 10000


@needs_namespaces
@pytest.mark.parametrize("n_hosts, cables", [(3, "0-1 1-2"), (4, "0-1 1-2 2-3 0-3")],
                         ids=["line-3", "ring-4"])
def test_the_contract_over_relays(n_hosts, cables):
    """Every pair is connected, also those without a cable in common, by plugins' own threads."""
    result, _ = in_mesh(n_hosts, cables, "--netversion", "12", *FEW)
    assert (result["result"], result["versions"]) == ("pass", [12])


@needs_namespaces
def test_a_host_without_a_rank_relays():
    result, log = in_mesh(3, "0-1 1-2", "--netversion", "12", *FEW, MESH_RELAYS="1",
                          WEFT=WEFT)
    assert (result["result"], result["versions"]) == ("pass", [12])
    assert "relays over 2 ports" in log


@needs_namespaces
def test_a_rank_that_makes_no_call_relays():
    """The bar of a GiB and 60 s is in `make soak`: here, that the process in the middle is idle."""
    ran = subprocess.run(
        [*IN_NAMESPACES, "ci/mesh-namespaces", "3", "0-1 1-2", sys.executable, "ci/plugin_idle.py",
         PLUGIN, "8388608", "0"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "NCCL_MESH_BACKEND": "soft"})
    assert (ran.returncode, ran.stdout) == (0, "8388608 bytes in 2 messages\n"), ran.stderr


@needs_namespaces
@pytest.mark.parametrize("kind, rounds", [("message", 300), ("set-up", 150)])
@pytest.mark.parametrize("hosts, cables, relays", [("2", "0-1", ""), ("3", "0-1 1-2", "1")],
                         ids=["cable", "relay"])
def test_an_end_may_close_at_once(hosts, cables, relays, kind, rounds):
    """10 000 rounds are in `make soak`."""
    ran = subprocess.run(
        [*IN_NAMESPACES, "ci/mesh-namespaces", hosts, cables, sys.executable, "ci/plugin_close.py",
         PLUGIN, kind, str(rounds if not relays else rounds // 3), "1"], cwd=ROOT, capture_output=True,
        text=True, timeout=300, check=False,
        env={**os.environ, "NCCL_MESH_BACKEND": "soft", "MESH_RELAYS": relays, "WEFT": WEFT})
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    assert " 0 failed " in ran.stdout


@needs_namespaces
def test_a_udp_port_is_of_who_has_one_address_of_it():
    """Another process was there before the link-local address was: that one is left to it too."""
    script = ("ip link add p0 type veth peer name p1 && ip addr add 192.168.7.1/24 dev p0 && "
              "echo 0 >/proc/sys/net/ipv6/conf/p0/accept_dad && "
              "ip link set p0 up && ip link set p1 up && ip link set lo up && exec \"$@\"")
    holds = ("import socket, subprocess, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
             "s.bind(('192.168.7.1', 4791)); sys.exit(subprocess.call(sys.argv[1:]))")
    ran = subprocess.run(
        [*IN_NAMESPACES, "sh", "-c", script, "sh", sys.executable, "-c", holds, WEFT, "plugin-check",
         "-q", "--netversion", "12", *FEW, "--sequences", "1", PLUGIN],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "NCCL_MESH_BACKEND": "soft", "NCCL_MESH_DEVICES": "p0",
             "NCCL_MESH_MANAGEMENT": "p0"})
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]


@needs_namespaces
def test_the_contract_in_one_process():
    """Ranks that are threads of one process, and ranks of one host, by its management address."""
    script = ("ip link add p0 type veth peer name p1 && ip addr add 192.168.7.1/24 dev p0 && "
              "ip link set p0 up && ip link set p1 up && ip link set lo up && exec \"$@\"")
    ran = subprocess.run(
        [*IN_NAMESPACES, "sh", "-c", script, "sh", WEFT, "plugin-check", "-q", "--json", *FEW,
         PLUGIN],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "NCCL_MESH_BACKEND": "soft", "NCCL_MESH_DEVICES": "p0",
             "NCCL_MESH_MANAGEMENT": "p0"})
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert json.loads(ran.stdout)["results"][0]["versions"] == VERSIONS


@needs_namespaces
def test_two_hosts_with_a_secret_meet_and_others_do_not():
    assert in_mesh(2, "0-1", "--netversion", "12", *FEW,
                   NCCL_MESH_SECRET="ab" * 32)[0]["result"] == "pass"


def simulated(*arguments, code=0, **environment):
    ran = subprocess.run([WEFT, "plugin-check", "--backend", "sim", "--json", *arguments, PLUGIN],
                         cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
                         env={**os.environ, **environment})
    assert ran.returncode == code, ran.stdout[-2000:] + ran.stderr[-2000:]
    return json.loads(ran.stdout)["results"][0], ran.stderr


@pytest.mark.heavy
def test_the_contract_in_one_process_and_in_virtual_time():
    """The same object over a simulated mesh: connections within a host, over a cable and, on a line,
    over a relay, because each device names its host; no process needs another."""
    result, log = simulated(*FEW)
    assert (result["result"], result["versions"]) == ("pass", VERSIONS)
    assert [line.split() for line in log.splitlines()] == [
        [f"v{version}", part, "kept"] for version in VERSIONS
        for part in ("load", "threads", "random")]
    assert result["messages"] > 10000
    result, _ = simulated("--netversion", "12", *FEW, NCCL_MESH_SIMULATED="0-1 1-2")
    assert result["versions"] == [12]


def test_virtual_time_passes_when_somebody_asks():
    """One thread, and time that passes in steps: every call answers the same, whatever else runs."""
    def output():
        ran = subprocess.run([sys.executable, "ci/plugin_simulated.py", PLUGIN], cwd=ROOT,
                             capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    first = output()
    assert first == output()
    assert first.startswith("device 99: listen 4 connect 4\n")
    assert first.endswith("10 messages of 100000 bytes, as they were sent\n")


def test_what_is_no_mesh_to_simulate_is_refused():
    for mesh in ("x", "0-0", "0-16", "0", " "):
        result, log = simulated("--netversion", "8", code=1, NCCL_MESH_SIMULATED=mesh,
                                NCCL_DEBUG="WARN")
        assert result["clause"] == "init.result" and "a simulated mesh is" in log


def test_no_nic_is_an_error_and_told():
    """Never a silent fallback: without RDMA, verbs says so."""
    ran = subprocess.run([WEFT, "plugin-check", "-q", "--json", PLUGIN], cwd=ROOT,
                         capture_output=True, text=True, check=False,
                         env={**os.environ, "NCCL_DEBUG": "INFO", "NCCL_MESH_BACKEND": "verbs",
                              "WEFT_DEVICES": "none_such"})
    assert json.loads(ran.stdout)["results"][0]["clause"] == "init.result"
    assert "NET/MESH cannot start: " in ran.stderr
    assert "[host.no_device: weft explain host.no_device]" in ran.stderr
    assert ran.stderr.index("NET/MESH weft ") < ran.stderr.index("cannot start")


def test_settings_that_make_no_sense_are_told():
    ran = subprocess.run([WEFT, "plugin-check", "-q", PLUGIN], cwd=ROOT, capture_output=True,
                         text=True, check=False,
                         env={**os.environ, "NCCL_DEBUG": "INFO", "NCCL_MESH_BACKEND": "verbs",
                              "WEFT_DEVICES": "none_such", "NCCL_MESH_TIMEOUT": "99",
                              "NCCL_IB_HCA": "mlx5_0", "NCCL_IB_GID_INDEX": "3",
                              "NCCL_IB_TC": "256", "NCCL_IB_RETRY_CNT": "x",
                              "NCCL_SOCKET_IFNAME": "^docker", "NCCL_MESH_SECRET": "ab",
                              "NCCL_IB_MERGE_NICS": "0", "NCCL_IB_SL": "", "NCCL_IB_HCAS": "x",
                              "NCCL_MESH_FAST_FAIL": "1", "NCCL_MESH_SECRETS": "abab;"})
    for wanted in ("NCCL_MESH_TIMEOUT=99: not a number from 1 to 22", "NCCL_IB_GID_INDEX=3: ",
                   "NCCL_IB_TC=256: not a number from 0 to 255", "NCCL_IB_RETRY_CNT=x: ",
                   "cannot start: start: NCCL_MESH_SECRET is not 64 hexadecimal digits",
                   "NCCL_IB_MERGE_NICS: of NCCL's own network", "NCCL_IB_HCAS: of NCCL's own",
                   "NCCL_MESH_FAST_FAIL: no setting of this plugin", "NCCL_MESH_SECRETS: no setting"):
        assert wanted in ran.stderr
    for unwanted in "ab;", "NCCL_IB_SL", "NCCL_IB_HCA:", "NCCL_MESH_BACKEND:", "NCCL_SOCKET_IFNAME":
        assert unwanted not in ran.stderr


@needs_namespaces
def test_peers_with_other_versions_of_nccl_work_together():
    """Ranks that looked up v8, v10 and v12."""
    result, log = in_mesh(3, "0-1 1-2 0-2", "--netversion", "8,10,12", *FEW)
    assert (result["result"], result["versions"]) == ("pass", [8, 10, 12])
    assert result["messages"] > 1000


def test_peers_with_other_versions_of_the_plugin_are_refused():
    """By name, before anything else of them is believed; and others are not."""
    ran = subprocess.run([sys.executable, "ci/plugin_versions.py", PLUGIN], cwd=ROOT,
                         capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    plugin, then, handshake, again = ran.stdout.splitlines()
    assert plugin.startswith("plugin 6 connect: ") and "is of version 4, this one of 3" in plugin
    assert handshake.startswith("handshake 6 connect: ") and \
        "has version 4 of the protocol, this one has 3" in handshake
    assert then.endswith("connected afterwards") and again.endswith("connected afterwards")
    for line in plugin, handshake:
        assert line.endswith("[conn.version: weft explain conn.version]")


def what_is_told(*arguments, prefix=(), **environment):
    ran = subprocess.run([*prefix, sys.executable, "ci/plugin_errors.py", PLUGIN, *arguments], cwd=ROOT,
                         capture_output=True, text=True, timeout=300, check=False,
                         env={**os.environ, **environment})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


def expect_start_or_no_descriptor(lines):
    """Whatever is the first for which there is none: init fails, and says that it is this."""
    *failed, started = lines
    assert len(failed) > 3 and re.match(r"free \d+ init 0 port ", started)
    for line in failed:
        assert re.match(r"free \d+ init 2 cannot start: ", line), line
        assert line.endswith("[host.fd_limit: weft explain host.fd_limit]"), line


def test_a_start_without_descriptors_says_so():
    expect_start_or_no_descriptor(what_is_told("descriptors"))


@needs_namespaces
def test_a_start_without_descriptors_says_so_of_netdevs_too():
    script = ("ip link add p0 type veth peer name p1 && ip addr add 192.168.7.1/24 dev p0 && "
              "ip link set p0 up && ip link set p1 up && exec \"$@\"")
    expect_start_or_no_descriptor(what_is_told(
        "descriptors", prefix=[*IN_NAMESPACES, "sh", "-c", script, "sh"], NCCL_MESH_BACKEND="soft",
        NCCL_MESH_DEVICES="p0", NCCL_MESH_MANAGEMENT="p0"))


def test_a_library_that_cannot_be_opened_for_want_of_descriptors():
    """Then it is unknown whether there are devices."""
    lines = what_is_told("descriptors", "3", NCCL_MESH_BACKEND="verbs")
    assert len(lines) == 3
    for line in lines:
        assert line.endswith("[host.fd_limit: weft explain host.fd_limit]"), line


def test_memory_that_was_not_registered_is_told():
    lines = what_is_told("memory")
    assert len(lines) == 5
    for line in lines:
        assert re.match(r"(isend|irecv), [a-z' ]+: 4 \1: \d+ bytes at 0x\w+ are not all in ", line)
        assert line.endswith("[plugin.not_registered: weft explain plugin.not_registered]")


def test_another_secret_is_told_at_both_ends():
    lines = dict(line.split(": ", 1) for line in what_is_told("secrets"))
    assert lines["connect"].startswith("6 connect: auth: ")
    assert lines["connect"].endswith("[conn.auth_failed: weft explain conn.auth_failed]")
    assert "[conn.auth_failed: weft explain conn.auth_failed]" in lines["listener"]


@needs_namespaces
def test_a_hung_job_tells_what_it_waits_for(tmp_path):
    """By signal, in a file of the process; and nothing of it without the setting."""
    script = ("ip link add p0 type veth peer name p1 && ip addr add 192.168.7.1/24 dev p0 && "
              "ip link set p0 up && ip link set p1 up && ip link set lo up && exec \"$@\"")
    ran = subprocess.run(
        [*IN_NAMESPACES, "sh", "-c", script, "sh", sys.executable, "ci/plugin_hang.py", PLUGIN],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "NCCL_MESH_BACKEND": "soft", "NCCL_MESH_DEVICES": "p0",
             "NCCL_MESH_MANAGEMENT": "p0", "NCCL_MESH_DUMP": str(tmp_path / "state")})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^--- weft \S+, process \d+, \S+: a signal asked for it$", ran.stdout, re.M)
    assert "send 4096 B tag 7: not started; waits for the peer to post a receive" in ran.stdout
    assert re.search(r"^comm \w+ receives from .*: up, 0 requests move", ran.stdout, re.M)
    assert re.search(rf"^waits for {re.escape(socket.gethostname())} to receive: 1 comm, \d+ s without progress$",
                     ran.stdout, re.M), ran.stdout


@pytest.mark.parametrize("n,cables", [(3, "0-1 1-2 0-2"), (3, "0-1 1-2"), (4, "0-1 1-2 2-3 3-0")])
def test_a_mesh_on_loopback_needs_no_privilege(n, cables):
    """Triangle, line (its ends reach each other by a relay) and ring, a process a host."""
    ran = subprocess.run([sys.executable, "ci/plugin_ring.py", PLUGIN, str(n), cables], cwd=ROOT,
                         capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout.split() == ["from", *map(str, [n - 1, *range(n - 1)])], ran.stderr


def test_the_child_of_a_fork_is_refused_and_its_parent_goes_on():
    ran = subprocess.run([sys.executable, "ci/plugin_fork.py", PLUGIN], cwd=ROOT,
                         capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines() == [
        "child: devices 5, listen 4, connect 5, accept 5, regMr 4, closeListen 0, init 5: "
        "not in the child of a fork: its parent had started", "parent: a message came"]


@needs_namespaces
def test_the_traffic_class_is_on_the_wire():
    """NCCL_IB_TC, as a capture shows it; sends and answers of both ends."""
    def classes(**environment):
        ran = subprocess.run(
            [*IN_NAMESPACES, "sh", "-c", "ip link set lo up && exec \"$@\"", "sh", sys.executable,
             "ci/plugin_classes.py", sys.executable, "ci/plugin_ring.py", PLUGIN, "2", "0-1"],
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, **environment})
        assert ran.returncode == 0, ran.stdout + ran.stderr
        words = ran.stdout.splitlines()[-1].split()
        assert words[0] == "classes"
        return {int(tos): int(n) for tos, n in (item.split(":") for item in words[1:])}

    plain, chosen = classes(), classes(NCCL_IB_TC="0x6a")
    assert set(plain) == {0} and set(chosen) == {106}
    assert plain[0] > 20 and chosen[106] > 20


def test_ports_are_chosen_as_for_nccls_own_network():
    result, log = simulated("--netversion", "12", *FEW, "--sequences", "2", NCCL_DEBUG="INFO",
                            NCCL_IB_HCA="^=p1.1", NCCL_MESH_SIMULATED="0-1 0-1 1-2 0-2")
    assert result["result"] == "pass"
    assert "port host-0:p1," in log and "port host-1:p0.1," in log
    assert "port p1.1 is left out: NCCL_IB_HCA" in log and ":p1.1," not in log
    result, log = simulated("--netversion", "12", code=1, NCCL_DEBUG="WARN", NCCL_IB_HCA="mlx5")
    assert result["clause"] == "init.result"
    assert "NCCL_IB_HCA=mlx5 leaves none of 2 ports" in log


@pytest.mark.parametrize("mesh", ["", "0", "0:", "2: 0-1", "0: 0-0", "0: 0-16", "x: 0-1", "0: 0-1 2"])
def test_a_mesh_that_is_none_is_refused(mesh):
    ran = subprocess.run([WEFT, "plugin-check", "-q", "--netversion", "8", PLUGIN], cwd=ROOT,
                         capture_output=True, text=True, check=False, timeout=300,
                         env={**os.environ, "NCCL_DEBUG": "INFO", "NCCL_MESH_LOOPBACK": mesh or " "})
    assert ran.returncode == 1 and "a mesh on loopback is" in ran.stderr


def test_the_settings_in_the_documentation_are_those_of_the_plugin():
    text = (ROOT / "docs/plugin-reference.md").read_text().split("## Environment variables")[1]
    text = text.split("\n## ")[0]
    shown = subprocess.run([WEFT, "plugin"], cwd=ROOT, capture_output=True, text=True,
                           check=False).stdout
    assert re.findall(r"^\| `(NCCL_MESH_\w+)`", text, re.M) == re.findall(
        r"^(NCCL_MESH_\w+)", shown, re.M)


def test_weft_plugin_tells_whether_it_would_be_used():
    def shown(code, **environment):
        base = {k: v for k, v in os.environ.items() if not k.startswith("NCCL_")}
        ran = subprocess.run([WEFT, "plugin"], cwd=ROOT, capture_output=True, text=True,
                             check=False, env={**base, **environment})
        assert ran.returncode == code, ran.stdout
        return ran.stdout

    folder = str(Path(PLUGIN).resolve().parent)
    found = shown(0, LD_LIBRARY_PATH=folder, NCCL_NET_PLUGIN="mesh", NCCL_MESH_SECRET="ab" * 32)
    assert f"object    {folder}/libnccl-net-mesh.so" in found and "chosen    yes" in found
    assert "abab" not in found
    assert "NCCL_NET_PLUGIN is none" in shown(1, LD_LIBRARY_PATH=folder, NCCL_NET_PLUGIN="none")
    assert "object    not found" in shown(1, NCCL_NET_PLUGIN="mesh")


def test_weft_plugin_tells_which_settings_are_ignored_or_refused():
    def complaints(code, **environment):
        base = {k: v for k, v in os.environ.items() if not k.startswith("NCCL_")}
        ran = subprocess.run([WEFT, "plugin"], cwd=ROOT, capture_output=True, text=True, check=False,
                             env={**base, "LD_LIBRARY_PATH": str(Path(PLUGIN).resolve().parent),
                                  "NCCL_NET_PLUGIN": "mesh", **environment})
        assert ran.returncode == code, ran.stdout
        return re.findall(r"^(?:warning|refused) .*", ran.stdout, re.M)

    assert not complaints(0, NCCL_MESH_QPS="4", NCCL_IB_HCA="mlx5_0")
    assert complaints(0, NCCL_MESH_QPS="9", NCCL_MESH_QUEUE="1", NCCL_IB_HCA="m" * 512) == [
        "warning   NCCL_IB_HCA: longer than 511 bytes; it is ignored",
        "warning   NCCL_MESH_QPS=9: not a number from 1 to 4; it is ignored",
        "warning   NCCL_MESH_QUEUE: no setting of this plugin (`weft plugin` lists them); it is ignored"]
    assert complaints(1, NCCL_MESH_SECRET="ab") == [
        "refused   NCCL_MESH_SECRET is not 64 hexadecimal digits: the plugin does not start"]
