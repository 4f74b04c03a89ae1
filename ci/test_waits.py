"""Every state of a public enum has a wait: what `waits[].for` of observations says (docs/cli.md) of a process whose
job stands still because a machine is in that state. A new state fails here until it is in the table.
`src/host/waits_test.c` stops worlds at many moments and finds a wait for each process."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OVER = "over"  # final: no host that waits is in it
IDLE = "idle"  # the machine has nothing to do; its owner's state says what for
ROUND, CONNECTION, SEND, CLOSE, OWN = "round", "connection", "send or receive", "close", "own"
STATES = {
    "host_state": {
        "NEW": IDLE, "DISCOVER": OWN, "LISTEN": OWN, "BOOT": ROUND, "SETUP": ROUND, "CONNECT": CONNECTION,
        "BARRIER": ROUND, "JOBS": SEND, "CLOSE": CLOSE, "DONE": OVER, "FAILED": OVER, "DEAD": OVER},
    "mesh_state": {  # of a neighbour, in the rendezvous without a server
        "IDLE": ROUND, "TCP": ROUND, "CHALLENGE": ROUND, "GREET": ROUND, "UP": ROUND},
    "conn_state": {
        "NEW": CONNECTION, "TCP": CONNECTION, "HELLO": CONNECTION, "CHALLENGE": CONNECTION, "AUTH": CONNECTION,
        "QPS": CONNECTION, "META": CONNECTION, "CONNECT_QPS": CONNECTION, "READY": CONNECTION, "PROBE": CONNECTION,
        "UP": IDLE, "CLOSING": CLOSE, "CLOSED": OVER, "FAILED": OVER},
    "client_state": {  # of a connection that has come to a listener
        "NONE": IDLE, "HELLO": CONNECTION, "AUTH": CONNECTION, "FACTS": CONNECTION, "DONE": CONNECTION},
    "rdma_qp_state": {
        "NEW": CONNECTION, "CREATING": CONNECTION, "TO_RESET": CONNECTION, "TO_INIT": CONNECTION, "INIT": CONNECTION,
        "TO_RTR": CONNECTION, "TO_RTS": CONNECTION, "RTS": IDLE, "TO_ERR": CLOSE, "ERR": CLOSE, "DESTROYING": CLOSE,
        "GONE": OVER, "FAILED": CLOSE},
    "proxy_state": {  # of transports inside a host
        "UNINITIALIZED": CONNECTION, "INITIALIZED": CONNECTION, "SHARED_INITIALIZED": CONNECTION,
        "SETUP_DONE": CONNECTION, "CONNECTED": IDLE},
    "steps_request_state": {"FREE": IDLE, "OPEN": SEND, "DONE": OVER},
    "ipc_state": {"INIT": CONNECTION, "SENT": CONNECTION, "ACKING": CONNECTION, "ACKED": CONNECTION, "OK": OVER,
                  "BAD": OVER, "N_STATES": None},
    "io_op_state": {"IDLE": IDLE, "RUNNING": OWN, "DONE": OVER},
}
WAITS = {"round", "connection", "send", "receive", "client", "close", "relay", "own"}


def public_states():
    for path in sorted((ROOT / "src").glob("*/*.h")):
        if "private" in path.name or "testing" in path.name or path.parent.name == "plugincheck":
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for name, body in re.findall(r"^enum (\w*state) \{(.*?)\}", text, re.MULTILINE | re.DOTALL):
            yield name, [item.split("=")[0].strip() for item in body.split(",") if item.strip()]


def test_every_state_of_a_public_enum_has_a_wait():
    found = {}
    for name, items in public_states():
        prefix = items[0][:-len(next(iter(STATES[name])))] if name in STATES else ""
        found[name] = [item.removeprefix(prefix) for item in items]
    assert found == {name: list(states) for name, states in STATES.items()}


def test_the_waits_are_those_of_the_page():
    header = (ROOT / "src/base/wait.h").read_text()
    assert {name.lower() for name in re.findall(r"WEFT_WAIT_(\w+),", header)} == WAITS
    page = (ROOT / "docs/cli.md").read_text()
    part = page[page.index("`waits[].for` is"):page.index("`waited_ns` is how long")]
    assert WAITS <= set(re.findall(r"`(\w+)`", part))
    used = {word for states in STATES.values() for state in states.values() if state not in (OVER, IDLE, None)
            for word in state.split(" or ")}
    # Programs have no state machine of Weft's; those of relays are not public.
    assert used == WAITS - {"client", "relay"}
