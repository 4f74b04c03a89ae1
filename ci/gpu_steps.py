"""The steps of ci/gpu: one after another within a time that is given, each with a limit of its own. Machines
with a GPU are lent by the minute: what the time does not reach is named, and what was measured stays."""

import os
import signal
import subprocess
import time

POLL_S = 0.2
FAILURES = (OSError, LookupError, TypeError, ValueError)  # of reading what a program said


class NotRun(Exception):
    """Why a step, or all of it, was not run, or not to its end."""


class Clock:
    """What is left of `minutes`; of it a step has `step_s` at most. `now` is for tests."""

    def __init__(self, minutes, step_s, now=time.monotonic):
        self.now, self.step_s, self.why = now, step_s, "no time left"
        self.end = now() + 60 * minutes

    def left_s(self):
        return max(0, self.end - self.now())

    def check(self):
        if self.left_s() <= 0:
            raise NotRun(self.why)

    def end_on(self, *signals):
        """As if the time were over: the steps that are left are named, and what there is is saved."""
        def over(number, _):
            self.end, self.why = self.now(), f"ended by {signal.Signals(number).name}"
        for number in signals:
            signal.signal(number, over)


def start(command, **how):
    """A process that leads a group of its own, for kill()."""
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,  # pylint: disable=R1732
                            start_new_session=True, **how)


def kill(process):
    """With those it started, which would keep its pipes open."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def call(command, clock, limit_s=None, **how):
    """(exit status or None, stdout, stderr) of a program that has ended or reached its limit, that of a
    step; NotRun where the clock's time was over before that."""
    limit_s = clock.step_s if limit_s is None else limit_s
    end = clock.now() + limit_s
    clock.check()
    with start(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=POLL_S)
                    return process.returncode, out, err
                except subprocess.TimeoutExpired:
                    clock.check()
                    if clock.now() >= end:
                        return None, "", f"not over after {limit_s} s"
        finally:
            kill(process)


def not_run(name, why):
    print(f"not run: {name}: {why}", flush=True)
    return {"name": name, "figures": [], "problem": None, "n_wrong": 0, "not_run": str(why)}


def is_run(result):
    return "not_run" not in result


def is_right(result):
    return is_run(result) and result["problem"] is None and result["n_wrong"] == 0


def run_steps(steps, clock, save=lambda results: None):
    """One result of each step, in their order: a name, a function, and the name of the step that must have
    succeeded before, or None. `save` has those so far after every step, so that nothing is lost by one that
    fails or by a machine that is taken away."""
    results = []
    for name, step, needs in steps:
        try:
            clock.check()
            if needs is not None and not any(one["name"] == needs and is_right(one) for one in results):
                raise NotRun(f"it needs {needs}")
            results.append(step())
        except NotRun as why:
            results.append(not_run(name, why))
        except FAILURES as error:
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
            results.append({"name": name, "figures": [], "n_wrong": 0,
                            "problem": f"{type(error).__name__}: {error}"})
        save(results)
    return results


def conclude(results):
    """Prints the last line; the exit status."""
    ran = [one for one in results if is_run(one)]
    n_failed = sum(not is_right(one) for one in ran)
    print(f"{len(ran) - n_failed} passed, {n_failed} failed, {len(results) - len(ran)} skipped", flush=True)
    return 1 if n_failed else 0 if ran else 77
