"""Runs the kernel with the clients of Jupyter. Arguments: the name of the kernel in Python, and of the one in JavaScript."""
import asyncio
import sys

import nbclient
from jupyter_client.manager import KernelManager

from notebook import CELLS, merged, notebook

PYTHON, JAVASCRIPT = sys.argv[1:]
TIMEOUT = 120


def run(kernel):
    book = notebook()
    nbclient.NotebookClient(book, kernel_name=kernel, allow_errors=True, timeout=TIMEOUT).execute()
    return book


def compare():
    ours, theirs = run(PYTHON), run("python3")
    differences = []
    for number, (text, mine, other) in enumerate(zip(CELLS, ours.cells, theirs.cells), 1):
        mine, other = [(cell.execution_count, merged(cell.outputs)) for cell in (mine, other)]
        if mine != other:
            differences.append(f"cell {number}: {text!r}\n  codebox:   {mine}\n  ipykernel: {other}")
    assert not differences, "\n".join(differences)
    assert len(CELLS) >= 30


class Client:
    """A kernel, and a client of it."""

    def __init__(self, name):
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def run(self, code, **options):
        """Runs a cell, and returns its reply and its outputs."""
        outputs = []
        options.setdefault("allow_stdin", False)
        reply = self.client.execute_interactive(code, timeout=TIMEOUT, output_hook=outputs.append, **options)
        return reply["content"], [(one["msg_type"], one["content"]) for one in outputs if one["msg_type"] != "status"]

    def value(self, code):
        reply, outputs = self.run(code)
        assert reply["status"] == "ok", reply
        [value] = [content["data"]["text/plain"] for kind, content in outputs if kind == "execute_result"]
        return value

    def request(self, name, *args):
        identity = getattr(self.client, name)(*args)
        return self.client._recv_reply(identity, timeout=TIMEOUT)["content"]

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel()


