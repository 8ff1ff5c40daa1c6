"""Table of features that an interpreter with an operating system has and this one lacks.

Each row is data: the replacement of a function, or the form of an error that shows the missing feature. `missing` installs
the functions; the host's table of the same words lists what a user can do about each.
"""
import errno

# Error of each feature for callers of a function that needs it: its type, its number if it has one, and its text.
ERRORS = {
    "processes": (OSError, errno.ENOTSUP, "processes are not available in this sandbox"),
    "signals": (OSError, errno.ENOTSUP, "signals are not available in this sandbox"),
    "hashlib.scrypt": (ValueError, None, "scrypt is not available in this sandbox"),
}

# Functions that the library has on other systems: their module, their names, and the feature that they need.
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

# Modules whose absence shows which feature the program that imports them needs.
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

# Modules of other systems' libraries, which containers do not have either.
ELSEWHERE = ("_overlapped", "_winapi", "_wmi", "msvcrt", "nt", "nturl2path", "winreg", "winsound")

# Modules that Python had until 3.11 or 3.12.
REMOVED = (
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap msilib nis nntplib ossaudiodev "
    "pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib"
).split()

# Attributes that the library's modules have on Linux and not here, and the feature that they need; without one, the
# attribute itself is named. They are reported only if the program ends because of one, since libraries test for them.
ATTRIBUTES = (
    (
        "os",
        "CLD_CONTINUED CLD_DUMPED CLD_EXITED CLD_KILLED CLD_STOPPED CLD_TRAPPED POSIX_SPAWN_CLOSE POSIX_SPAWN_DUP2 "
        "POSIX_SPAWN_OPEN PRIO_PGRP PRIO_PROCESS PRIO_USER P_ALL P_NOWAIT P_NOWAITO P_PGID P_PID P_PIDFD P_WAIT "
        "SCHED_BATCH SCHED_FIFO SCHED_IDLE SCHED_OTHER SCHED_RESET_ON_FORK SCHED_RR WCONTINUED WCOREDUMP WEXITED "
        "WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOWAIT WSTOPPED WSTOPSIG WTERMSIG WUNTRACED getpgid "
        "getpgrp getppid getpriority getsid nice pidfd_open register_at_fork sched_get_priority_max "
        "sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler sched_param sched_rr_get_interval "
        "sched_setaffinity sched_setparam sched_setscheduler setpgid setpgrp setpriority setsid spawnl spawnle "
        "spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe tcgetpgrp tcsetpgrp wait3 wait4 waitid waitid_result "
        "waitstatus_to_exitcode",
        "processes",
    ),
    (
        "os",
        "EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE GRND_NONBLOCK GRND_RANDOM MFD_ALLOW_SEALING MFD_CLOEXEC MFD_HUGETLB "
        "MFD_HUGE_16GB MFD_HUGE_16MB MFD_HUGE_1GB MFD_HUGE_1MB MFD_HUGE_256MB MFD_HUGE_2GB MFD_HUGE_2MB MFD_HUGE_32MB "
        "MFD_HUGE_512KB MFD_HUGE_512MB MFD_HUGE_64KB MFD_HUGE_8MB MFD_HUGE_MASK MFD_HUGE_SHIFT O_ASYNC O_DIRECT O_FSYNC "
        "O_LARGEFILE O_NDELAY O_NOATIME O_PATH O_TMPFILE RTLD_DEEPBIND RWF_APPEND RWF_DSYNC RWF_HIPRI RWF_NOWAIT "
        "RWF_SYNC SEEK_DATA SEEK_HOLE SPLICE_F_MORE SPLICE_F_MOVE SPLICE_F_NONBLOCK ST_APPEND ST_MANDLOCK ST_NOATIME "
        "ST_NODEV ST_NODIRATIME ST_NOEXEC ST_NOSUID ST_RDONLY ST_RELATIME ST_SYNCHRONOUS ST_WRITE TMP_MAX XATTR_CREATE "
        "XATTR_REPLACE XATTR_SIZE_MAX chroot copy_file_range ctermid eventfd eventfd_read eventfd_write fchdir fchmod "
        "fstatvfs fwalk getgrouplist getloadavg getlogin getrandom getresgid getresuid getxattr initgroups listxattr "
        "lockf login_tty major makedev memfd_create minor mkfifo mknod openpty posix_fallocate preadv pwritev readv "
        "removexattr sendfile setegid seteuid setgid setgroups setregid setresgid setresuid setreuid setuid setxattr splice "
        "statvfs sync ttyname writev",
        None,
    ),
    (
        "select",
        "EPOLLERR EPOLLET EPOLLEXCLUSIVE EPOLLHUP EPOLLIN EPOLLMSG EPOLLONESHOT EPOLLOUT EPOLLPRI EPOLLRDBAND "
        "EPOLLRDHUP EPOLLRDNORM EPOLLWRBAND EPOLLWRNORM EPOLL_CLOEXEC POLLMSG POLLRDBAND POLLRDHUP POLLWRBAND epoll",
        None,
    ),
    ("selectors", "EpollSelector", None),
    ("shutil", "disk_usage", None),
    (
        "time",
        "CLOCK_BOOTTIME CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_TAI CLOCK_THREAD_CPUTIME_ID clock_settime "
        "clock_settime_ns thread_time thread_time_ns tzset",
        None,
    ),
    ("threading", "get_native_id", "threads"),
    (
        "signal",
        "ITIMER_PROF ITIMER_REAL ITIMER_VIRTUAL ItimerError SIGCLD SIGRTMAX SIGRTMIN SIG_BLOCK SIG_SETMASK SIG_UNBLOCK "
        "Sigmasks pidfd_send_signal pthread_sigmask siginterrupt sigpending struct_siginfo valid_signals",
        "signals",
    ),
    (
        "socket",
        "AF_ALG AF_APPLETALK AF_ASH AF_ATMPVC AF_ATMSVC AF_AX25 AF_BLUETOOTH AF_BRIDGE AF_CAN AF_DECnet AF_ECONET "
        "AF_IPX AF_IRDA AF_KEY AF_LLC AF_NETBEUI AF_NETLINK AF_NETROM AF_PACKET AF_PPPOX AF_QIPCRTR AF_RDS AF_ROSE "
        "AF_ROUTE AF_SECURITY AF_SNA AF_TIPC AF_UNIX AF_VSOCK AF_WANPIPE AF_X25 CMSG_LEN CMSG_SPACE MSG_CMSG_CLOEXEC "
        "MSG_CONFIRM MSG_CTRUNC MSG_DONTROUTE MSG_DONTWAIT MSG_EOR MSG_ERRQUEUE MSG_FASTOPEN MSG_MORE MSG_NOSIGNAL "
        "MSG_OOB SCM_CREDENTIALS SCM_RIGHTS SOCK_RAW SOCK_RDM SOCK_SEQPACKET SO_ACCEPTCONN SO_BINDTODEVICE SO_BROADCAST "
        "SO_DEBUG SO_DOMAIN SO_DONTROUTE SO_ERROR SO_INCOMING_CPU SO_KEEPALIVE SO_LINGER SO_MARK SO_OOBINLINE "
        "SO_PASSCRED SO_PASSSEC SO_PEERCRED SO_PEERSEC SO_PRIORITY SO_PROTOCOL SO_RCVBUF SO_RCVLOWAT SO_RCVTIMEO "
        "SO_REUSEADDR SO_REUSEPORT SO_SNDBUF SO_SNDLOWAT SO_SNDTIMEO getprotobyname getservbyname getservbyport "
        "if_indextoname if_nameindex if_nametoindex recv_fds send_fds sethostname",
        "sockets",
    ),
    ("asyncio", "open_unix_connection start_unix_server", "sockets"),
    (
        "ctypes",
        "ARRAY ArgumentError Array BigEndianStructure BigEndianUnion LittleEndianStructure LittleEndianUnion "
        "SetPointerType alignment c_buffer c_voidp py_object pythonapi",
        "native libraries",
    ),
    (
        "mmap",
        "ACCESS_DEFAULT MADV_DODUMP MADV_DOFORK MADV_DONTDUMP MADV_DONTFORK MADV_DONTNEED MADV_FREE MADV_HUGEPAGE "
        "MADV_HWPOISON MADV_MERGEABLE MADV_NOHUGEPAGE MADV_NORMAL MADV_RANDOM MADV_REMOVE MADV_SEQUENTIAL "
        "MADV_UNMERGEABLE MADV_WILLNEED MAP_ANON MAP_ANONYMOUS MAP_DENYWRITE MAP_EXECUTABLE MAP_POPULATE MAP_PRIVATE "
        "MAP_SHARED MAP_STACK PROT_EXEC PROT_READ PROT_WRITE error",
        "library:mmap",
    ),
)

