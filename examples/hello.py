"""The smallest program: greets the names given as arguments."""

import sys

names = sys.argv[1:] or ["world"]
for name in names:
    print(f"Hello, {name}!")
