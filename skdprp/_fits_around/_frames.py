"""The frames of Python around a call: the only place where a fit finds what it is a part of."""

import sys

_READ_VARIABLES = {"dir", "eval", "exec", "f_locals", "locals", "vars"}


def frames_around():
    """Yield the frames around this call; in a fork, those of its own, before which it has copies of others."""
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name == "_bootstrap" and frame.f_globals.get("__name__") == "multiprocessing.process":
            return
        yield frame


def frames_of_fits():
    """Yield those of them that may be of a fit, or of a call that a worker is handed."""
    return (frame for frame in frames_around() if frame.f_code.co_name.startswith(("fit", "_fit", "__call__")))


def variables(frame, *names):
    """Variables of a function by their names, or None."""
    is_copy = sys.version_info < (3, 13)  # which the frame keeps, and returns to who asks for locals()
    if is_copy and not _READ_VARIABLES.isdisjoint(frame.f_code.co_names):
        return [None] * len(names)
    known = frame.f_locals
    found = [known.get(name) for name in names]
    if is_copy and frame.f_trace is None:  # a debugger writes it back into the frame
        known.clear()  # or rows in it would stay in memory as long as the frame
    return found
