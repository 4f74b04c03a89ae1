"""Runs a command and prints which TOS bytes the RoCE packets had that went over the loopback
interface meanwhile, and how many of each. Needs CAP_NET_RAW. For ci/test_plugin.py.

    plugin_classes.py COMMAND...
"""

import collections
import socket
import subprocess
import sys

ETH_P_IP, ROCE_PORT = 0x0800, 4791


def main():
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    tap.bind(("lo", ETH_P_IP))
    tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    tap.setblocking(False)
    ran = subprocess.run(sys.argv[1:], check=False)
    classes = collections.Counter()
    while True:
        try:
            packet = tap.recv(64)
        except BlockingIOError:
            break
        header = (packet[0] & 15) * 4
        if packet[9] == socket.IPPROTO_UDP and \
                int.from_bytes(packet[header + 2:header + 4], "big") == ROCE_PORT:
            classes[packet[1]] += 1
    print("classes", *(f"{tos}:{n}" for tos, n in sorted(classes.items())))
    sys.exit(ran.returncode)


if __name__ == "__main__":
    main()
