# Completes or describes the name before the cursor. `code`, `cursor` (in characters) and `task` are given, and `main` is the namespace of
# the cells. Prints a JSON document.
import builtins, inspect, json, keyword, re

def value_of(names):
    value = main[names[0]] if names[0] in main else getattr(builtins, names[0])
    for name in names[1:]:
        value = getattr(value, name)
    return value

def complete():
    names = re.search(r"[\w.]*\Z", code[:cursor]).group().split(".")
    prefix = names.pop()
    try:
        if names:
            found = dir(value_of(names))
        else:
            found = [*main, *dir(builtins), *keyword.kwlist]
    except Exception:
        found = []
    matches = sorted({n for n in found if type(n) is str and n.isidentifier() and n.startswith(prefix)})
    if not prefix.startswith("_"):
        matches = [n for n in matches if not n.startswith("_")]
    return {"matches": matches[:1000]}

def describe():
    before = re.search(r"[\w.]*\Z", code[:cursor]).group()
    name = before + re.match(r"\w*", code[cursor:]).group()
    if not name and code[:cursor].rstrip().endswith("("):
        name = re.search(r"[\w.]*\Z", code[:cursor].rstrip()[:-1]).group()
    try:
        value = value_of(name.split("."))
    except Exception:
        return {"text": None}
    try:
        signature = str(inspect.signature(value)) if callable(value) else ""
    except Exception:
        signature = ""
    try:
        text = inspect.getdoc(value)
    except Exception:
        text = None
    head = name + signature if signature else f"{name}: {type(value).__name__}"
    return {"text": (head + "\n\n" + (text or "")).rstrip()[:20000]}

print(json.dumps(complete() if task == "complete" else describe()))
