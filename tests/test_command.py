"""The command as a process: its output, its errors, its exit codes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import BOUNDS, FIT

from skdprp import load_model
from skdprp._command import main


def test_a_closed_pipe_ends_quietly(folder):
    """As with ``| head``: no traceback, and nothing said at the end about what could not be flushed."""
    command = [sys.executable, "-m", "skdprp", "--epsilon", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_fit_whose_output_was_closed_still_writes_the_model(points, folder):
    """There is no standard output then, and files that are opened may get its number."""
    command = f"exec {sys.executable} -m skdprp {' '.join([*FIT, *BOUNDS])} >&-"
    result = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert load_model(folder / "skdprp_model.npz").guarantees


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_cannot_be_printed_is_one_line(folder):
    command = [sys.executable, "-m", "skdprp", "--epsilon", "1"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (2, f"skdprp: error: the output: {os.strerror(errno.ENOSPC)}\n")


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
