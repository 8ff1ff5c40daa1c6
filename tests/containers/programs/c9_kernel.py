"""Lists the sensitive kernel files and whether each is readable, one JSON object per line."""
import glob
import json

paths = [
    "/proc/keys", "/proc/kcore", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug", "/proc/kmsg",
    "/proc/1/environ", "/proc/1/auxv", "/proc/1/stack", "/proc/1/pagemap", "/proc/1/io",
    "/sys/kernel/debug/sched/debug", "/sys/kernel/security/lsm", "/sys/kernel/tracing/trace",
]
paths += glob.glob("/sys/class/powercap/*/energy_uj") + glob.glob("/sys/firmware/**", recursive=True)[1:]
for path in paths:
    try:
        with open(path, "rb") as file:
            readable = len(file.read(64)) > 0
    except OSError:
        readable = False
    print(json.dumps({"path": path, "readable": readable}))
