"""Files that the command writes: whole, or not at all."""

import os
import shutil


def check_output(path, kind, types):
    """Refuse a file that cannot be written, or by its name is something else, such as the table."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{path}: no such folder")
    if path.is_dir() or not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ValueError(f"{path}: cannot be written")
    if path.suffix[1:] not in types:
        like = "png" if "png" in types else types[0]
        raise ValueError(f"{path}: not the name of a {kind}, like {path.stem or kind}.{like}")


def write(path, dump):
    """Let `dump` write a file that takes the place of `path` when it is complete."""
    target = path.resolve()  # what a link points to is replaced, and not the link
    part = target.with_name(f".{os.getpid()}-{target.name}")  # beside it, and with the ending that says the format
    try:
        dump(part)
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    except OSError as error:  # such as a full disk
        raise ValueError(f"{path}: {error.strerror or 'cannot be written'}; nothing was written") from None
    finally:
        part.unlink(missing_ok=True)
