"""One rank of ci/gpu under torch.distributed: the collectives of PyTorch's own NCCL, exact. Started
with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment; prints lines of JSON."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist


def given(rank, n):
    i = torch.arange(n, dtype=torch.int64, device="cuda")
    return ((i * 7 + rank * 131) % 10007).to(torch.int32)


def run_all():
    """Every operation once, in the group that there is."""
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    n = int(sys.argv[1]) // 4 // n_ranks * n_ranks
    part = n // n_ranks
    total = sum(given(r, n) for r in range(n_ranks))
    out = torch.empty(n, dtype=torch.int32, device="cuda")

    def all_reduce():
        out.copy_(given(rank, n))
        dist.all_reduce(out)
        return out, total

    def all_gather():
        dist.all_gather_into_tensor(out, given(rank, part))
        return out, torch.cat([given(r, part) for r in range(n_ranks)])

    def reduce_scatter():
        dist.reduce_scatter_tensor(out[:part], given(rank, n))
        return out[:part], total[rank * part:(rank + 1) * part]

    def broadcast():
        out.copy_(given(rank, n))
        dist.broadcast(out, n_ranks - 1)
        return out, given(n_ranks - 1, n)

    def send_recv():
        mine = given(rank, n)
        for work in dist.batch_isend_irecv([
                dist.P2POp(dist.isend, mine, (rank + 1) % n_ranks),
                dist.P2POp(dist.irecv, out, (rank - 1) % n_ranks)]):
            work.wait()
        return out, given((rank - 1) % n_ranks, n)

    def all_to_all():
        dist.all_to_all_single(out, given(rank, n))
        return out, torch.cat([given(r, n)[rank * part:(rank + 1) * part] for r in range(n_ranks)])

    for operation in (all_reduce, all_gather, reduce_scatter, broadcast, send_recv, all_to_all):
        operation()  # connects
        torch.cuda.synchronize()
        start = time.monotonic()
        result, wanted = operation()
        torch.cuda.synchronize()
        us = (time.monotonic() - start) * 1e6
        print(json.dumps({"rank": rank, "op": operation.__name__, "bytes": n * 4, "us": us,
                          "algbw": n * 4 / us / 1e3, "busbw": None,
                          "wrong": int((result != wanted).sum()), "first": 0}), flush=True)


def main():
    torch.cuda.set_device(0)
    port = int(os.environ["MASTER_PORT"])
    # The second group is made after NCCL closed the plugin of the first, whose name these then forgot.
    is_forgotten = os.environ.get("NCCL_NET") == "Mesh" and (2, 28, 3) <= torch.cuda.nccl.version()[:3] < (2, 30)
    for again in range(1 if is_forgotten else 2):
        os.environ["MASTER_PORT"] = str(port + again)
        dist.init_process_group("nccl")
        rank = dist.get_rank()
        if not again:
            print(json.dumps({"rank": rank, "nccl": int("%d%02d%02d" % torch.cuda.nccl.version()[:3]),
                              "torch": torch.__version__}))
        run_all()
        dist.destroy_process_group()
    print(json.dumps({"rank": rank, "done": True}))


main()
