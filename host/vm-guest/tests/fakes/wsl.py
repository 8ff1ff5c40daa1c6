#!/usr/bin/env python3
"""Stand-in for `wsl.exe`, with the answers of WSL 0.64 to 2.9. It refuses every argument that it does not expect."""

import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ARGS = sys.argv[1:]
GUEST = "/usr/lib/codebox/vm-guest"
DONE = "The operation completed successfully. "
NOT_FOUND = ("There is no distribution with the supplied name.", "Wsl/Service/WSL_E_DISTRO_NOT_FOUND")


def load(name, default):
    try:
        with open(os.path.join(HERE, name)) as file:
            return json.load(file)
    except FileNotFoundError:
        return default


def save(name, value):
    with open(os.path.join(HERE, name), "w") as file:
        json.dump(value, file)


TOLD = load("scenario.json", {})
# Names of distributions with their states.
DISTRIBUTIONS = load("distributions.json", TOLD.get("distributions", {"Ubuntu-22.04": "Running"}))


def say(*lines, status=0):
    text = "".join(line + TOLD.get("end", "\r\n") for line in lines)
    is_utf8 = os.environ.get("WSL_UTF8") == "1" and not TOLD.get("utf16")
    sys.stdout.buffer.write(text.encode("utf-8" if is_utf8 else "utf-16-le"))
    sys.stdout.flush()
    sys.exit(status)


def fail(text, code, stderr=""):
    sys.stderr.write(stderr)
    label = TOLD.get("label", "Error code: ")
    # Every failure of the program itself has the status -1.
    say(*([text] if text else []), label + code, status=255)


def unexpected():
    sys.stderr.write("unexpected call: %r\n" % ARGS)
    sys.exit(97)


def find(name):
    return next((one for one in DISTRIBUTIONS if one.lower() == name.lower()), None)


def main():
    with open(os.path.join(HERE, "calls"), "a") as file:
        file.write(json.dumps(ARGS) + "\n")
    if os.environ.get("WSL_UTF8") != "1" or os.environ.get("WSL_DISABLE_WARNINGS") != "1":
        unexpected()
    interrupted = load("interrupted.json", TOLD.get("interrupted", 0))
    if interrupted and ARGS[0] != "--import":
        save("interrupted.json", interrupted - 1)
        fail("The remote procedure call failed. ", "Wsl/Service/RPC_S_CALL_FAILED")
    match ARGS:
        case ["--status"]:
            if TOLD.get("missing"):
                say("The Windows Subsystem for Linux is not installed. You can install by running 'wsl.exe --install'.", status=50)
            say("Default Distribution: Ubuntu-22.04", "Default Version: 2")
        case ["--version"]:
            if TOLD.get("inbox"):
                say("Invalid command line option: --version", "Copyright (c) Microsoft Corporation. All rights reserved.", status=255)
            say(TOLD.get("version", "WSL version: 2.6.3.0"), "Kernel version: 6.6.87.2-1")
        case ["--list", "--quiet", *options] if options in ([], ["--running"], ["--all"]):
            if not DISTRIBUTIONS and TOLD.get("fails_without"):
                fail("Windows Subsystem for Linux has no installed distributions.", "Wsl/WSL_E_DEFAULT_DISTRO_NOT_FOUND")
            states = {"[]": ["Running", "Stopped"], "['--running']": ["Running"]}.get(str(options))
            say(*[name for name, state in DISTRIBUTIONS.items() if states is None or state in states])
        case ["--import", name, dir, archive, "--version", "2"]:
            if not re.fullmatch(r"codebox-[0-9a-f]{8}", name) or not os.path.isdir(dir) or not os.path.isfile(archive):
                unexpected()
            if find(name):
                is_open = DISTRIBUTIONS[find(name)] == "Installing"
                fail(
                    "An install, uninstall, or conversion is in progress for this distribution." if is_open else "A distribution with the supplied name already exists.",
                    "Wsl/Service/RegisterDistro/" + ("E_ILLEGAL_STATE_CHANGE" if is_open else "ERROR_ALREADY_EXISTS"),
                )
            disk = os.path.join(dir, "ext4.vhdx")
            if os.path.exists(disk):
                fail("Failed to create disk '%s': The file exists. " % disk, "Wsl/Service/RegisterDistro/ERROR_FILE_EXISTS")
            open(disk, "w").close()
            DISTRIBUTIONS[name] = "Installing"
            save("distributions.json", DISTRIBUTIONS)
            if "import" in TOLD:
                fail(*TOLD["import"])
            DISTRIBUTIONS[name] = "Stopped"
            save("distributions.json", DISTRIBUTIONS)
            say(DONE)
        case ["--terminate" | "--unregister" as action, name]:
            if not find(name):
                fail(*NOT_FOUND)
            if action == "--unregister":
                del DISTRIBUTIONS[find(name)]
            else:
                DISTRIBUTIONS[find(name)] = "Stopped"
            save("distributions.json", DISTRIBUTIONS)
            say(DONE)
        case ["--distribution", name, "--user", "root", "--cd", "/", "--exec", program, mode] if program == GUEST:
            if not find(name) or DISTRIBUTIONS[find(name)] == "Installing":
                fail(*NOT_FOUND)
            if "exec" in TOLD:
                fail(*TOLD["exec"])
            DISTRIBUTIONS[find(name)] = "Running"
            save("distributions.json", DISTRIBUTIONS)
            sys.stderr.write(TOLD.get("warning", ""))
            sys.stderr.flush()
            if mode == "check":
                sys.exit(TOLD.get("check", 0))
            if mode != "serve":
                unexpected()
            # Not as root, so that the program serves requests and changes nothing.
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            guest = os.path.join(HERE, "guest")
            os.execv(guest, [guest, "serve"])
        case _:
            unexpected()


main()
