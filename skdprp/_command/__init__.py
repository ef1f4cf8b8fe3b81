"""The command: what private models and sketches of a table are good for; ``fit`` and ``predict``."""

import argparse
import os
import re
import sys
import warnings
from pathlib import Path

from sklearn.exceptions import DataDimensionalityWarning

from ..ledger import LedgerError, UnrecordedNoiseError
from ..linear_model import SolverError
from . import _fit, _predict, _utility

__all__ = ["main"]


class _ShortParser(argparse.ArgumentParser):
    """Report each error in one line, without the usage."""

    def error(self, message):
        """Print a line for each error to standard error, and exit with 2."""
        lines = (" ".join(line.split()) for line in message.splitlines())
        self.exit(2, "".join(f"skdprp: error: {line}\n" for line in lines if line))


def main(arguments=None):
    """Run the command; on bad input print a line for each error to standard error, and exit with 2."""
    parser = _ShortParser(
        prog="python -m skdprp",
        description="Differentially private sketches and models of the rows of a table.",
        epilog="Without a command, utility is meant: python -m skdprp utility --help tells its options.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    _utility.add_command(commands)
    _fit.add_command(commands)
    _predict.add_command(commands)
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] not in {*commands.choices, "-h", "--help"}:
        arguments.insert(0, "utility")
    if (
        len(arguments) > 1
        and arguments[0] == "utility"
        and arguments[1].isidentifier()
        and not Path(arguments[1]).exists()
    ):
        parser.error(f"{arguments[1]} is no command and no file; the commands are {', '.join(commands.choices)}")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        flags = set(re.findall(r"--[\w-]+", commands.choices["fit"].format_help()))
        of_fit = sorted(flags.intersection(argument.partition("=")[0] for argument in unknown))
        hint = f"; of the command fit there is {', '.join(of_fit)}: python -m skdprp fit FILE ..." * bool(of_fit)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if sys.stdout is None:  # whoever started the command closed it
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what a terminal cannot show, such as the 2 of R², ends no command
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataDimensionalityWarning)  # --n-components was asked for
            warnings.filterwarnings("ignore", "The epsilons of all steps add up")  # the total says so as well
            options.run(options)
        sys.stdout.flush()
    except OSError as error:  # of what is printed, mostly: files have errors of their own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush at the end
        if isinstance(error, BrokenPipeError):  # whoever read the output, such as head, has enough
            sys.exit(1)
        parser.error(f"{error.filename or 'the output'}: {error.strerror}")
    except (ValueError, SolverError, LedgerError, UnrecordedNoiseError, NotImplementedError) as error:
        parser.error(str(error))
    except MemoryError:
        parser.error("there is too little memory for so many rows and columns")
    except ImportError as error:
        package = error.name.partition(".")[0]
        extra = "plot" if package == "matplotlib" else "table"
        parser.error(f'{package} is missing: python -m pip install "skdprp[{extra}]"')
