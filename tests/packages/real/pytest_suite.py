"""Runs a small suite with pytest's default options, and prints its status where its report is right."""
import contextlib
import io

import pytest

SUITE = """
import os, sys, warnings
import pytest


def test_capsys(capsys):
    print("text")
    assert capsys.readouterr().out == "text\\n"


def test_capfd(capfd):
    os.write(1, b"bytes")
    print("more", file=sys.stderr, flush=True)
    assert capfd.readouterr() == ("bytes", "more\\n")


def test_tmp_path(tmp_path):
    (tmp_path / "file").write_text("content")
    assert (tmp_path / "file").read_text() == "content"


@pytest.mark.parametrize("number", [1, 2])
def test_environment(number, monkeypatch):
    monkeypatch.setenv("NUMBER", str(number))
    assert os.environ["NUMBER"] == str(number)


def test_warning():
    with pytest.warns(UserWarning):
        warnings.warn("here")


def test_fails():
    print("shown with the failure")
    os.write(2, b"and this\\n")
    assert [1, 2] == [1, 3]
"""

with open("test_suite.py", "w") as file:
    file.write(SUITE)
report = io.StringIO()
with contextlib.redirect_stdout(report):
    status = pytest.main(["test_suite.py"])
text = report.getvalue()
for part in ("1 failed, 6 passed", "shown with the failure", "and this", "At index 1 diff: 2 != 3"):
    if part not in text:
        print(f"{part!r} is not in the report:", text, sep="\n")
print(status.name)
