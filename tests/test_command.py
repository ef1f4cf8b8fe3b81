"""The command as a process: its output, its errors, its exit codes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import FIT

from skdprp import load_model
from skdprp._command import main

# Runs a command for each output, as `python -m` does; a fork has imported already what takes longest.
TO_OUTPUTS = """
import os, runpy, sys
import pandas, skdprp._command
reader, closed = os.pipe()
os.close(reader)
outputs = {"closed": closed, "none": None}
outputs |= {"full": os.open("/dev/full", os.O_WRONLY)} if os.path.exists("/dev/full") else {}
for name, output in outputs.items():
    if not os.fork():
        sys.argv[1:] = f"fit rows.csv --target kind --bounds a=0:6 --output {name}.npz".split()
        os.dup2(os.open(f"{name}.txt", os.O_WRONLY | os.O_CREAT), 2)
        if output is None:  # as Python finds it, where a shell closed it
            sys.stdout = sys.__stdout__ = os.close(1)
        else:
            os.dup2(output, 1)
        runpy.run_module("skdprp", run_name="__main__", alter_sys=True)
        sys.exit(0)
    print(name, os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """Folder, exit code and standard error of a fit that prints into a closed pipe, nowhere, or into a full device."""
    folder = tmp_path_factory.mktemp("ends")
    (folder / "rows.csv").write_text("\n".join(["a,kind", *(f"{i % 7},{i % 2}" for i in range(60))]))
    command = [sys.executable, "-c", TO_OUTPUTS]
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    codes = (line.split() for line in result.stdout.splitlines())
    return folder, {name: (int(code), (folder / f"{name}.txt").read_text()) for name, code in codes}


def test_a_closed_pipe_ends_quietly(ends):
    """As with ``| head``: no traceback, and nothing said at the end about what could not be flushed."""
    assert ends[1]["closed"] == (1, "")


def test_a_fit_whose_output_was_closed_still_writes_the_model(ends):
    """There is no standard output then, and files that are opened may get its number."""
    folder, ended = ends
    assert ended["none"] == (0, "")
    assert load_model(folder / "none.npz").guarantees


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_cannot_be_printed_is_one_line(ends):
    assert ends[1]["full"] == (2, f"skdprp: error: the output: {os.strerror(errno.ENOSPC)}\n")


@pytest.mark.parametrize(
    ("package", "arguments"), [("pandas", FIT), ("pandas", FIT[1:]), ("matplotlib", FIT[1:]), ("matplotlib", [])]
)
def test_a_missing_package_is_one_line_that_says_what_to_install(points, capsys, monkeypatch, package, arguments):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.figure", None)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    extra = {"pandas": "table", "matplotlib": "plot"}[package]
    assert error.count("\n") == 1 and f"{package}" in error and f'python -m pip install "skdprp[{extra}]"' in error


def test_help_names_the_commands_and_each_names_its_options(capsys):
    for arguments, named in (
        (["--help"], ["utility", "fit", "predict"]),
        (["utility", "--help"], ["--target", "--bounds", "--max-change"]),
        (["fit", "--help"], ["--target", "--bounds", "--classes", "--ledger", "--limit"]),
        (["predict", "--help"], ["MODEL", "FILE", "--output"]),
    ):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        out = capsys.readouterr().out
        assert all(word in out for word in named)


@pytest.mark.parametrize("arguments", [["report"], ["report", "--help"]])
def test_a_command_that_there_is_not_is_said_to_be_none(folder, capsys, arguments):
    with pytest.raises(SystemExit):
        main(arguments)
    assert "report is no command and no file; the commands are utility, fit, predict" in capsys.readouterr().err