def protocol():
    one = Client(PYTHON)
    info = one.request("kernel_info")
    assert info["implementation"] == "codebox" and info["language_info"]["name"] == "python", info
    assert one.value("kept = 20\nkept + 1") == "21"
    found = one.request("complete", "x = kep", 7)
    assert found["matches"] == ["kept"] and (found["cursor_start"], found["cursor_end"]) == (4, 7), found
    found = one.request("complete", "'\U0001f600'; 'a'.upp", 13)
    assert "matches" in found
    found = one.request("complete", "import os; os.path.jo", 21)
    assert found["matches"] == [], "a completion does not run the text"
    one.run("import os")
    found = one.request("complete", "os.path.joi", 11)
    assert found["matches"] == ["join"], found
    found = one.request("inspect", "print(", 6)
    assert found["found"] and "print" in found["data"]["text/plain"], found
    assert not one.request("inspect", "nothing_of_this_name", 4)["found"]
    assert one.request("is_complete", "for x in y:")["status"] == "incomplete"
    assert one.request("is_complete", "1 + 1")["status"] == "complete"
    # Expressions of clients have all forms of their values, or an error.
    reply, _ = one.run("kept + 2", user_expressions={"a": "kept * 2", "b": "1 / 0", "c": "None"})
    found = reply["user_expressions"]
    assert found["a"] == {"status": "ok", "data": {"text/plain": "40"}, "metadata": {}}, found
    assert (found["b"]["status"], found["b"]["ename"]) == ("error", "ZeroDivisionError"), found
    assert found["c"]["data"] == {"text/plain": "None"}, found
    one.run("kept + 1")

    # Cells of codebox are not counted, and leave no names and no value.
    assert one.value("_, [name for name in ('main', 'code', 'cursor', 'task') if name in globals()]") == "(21, [])"
    reply, outputs = one.run("1", silent=True)
    assert reply["status"] == "ok" and not outputs, outputs

    # Cells have the same number in tracebacks and for clients, with their lines, also after completions and silent cells.
    reply, _ = one.run("def failing():\n    return 1 / 0")
    number = reply["execution_count"]
    one.request("complete", "kep", 3)
    one.run("'silent'", silent=True)
    reply, _ = one.run("failing()")
    text = "\n".join(reply["traceback"])
    assert f'"<cell {number}>", line 2' in text and f'"<cell {number + 1}>", line 1' in text, text
    assert "return 1 / 0" in text and "silent" not in text, text

    # A cell that is interrupted is without effect.
    import threading
    threading.Timer(3, one.manager.interrupt_kernel).start()
    reply, outputs = one.run("kept = 0\nwhile True: pass")
    assert reply["status"] == "error" and reply["ename"] == "KeyboardInterrupt", reply
    assert one.value("kept") == "20"

    # Cells behind one that fails do not run.
    first, second = one.client.execute("import time; time.sleep(1); 1/0"), one.client.execute("kept = 1")
    replies = [one.client._recv_reply(identity, timeout=TIMEOUT)["content"]["status"] for identity in (first, second)]
    assert replies == ["error", "aborted"], replies
    assert one.value("kept") == "20"

    # A limit ends the cell alone.
    reply, _ = one.run("x = [0] * 10**10")
    assert reply["status"] == "error", reply
    assert one.value("kept") == "20"

    # The end of the interpreter is an error, and the state is that before the cell.
    reply, _ = one.run("kept = 1; import os; os._exit(0)")
    assert reply["ename"] == "SystemExit" and "before this cell" in reply["traceback"][-1], reply
    assert one.value("kept") == "20"
    one.run("file = open('open.txt', 'w')")
    reply, _ = one.run("import os; os._exit(3)")
    assert "could not be saved" in reply["traceback"][-1], reply
    assert one.value("kept") == "20"

    # Requests without the parts that have defaults, and unknown ones, have a reply.
    assert one.request("history")["status"] == "ok"
    message = one.client.session.msg("execute_request", {"code": "1"})
    one.client.shell_channel.send(message)
    assert one.client._recv_reply(message["header"]["msg_id"], timeout=TIMEOUT)["content"]["status"] == "ok"
    message = one.client.session.msg("unknown_request", {})
    one.client.shell_channel.send(message)
    assert one.client._recv_reply(message["header"]["msg_id"], timeout=TIMEOUT)["content"]["status"] == "error"

    # A long word before the cursor does not slow a completion down.
    assert one.request("complete", "s = '" + "A" * 100000 + "'\nkep", 100010)["matches"] == ["kept"]

    # A completion that does not end is cancelled, and the variables are kept.
    one.run("class Endless:\n    def __dir__(self):\n        while True: pass\nendless = Endless()")
    assert one.request("complete", "endless.", 8)["matches"] == []
    assert one.value("type(endless).__name__, kept") == "('Endless', 20)"

    # Tracebacks are outputs of their own, also long ones and after other text.
    for code in ("def f(n): f(n + 1)\nf(0)", "raise ExceptionGroup('g', [ValueError(1)])", "import sys; sys.stderr.write('text '); 1 / 0"):
        reply, outputs = one.run(code)
        text = "".join(content["text"] for kind, content in outputs if kind == "stream")
        assert reply["status"] == "error" and "Traceback" not in text, (code, text)

    # Input comes from the client.
    lines = ["first", "second"]
    reply, outputs = one.run(
        "a = input('name: '); b = input(); print(a + b)", allow_stdin=True, stdin_hook=lambda _: one.client.input(lines.pop(0))
    )
    text = "".join(content["text"] for kind, content in outputs if kind == "stream")
    assert reply["status"] == "ok" and text == "name: firstsecond\n", (reply, text)
    reply, _ = one.run("input()")
    assert reply["ename"] == "EOFError", reply
    asked = []

    def answer(request):
        asked.append(request["content"]["password"])
        one.client.input("secret")

    program = "import getpass\nprint(len(input()), len(getpass.getpass()), len(input()))"
    for _ in range(2):
        _, outputs = one.run(program, allow_stdin=True, stdin_hook=answer)
        assert ("stream", {"name": "stdout", "text": "Password: 6 6 6\n"}) in outputs, outputs
    assert asked == [False, True, False] * 2, asked

    # The sandbox grants what the kernel was installed with.
    reply, _ = one.run("open('/etc/hostname')")
    assert reply["ename"] == "FileNotFoundError", reply
    assert one.value("open('/data/note').read()") == "'granted'"
    reply, _ = one.run("open('/data/new', 'w')")
    assert reply["status"] == "error", reply

    # Messages without the key of the connection file are dropped.
    key, one.client.session.key = one.client.session.key, b"wrong"
    one.client.execute("kept = 2")
    one.client.session.key = key
    assert one.value("kept") == "20"

    one.manager.restart_kernel(now=False)
    one.client.wait_for_ready(timeout=TIMEOUT)
    reply, _ = one.run("kept")
    assert reply["ename"] == "NameError", reply
    one.stop()
    assert not one.manager.is_alive()


def javascript():
    one = Client(JAVASCRIPT)
    assert one.request("kernel_info")["language_info"]["name"] == "javascript"
    assert one.value("const kept = 20; kept + 1") == "21"
    reply, outputs = one.run("console.log('out'); throw new TypeError('a message')")
    assert reply["ename"] == "TypeError" and reply["evalue"] == "a message", reply
    assert ("stream", {"name": "stdout", "text": "out\n"}) in outputs, outputs
    assert "stderr" not in [content.get("name") for _, content in outputs], outputs
    reply, outputs = one.run("display('a', {display_id: 'x'}); display('b', {display_id: 'x', update: true}); undefined")
    assert [(kind, content.get("transient")) for kind, content in outputs if "display" in kind] == [
        ("display_data", {"display_id": "x"}), ("update_display_data", {"display_id": "x"})
    ], outputs
    found = one.request("complete", "Math.flo", 8)
    assert found["matches"] == ["floor"] and found["cursor_start"] == 5, found
    assert one.value("kept") == "20"
    one.stop()


if __name__ == "__main__":
    compare()
    protocol()
    javascript()
    print("passed")
