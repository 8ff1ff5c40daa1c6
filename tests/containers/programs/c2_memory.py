"""Allocates memory until the limit. Argument: self, child, shm."""
import os
import sys


def take():
    held = []
    while True:
        held.append(bytearray(b"x" * (4 << 20)))


if sys.argv[1] == "self":
    take()
elif sys.argv[1] == "child":
    child = os.fork()
    if child == 0:
        take()
    _, status = os.waitpid(child, 0)
    print("the child ended by signal", os.WTERMSIG(status))
else:
    # Fails when the place is full, or when the memory is.
    with open(sys.argv[1] + "/fill", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * (1 << 20))
        except OSError as error:
            print("full:", error.errno)
