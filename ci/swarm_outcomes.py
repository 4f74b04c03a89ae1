"""Outcomes of the seeds that CI always runs, as of the last update: ci/swarm-outcomes.tsv.

The invariants of a run leave much open: a job may end later, send more, or fail with another
finding, and still hold all of them. A recorded outcome does not. A run is worse if it ends in
another way or with other findings, or is more than MARGIN later or busier than it was.
"""

import csv
import io
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TSV = ROOT / "ci" / "swarm-outcomes.tsv"
N_SEEDS = 3000  # 1 to this
FIELDS = ("seed", "end", "findings", "time_us", "tx_packets", "retransmits", "naks_sent")
AMOUNTS = {"time_us": "us of world time", "tx_packets": "packets", "retransmits": "retransmissions",
           "naks_sent": "NAKs"}
MARGIN = 1.25
LEAST = {"time_us": 50, "tx_packets": 8, "retransmits": 4, "naks_sent": 4}  # beyond the margin


def outcome(row):
    """The fields of a row of `weft swarm`, as text."""
    symptom = row.get("symptom") or {}
    end = "-".join(str(symptom[key]) for key in ("phase", "errno", "wc_status")
                   if symptom.get(key) is not None)
    counters = row.get("counters") or {}
    return {"seed": str(row["seed"]), "end": end or row["result"],
            "findings": ",".join(row.get("findings") or ()) or "-",
            "time_us": str((row.get("sim_time_ns") or 0) // 1000),
            **{key: str(counters.get(key, 0)) for key in ("tx_packets", "retransmits", "naks_sent")}}


def worse(was, now):
    """In what `now` is worse than `was`, or ""."""
    if now["end"] != was["end"]:
        return f"ends in {now['end']}, ended in {was['end']}"
    if now["findings"] != was["findings"]:
        return f"findings {now['findings']}, had {was['findings']}"
    for key, unit in AMOUNTS.items():
        if int(now[key]) > int(was[key]) * MARGIN + LEAST[key]:
            return f"{now[key]} {unit}, took {was[key]}"
    return ""


def read():
    """{seed: outcome}"""
    if not TSV.exists():
        return {}
    with TSV.open(newline="", encoding="utf-8") as file:
        return {row["seed"]: row for row in csv.DictReader(file, delimiter="\t")}


def text_of(outcomes):
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(outcomes)
    return text.getvalue()
