"""Captures of RoCE v2 as a reader sees them who knows only the specifications.

Reads pcapng (draft-ietf-opsawg-pcapng) and pcap (draft-ietf-opsawg-pcap), of Ethernet or of Linux
"cooked" interfaces (tcpdump -i any), and decodes IPv4 or IPv6, UDP and the InfiniBand transport
(IBA vol. 1, chapter 9; annexes A16 and A17). Shares no table and no code with the simulator: what it
says about a capture is a second opinion.
"""

import bisect
import struct
import zlib
from collections import defaultdict

MASK = 0xffffff  # PSNs and MSNs have 24 bits

# What a BTH opcode is: bits of the third column of OPCODES.
REQUEST, FIRST, LAST, SEND, WRITE, READ, ATOMIC, IMM, RETH, AETH, ATOMIC_ETH, ORIG, IETH, DATA = (
    1 << bit for bit in range(14))
ONLY = FIRST | LAST
# IBA vol. 1, table 38 (reliable connection).
OPCODES = {
    0x00: ("SEND_FIRST", REQUEST | SEND | FIRST | DATA),
    0x01: ("SEND_MIDDLE", REQUEST | SEND | DATA),
    0x02: ("SEND_LAST", REQUEST | SEND | LAST | DATA),
    0x03: ("SEND_LAST_IMM", REQUEST | SEND | LAST | DATA | IMM),
    0x04: ("SEND_ONLY", REQUEST | SEND | ONLY | DATA),
    0x05: ("SEND_ONLY_IMM", REQUEST | SEND | ONLY | DATA | IMM),
    0x06: ("WRITE_FIRST", REQUEST | WRITE | FIRST | DATA | RETH),
    0x07: ("WRITE_MIDDLE", REQUEST | WRITE | DATA),
    0x08: ("WRITE_LAST", REQUEST | WRITE | LAST | DATA),
    0x09: ("WRITE_LAST_IMM", REQUEST | WRITE | LAST | DATA | IMM),
    0x0a: ("WRITE_ONLY", REQUEST | WRITE | ONLY | DATA | RETH),
    0x0b: ("WRITE_ONLY_IMM", REQUEST | WRITE | ONLY | DATA | RETH | IMM),
    0x0c: ("READ_REQUEST", REQUEST | READ | ONLY | RETH),
    0x0d: ("READ_FIRST", READ | FIRST | DATA | AETH),
    0x0e: ("READ_MIDDLE", READ | DATA),
    0x0f: ("READ_LAST", READ | LAST | DATA | AETH),
    0x10: ("READ_ONLY", READ | ONLY | DATA | AETH),
    0x11: ("ACK", AETH),
    0x12: ("ATOMIC_ACK", ATOMIC | AETH | ORIG),
    0x13: ("COMPARE_SWAP", REQUEST | ATOMIC | ONLY | ATOMIC_ETH),
    0x14: ("FETCH_ADD", REQUEST | ATOMIC | ONLY | ATOMIC_ETH),
    0x16: ("SEND_LAST_INV", REQUEST | SEND | LAST | DATA | IETH),
    0x17: ("SEND_ONLY_INV", REQUEST | SEND | ONLY | DATA | IETH),
}
CNP = 0x81
EXTENSION_BYTES = ((RETH, 16), (AETH, 4), (ATOMIC_ETH, 28), (ORIG, 8), (IMM, 4), (IETH, 4))
FLAGS = [OPCODES.get(opcode, ("?", 0))[1] for opcode in range(256)]
NAMES = [OPCODES.get(opcode, ("?", 0))[0] for opcode in range(256)]
HEADERS = [12 + sum(n for bit, n in EXTENSION_BYTES if flags & bit) for flags in FLAGS]

ROCE_PORT = 4791
ONES = b"\xff" * 8


class Malformed(Exception):
    """The file is no capture, or not one of Ethernet."""


