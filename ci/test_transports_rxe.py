"""Transports inside a host with the kernel's soft-RoCE, in a guest that has it: processes and containers."""

import pytest

from guest_kernel import needs_guest
from inside import SMALL, a_killed_rank_ends_its_neighbours, processes_share_memory, run, ways

pytestmark = needs_guest


@pytest.mark.parametrize("name, n_ranks", [("two-hosts-4", 4), ("three-hosts-6", 6)])
def test_processes_of_a_host_share_memory(name, n_ranks):
    processes_share_memory("rxe", name, n_ranks)


def test_processes_in_containers_use_the_network():
    document = run("containers-2", *SMALL, "rxe")
    assert document["result"] == "pass"
    assert {way for way, _ in ways(document).values()} == {"net"}
    assert all("shm: other /dev/shm" in reason for _, reason in ways(document).values())


def test_a_killed_rank_ends_its_neighbours_and_leaves_nothing():
    a_killed_rank_ends_its_neighbours("rxe")
