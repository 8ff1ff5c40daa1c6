"""Cells whose outputs in the kernel must equal those of ipykernel, and the comparison of two runs."""
import re

import nbformat

CELLS = [
    "x = 41",
    "x + 1",
    "print('a'); print('b')\nx",
    "import sys\nprint('out'); print('err', file=sys.stderr); print('out again')",
    "def f(n):\n    return n * 2\nf(21)",
    "[1, 2, 3], {'a': 1, 'b': [True, None]}",
    "'text'",
    "x;",
    "None",
    "import math\nmath.pi",
    "1 / 0",
    "x",
    "undefined_name",
    "raise ValueError('a message')",
    "def broken(:\n    pass",
    "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n_ = ax.plot([1, 2, 3], [1, 4, 9])",
    "plt.plot([3, 1, 2])\nplt.title('title')\nplt.show()",
    "print('before')\nplt.bar(['a', 'b'], [1, 2])\nplt.show()\nprint('after')",
    "for n in range(2):\n    plt.plot([n, n + 1])\n    plt.show()",
    "fig",
    "import numpy as np\nnp.arange(6).reshape(2, 3)",
    "np.linspace(0, 1, 5).sum()",
    "from IPython.display import display, HTML, Markdown\ndisplay(HTML('<b>bold</b>'))",
    "display(Markdown('# title'))\ndisplay(42)",
    "class Shape:\n    def _repr_html_(self):\n        return '<i>shape</i>'\n    def __repr__(self):\n        return 'shape'\nShape()",
    "import asyncio\nawait asyncio.sleep(0)\n'awaited'",
    "_",
    "sum(i * i for i in range(1000))",
    "lines = '\\n'.join(str(n) for n in range(3))\nprint(lines)",
    "with open('note.txt', 'w') as file:\n    file.write('note')\nopen('note.txt').read()",
    "import json\nprint(json.dumps({'ok': True}, indent=1))",
    "handle = display('first', display_id='one')\ntype(handle).__name__, handle.display_id",
    "from IPython.display import update_display\nupdate_display('second', display_id='one')",
    "from IPython.display import clear_output\nprint('gone'); display(1)\nclear_output()\nprint('kept'); display(2)",
    "for n in range(4):\n    clear_output(wait=True)\n    display(n)\n    plt.plot([n])\n    plt.show()",
    "handle = display({'text/plain': 'raw'}, raw=True, display_id=True)\nhandle.update(Markdown('*new*'))\nprint('end')",
    "from IPython.display import display_html\ndisplay_html('<u>raw</u>', raw=True)",
    "%matplotlib inline\nplt.plot([1, 2])\nplt.xlabel('x')\nplt.show()",
]


def notebook():
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    return nbformat.v4.new_notebook(cells=cells)


def comparable(output):
    """Returns what two runs of a cell have in common: addresses, traces and pixels differ."""
    kind = output["output_type"]
    if kind == "stream":
        return [kind, output["name"], output["text"]]
    if kind == "error":
        return [kind, output["ename"], output["evalue"] if output["ename"] != "SyntaxError" else ""]
    data = {}
    for name, value in output["data"].items():
        if name == "image/png":
            assert value.startswith("iVBOR"), value[:20]
            value = "image"
        data[name] = re.sub("( object)? at 0x[0-9a-f]+", " at ADDRESS", value) if isinstance(value, str) else value
    return [kind, data, output.get("execution_count")]


def merged(outputs):
    """Joins the texts of a stream between other outputs: the pieces in which they arrive differ, and ipykernel does not keep the order of
    the two streams."""
    joined, streams = [], {}
    for output in map(comparable, outputs):
        if output[0] != "stream":
            joined.append(output)
            streams = {}
        elif output[1] in streams:
            streams[output[1]][2] += output[2]
        else:
            streams[output[1]] = output
            joined.append(output)
    return joined