class Frame:
    """A RoCE frame of the capture."""

    __slots__ = ("number", "at_ns", "port", "is_out", "flow", "opcode", "flags", "psn", "ack_req",
                 "n_payload", "pad", "va", "key", "length", "syndrome", "msn", "icrc_ok", "comment",
                 "faults", "extra", "crc")

    def __init__(self, number, at_ns, port, is_out, comment):
        self.number, self.at_ns, self.port, self.is_out = number, at_ns, port, is_out
        self.comment = comment
        self.faults = ()  # [(clause, expected, seen)] of the frame by itself
        self.extra = b""  # AtomicETH of an atomic, AtomicAckETH of its answer
        self.crc = 0  # of the payload


ETHERNET, COOKED, COOKED_V2 = 1, 113, 276  # link types of draft-ietf-opsawg-pcaplinktype


def blocks(data):
    """(byte order, type, start of the body, its length) of each block of a pcapng."""
    order, at, end = "", 0, len(data)
    while at < end:
        if end - at < 12:
            raise Malformed(f"block cut off at byte {at}")
        if data[at:at + 4] == b"\x0a\x0d\x0d\x0a":  # a section has its own byte order
            order = "<" if data[at + 8:at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
        kind, n = struct.unpack_from(order + "II", data, at)
        if n < 12 or n % 4 != 0 or at + n > end or data[at + n - 4:at + n] != data[at + 4:at + 8]:
            raise Malformed(f"block of impossible length {n} at byte {at}")
        yield order, kind, at + 8, n - 12
        at += n


def options(order, data, at, end):
    while at + 4 <= end:
        code, n = struct.unpack_from(order + "HH", data, at)
        if code == 0:
            return
        yield code, data[at + 4:at + 4 + n]
        at += 4 + (n + 3 & ~3)


def interface_of(order, data, at, n):
    """(link type, name, factor from its time stamps to nanoseconds)"""
    link = struct.unpack_from(order + "H", data, at)[0]
    name, resolution = "", 6
    for code, value in options(order, data, at + 8, at + n):
        if code == 2:
            name = value.decode()
        elif code == 9:
            resolution = value[0]
    if resolution > 9:
        raise Malformed(f"time stamps of 10^-{resolution} s")
    return link, name, 10 ** (9 - resolution)


def packets_of_pcapng(data):
    """(number from 1, ns, interface name, True if sent / None if unknown, link type, bytes, comment,
    bytes that were cut off)"""
    interfaces, number = [], 0
    for order, kind, at, n in blocks(data):
        if kind == 0x0a0d0d0a:
            interfaces = []
            direction = b"\x02\0\x04\0" if order == "<" else b"\0\x02\0\x04"
            fixed = struct.Struct(order + "IIIII")
        elif kind == 1:
            interfaces.append(interface_of(order, data, at, n))
        elif kind == 6:
            number += 1
            index, high, low, captured, whole = fixed.unpack_from(data, at)
            if index >= len(interfaces) or captured > n - 20:
                raise Malformed(f"packet {number} of an impossible interface or length")
            link, name, factor = interfaces[index]
            is_out, comment = None, ""
            after = at + 20 + (captured + 3 & ~3)
            if data[after:after + 4] == direction and after + 12 == at + n:
                is_out = directions(data[after + 4:after + 8], order)
            else:
                for code, value in options(order, data, after, at + n):
                    if code == 2:
                        is_out = directions(value, order)
                    elif code == 1:
                        comment = value.decode()
            yield (number, (high << 32 | low) * factor, name, is_out, link,
                   data[at + 20:at + 20 + captured], comment, whole - captured)


def directions(value, order):
    bits = value[0 if order == "<" else -1] & 3
    return bits == 2 if bits else None


def packets_of_pcap(data, order, factor):
    if len(data) < 24:
        raise Malformed("no room for the header of a pcap")
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xffff
    head, at, number = struct.Struct(order + "IIII"), 24, 0
    while at < len(data):
        number += 1
        if len(data) - at < 16:
            raise Malformed(f"packet {number} cut off at byte {at}")
        seconds, rest, captured, whole = head.unpack_from(data, at)
        if at + 16 + captured > len(data):
            raise Malformed(f"packet {number} cut off at byte {at}")
        yield (number, seconds * 1_000_000_000 + rest * factor, "", None, link,
               data[at + 16:at + 16 + captured], "", whole - captured)
        at += 16 + captured


PCAP_MAGIC = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
              b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}


