"""Runs small programs while an image is made, in the same way as jobs.

The image then contains the results of a first run that every later run would compute again: specialised bytecode,
method caches, parser tables, pools of the allocator, modules that libraries import late.
"""
import gc
import linecache
import sys

from _codebox import start

# More than the number of calls after which the interpreter specialises code, and specialises it again if that did not
# fit.
_ROUNDS = 70

_JOB = {"kind": "inline", "file": "<string>", "argv": ["-c"], "env": {}, "path0": "", "cwd": "/work"}

_PROGRAMS = {
    "sys": """
import collections, dataclasses, itertools, json, math, re
@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: float = 0.5
class Shape(Point):
    @property
    def size(self): return abs(self.x) + self.y
    def __repr__(self): return f"<{self.size:.2f} {self.x!r:>4}>"
def walk(n, *more, step=1, **options):
    total = 0
    while n > 0:
        n -= step
        if n % 3 == 0 and n not in more: continue
        total += n
        yield total, {str(n): [n, (n, None)]}
try:
    raise ValueError("no")
except (KeyError, ValueError) as error:
    text = f"{error!r} {error}"
else:
    text = ""
finally:
    words = "b a c a".split()
counts = collections.Counter(words)
found = [m.group(1) for m in re.finditer(r"(\\w+) ?", "one two")]
shapes = sorted([Shape(2), Shape(1)], key=lambda s: -s.x)
data = json.loads(json.dumps({"a": [1, 2.5, None, True, "x"], "n": dict(counts)}))
for key, value in sorted(data.items()):
    print(key, value, shapes[0], text, *found, sep=", ", end="\\n")
with_sum = sum(t for t, _ in walk(9, 3, step=2)); a, *b = itertools.islice(range(9), 4)
print("%d %s" % (with_sum, math.sqrt(2)), {*b}, [x ** 2 for x in b if x], max(words), len(b), round(1.5))
match data:
    case {"a": [first, *_]}: print(first)
""",
    "numpy": """
import numpy as np
a = np.arange(12.0).reshape(3, 4)
print(a.sum(), a.mean(axis=0), a[a > 3][:2], (a @ a.T).shape, np.sqrt(a).max(), np.linspace(0, 1, 3).tolist())
print(np.sort(np.array([3, 1, 2])), np.concatenate([a, a]).std(), np.where(a > 2, 1, 0).sum(), repr(a.astype(int)))
""",
    "pandas": """
import numpy as np
import pandas as pd
frame = pd.DataFrame({"key": np.arange(20) % 3, "value": np.arange(20.0), "name": list("ab") * 10})
print(frame.groupby("key")["value"].sum().loc[1], frame.head(2), frame["value"].mean(), frame.shape, sep="\\n")
print(frame[frame["value"] > 3].sort_values("value", ascending=False).iloc[0], frame.describe(), sep="\\n")
print(frame.groupby("name").agg({"value": ["mean", "max"]}), frame["name"].value_counts(), sep="\\n")
other = pd.DataFrame({"key": [0, 1], "label": ["x", "y"]})
print(frame.merge(other, on="key").pivot_table(index="key", columns="name", values="value"))
""",
}


def run():
    """Runs the programs that the image's modules allow; their output takes the path of a job's output and is dropped
    there."""
    programs = ["print(1)"] + [text for module, text in _PROGRAMS.items() if module in sys.modules]
    for _ in range(_ROUNDS):
        for program in programs:
            start.renew(_JOB)
            status = start.program(_JOB, program.encode())
            if status:
                raise RuntimeError(f"warm-up program exited with status {status}")
            start.flush()
            del sys.modules["__main__"]
    linecache.cache.clear()
    gc.collect()
