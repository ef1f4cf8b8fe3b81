"""The frames of Python around a call: the only place where a fit finds what it is a part of."""

import sys


def frames_around():
    """Yield the frames around this call; in a fork, those of its own, before which it has copies of others."""
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name == "_bootstrap" and frame.f_globals.get("__name__") == "multiprocessing.process":
            return
        yield frame


def frames_of_fits():
    return (frame for frame in frames_around() if frame.f_code.co_name.startswith(("fit", "_fit", "__call__")))


def variables(frame, *names):
    """Variables of a function of scikit-learn by their names, or None."""
    known = frame.f_locals
    found = [known.get(name) for name in names]
    # A copy that the frame keeps: rows in it would stay in memory as long. A debugger writes it back into the frame.
    if sys.version_info < (3, 13) and frame.f_trace is None:
        known.clear()
    return found
