"""Runs and judges the settings of ci/finding_matrix.py: code, place and time of what is found."""

import json
import os
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import failures
import finding_matrix as matrix

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build/ci/findings"
LIMIT_S = 120
# quiet: a job that passed, and nothing was said; alarm: something was found in a healthy run.
VERDICTS = ["right", "quiet", "undetermined", "place", "cause", "alarm", "broken"]
BAD = {"place", "cause", "alarm", "broken"}
LATE_AFTER_S = 2.0  # of world time, over a cause's own limit
MAX_LATE = 0.1  # of the failures under policy weft; what is late is printed
SHARE_LEAST = 30  # failures; of fewer a share says nothing


def run(weft, scenario, *flags):
    """Run a scenario; return its JSON document, or raise RuntimeError."""
    done = subprocess.run([weft, "run", "--quiet", *map(str, flags), "--json", scenario], capture_output=True,
                          text=True, timeout=LIMIT_S, check=False,
                          env={"PATH": os.environ["PATH"], "NO_COLOR": "1"})
    if done.returncode not in (0, 1):
        raise RuntimeError(f"exit {done.returncode}: {done.stderr[-300:]}{done.stdout[-300:]}")
    return json.loads(done.stdout)


def says(finding):
    where = finding["where"]
    place = f"{where['host'] or ''}{':' + where['port'] if where['port'] else ''}"
    return f"{finding['code']} at {place}{' -> ' + where['peer'] if where['peer'] else ''}"


class Judged:
    """One setting, run twice: in health, and with what was planted."""

    def __init__(self, weft, seed, index, want=None):
        self.weft, self.seed, self.index, self.want = weft, seed, index, want or {}
        self.setting = matrix.Setting(seed, index, want)
        self.verdict, self.detail, self.said, self.took_s = "broken", "", [], None
        self.text = self.observations = ""
        self.symptom, self.place, self.limit_s = None, "?", 0
        self.absent = set()

    def judge(self):
        with tempfile.TemporaryDirectory(prefix="weft-findings-") as name:
            try:
                self.run_both(Path(name))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                self.detail = f"{type(error).__name__}: {error}"
        return self

    def run_both(self, work):
        scenario, story = work / "m.yaml", work / "story"
        self.text = json.dumps(self.setting.text(self.setting.healthy()), indent=1)
        scenario.write_text(self.text)
        well = run(self.weft, scenario, "--events", story)
        if well["symptom"] or well["findings"]:
            self.verdict, self.symptom = "alarm", well["symptom"]
            self.said = [says(finding) for finding in well["findings"]]
            return
        at_ns = self.setting.find_moment(story)
        mesh, planted = self.setting.break_at(at_ns)
        self.place = " and ".join(str(one.place) for one in planted)
        self.absent = planted[0].place.hosts() if self.setting.cause == "late" else set()
        self.text = json.dumps(self.setting.text(mesh), indent=1)
        scenario.write_text(self.text)
        ran = run(self.weft, scenario, "--observations", work / "OBS.json")
        self.observations = (work / "OBS.json").read_text()
        self.symptom = ran["symptom"]
        # What comes as a job ends may come too late for it.
        failed = self.setting.moment != "close" and any(
            host.get("errors") or not host["observed"] for host in json.loads(self.observations)["hosts"])
        self.took_s = self.all_said(ran["sim_time_ns"], at_ns) if failed else None
        # Over the cables, a host that cannot be heard may only be late.
        boot_limit_s = matrix.PATIENCE_S if self.setting.is_unmanaged() else planted[0].boot_limit_s
        self.limit_s = boot_limit_s if self.has_failed_in("boot") else 0
        self.said = [says(finding) for finding in ran["findings"]]
        self.verdict = verdict(ran["findings"], planted, failed)

    def all_said(self, end_ns, at_ns):
        """Seconds until the last host that was there reported a failure; without one, until the run was over."""
        times = [error["at_ns"] for host in json.loads(self.observations)["hosts"] if host["name"] not in self.absent
                 for error in host.get("errors", [])]
        return (max(times, default=end_ns) - at_ns) / 1e9

    def has_failed_in(self, phase):
        return any(error.get("phase") == phase for host in json.loads(self.observations)["hosts"]
                   for error in host.get("errors", []))

    def is_late(self):
        """Return true if it was said later than the cause's own limit allows; other policies have theirs."""
        kinds_s = matrix.limit_s(self.setting.cause, self.setting.moment, self.setting.kind,
                                 self.setting.is_unmanaged())
        limit_s = max(self.limit_s, kinds_s) + LATE_AFTER_S
        # The limits of two causes add up in ways that no table has.
        return (self.took_s is not None and self.setting.policy == "weft" and not self.setting.second
                and self.took_s > limit_s)

    def explain(self):
        setting = self.setting
        took = f"{self.took_s:.3f} s after it" if self.took_s is not None else "went on"
        causes = f"{setting.cause}{f' and {setting.second}' if setting.second else ''}"
        meets = ", over the cables" if setting.is_unmanaged() else ""
        return (f"{self.verdict}: {self.index} {causes}, {setting.kind}, {setting.moment}, {setting.policy}, "
                f"{setting.addressing}{meets}: planted at {self.place}; {'; '.join(self.said) or 'nothing'}; {took}; "
                f"{(self.symptom or {}).get('text', '')} {self.detail}")

    def again(self):
        if "case" in self.want:
            return f"ci/findings --matrix --case '{json.dumps(self.want['case'])}'"
        more = "".join(f" --{key}" if value is True else f" --{key} '{value}'" for key, value in self.want.items())
        return f"ci/findings --matrix --seed {self.seed} --first {self.index} --count 1{more}"

    def keep(self):
        KEPT.mkdir(parents=True, exist_ok=True)
        stem = KEPT / f"matrix-{self.seed}-{self.index}"
        stem.with_suffix(".yaml").write_text(self.text)
        stem.with_suffix(".json").write_text(self.observations)


