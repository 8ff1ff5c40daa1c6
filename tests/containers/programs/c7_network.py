"""Lists the available network resources, one JSON object per line. Argument: port of a listener on the host's loopback."""
import json
import socket
import sys


def report(what, value):
    print(json.dumps({"what": what, "value": value}))


def attempt(do):
    try:
        do()
        return "done"
    except OSError:
        return "refused"


def connect(family, address):
    with socket.socket(family) as one:
        one.settimeout(5)
        one.connect(address)


def datagram(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", address)


def lines(path):
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


port = int(sys.argv[1])
report("interfaces", [name for _, name in socket.if_nameindex()])
report("routes", len(lines("/proc/net/route")[1:]))
report("routes of version 6", len([line for line in lines("/proc/net/ipv6_route") if not line.endswith("lo")]))
report("connect 127.0.0.1", attempt(lambda: connect(socket.AF_INET, ("127.0.0.1", port))))
report("connect ::1", attempt(lambda: connect(socket.AF_INET6, ("::1", port))))
# An address from a block reserved for documentation.
report("connect 192.0.2.1", attempt(lambda: connect(socket.AF_INET, ("192.0.2.1", 80))))
report("datagram 192.0.2.1", attempt(lambda: datagram(("192.0.2.1", 53))))
report("name", attempt(lambda: socket.getaddrinfo("codebox.invalid", 80)))
report("socket raw", attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)))
for family, kind in (("AF_PACKET", socket.SOCK_RAW), ("AF_ALG", socket.SOCK_SEQPACKET), ("AF_VSOCK", socket.SOCK_STREAM)):
    report("socket " + family, attempt(lambda: socket.socket(getattr(socket, family), kind)))
report("sockets of the system", [line.split()[-1] for line in lines("/proc/net/unix")[1:]])
