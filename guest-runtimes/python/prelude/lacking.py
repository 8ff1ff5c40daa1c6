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
}

# Errors that end a program and show what it lacked: their type's name, a pattern of their text, a part of the path of the
# file that raised them, and the power.
ENDINGS = (
    ("OSError", r"ctypes is unavailable", "/ctypes/", "native libraries"),
    ("OSError", r"(?:en|de)coder \w+ not available", "/PIL/", "image codecs"),
    ("KeyError", r"'(?:WEBP|AVIF)'", "/PIL/", "image codecs"),
)

# Modules whose threads only watch for what does not happen here; each ends as soon as it is started.
WATCHERS = ("tqdm._monitor",)
