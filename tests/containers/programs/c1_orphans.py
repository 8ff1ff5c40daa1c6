"""Leaves two thousand zombies to the first process of the container."""
import os

for _ in range(2000):
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
print("done")
