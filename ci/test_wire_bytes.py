"""Bytes on the wire before judges of others: tshark dissects every frame, Scapy works out every ICRC."""

import collections
import contextlib
import logging
import os
import subprocess
import sys
import zlib
from pathlib import Path

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)

import pytest  # noqa: E402
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Dot1Q, Ether  # noqa: E402
from scapy.utils import RawPcapNgReader, RawPcapReader  # noqa: E402

from capture_check import Options, judge_file  # noqa: E402
from sampling import part  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("WEFT_BUILD", "build")
WEFT = os.environ.get("WEFT", str(ROOT / "build" / "weft"))
RC_OPCODES = set(range(0x15))


def tshark(path, *fields, only=""):
    """The values of the fields of every frame, in order."""
    command = ["tshark", "-r", path, "--disable-protocol", "rpcordma", "-T", "fields"]
    command += [word for field in fields for word in ("-e", field)]
    command += ["-Y", only] if only else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def icrc_by_scapy(frame):
    """The ICRC that the frame (bytes) should end with, and where the packet ends. Scapy takes the headers
    apart and puts them together again, masked; for IPv4 it does the sum as well."""
    packet = Ether(frame)
    at = 18 if Dot1Q in packet else 14
    if IP in packet:
        return packet[BTH].compute_icrc(None), at + packet[IP].len
    ip = IPv6(frame[at:])  # or the GRH of RoCE v1, which differs in its next header
    end = at + 40 + ip.plen
    udp = b""
    if ip.nh == 17:
        udp = bytes(UDP(sport=ip[UDP].sport, dport=ip[UDP].dport, len=ip[UDP].len, chksum=0xffff))
    body = frame[at + 40 + len(udp):end - 4]
    ip.tc, ip.fl, ip.hlim = 0xff, 0xfffff, 0xff
    ip.remove_payload()
    masked = bytes(ip) + udp + body[:4] + b"\xff" + body[5:]
    return (zlib.crc32(b"\xff" * 8 + masked) & 0xffffffff).to_bytes(4, "little"), end


def wrong_icrcs(frames):
    wrong = []
    for number, frame in enumerate(frames, 1):
        icrc, end = icrc_by_scapy(frame)
        if frame[end - 4:end] != icrc:
            wrong.append(number)
    return wrong


def frames_of(reader, path):
    with contextlib.closing(reader(str(path))) as packets:
        return [bytes(packet) for packet, _ in packets]


