"""Prints the properties an escape would need, one JSON object per line."""
import ctypes
import errno
import glob
import json
import os
import platform
import socket
import stat


def report(**fact):
    print(json.dumps(fact))


def attempt(do):
    try:
        do()
        return "done"
    except OSError as error:
        return error.strerror


def size(path):
    try:
        with open(path, "rb") as file:
            return len(file.read(64))
    except OSError as error:
        return error.strerror


status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    report(what=name, value=int(status[name], 16))
for name in ("NoNewPrivs", "Seccomp"):
    report(what=name, value=int(status[name]))
report(what="root ids", value=[i for i in map(int, (status["Uid"] + "\t" + status["Gid"]).split()) if i < 1000])
report(what="groups below 1000", value=[int(i) for i in status["Groups"].split() if int(i) < 1000])
for path in ("/", "/etc", "/usr/bin", "/root", "/sys", "/proc/sys/kernel", "/dev", "/.codebox", "/run/codebox"):
    report(what="write " + path, value=attempt(lambda: open(path + "/codebox-was-here", "w")) != "done")
for path in ("/etc/passwd", "/.codebox/agent", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern"):
    report(what="write " + path, value=attempt(lambda: open(path, "r+")) != "done")
report(what="devices", value=sorted(
    path for path in glob.glob("/dev/**", recursive=True)
    if os.path.lexists(path) and not os.path.islink(path)
    and stat.S_IFMT(os.lstat(path).st_mode) in (stat.S_IFBLK, stat.S_IFCHR)
))
report(what="sockets of engines", value=[
    path for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock",
                      "/run/containerd/containerd.sock", "/run/crio/crio.sock")
    if os.path.lexists(path)
])
report(what="interfaces", value=[name for _, name in socket.if_nameindex()])
report(what="routes", value=len(open("/proc/net/route").readlines()) - 1)
for path in ("/proc/keys", "/proc/timer_list", "/proc/kcore", "/proc/1/environ", "/proc/1/maps", "/proc/1/mem"):
    report(what="nothing in " + path, value=size(path) == 0 or isinstance(size(path), str))
report(what="firmware", value=os.listdir("/sys/firmware"))
report(what="descriptors of 1", value=attempt(lambda: os.listdir("/proc/1/fd")) != "done")
report(what="root of 1", value=attempt(lambda: os.listdir("/proc/1/root")) != "done")
report(what="others", value=sorted(
    int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())
))
report(what="hostname", value=socket.gethostname())
libc = ctypes.CDLL(None, use_errno=True)
# The C library has no wrappers for these calls; their numbers depend on the architecture.
keyctl, bpf, perf, module = (250, 321, 298, 313) if platform.machine() == "x86_64" else (219, 280, 241, 273)
# `getpid` under its x32 number: EPERM comes from the filter, any other error from the kernel.
if platform.machine() == "x86_64":
    ctypes.set_errno(0)
    libc.syscall(0x40000000 + 39)
    report(what="x32 filtered", value=ctypes.get_errno() == errno.EPERM)
else:
    report(what="x32 filtered", value=True)
for name, call in (
    ("mount", lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None)),
    ("trace", lambda: libc.ptrace(16, 1, None, None)),
    ("keys", lambda: libc.syscall(keyctl, 0, -3, 0)),
    ("bpf", lambda: libc.syscall(bpf, 0, None, 0)),
    ("perf", lambda: libc.syscall(perf, None, 0, -1, -1, 0)),
    ("module", lambda: libc.syscall(module, -1, b"", 0)),
    ("setuid", lambda: libc.setuid(0)),
    ("chroot", lambda: libc.chroot(b"/tmp")),
    # Must be last: in a new user namespace all other calls would have other results.
    ("user namespace", lambda: libc.unshare(0x10000000)),
):
    report(what=name + " refused", value=call() == -1 and ctypes.get_errno() in (errno.EPERM, errno.EACCES, errno.ENOSYS))
