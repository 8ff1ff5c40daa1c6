"""The table of what an interpreter with an operating system has and this one lacks.

Each row is data: what stands in for a function, or how an error shows what was lacking. `missing` puts the functions in
place; the host's table of the same words says what a user can do about it.
"""
import errno

# The error of each power for who calls a function that takes it: its type, its number if it has one, and its text.
ERRORS = {
    "processes": (OSError, errno.ENOTSUP, "processes are not available in this sandbox"),
    "signals": (OSError, errno.ENOTSUP, "signals are not available in this sandbox"),
    "hashlib.scrypt": (ValueError, None, "scrypt is not available in this sandbox"),
}

# Functions that the library has elsewhere: their module, their names, and the power that they take.
FUNCTIONS = (
    (
        "os",
        "fork forkpty popen system posix_spawn posix_spawnp execv execve wait waitpid",
        "processes",
    ),
    ("os", "kill killpg", "signals"),
    ("signal", "alarm setitimer getitimer pause pthread_kill sigwait sigtimedwait sigwaitinfo", "signals"),
    ("hashlib", "scrypt", "hashlib.scrypt"),
)

# Modules whose absence shows what the program that imports them is after.
MODULES = {
    "_multiprocessing": "processes",
    "_posixshmem": "processes",
    "_posixsubprocess": "processes",
    "_ctypes": "native libraries",
    "_scproxy": "sockets",
    "_zstd": "library:compression.zstd",
    "_gdbm": "library:dbm.gnu",
    "_dbm": "library:dbm.ndbm",
}

# Attributes that the library's modules have on Linux and not here, by a pattern of their names, and the power that they take;
# without one, the attribute itself is named. They are told when the program ends for want of one: libraries look for them.
ATTRIBUTES = (
    (
        "os",
        r"spawn\w+|wait\w*|W[A-Z]+|P_\w+|CLD_\w+|POSIX_SPAWN_\w+|pidfd_open|register_at_fork|(?:get|set)p?g(?:id|rp)|getppid"
        r"|[gs]etsid|[gs]etpriority|nice|sched_\w+|SCHED_\w+|PRIO_\w+|setns|unshare|tc[gs]etpgrp",
        "processes",
    ),
    (
        "os",
        r"chroot|copy_file_range|ctermid|eventfd\w*|EFD_\w+|fchdir|fchmod|fchown|f?statvfs|ST_\w+|fwalk|getgrouplist|getloadavg"
        r"|getlogin|getrandom|GRND_\w+|[gs]etres[gu]id|set(?:e|re)?[gu]id|setgroups|\w+xattr|XATTR_\w+|initgroups|lchown|lockf"
        r"|F_\w*LOCK|login_tty|openpty|posix_openpt|grantpt|unlockpt|ptsname|major|makedev|minor|memfd_create|MFD_\w+|mkfifo|mknod"
        r"|posix_fallocate|preadv|pwritev|readv|writev|RWF_\w+|SEEK_DATA|SEEK_HOLE|sendfile|splice|SPLICE_\w+|sync|syncfs"
        r"|timerfd_\w+|TFD_\w+|ttyname|O_(?:ASYNC|DIRECT|FSYNC|LARGEFILE|NDELAY|NOATIME|PATH|TMPFILE)|plock|confstr\w*",
        None,
    ),
    ("select", r"epoll|EPOLL\w+", None),
    ("selectors", r"EpollSelector", None),
    ("shutil", r"disk_usage", None),
    ("time", r"clock_settime(?:_ns)?|thread_time(?:_ns)?|tzset|CLOCK_\w+", None),
    ("threading", r"get_native_id", "threads"),
    (
        "signal",
        r"ITIMER_\w+|ItimerError|SIG_\w+|SIG[A-Z]+[0-9]?|Sigmasks|pidfd_send_signal|pthread_sigmask|siginterrupt|sigpending"
        r"|struct_siginfo|valid_signals",
        "signals",
    ),
    (
        "socket",
        r"[A-Z]{2,8}_\w+|(?:get|set)\w+by(?:name|port)|if_\w+|recv_fds|send_fds|sethostname|create_server|socketpair",
        "sockets",
    ),
    ("asyncio", r"(?:open|start)_unix_\w+", "sockets"),
)

# Errors that end a program and show what it lacked: their type's name, a pattern of their text, a part of the path of the
# file that raised them, and the power.
ENDINGS = (
    ("OSError", r"ctypes is unavailable", "/ctypes/", "native libraries"),
    ("OSError", r"(?:en|de)coder \w+ not available", "/PIL/", "image codecs"),
    ("KeyError", r"'(?:WEBP|AVIF)'", "/PIL/", "image codecs"),
    ("ImportError", r"'_imagingft'", "/PIL/", "font rendering"),
    ("RuntimeError", r"unable to start watchdog thread", "", "threads"),
    ("OSError", r"mmap is unavailable", "", "library:mmap"),
    ("NotImplementedError", r"multiprocessing\.synchronize", "", "processes"),
)

# Modules whose threads only watch for what does not happen here; each ends as soon as it is started.
WATCHERS = ("tqdm._monitor",)
