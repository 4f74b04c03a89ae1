"""A management network that is away for 20 s ends no job (docs/scenario.md), simulated, on soft-RoCE and on soft."""

import json
import subprocess
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest
from test_lab import clean_environment, needs

ROOT = Path(__file__).resolve().parent.parent
PAIR = """name: away
topology:
  nodes:
    titanic: {ports: [p0]}
    iceberg: {ports: [p0]}
  links:
    - {endpoints: ["titanic:p0", "iceberg:p0"], subnet: 10.1.0.0/24, rate: 200Mbps}
jobs:
  - all_reduce: {bytes: 4MiB, repeat: REPEAT}
expect:
  data: exact
"""
# One row of a repetition takes 0.17 s. The network goes away before the set-up is over, during the job,
# and until after its end.
MOMENTS = [("0.02", 1), ("2.2", 10), ("3", 160)]
ON_RXE = """if [ "$(hostname)" = titanic ]; then
    (sleep {at}; ip link set mgmt0 down; sleep 20; ip link set mgmt0 up) &
fi
exec {weft} node -q --backend verbs --scenario {file} --name "$(hostname)"
"""
ON_SOFT = """set -e
ip link set lo up
for host in titanic iceberg; do ip netns add $host; ip -n $host link set lo up; done
for port in p0 mgmt0; do ip link add $port netns titanic type veth peer name $port netns iceberg; done
i=1
for host in titanic iceberg; do
    ip -n $host addr add 10.1.0.$i/24 dev p0
    ip -n $host addr add 10.0.0.$i/24 dev mgmt0
    ip -n $host link set p0 mtu 9000 up
    ip -n $host link set mgmt0 up
    tc -n $host qdisc add dev p0 root netem rate 200mbit limit 4000
    i=$((i + 1))
done
export WEFT_MANAGEMENT=mgmt0
(sleep {at}; ip -n titanic link set mgmt0 down; sleep 20; ip -n titanic link set mgmt0 up) &
ip netns exec iceberg {weft} node -q --backend soft --scenario {file} --name iceberg &
other=$!
ip netns exec titanic {weft} node -q --backend soft --scenario {file} --name titanic
wait $other
"""


@needs_guest
@pytest.mark.parametrize("at, repeat", MOMENTS)
@pytest.mark.parametrize("backend", ["rxe", "soft"])
def test_the_management_network_may_be_away_for_20_s(tmp_path, backend, at, repeat):
    needs("ip", "tc")
    file, script = tmp_path / "pair.yaml", tmp_path / "run.sh"
    file.write_text(PAIR.replace("REPEAT", str(repeat)))
    script.write_text((ON_RXE if backend == "rxe" else ON_SOFT).replace("{weft}", WEFT).replace(
        "{file}", str(file)).replace("{at}", at))
    command = (["exec", "--patience", "100", file, "--"] if backend == "rxe" else
               ["guest", "--clock", "virtual", "--"])
    done = subprocess.run([WEFT, *command[:1], "--time-limit", "200", *command[1:], "sh", script], cwd=ROOT,
                          env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=240, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


TRIANGLE = """name: away
topology:
  nodes:
    titanic: {ports: [p0, p1]}
    iceberg: {ports: [p0, p1]}
    carpathia: {ports: [p0, p1]}
  links:
    - {endpoints: ["titanic:p0", "iceberg:p1"], subnet: 10.1.0.0/24, rate: 200Mbps}
    - {endpoints: ["iceberg:p0", "carpathia:p1"], subnet: 10.1.1.0/24, rate: 200Mbps}
    - {endpoints: ["carpathia:p0", "titanic:p1"], subnet: 10.1.2.0/24, rate: 200Mbps}
jobs:
  - barrier: {}
  - all_reduce: {bytes: 4MiB, repeat: 10}
faults:
  - {at: AT, on: "HOST:management", kind: down, for: 20s}
expect:
  data: exact
"""


def run(tmp_path, text, *options):
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    done = subprocess.run([WEFT, "run", "--json", *options, file], cwd=ROOT, env=clean_environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False)
    return json.loads(done.stdout)


# Before the first word of the rendezvous, in the set-up, in the first job and in the second.
@pytest.mark.parametrize("at", ["0s", "400us", "jobs", "row 2+100ms"])
@pytest.mark.parametrize("host", ["titanic", "iceberg"])
def test_a_scenario_may_take_the_management_network_away(tmp_path, host, at):
    outcome = run(tmp_path, TRIANGLE.replace("AT", at).replace("HOST", host))
    assert (outcome["result"], outcome["findings"], outcome["warnings"]) == ("pass", [], [])


# What the hosts wait for then: the rendezvous, the first job, a barrier between two, and the end.
@pytest.mark.parametrize("at", ["10us", "400us", "jobs", "row 2+100ms"])
@pytest.mark.parametrize("host", ["titanic", "iceberg", "carpathia"])
@pytest.mark.parametrize("policy", ["weft", "nccl-2.30-subnet-aware"])
def test_a_host_that_lost_it_for_good_is_named(tmp_path, policy, host, at):
    text = TRIANGLE.replace("AT", at).replace("HOST", host).replace(", for: 20s", "")
    outcome = run(tmp_path, text, "--policy", policy, "--set",
                  'topology.defaults.env={NCCL_IB_SUBNET_AWARE_ROUTING: "1", NCCL_IB_MERGE_NICS: "0"}')
    places = [(finding["code"], finding["where"]["host"]) for finding in outcome["findings"]]
    assert (outcome["result"], places) == ("fail", [("host.management_down", host)])


@needs_guest
def test_a_scenario_may_take_it_away_on_soft_roce(tmp_path):
    needs("ip", "tc")
    outcome = run(tmp_path, TRIANGLE.replace("AT", "row 2+100ms").replace("HOST", "titanic"), "--backend", "rxe",
                  "--clock", "virtual")
    assert (outcome["result"], outcome["findings"]) == ("pass", [])
