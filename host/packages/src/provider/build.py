# Builds the wheel of the source distribution at /source, as PEP 517 says, and leaves it in /work/wheel. If it is to ask first,
# what the backend lacks is left in /work/wants.json, and nothing is built where that is anything.
import importlib, importlib.metadata, json, os, shutil, sys

asks, backend, paths = sys.argv[1] == "ask", sys.argv[2], sys.argv[3:]
sys.argv[1:] = []
WANTS, WHEEL, TREE, BIN = "/work/wants.json", "/work/wheel", "/tmp/source", "/tmp/bin"
PACKAGES, PROGRAMS = "/usr/local/lib/codebox/site-packages", "/usr/local/lib/codebox/programs"


def copied(file, to):
    shutil.copyfile(file, to)
    os.chmod(to, os.stat(file).st_mode | 0o200)


def program(name, content):
    place = os.path.join(BIN, name)
    if os.path.basename(name) == name and not os.path.exists(place):
        with open(place, "wb") as file:
            file.write(content)
        os.chmod(place, 0o755)


def programs():
    os.mkdir(BIN)
    for name in os.listdir(PROGRAMS) if os.path.isdir(PROGRAMS) else ():
        with open(os.path.join(PROGRAMS, name), "rb") as file:
            content = file.read()
        if content.startswith(b"#!python"):
            content = b"#!" + sys.executable.encode() + b"\n" + content.partition(b"\n")[2]
        program(name, content)
    for package in importlib.metadata.distributions(path=[PACKAGES]):
        for point in package.entry_points:
            if point.group == "console_scripts":
                module, _, inside = point.value.partition("[")[0].strip().partition(":")
                text = "#!%s\nimport sys, %s as module\nsys.exit(module.%s())\n" % (sys.executable, module, inside)
                program(point.name, text.encode())
    os.environ["PATH"] = BIN + os.pathsep + os.environ.get("PATH", os.defpath)


def hooks():
    module, _, inside = backend.partition(":")
    found = importlib.import_module(module)
    for name in inside.split(".") if inside else ():
        found = getattr(found, name)
    return found


def ask():
    wants = getattr(hooks(), "get_requires_for_build_wheel", lambda settings: [])
    with open(WANTS, "w") as file:
        json.dump([str(want) for want in wants(None)], file)


programs()
shutil.copytree("/source", TREE, copy_function=copied)
os.chdir(TREE)
# Only what the source distribution names of itself can be imported while it builds itself.
sys.path[:] = [os.path.join(TREE, path) for path in paths] + [path for path in sys.path if path not in ("", "/work")]
if asks:
    # In a process of its own: backends change what they run in.
    child = os.fork()
    if not child:
        ask()
        sys.exit()
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
    with open(WANTS) as file:
        if json.load(file):
            sys.exit()
os.mkdir(WHEEL)
hooks().build_wheel(WHEEL)