def packets(data):
    """(number from 1, ns, interface name, True if sent / None if unknown, bytes from the Ethernet
    header on, comment, bytes that were cut off)"""
    if data[:4] in PCAP_MAGIC:
        found = packets_of_pcap(data, *PCAP_MAGIC[data[:4]])
    elif len(data) >= 28 and data[:4] == b"\x0a\x0d\x0d\x0a" and \
            data[8:12] in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
        found = packets_of_pcapng(data)
    else:
        raise Malformed("neither pcapng nor pcap")
    for number, at_ns, name, is_out, link, octets, comment, n_cut in found:
        if link == COOKED:
            is_out = octets[:2] == b"\0\4"
            octets = bytes(12) + octets[14:]
        elif link == COOKED_V2:
            is_out = octets[10:11] == b"\4"
            name = f"if{int.from_bytes(octets[4:8], 'big')}"
            octets = bytes(12) + octets[:2] + octets[20:]
        elif link != ETHERNET:
            raise Malformed(f"link type {link}, which is not Ethernet")
        yield number, at_ns, name, is_out, octets, comment, n_cut


def icrc_of(octets, ip, bth):
    """The invariant CRC that belongs before the last four bytes (annex A17.3.3)."""
    if octets[ip] >> 4 == 4:
        masked = (octets[ip:ip + 1] + b"\xff" + octets[ip + 2:ip + 8] + b"\xff" +
                  octets[ip + 9:ip + 10] + b"\xff\xff" + octets[ip + 12:bth - 8])
    else:
        masked = (bytes([octets[ip] | 0x0f]) + b"\xff\xff\xff" + octets[ip + 4:ip + 7] + b"\xff" +
                  octets[ip + 8:ip + 40])
    if bth - ip != 40:  # with UDP; RoCE v1 has none
        masked += octets[bth - 8:bth - 2] + b"\xff\xff"
    masked += octets[bth:bth + 4] + b"\xff"
    return zlib.crc32(octets[bth + 5:-4], zlib.crc32(ONES + masked))


def locate(octets):
    """(start of IP, of the BTH, source address, destination address, UDP source port, end of the
    packet) of a RoCE frame, or None for anything else."""
    ip = 14
    kind = octets[12:14]
    if kind == b"\x81\0":
        ip, kind = 18, octets[16:18]
    if len(octets) < ip + 40:
        return None
    if kind == b"\x08\0":
        bth = ip + (octets[ip] & 15) * 4 + 8
        if octets[ip + 9] != 17:
            return None
        source, to = octets[ip + 12:ip + 16], octets[ip + 16:ip + 20]
        end = ip + (octets[ip + 2] << 8 | octets[ip + 3])
    elif kind in (b"\x86\xdd", b"\x89\x15"):
        is_v1 = kind == b"\x89\x15"
        bth = ip + (40 if is_v1 else 48)
        if octets[ip + 6] != (0x1b if is_v1 else 17):
            return None
        source, to = octets[ip + 8:ip + 24], octets[ip + 24:ip + 40]
        end = ip + 40 + (octets[ip + 4] << 8 | octets[ip + 5])
        if is_v1:
            return ip, bth, source, to, 0, end
    else:
        return None
    if octets[bth - 6] << 8 | octets[bth - 5] != ROCE_PORT:
        return None
    return ip, bth, source, to, octets[bth - 8] << 8 | octets[bth - 7], end


def sum_of(octets):
    """The Internet checksum of RFC 1071 before its complement; 0xffff if a sum in it is right."""
    total = int.from_bytes(octets if len(octets) % 2 == 0 else octets + b"\0", "big")
    return total % 0xffff or (0xffff if total else 0)