def named_by(finding):
    """The code of a finding, and the cause that it names for a rail that was left out."""
    return {finding["code"], (finding.get("evidence") or {}).get("because", finding["code"])}


def verdict(findings, planted, failed):
    """Judge what was found of a run by all that was planted in it. One of several causes is enough."""
    decided = [finding for finding in findings if "undetermined" not in named_by(finding)]
    places = [[one.place for one in planted if named_by(finding) & (one.codes | one.also)] for finding in decided]
    if not all(places):
        return "cause"
    if any(not any(place.is_right(finding) for place in of_code) for finding, of_code in zip(decided, places)):
        return "place"
    if len(decided) < len(findings) or (failed and not findings):
        return "undetermined"
    return "right" if findings else "quiet"


def table(settings, by, names):
    """Verdicts by what `by` takes of a setting."""
    rows = {}
    for judged in settings:
        rows.setdefault(by(judged.setting), Counter())[judged.verdict] += 1
    lines = [f"{'':<16} " + " ".join(f"{name:>12}" for name in VERDICTS)]
    for name in [name for name in names if name in rows]:
        lines.append(f"{name:<16} " + " ".join(f"{rows[name][verdict]:>12}" for verdict in VERDICTS))
    return "\n".join(lines)


def failed_under_weft(settings):
    return [judged for judged in settings if judged.took_s is not None and judged.setting.policy == "weft"]


def time_table(settings, by, names):
    """Failures under policy weft: how many were late, and how long after the cause the last host reported."""
    rows = {}
    for judged in failed_under_weft(settings):
        rows.setdefault(by(judged.setting), []).append(judged)
    lines = [f"{'':<16} {'failures':>9} {'late':>6} {'median':>10} {'last':>10}"]
    for name in [name for name in names if name in rows]:
        took = sorted(judged.took_s for judged in rows[name])
        lines.append(f"{name:<16} {len(took):>9} {sum(judged.is_late() for judged in rows[name]):>6} "
                     f"{took[len(took) // 2]:>8.3f} s {took[-1]:>8.3f} s")
    return "\n".join(lines)


def times(settings):
    """The distribution of times from a cause to its verdict, under policy weft."""
    took = sorted(judged.took_s for judged in failed_under_weft(settings))
    if not took:
        return "no run under policy weft failed"
    at = [took[min(len(took) - 1, int(share * len(took)))] for share in (0.5, 0.9, 0.99)]
    return (f"said, of {len(took)} failures under policy weft: median {at[0]:.3f} s after the cause came, "
            f"90 % {at[1]:.3f} s, 99 % {at[2]:.3f} s, last {took[-1]:.3f} s")


def report(judged):
    """Print and keep a setting that was judged wrong or late, or of which nothing was decided."""
    if judged.verdict != "right" or judged.is_late():
        judged.keep()
        print("late: " if judged.is_late() else "", end="")
        print(f"{judged.explain()}\n  again: {judged.again()}\n  case: {json.dumps(judged.setting.case())}", flush=True)
    if judged.verdict in BAD:
        failures.keep(f"findings: matrix {judged.setting.cause}", judged.explain(), judged.again())


def judge_all(new, numbers, print_it, jobs):
    """Judge what `new` makes of each number, and report each as soon as those before it are judged."""
    settings = []
    with ThreadPoolExecutor(jobs) as pool:
        for judged in pool.map(lambda index: new(index).judge(), numbers):
            print_it(judged)
            settings.append(judged)
    return settings


def main(options, weft, seed):
    """Draw settings of the matrix, judge and print them; return the exit status."""
    want = {key: value for key, value in (
        ("mesh", options.mesh), ("moment", options.moment), ("cause", (options.cause or [None])[0]),
        ("two", options.two), ("unmanaged", options.unmanaged)) if value}
    if options.case:
        want = {"case": json.loads(options.case)}
    settings = judge_all(lambda index: Judged(weft, seed, index, want),
                         range(options.first, options.first + options.count), report, options.jobs)
    print(table(settings, lambda setting: setting.kind, matrix.MESHES))
    print(table(settings, lambda setting: setting.moment, matrix.MOMENTS))
    print(table(settings, lambda setting: setting.cause, sorted(matrix.CAUSES)))
    print(time_table(settings, lambda setting: setting.kind, matrix.MESHES))
    print(time_table(settings, lambda setting: setting.moment, matrix.MOMENTS))
    print(times(settings))
    late = [judged for judged in settings if judged.is_late()]
    n_failed = len(failed_under_weft(settings))
    is_too_late = n_failed >= SHARE_LEAST and len(late) > MAX_LATE * n_failed
    print(f"late: {len(late)} of {n_failed} failures under policy weft, more than {LATE_AFTER_S:.0f} s over the "
          f"cause's own limit; {MAX_LATE:.0%} may be, of {SHARE_LEAST} and more")
    for judged in late if is_too_late else []:
        failures.keep(f"findings: matrix {judged.setting.cause} late", judged.explain(), judged.again())
    verdicts = Counter(judged.verdict for judged in settings)
    n_bad = sum(verdicts[name] for name in BAD) + (len(late) if is_too_late else 0)
    print(f"{len(settings)} settings: " + ", ".join(f"{verdicts[name]} {name}" for name in VERDICTS)
          + f"; seed {seed}")
    print("findings: PASS" if n_bad == 0 else "findings: FAIL")
    print(f"{len(settings) - n_bad} passed, {n_bad} failed, 0 skipped")
    return 0 if n_bad == 0 else 1
