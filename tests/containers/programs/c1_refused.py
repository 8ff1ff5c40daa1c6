"""Exceeds a limit by one and exits with the error. Argument: processes, threads or zombies."""
import os
import sys
import threading
import time

while True:
    if sys.argv[1] == "threads":
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    elif os.fork() == 0:
        # A zombie is a child that has ended and whose parent has not waited for it.
        time.sleep(0 if sys.argv[1] == "zombies" else 600)
        os._exit(0)
