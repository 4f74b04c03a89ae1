"""Unmodified programs over cables in virtual time: what they measure is what cable and calls take.

A latency is the delay of the cable, the time of the frames on it, and the calls that a program makes
for each message: one system call (1 to 1.1 us) and, in perftest, one look at the time stamp counter
(20 ns). A bandwidth is that of the cable less headers.
"""

import re

import pytest

from guest_kernel import needs_guest
from test_lab import PAIR, exec_in, lines_of, needs, needs_time_stamps

pytestmark = needs_guest

CALL_US = 1.05  # in the mean
TSC_US = 0.02
HEADERS = 14 + 20 + 8 + 12 + 4  # Ethernet, IPv4, UDP, BTH, ICRC
RETH, AETH = 16, 4
MIB = 1 << 20
CABLES = [(gbps, us) for gbps in (1, 10, 100) for us in (1, 5, 50)]
# Which address perftest needs, and which device of a machine with several; -F: whatever its clock rate does.
PERFTEST = ("-F", "-x", "1", "-d", "{device}")


def wire_us(n_bytes, gbps):
    return n_bytes * 8 / (gbps * 1000)


def padded(n_bytes):
    return (n_bytes + 3) // 4 * 4


def over(cable, *command):
    """The client's lines."""
    needs(command[0])
    if command[0].startswith("ib_"):
        needs_time_stamps()
    gbps, us = cable
    code, out, errors = exec_in("--set", f"topology.links.0.rate={gbps}Gbps", "--set",
                                f"topology.links.0.delay={us}us", PAIR, "titanic", "--", *command, ":",
                                "iceberg", "--", *command, "{address}")
    assert code == 0, out + errors
    return lines_of("iceberg", out)


def row_of(lines):
    """The one row of figures of perftest: its words."""
    row, = (line.split() for line in lines if re.match(r" \d+ +\d+ ", line))
    return row


# Program: bytes on the wire in both directions together, and how many times it waits for the cable.
LATENCIES = {
    "ib_write_lat": (HEADERS + RETH + padded(2), 1),
    "ib_send_lat": (HEADERS + padded(2), 1),
    "ib_read_lat": (HEADERS + RETH + HEADERS + AETH + padded(2), 2),
}


@pytest.mark.parametrize("cable", CABLES, ids=lambda cable: f"{cable[0]}Gbps-{cable[1]}us")
@pytest.mark.parametrize("program", LATENCIES)
def test_a_latency_is_that_of_the_cable_and_the_calls(program, cable):
    n_bytes, n_delays = LATENCIES[program]
    row = row_of(over(cable, program, *PERFTEST, "-n", "100"))
    expected = n_delays * cable[1] + wire_us(n_bytes, cable[0]) + CALL_US + TSC_US
    assert float(row[4]) == pytest.approx(expected, abs=0.1), row


@pytest.mark.parametrize("cable", CABLES, ids=lambda cable: f"{cable[0]}Gbps-{cable[1]}us")
@pytest.mark.parametrize("size", [64, 4096])
def test_a_ping_pong_is_twice_its_way(size, cable):
    n_frames = (size + 1023) // 1024
    lines = over(cable, "ibv_rc_pingpong", "-g", "1", "-d", "{device}", "-s", str(size))
    took, = (float(found[1]) for line in lines if (found := re.search(r" ([0-9.]+) usec/iter", line)))
    way = cable[1] + wire_us(size + n_frames * HEADERS, cable[0]) + CALL_US
    assert took / 2 == pytest.approx(way, abs=0.1)


@pytest.mark.parametrize("cable", [(1, 1), (1, 5), (10, 1), (10, 5)],
                         ids=lambda cable: f"{cable[0]}Gbps-{cable[1]}us")
@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw"])
def test_a_bandwidth_is_that_of_the_cable_less_headers(program, cable):
    row = row_of(over(cable, program, *PERFTEST, "-n", "500"))
    expected = cable[0] * 1e9 / 8 * 4096 / (4096 + HEADERS) / MIB
    assert float(row[3]) == pytest.approx(expected, rel=0.01), row


def test_figures_are_the_same_to_the_digit():
    once = over((10, 5), "ib_send_lat", *PERFTEST, "-n", "100")
    assert over((10, 5), "ib_send_lat", *PERFTEST, "-n", "100") == once