# Errors that end a program and show what it lacked: the name of their type, a pattern of their text, a part of the path
# of the file that raised them, and the feature.
ENDINGS = (
    ("OSError", r"ctypes is unavailable", "/ctypes/", "native libraries"),
    ("OSError", r"(?:en|de)coder \w+ not available", "/PIL/", "image codecs"),
    ("KeyError", r"'(?:WEBP|AVIF)'", "/PIL/", "image codecs"),
    ("ImportError", r"'_imagingft'", "/PIL/", "font rendering"),
    ("RuntimeError", r"unable to start watchdog thread", "", "threads"),
    ("OSError", r"mmap is unavailable", "", "library:mmap"),
    ("UnsupportedOperation", r"\.owner\(\) is unsupported", "/pathlib/", "library:pwd"),
    ("UnsupportedOperation", r"\.group\(\) is unsupported", "/pathlib/", "library:grp"),
    ("LookupError", r"no such user: ", "/shutil.py", "library:pwd"),
    ("LookupError", r"no such group: ", "/shutil.py", "library:grp"),
    ("NotImplementedError", r"multiprocessing\.synchronize", "", "processes"),
)

# Modules whose threads only monitor events that do not occur here; each thread ends as soon as it is started.
WATCHERS = ("tqdm._monitor",)
