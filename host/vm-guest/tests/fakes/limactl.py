#!/usr/bin/env python3
"""Stand-in for `limactl` and `ssh`, with the answers of Lima 1.0 to 2.2. It refuses every argument that it does not expect."""

import hashlib
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.basename(sys.argv[0])
ARGS = sys.argv[1:]
GUEST = "/usr/local/lib/codebox/vm-guest"


def scenario():
    with open(os.path.join(HERE, "scenario.json")) as file:
        return json.load(file)


def record():
    with open(os.path.join(HERE, "calls"), "a") as file:
        file.write(json.dumps([PROGRAM] + ARGS) + "\n")


def log(level, message):
    line = {"level": level, "msg": message, "time": "2026-07-21T10:00:00+02:00"}
    sys.stderr.write(json.dumps(line) + "\n")


def fatal(message):
    log("fatal", message)
    sys.exit(1)


def unexpected():
    sys.stderr.write("unexpected call: %r\n" % [PROGRAM, *ARGS])
    sys.exit(97)


HOME = os.environ.get("LIMA_HOME", "")
INSTANCE = os.path.join(HOME, "codebox")
STATUS = os.path.join(INSTANCE, "status")


def status():
    with open(STATUS) as file:
        return file.read()


def set_status(text):
    with open(STATUS, "w") as file:
        file.write(text)


def limactl():
    told = scenario()
    if ARGS == ["--version"]:
        if told.get("root"):
            sys.stderr.write("limactl: must not run as the root user\n")
            sys.exit(1)
        print(told.get("version", "limactl version 2.2.0"))
        return
    if ARGS[:2] != ["--log-format=json", "--tty=false"] or not os.path.isabs(HOME):
        unexpected()
    match ARGS[2:]:
        case ["list", "--format={{.Status}}{{range .Errors}}\n{{.}}{{end}}", "codebox"]:
            need()
            text = told.get("status") or status()
            print("\n".join([text] + told.get("errors", [])))
        case ["list", "--format={{.Status}}", "codebox"]:
            need()
            print(told.get("status") or status())
        case ["create", "--name=codebox", path]:
            if os.path.exists(INSTANCE):
                fatal("instance `codebox` already exists")
            with open(path) as file:
                check_description(file.read())
            os.makedirs(INSTANCE)
            set_status("Stopped")
            log("info", "Attempting to download the image")
            sys.stderr.write("Downloading the image (debian-13-genericcloud-arm64-20260712-2537.qcow2)\n")
            # A failure leaves the directory.
            if "create" in told:
                fatal(told["create"])
            open(os.path.join(INSTANCE, told.get("disk", "disk")), "w").close()
            open(os.path.join(INSTANCE, "ssh.config"), "w").close()
            log("info", "Run `limactl start codebox` to start the instance.")
        case ["start", "--timeout=15m", "codebox"]:
            need()
            if told.get("status", status()).startswith("Broken") and not os.path.exists(STATUS + ".stopped"):
                fatal("errors inspecting instance: [qemu driver is running but host agent is not]")
            with open(os.path.join(INSTANCE, "ha.stderr.log"), "w") as file:
                file.write('{"level":"debug","msg":"Creating iso file"}\n')
            if "start" in told:
                fatal(told["start"])
            set_status("Running")
            log("info", "READY. Run `limactl shell codebox` to open the shell.")
        case ["stop", "--force", "codebox"]:
            need()
            set_status("Stopped")
            open(STATUS + ".stopped", "w").close()
            log("info", "The vz driver process seems already stopped")
        case ["delete", "--force", "codebox"]:
            if not os.path.exists(INSTANCE):
                log("warning", "Ignoring non-existent instance `codebox`")
                return
            shutil.rmtree(INSTANCE)
            log("info", "Deleted `codebox`")
        case ["shell", "--workdir", "/", "codebox", "sudo", "-n", "sha256sum", path] if path == GUEST:
            try:
                with open(os.path.join(INSTANCE, "guest"), "rb") as file:
                    print(hashlib.sha256(file.read()).hexdigest() + "  " + GUEST)
            except FileNotFoundError:
                sys.stderr.write("sha256sum: %s: No such file or directory\n" % GUEST)
                sys.exit(1)
        case ["shell", "--workdir", "/", "codebox", "sudo", "-n", "sh", "-c", script] if script == (
            "mkdir -p /usr/local/lib/codebox && cat > %s.new && chmod 755 %s.new && mv %s.new %s" % ((GUEST,) * 4)
        ):
            with open(os.path.join(INSTANCE, "guest"), "wb") as file:
                file.write(sys.stdin.buffer.read())
        case _:
            unexpected()


def need():
    # Lima would make a machine of its own kind.
    if not os.path.exists(INSTANCE):
        sys.stderr.write("called without a machine: %r\n" % ARGS)
        sys.exit(97)


def check_description(text):
    lines = text.splitlines()
    expected = ['mounts: []', '  guestPortRange: [1, 65535]', '  ignore: true', '  forwardAgent: false', '  uid: 1000']
    missing = [line for line in expected if line not in lines]
    if missing or "~" in text or text.count('digest: "sha512:') != 2:
        sys.stderr.write("unexpected description without %r:\n%s" % (missing, text))
        sys.exit(97)


def ssh():
    options = ["ControlMaster=no", "ControlPath=none", "ControlPersist=no", "LogLevel=ERROR"]
    options += ["ServerAliveInterval=15", "ServerAliveCountMax=3", "ConnectTimeout=15"]
    expected = ["-F", os.path.join(INSTANCE, "ssh.config"), "-T"]
    expected += [word for option in options for word in ("-o", option)]
    expected += ["lima-codebox", "--", "exec sudo -n %s serve" % GUEST]
    if ARGS != expected:
        unexpected()
    if "ssh" in scenario():
        sys.stderr.write(scenario()["ssh"] + "\n")
        sys.exit(255)
    serve()


def serve():
    # Not as root, so that the program serves requests and changes nothing.
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    guest = os.path.join(HERE, "guest")
    os.execv(guest, [guest, "serve"])


record()
limactl() if PROGRAM == "limactl" else ssh()
