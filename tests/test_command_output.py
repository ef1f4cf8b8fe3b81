"""What the command writes is there as a whole, or not at all."""

import resource
from contextlib import contextmanager

import pytest
from command import BOUNDS, FIT

from skdprp import load_model
from skdprp._command import main


@contextmanager
def full_disk():
    """Let no file grow beyond 100 bytes: as on a full disk, opening one works and writing it fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("arguments", "output", "exists"),
    [
        ([*FIT, *BOUNDS, "--force"], "old.npz", True),
        ([*FIT, *BOUNDS, "--force"], "old.npz", False),
        (["points.csv", "--target", "kind", "--epsilon", "1"], "old.png", True),
    ],
)
def test_a_full_disk_is_one_line_and_what_was_there_stays(points, folder, capsys, arguments, output, exists):
    if exists:
        (folder / output).write_bytes(b"older")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with full_disk(), pytest.raises(SystemExit, match="2"):
        main([*arguments, "--output", output])
    error = capsys.readouterr().err
    assert error == f"skdprp: error: {output}: File too large; nothing was written\n"
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_model_that_is_overwritten_keeps_its_place_and_who_may_read_it(points, folder):
    (folder / "secret").mkdir()
    model = folder / "secret" / "model.npz"
    model.write_bytes(b"older")
    model.chmod(0o600)
    (folder / "link.npz").symlink_to(model)
    main([*FIT, *BOUNDS, "--force", "--output", "link.npz"])
    assert (folder / "link.npz").is_symlink() and model.stat().st_mode & 0o777 == 0o600
    assert set(load_model(model).estimator.classes_) == {"yes", "no"}
    assert list(model.parent.iterdir()) == [model]