def judge_envelope(octets, ip, bth, end, n_cut, faults):
    """IP and UDP: lengths and checksums."""
    n_frame = len(octets) + n_cut
    if end > n_frame or (end < n_frame and n_frame > 60):
        faults.append(("frame.length", f"an IP packet that ends with the frame, at {n_frame}", end))
    if octets[ip] >> 4 == 4 and sum_of(octets[ip:bth - 8]) != 0xffff:
        faults.append(("frame.ip-checksum", "a header that sums to 0xffff",
                       f"{sum_of(octets[ip:bth - 8]):#x}"))
    if octets[ip + 6] == 0x1b and octets[ip] >> 4 == 6:
        return  # RoCE v1 has no UDP
    n_udp = octets[bth - 4] << 8 | octets[bth - 3]
    if n_udp != end - bth + 8:
        faults.append(("frame.length", f"{end - bth + 8} bytes of UDP", n_udp))
    elif octets[bth - 2:bth] != b"\0\0" and not n_cut:
        addresses = octets[ip + 12:ip + 20] if octets[ip] >> 4 == 4 else octets[ip + 8:ip + 40]
        pseudo_header = addresses + b"\0\x11" + octets[bth - 4:bth - 2]
        found = sum_of(pseudo_header + octets[bth - 8:end])
        # A kernel that leaves the rest to the interface puts the pseudo header's sum there
        # (CHECKSUM_PARTIAL in linux/skbuff.h), and a veth passes it on like that.
        is_left_open = (octets[bth - 2] << 8 | octets[bth - 1]) == sum_of(pseudo_header)
        if found != 0xffff and not is_left_open:
            faults.append(("frame.udp-checksum", "0, or a datagram that sums to 0xffff", f"{found:#x}"))


BTH = struct.Struct(">BBHII")
RETH_FIELDS = struct.Struct(">QII")


def decode(frame, octets, flows, n_cut=0):
    """Fills `frame` in; False if it is not RoCE. `flows` numbers (addresses, port, QP)."""
    where = locate(octets)
    if where is None:
        return False
    ip, bth, source, to, sport, end = where
    faults = []
    judge_envelope(octets, ip, bth, end, n_cut, faults)
    octets = octets[:end]
    if len(octets) < bth + 16:
        return False
    opcode, bits, _, qpn, psn = BTH.unpack_from(octets, bth)
    flags = FLAGS[opcode]
    key = (source, to, qpn & MASK, sport)
    frame.flow = flows.setdefault(key, len(flows))
    frame.opcode, frame.flags, frame.psn, frame.ack_req = opcode, flags, psn & MASK, psn >> 31
    frame.pad = bits >> 4 & 3
    frame.n_payload = end - bth - HEADERS[opcode] - frame.pad - 4
    frame.va = frame.key = frame.length = frame.syndrome = frame.msn = 0
    if end >= bth + HEADERS[opcode] + 4 and len(octets) >= bth + HEADERS[opcode]:
        if flags & RETH:
            frame.va, frame.key, frame.length = RETH_FIELDS.unpack_from(octets, bth + 12)
        elif flags & AETH:
            frame.syndrome = octets[bth + 12]
            frame.msn = octets[bth + 13] << 16 | octets[bth + 14] << 8 | octets[bth + 15]
        elif flags & ATOMIC_ETH:
            frame.va, frame.key = struct.unpack_from(">QI", octets, bth + 12)
        if flags & ATOMIC:
            frame.extra = octets[bth + (16 if flags & AETH else 12):bth + HEADERS[opcode]]
    if bits & 15 or psn >> 24 & 0x7f:
        faults.append(("frame.bth", "0", f"TVer {bits & 15}, reserved bits {psn >> 24 & 0x7f:#x}"))
    if n_cut:
        frame.icrc_ok = True  # unknown
    else:
        found = int.from_bytes(octets[-4:], "little")
        due = icrc_of(octets, ip, bth)
        frame.icrc_ok = found == due
        if found != due:
            faults.append(("frame.icrc", f"{due:#010x}", f"{found:#010x}"))
        frame.crc = zlib.crc32(octets[bth + HEADERS[opcode]:-4])
    if not flags and opcode != CNP:
        faults.append(("frame.opcode", "one of RC", f"{opcode:#04x}"))
    judge_sizes(frame, faults)
    frame.faults = faults
    return True


