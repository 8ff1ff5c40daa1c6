"""Swaps closed directories for links as fast as possible, in /work and /tmp. Argument: target of the links. Creates `ready`
in /data when started."""
import ctypes
import os
import sys

outside = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
places = []
for base in ("/work", "/tmp"):
    for depth in ("", "/d", "/d/d"):
        os.makedirs(base + depth + "/swap/inner/in", exist_ok=True)
        if not os.path.lexists(base + depth + "/link"):
            os.symlink(outside, base + depth + "/link")
        places.append(base + depth)
for place in reversed(places):
    os.chmod(place + "/swap/inner/in", 0)
    os.chmod(place + "/swap/inner", 0)
    os.chmod(place + "/swap", 0)
open("/data/ready", "w").close()
EXCHANGE = 2
while True:
    for place in places:
        libc.renameat2(-100, f"{place}/swap".encode(), -100, f"{place}/link".encode(), EXCHANGE)
