"""Starts processes that ignore every signal, with another parent and in separate sessions. Argument: stay or leave."""
import os
import signal
import sys
import time

reader, writer = os.pipe()
for _ in range(3):
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        os.write(writer, b".")
        while True:
            time.sleep(600)
    os.waitpid(child, 0)
count = 0
while count < 3:
    count += len(os.read(reader, 3))
print("three are up")
if sys.argv[1] == "stay":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(600)
