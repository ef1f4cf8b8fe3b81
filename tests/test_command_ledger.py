"""A ledger of fits by the command: what all have spent, and one line for a fit that is refused before it spends."""

import pytest
from command import BOUNDS, FIT

from skdprp import AMPClassifier, PrivacyLedger
from skdprp._command import main

LEDGER = ["--force", "--delta", "1e-6", "--ledger", "spent.jsonl"]


def refused(capsys, arguments):
    """Return the one line of a refusal."""
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_the_help_says_how_a_ledger_is_shown(points, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["fit", "--help"])
    assert "print(skdprp.PrivacyLedger('people.jsonl'))" in " ".join(capsys.readouterr().out.split())
    main([*FIT, *BOUNDS, *LEDGER, "--epsilon", "0.4", "--limit", "1"])
    given = ", given the set of labels" * ("--classes" not in FIT)
    line = f"limit (1.0, 1e-05)-DP, one row replaced{given}, epsilons and deltas added up as in the line adaptive; "
    for shown in (capsys.readouterr().out, str(PrivacyLedger("spent.jsonl"))):
        assert f"{line}spent (0.4, " in " ".join(shown.split())


def test_fits_of_several_runs_add_up_in_one_file_until_the_limit(points, folder, capsys):
    given = [*FIT, *BOUNDS, *LEDGER, "--epsilon", "0.4", "--limit", "1"]
    main(given)
    out = capsys.readouterr().out
    assert "spent.jsonl: all that was released" in out and "releases    1 of AMPClassifier" in out
    main(given)
    assert "releases    2 of AMPClassifier" in capsys.readouterr().out
    model = (folder / "skdprp_model.npz").read_bytes()
    assert "Left are epsilon = 0.2 and delta = 8e-06." in refused(capsys, given)
    assert "Left are" in refused(capsys, given[:-2])  # the limit is that of the file
    assert (folder / "skdprp_model.npz").read_bytes() == model
    main([*FIT, *BOUNDS, *LEDGER, "--epsilon", "0.2"])
    assert len(PrivacyLedger("spent.jsonl").entries) == 3


def test_private_bins_are_not_paid_for_a_fit_that_is_refused(points, capsys, monkeypatch):
    monkeypatch.setattr(AMPClassifier, "fit", lambda *_: pytest.fail("fitted"))
    given = [*FIT, "--private-bins", *LEDGER, "--epsilon", "1", "--limit", "0.5:1e-4"]
    for _ in range(2):
        assert "DPBinner + AMPClassifier is not released" in refused(capsys, given)
    assert PrivacyLedger("spent.jsonl").entries == ()


def test_bins_and_model_take_from_a_limit_what_both_cost_together(points, capsys):
    """They took the sum of their epsilons, 1.22, as if one had been chosen after the other was seen."""
    main([*FIT, "--private-bins", *LEDGER, "--epsilon", "1", "--limit", "1:1e-6"])
    ledger = PrivacyLedger("spent.jsonl")
    [released] = ledger.entries
    assert released.guarantee.n_releases == 2
    assert 0.999 < released.guarantee.epsilon <= 1.0
    assert "Left are" in refused(capsys, [*FIT, *BOUNDS, *LEDGER, "--epsilon", "0.01"])


def test_a_refusal_by_a_ledger_that_is_open_around_is_one_line(points, capsys):
    """It was a traceback."""
    with PrivacyLedger() as ledger:
        ledger.limit(0.5, 1e-5)
        assert "AMPClassifier is not released" in refused(capsys, [*FIT, *BOUNDS, "--epsilon", "1", "--delta", "1e-6"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--limit", "1"], "--limit goes with --ledger FILE"),
        (["--ledger", "spent.jsonl", "--limit", "0"], "argument --limit: invalid"),
        (["--ledger", "spent.jsonl", "--limit", "1:2"], "argument --limit: invalid"),
        (["--ledger", "nowhere/spent.jsonl"], "nowhere/spent.jsonl: no such folder"),
        (["--ledger", "folder"], "folder: cannot be written"),
        (["--ledger", "notes.txt"], "notes.txt is no ledger"),
        (["--ledger", "early.jsonl", "--limit", "2"], "A limit is fixed once, before the first release"),
    ],
)
def test_bad_ledgers_are_one_line_and_nothing_is_fitted(points, folder, capsys, monkeypatch, options, message):
    (folder / "folder").mkdir()
    (folder / "notes.txt").write_text("a text\n")
    with PrivacyLedger("early.jsonl") as ledger:
        ledger.limit(1.0, 1e-5)
    monkeypatch.setattr(AMPClassifier, "fit", lambda *_: pytest.fail("fitted"))
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert message in refused(capsys, [*FIT, *BOUNDS, *options])
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_mistake_in_the_rows_makes_no_ledger(points, folder, capsys):
    assert "no column 'e'" in refused(capsys, [*FIT, *BOUNDS, "--bounds", "e=0:1", "--ledger", "spent.jsonl"])
    assert not (folder / "spent.jsonl").exists()
