"""The module `termios` for programs at a terminal. The host changes the mode of the terminal; the other settings are kept here."""
import errno
import os
import sys
import types

from _codebox import host

# Settings of Linux.
_FLAGS = {
    "TCSANOW": 0, "TCSADRAIN": 1, "TCSAFLUSH": 2, "TCIFLUSH": 0, "TCOFLUSH": 1, "TCIOFLUSH": 2, "TCOOFF": 0, "TCOON": 1, "TCIOFF": 2, "TCION": 3,
    "IGNBRK": 0o1, "BRKINT": 0o2, "IGNPAR": 0o4, "PARMRK": 0o10, "INPCK": 0o20, "ISTRIP": 0o40, "INLCR": 0o100, "IGNCR": 0o200, "ICRNL": 0o400,
    "IUCLC": 0o1000, "IXON": 0o2000, "IXANY": 0o4000, "IXOFF": 0o10000, "IMAXBEL": 0o20000,
    "OPOST": 0o1, "OLCUC": 0o2, "ONLCR": 0o4, "OCRNL": 0o10, "ONOCR": 0o20, "ONLRET": 0o40, "OFILL": 0o100, "OFDEL": 0o200, "NLDLY": 0o400,
    "CRDLY": 0o3000, "TABDLY": 0o14000, "BSDLY": 0o20000, "VTDLY": 0o40000, "FFDLY": 0o100000,
    "CSIZE": 0o60, "CS5": 0, "CS6": 0o20, "CS7": 0o40, "CS8": 0o60, "CSTOPB": 0o100, "CREAD": 0o200, "PARENB": 0o400, "PARODD": 0o1000,
    "HUPCL": 0o2000, "CLOCAL": 0o4000, "CRTSCTS": 0o20000000000,
    "ISIG": 0o1, "ICANON": 0o2, "XCASE": 0o4, "ECHO": 0o10, "ECHOE": 0o20, "ECHOK": 0o40, "ECHONL": 0o100, "NOFLSH": 0o200, "TOSTOP": 0o400,
    "ECHOCTL": 0o1000, "ECHOPRT": 0o2000, "ECHOKE": 0o4000, "FLUSHO": 0o10000, "PENDIN": 0o40000, "IEXTEN": 0o100000,
    "VINTR": 0, "VQUIT": 1, "VERASE": 2, "VKILL": 3, "VEOF": 4, "VTIME": 5, "VMIN": 6, "VSWTC": 7, "VSTART": 8, "VSTOP": 9, "VSUSP": 10, "VEOL": 11,
    "VREPRINT": 12, "VDISCARD": 13, "VWERASE": 14, "VLNEXT": 15, "VEOL2": 16, "NCCS": 32,
    "B0": 0, "B9600": 13, "B19200": 14, "B38400": 15, "B57600": 0o10001, "B115200": 0o10002,
    "TIOCGWINSZ": 0x5413, "TIOCSWINSZ": 0x5414, "FIONREAD": 0x541B, "TCGETS": 0x5401, "TCSETS": 0x5402,
}

_LFLAG = 3
_KEYS = b"\x03\x1c\x7f\x15\x04\x00\x01\x00\x11\x13\x1a\x00\x12\x0f\x17\x16\x00".ljust(32, b"\0")

# Settings at the start: those of a usual terminal.
_START = (0o42400, 0o5, 0o277, 0o105073, 15, 15)

_settings = None


class error(Exception):
    pass


error.__module__ = "termios"


def _check(fd):
    if not isinstance(fd, int):
        fd = fd.fileno()
    if not os.isatty(fd):
        raise error(errno.ENOTTY, os.strerror(errno.ENOTTY))


def tcgetattr(fd, /):
    """Returns the settings of a terminal: four numbers with flags, two speeds, and the list of special keys."""
    _check(fd)
    settings = _settings or [*_START, [_KEYS[at : at + 1] for at in range(len(_KEYS))]]
    return [*settings[:6], list(settings[6])]


def tcsetattr(fd, when, attributes, /):
    """Changes the settings of a terminal. Those for lines and for echo have an effect."""
    global _settings
    _check(fd)
    if type(attributes) is not list or len(attributes) != 7 or len(attributes[6]) != len(_KEYS):
        raise TypeError("tcsetattr, arg 3: must be 7 element list")
    if when not in (0, 1, 2):
        raise error(errno.EINVAL, os.strerror(errno.EINVAL))
    flags = attributes[_LFLAG]
    mode = "keys" if not flags & _FLAGS["ICANON"] else "lines" if flags & _FLAGS["ECHO"] else "hidden"
    for stream in (sys.stdout, sys.stderr):
        # A prompt is seen before the mode changes.
        try:
            stream.flush()
        except Exception:
            pass
    host.notify("input_mode", mode=mode)
    _settings = [*attributes[:6], list(attributes[6])]


def tcgetwinsize(fd, /):
    """Returns the size of a terminal: rows and columns."""
    _check(fd)
    columns, rows = os.get_terminal_size()
    return rows, columns


def _without_effect(name):
    def function(fd, *_arguments):
        _check(fd)

    function.__name__ = function.__qualname__ = name
    return function


def install():
    module = types.ModuleType("termios", "Settings of terminals.")
    module.__spec__ = sys.modules["_frozen_importlib"].ModuleSpec("termios", sys.modules["_frozen_importlib"].BuiltinImporter, origin="built-in")
    module.__dict__.update(_FLAGS, error=error, tcgetattr=tcgetattr, tcsetattr=tcsetattr, tcgetwinsize=tcgetwinsize)
    for name in ("tcdrain", "tcflow", "tcflush", "tcsendbreak", "tcsetwinsize"):
        module.__dict__[name] = _without_effect(name)
    for name in ("tcgetattr", "tcsetattr", "tcgetwinsize"):
        module.__dict__[name].__module__ = "termios"
    sys.modules.setdefault("termios", module)
