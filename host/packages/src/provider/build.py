# Builds the wheel of the source distribution at /source, as PEP 517 defines it, and writes it to /work/wheel. The step
# "requirements" first writes the backend's dynamic requirements to /work/requirements.json, and builds only if there are none.
import importlib, importlib.metadata, json, os, shutil, sys

is_requirements_step, backend, paths = sys.argv[1] == "requirements", sys.argv[2], sys.argv[3:]
sys.argv[1:] = []
REQUIREMENTS, WHEEL, TREE, BIN = "/work/requirements.json", "/work/wheel", "/tmp/source", "/tmp/bin"
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


def write_requirements():
    get_requires = getattr(hooks(), "get_requires_for_build_wheel", lambda settings: [])
    with open(REQUIREMENTS, "w") as file:
        json.dump([str(requirement) for requirement in get_requires(None)], file)


programs()
shutil.copytree("/source", TREE, copy_function=copied)
os.chdir(TREE)
# Of the source tree, only the directories in `backend-path` can be imported during the build.
sys.path[:] = [os.path.join(TREE, path) for path in paths] + [path for path in sys.path if path not in ("", "/work")]
if is_requirements_step:
    # Runs in a separate process, because backends change the state of their process.
    child = os.fork()
    if not child:
        write_requirements()
        sys.exit()
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
    with open(REQUIREMENTS) as file:
        if json.load(file):
            sys.exit()
os.mkdir(WHEEL)
hooks().build_wheel(WHEEL)
