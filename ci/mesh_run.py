"""One run of a scenario, for the scripts of ci/ that draw meshes."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300


def run_one(weft, path):
    """(exit status, document or None, what it printed); the status is None if there was no end."""
    try:
        done = subprocess.run([weft, "run", "--json", str(path)], cwd=ROOT, timeout=LIMIT_S,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              check=False)
    except subprocess.TimeoutExpired:
        return None, None, f"no end within {LIMIT_S} s"
    try:
        return done.returncode, json.loads(done.stdout), done.stderr
    except json.JSONDecodeError:
        return done.returncode, None, done.stderr[-2000:]
