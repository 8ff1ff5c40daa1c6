"""Creates every kind of file. Arguments: a directory, the depth, and a host path as the target of links."""
import os
import socket
import sys

base, deep, outside = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.chdir(base)
os.umask(0)
with open("plain.txt", "w") as file:
    file.write("plain")
for name, mode in (("setuid", 0o6777), ("setgid", 0o2755), ("closed", 0)):
    with open(name, "w") as file:
        file.write("#!/bin/sh\n")
    try:
        os.chmod(name, mode)
    except PermissionError:
        # Refused is as good.
        pass
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
for name, mode in (("block", 0o60666), ("character", 0o20666)):
    try:
        os.mknod(name, mode, os.makedev(1, 3))
        print("ESCAPE made a device")
    except PermissionError:
        pass
for name, target in (
    ("link", outside), ("folder-link", os.path.dirname(outside)), ("chain", "link"), ("root", "/"),
    ("environment", "/proc/self/environ"), ("up", "../../../../../../../../" + outside), ("loop", "loop"),
):
    os.symlink(target, name)
os.link("plain.txt", "hard.txt")
for number in range(8):
    with open(f"sparse{number}", "wb") as file:
        file.truncate(24 << 20)
for name in (b"bad\xff", b"a\nb\x1b[31m", b"-rf", b"x" * 255, "\u202etxt.exe".encode()):
    with open(name, "w") as file:
        file.write("x")
os.mkdir("closed-folder")
open("closed-folder/in", "w").close()
os.chmod("closed-folder", 0)
os.utime("plain.txt", (-1e9, -1e9))
os.utime("-rf", (15e9, 15e9))
for _ in range(deep):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
print("done")
