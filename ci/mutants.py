#!/usr/bin/env python3
"""Breaks the program on purpose, one ci/mutants/*.patch at a time; a test must notice each.

ci/mutation.py says what the head of a patch holds. Two workers have a copy of the tree each under
build/mutants, whose library is the one that the tree has built, and build incrementally.
A mutant is noticed when one of its tests fails (it is killed) or hangs. One that survives, does not
apply or does not build, and a test that fails without any patch, are failures. Every patch must
apply, even those that a sample or a shard does not try.

With --sample N those are tried that the submission touches (the patch, a file that it changes, or a
test that it names), and N others by the commit's hash. Mutants whose tests depend on real time are
left to --shard K/N, which tries the Kth of N equal parts of all.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import failures
import sampling
import wire
from mutation import (NOTICED, ROOT, SCRATCH, Baseline, Copies, is_wire, judge, load, not_applying,
                      sync)

RECENT_COMMITS = 5
MAX_TOUCHED = 30  # tried in a sample; the night tries all


def git(*words):
    """Return what git prints, or None if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def base_of_submission(asked):
    """Return the revision that the submission starts from, or None where there is no git.

    It is `asked` if given, else where the commit left its upstream, else five commits ago."""
    if asked:
        if git("rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}") is None:
            raise SystemExit(f"no such revision to compare with: {asked}")
        return asked
    for upstream in ("origin/main", "@{upstream}"):
        base = git("merge-base", "HEAD", upstream)
        if base and base != git("rev-parse", "HEAD"):
            return base
    commits = git("rev-list", "--first-parent", "-n", str(RECENT_COMMITS + 1), "HEAD")
    return commits.split()[-1] if commits else None


def submission(asked):
    """Return the base of the submission and the paths that differ from it."""
    base = base_of_submission(asked)
    if base is None:
        return "nothing", set()
    paths = [*(git("diff", "--name-only", base) or "").splitlines(),
             *(git("ls-files", "-o", "--exclude-standard") or "").splitlines()]
    return base, set(paths)


def in_order_of(seed, mutants):
    """Return the mutants in an order that the seed alone decides."""
    return sorted(mutants,
                  key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())


def choose(mutants, n, seed, changed, max_touched=MAX_TOUCHED):
    """Return the mutants that a sample tries, and how many touched ones are left to the night.

    These are the touched ones, up to `max_touched`, and `n` of the rest."""
    touched = [mutant for mutant in mutants if changed & mutant.touches()]
    rest = [mutant for mutant in mutants if not changed & mutant.touches()]
    drawn = in_order_of(seed, touched)[:max_touched] + in_order_of(seed, rest)[:n]
    return ([mutant for mutant in mutants if mutant in drawn], max(0, len(touched) - max_touched))


def sample(mutants, n, seed, asked_base):
    """Return the chosen mutants. Print what they were chosen by, and how many are left out."""
    kinds = wire.read()
    pure = [mutant for mutant in mutants
            if not any(is_wire(command, kinds) for command in mutant.commands)]
    base, changed = submission(asked_base)
    chosen, n_late = choose(pure, n, seed, changed)
    n_touched = sum(bool(changed & mutant.touches()) for mutant in chosen)
    print(f"a sample of {len(chosen)} of {len(mutants)} mutants, --sample {n} --seed {seed} "
          f"--base {base[:12]}: {n_touched} touched by {len(changed)} changed files, "
          f"{len(chosen) - n_touched} others")
    if n_late:
        print(f"{n_late} more are touched, but at most {MAX_TOUCHED} of those are tried here")
    print(f"{len(mutants) - len(chosen)} are left to the night, among them the "
          f"{len(mutants) - len(pure)} whose tests depend on real time", flush=True)
    return chosen


def shard(mutants, text):
    """Return the part K/N of the mutants: every Nth, from the Kth on."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    k, n = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= k <= n:
        raise SystemExit(f"--shard: expected K/N with K from 1 to N, not {text}")
    return mutants[k - 1::n]


def report(rows):
    """Print and keep what is wrong before any mutant is tried. Return the exit status.

    A row is a mutant, the name of what failed and its output."""
    for mutant, name, words in rows:
        print(f"FAILED {name}:\n{words[-4000:]}")
        failures.keep(name, words, f"ci/mutants.py {mutant.name}")
    print(f"0 passed, {len(rows)} failed, 0 skipped")
    return 1


def try_all(mutants, jobs, limit_s):
    """Try each mutant in a copy of the tree. Return the verdict of each."""
    copies = Copies(SCRATCH / "0", min(jobs, max(len(mutants), 1)))

    def one(mutant):
        with copies.lend() as worker:
            begin = time.monotonic()
            verdict, detail = judge(worker, mutant, limit_s)
        print(f"  {verdict:12} {mutant.name:40} {time.monotonic() - begin:5.1f} s  {mutant.why}",
              flush=True)
        if detail:
            print("      " + detail.replace("\n", "\n      "), flush=True)
        if verdict not in NOTICED:
            failures.keep(mutant.name, f"{verdict}: {detail}", f"ci/mutants.py {mutant.name}")
        return verdict

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(one, mutants))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="mutants to try (default: all)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, metavar="N",
                        help="only those that the submission touches and N others")
    parser.add_argument("--seed", default=os.environ.get("WEFT_SAMPLE"),
                        help="of the sample (default: the commit's)")
    parser.add_argument("--base", default=os.environ.get("WEFT_BASE"), metavar="REV",
                        help="what the submission is compared with (default: its upstream, or "
                             f"{RECENT_COMMITS} commits ago)")
    parser.add_argument("--shard", metavar="K/N", help="only the Kth of N parts")
    options = parser.parse_args()
    if options.sample is not None and (options.names or options.shard):
        parser.error("--sample takes neither names nor --shard")
    return options


def main():
    options = parse_arguments()
    start = time.monotonic()
    mutants = load(options.names)
    wrong = not_applying(mutants, options.jobs)
    print(f"{len(mutants) - len(wrong)} of {len(mutants)} patches apply "
          f"({time.monotonic() - start:.1f} s)", flush=True)
    if wrong:
        return report([(mutant, mutant.name, f"NOT APPLIED: {why}") for mutant, why in wrong])
    if options.shard:
        mutants = shard(mutants, options.shard)
    quarter = None
    if options.sample is not None:
        quarter = options.seed or sampling.of_commit()
        mutants = sample(mutants, options.sample, quarter, options.base)
    sync(SCRATCH / "0")
    baseline = Baseline(SCRATCH / "0", mutants, options.jobs, quarter)
    for mutant, name, words in baseline.flaky:
        print(f"FLAKY {name}: passed when repeated alone")
        failures.keep(name, words, f"ci/mutants.py {mutant.name}", kind="flaky")
    if baseline.failures:
        return report(baseline.failures)
    verdicts = try_all(mutants, options.jobs, baseline.limit_s)
    n_noticed = sum(verdict in NOTICED for verdict in verdicts)
    print(f"{len(mutants)} mutants in {time.monotonic() - start:.0f} s, "
          f"{verdicts.count('hangs')} of them noticed because a test hangs")
    print(f"{n_noticed} passed, {len(verdicts) - n_noticed} failed, 0 skipped")
    return 0 if n_noticed == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