def judge_sizes(frame, faults):
    n, pad, flags = frame.n_payload, frame.pad, frame.flags
    if flags and (n < 0 or n > 4096 or (pad + n) & 3 or (not flags & DATA and (n or pad))):
        faults.append(("frame.payload", "payload and pad that fit the opcode",
                       f"{NAMES[frame.opcode]} with {n} bytes of payload and {pad} of padding"))
    if flags & (READ | ATOMIC) and flags & AETH and frame.syndrome >= 0x20:
        faults.append(("frame.syndrome", "ACK 0x00 to 0x1f in a response", f"{frame.syndrome:#04x}"))
    elif flags & AETH and (frame.syndrome >> 5 in (2, 4, 5, 6, 7) or 0x65 <= frame.syndrome <= 0x7f):
        faults.append(("frame.syndrome", "ACK 0x00 to 0x1f, RNR 0x20 to 0x3f, NAK 0x60 to 0x64",
                       f"{frame.syndrome:#04x}"))


def read(path, local=()):
    """(RoCE frames in order, the keys of their flows by number). Where the file does not say which
    frames were sent, those from the addresses `local` were."""
    with open(path, "rb") as file:
        data = file.read()
    frames, flows = [], {}
    for number, at_ns, port, is_out, octets, comment, n_cut in packets(data):
        frame = Frame(number, at_ns, port, is_out, comment)
        if decode(frame, octets, flows, n_cut):
            frames.append(frame)
    keys = list(flows)
    if local:
        for frame in frames:
            if frame.is_out is None:
                frame.is_out = keys[frame.flow][0] in local
    return frames, keys


# ---- which two flows are one connection ----

def sport_of_both(own, peer):
    """Linux, rdma_calc_flow_label and rdma_flow_label_to_udp_sport."""
    label = own * peer
    label ^= label >> 20
    label ^= label >> 40
    label &= 0xfffff
    return (label & 0x3fff ^ (label & 0xfc000) >> 14) | 0xc000


def sport_of_rxe(own):
    """Linux, rxe_qp_init_req: hash_32(qpn, 14)."""
    return 0xc000 + ((own * 0x61c88647 & 0xffffffff) >> 18)


def is_known_sport(there, back):
    (_, _, peer, sport), (_, _, own, sport_back) = there, back
    if sport == sport_back == sport_of_both(own, peer):
        return True
    return (sport, sport_back) == (sport_of_rxe(own), sport_of_rxe(peer))


def pair_flows(frames, keys):
    """{flow: the flow in the other direction}. A BTH names the receiver's QP only; the sender's
    comes from the source port where drivers compute it from both, else from PSNs that answer."""
    asked, answered = defaultdict(set), defaultdict(set)
    for frame in frames:
        (asked if frame.flags & REQUEST else answered)[frame.flow].add(frame.psn)
    by_ends = defaultdict(list)
    for flow, (source, to, _, _) in enumerate(keys):
        by_ends[source, to].append(flow)
    partner = {}

    def offer(test):
        for (source, to), there in by_ends.items():
            for flow in there:
                free = [back for back in by_ends.get((to, source), ()) if back not in partner
                        and back != flow and test(flow, back)]
                if flow not in partner and len(free) == 1:
                    partner[flow], partner[free[0]] = free[0], flow

    offer(lambda flow, back: is_known_sport(keys[flow], keys[back]))
    offer(lambda flow, back: bool(asked[flow] & answered[back] or asked[back] & answered[flow]))
    offer(lambda flow, back: True)
    return partner


class FullPackets:
    """When flows had packets that another of the same message follows: their payload is the path
    MTU. A queue pair's number may come again with another one."""

    def __init__(self, frames):
        self.seen = defaultdict(list)  # flow -> [(ns, payload)]
        for frame in frames:
            if frame.flags & DATA and not frame.flags & LAST:
                self.seen[frame.flow].append((frame.at_ns, frame.n_payload))

    def path_mtu(self, flows, begin_ns, end_ns):
        """Path MTU of `flows`, the two directions of one connection, between two times; 4096 if none was
        seen."""
        for flow in flows:
            seen = self.seen.get(flow, ())
            index = bisect.bisect_left(seen, (begin_ns, 0))
            if index < len(seen) and seen[index][0] < end_ns:
                return seen[index][1]
        return 4096