@pytest.fixture(scope="module", name="random_run")
def fixture_random_run(tmp_path_factory):
    """What both ends sent in long random runs of three devices over bad cables: IPv4 and IPv6, with and
    without a VLAN, and RoCE v1."""
    path = tmp_path_factory.mktemp("random") / "random.pcap"
    subprocess.run([BUILD / "test/sim/wire_random_test", path], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
    return path


@pytest.mark.heavy
def test_tshark_takes_a_random_run_for_roce_v2_with_nothing_malformed(random_run):
    rows = tshark(random_run, "frame.protocols", "_ws.malformed", "udp.dstport", "infiniband.bth.opcode",
                  "infiniband.bth.p_key", "ip.checksum.status", "infiniband.aeth.syndrome")
    assert len(rows) > 10000
    assert all(":infiniband" in row[0] for row in rows)
    assert {row[1] for row in rows} == {""}
    ways = collections.Counter(row[0].split("eth:ethertype:")[1].split("infiniband")[0] for row in rows)
    assert set(ways) == {"ip:udp:", "ipv6:udp:", "vlan:ethertype:ip:udp:", "vlan:ethertype:ipv6:udp:", ""}
    assert min(ways.values()) > 1000
    assert {row[2] for row in rows if ":udp:" in row[0]} == {"4791"}
    assert {int(row[3]) for row in rows} == RC_OPCODES
    assert {row[4] for row in rows} == {"65535"} or {row[4] for row in rows} == {"0xffff"}
    syndromes = {int(row[6], 0) for row in rows if row[6]}
    assert 0x60 in syndromes, "a NAK"
    assert 0x21 in syndromes, "an RNR NAK"


@pytest.mark.heavy
def test_scapy_finds_every_icrc_of_a_random_run_right(random_run):
    frames = frames_of(RawPcapReader, random_run)
    assert len(frames) > 10000
    assert wrong_icrcs(part(frames)) == []


def test_the_judge_of_icrcs_sees_a_flipped_bit(random_run):
    frames = frames_of(RawPcapReader, random_run)
    for kind in ("0800", "86dd", "8100", "8915"):
        frame = next(f for f in frames if f[12:14].hex() == kind)
        for at in (len(frame) - 1, len(frame) - 5):
            bent = bytearray(frame)
            bent[at] ^= 4
            assert wrong_icrcs([bytes(frame), bytes(bent)]) == [2]


@pytest.mark.parametrize("name, count", [("roce.pcap", 8), ("rxe-interop.pcap", 532)])
def test_what_the_decoder_is_tested_against_is_right_itself(name, count):
    frames = frames_of(RawPcapReader, ROOT / "sim/testdata" / name)
    frames = [f for f in frames if UDP in Ether(f)]
    assert len(frames) == count
    assert wrong_icrcs(frames) == []


# ---- captures of the command ----

@pytest.fixture(scope="module", name="capture")
def fixture_capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("capture") / "run.pcapng"
    sets = [f"topology.defaults.{kind}=1%" for kind in ("loss", "corrupt", "duplicate", "reorder")]
    sets += ["jobs=[{all_reduce: {bytes: 256KiB}}]", "expect={data: exact}"]
    subprocess.run([WEFT, "run", "scenarios/basic/triangle.yaml", "-q", "--pcap", path,
                    *[word for item in sets for word in ("--set", item)]], cwd=ROOT, check=True)
    return path


def test_a_capture_has_an_interface_for_each_port(capture):
    printed = subprocess.run(["capinfos", capture], capture_output=True, text=True, check=True).stdout
    names = [line.split(" = ")[1] for line in printed.splitlines() if line.strip().startswith("Name = ")]
    assert names == [f"{host}:{port}" for host in ("titanic", "iceberg", "carpathia") for port in ("p0", "p1")]
    assert printed.count("Speed = 100000000000") == len(names)
    assert printed.count("Time precision = nanoseconds (9)") == len(names)
    assert "Capture application: weft " in printed
    stamps = [row[0] for row in tshark(capture, "frame.time_epoch")]
    assert any(not stamp.endswith("000") for stamp in stamps)
    assert stamps == sorted(stamps, key=lambda stamp: int(stamp.replace(".", "")))


def test_comments_tell_every_fate_that_was_not_plain(capture):
    rows = tshark(capture, "frame.packet_flags_direction", "frame.comment", only="infiniband")
    fates = collections.Counter((int(way, 16), comment) for way, comment in rows)
    out, come = 2, 1
    assert set(fates) == {(out, ""), (come, ""), (out, "loss"), (out, "corrupt"), (come, "corrupt"),
                          (out, "duplicate"), (out, "delayed")}
    lost, twice = fates[out, "loss"], fates[out, "duplicate"]
    assert fates[out, "corrupt"] >= fates[come, "corrupt"] > 5
    assert lost > 5 and twice > 5
    # A duplicate has a line of its own, so that what was sent and not lost arrived, but at the end.
    sent = sum(n for (way, comment), n in fates.items() if way == out and comment != "loss")
    arrived = sum(n for (way, _), n in fates.items() if way == come)
    assert 0 <= sent - arrived < 10


@pytest.mark.heavy
def test_every_icrc_is_right_but_of_what_arrived_corrupt(capture):
    rows = tshark(capture, "frame.packet_flags_direction", "frame.comment", "infiniband.bth.opcode")
    frames = frames_of(RawPcapNgReader, capture)
    assert len(frames) == len(rows)
    roce = [(row, frame) for row, frame in zip(rows, frames) if row[2]]
    wrong = {roce[number - 1][0][1] + " " + roce[number - 1][0][0][-1]
             for number in wrong_icrcs([frame for _, frame in roce])}
    corrupt = [frame for row, frame in roce if row[0].endswith("1") and row[1] == "corrupt"]
    assert wrong == {"corrupt 1"}
    assert len(wrong_icrcs(corrupt)) == len(corrupt)


@pytest.mark.parametrize("profile, window, ack_req", [("rxe", 129, 66), ("hns-hip09", 16384, 64)])
def test_other_devices_are_go_back_n_too_within_their_windows(tmp_path, profile, window, ack_req):
    path, events = tmp_path / "run.pcapng", tmp_path / "run.events"
    sets = [f"topology.defaults.profile={profile}", "jobs=[{all_reduce: {bytes: 1MiB}}]", "expect={data: exact}"]
    sets += [f"topology.defaults.{kind}=1%" for kind in ("loss", "duplicate", "reorder")]
    subprocess.run([WEFT, "run", "scenarios/basic/triangle.yaml", "-q", "--pcap", path, "--events", events,
                    *[word for item in sets for word in ("--set", item)]], cwd=ROOT, check=True)
    violations, _ = judge_file(path, Options(timeout=14, window=window, ack_req=ack_req), events)
    assert violations == []
    rows = tshark(path, "_ws.malformed", "infiniband.bth.psn", "ip.id", only="infiniband")
    assert len(rows) > 3000 and {row[0] for row in rows} == {""}
    assert ({row[2] for row in rows} == {"0x0000"}) == (profile != "rxe")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
