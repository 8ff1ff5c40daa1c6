"""Counts lines, words and characters of standard input, and its commonest words.

Usage: wordcount.py [HOW_MANY] < text
"""

import collections
import re
import sys

how_many = int(sys.argv[1]) if len(sys.argv) > 1 else 5

lines = characters = 0
words = collections.Counter()
for line in sys.stdin:  # a line at a time: the input may be larger than memory
    lines += 1
    characters += len(line)
    words.update(re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", line.lower()))

print(f"{lines} lines, {words.total()} words, {characters} characters")
for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:how_many]:
    print(f"{count:6} {word}")
