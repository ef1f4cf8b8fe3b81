"""What a model and sketches of a table are good for: tables, a figure, and one clear line for what cannot be used."""

import gzip
import re
from pathlib import Path

import pytest
from command import FIT, printed
from matplotlib import rc_context
from matplotlib.figure import Figure

from skdprp._command import main
from skdprp._command._utility import EPSILONS
from skdprp.inspection import PrivacyUtilityDisplay

TABLE = FIT[1:]


@pytest.fixture
def undrawn(monkeypatch):
    """Write an empty figure, where what is printed is asked for: to draw one takes longer than all the rest."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: Path(path).touch())


def test_digits(folder, capsys, seeded):
    main([])
    out = capsys.readouterr().out
    of_model, of_sketches = out.split("DPOPORP", maxsplit=1)
    model = printed(of_model)
    assert model["chance"] == pytest.approx([0.102], abs=1e-3) and model["not private"][0] > 0.95
    assert model["5"][0] > 0.85, "rows and labels are hidden at an epsilon where sketches hide a pixel"
    assert "(0.5, 3.1e-07)-DP, one row replaced, given the set of labels" in out
    figures = printed(of_sketches)
    assert list(figures) == ["not private", *(f"{epsilon:g}" for epsilon in EPSILONS), "chance"]
    assert figures["chance"] == pytest.approx([0.102, 0.1, 0.102, 0.1], abs=1e-3)
    assert min(figures["not private"]) > 0.9
    oporp, sign = figures["20"][0], figures["5"][2]
    assert oporp > 0.7 and sign > 0.8, "far above chance where the noise is small"
    assert max(figures["0.5"]) < 0.4, "and near it where it is large"
    assert "(0.5, 1e-06)-DP" in out and "0.5-DP" in out
    assert (folder / "skdprp_utility.png").read_bytes().startswith(b"\x89PNG")


class TableBegins(Exception):
    """All that is said before has been said."""


@pytest.fixture
def untold(monkeypatch):
    """Raise where the table of shares would begin."""

    def begin(*_, **__):
        raise TableBegins

    monkeypatch.setattr(PrivacyUtilityDisplay, "from_estimator", begin)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_columns_of_a_csv_may_be_separated_otherwise(points, folder, capsys, untold, separator):
    (folder / "points.csv").write_text("\n".join(points).replace(",", separator))
    with pytest.raises(TableBegins):
        main(TABLE)
    assert "points.csv: 200 rows, 4 features, 2 classes" in capsys.readouterr().out


def test_csv(points, folder, capsys, seeded, undrawn):
    main([*TABLE, "--epsilon", "100", "--output", "out.png", "--max-change", "0.5"])
    out = capsys.readouterr().out
    assert "points.csv: 200 rows, 4 features, 2 classes" in out
    assert min(printed(out)["100"]) > 0.9
    assert "at most 0.5" in out and (folder / "out.png").exists()


def test_public_centre_makes_signs_tell_something(points, folder, capsys, seeded, undrawn):
    """Between two clouds around 0 and 4 the sign of x - 2 tells them apart; the sign of x + 100 tells nothing."""
    accuracy = {}
    for centre in ("2", "-100"):
        main([*TABLE, "--epsilon", "20", "--center", centre])
        accuracy[centre] = printed(capsys.readouterr().out)["20"][2]
    assert accuracy["2"] > 0.9 > 0.7 > accuracy["-100"]


def test_centre_is_taken_off_columns_with_bounds_too(points, folder, capsys, seeded, undrawn):
    """Both clouds, around 0 and 4, lie in the upper half of -20 to 8, so that all signs are the same."""
    accuracy = {}
    for centre in ("0", "0.35"):
        described = ["--default-bounds", "-20", "8", "--epsilon", "60"]
        main([*TABLE, *described, "--center", centre])
        accuracy[centre] = printed(capsys.readouterr().out)["60"][2]
    assert accuracy["0.35"] > 0.85 > accuracy["0"]


@pytest.mark.parametrize(
    ("bounds", "unit"), [([], ""), (["--default-bounds", "-20", "8"], " of the width of its bounds")]
)
def test_the_figure_says_in_which_units_a_row_may_change(points, folder, capsys, seeded, bounds, unit):
    """Between bounds columns are on one scale: a change by .01 as the table has it is one by far more, or less."""
    with rc_context({"svg.fonttype": "none"}):
        main([*TABLE, *bounds, "--epsilon", "2", "--max-change", "0.01", "--output", "figure.svg"])
    shown = " ".join(re.findall(r">([^<>]+)</t", (folder / "figure.svg").read_text())) + " "
    assert shown.count(f"unit of privacy: a change of one column of a row by 0.01{unit} ") == 2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rare_classes_are_scored_by_the_area_under_the_curve(folder, capsys, seeded, undrawn, n_classes):
    """No model predicts them, and all have the accuracy of a constant; the command says so."""
    kinds = ["often"] * 17 + ["rare", "rare", "seldom" if n_classes > 2 else "rare"]
    lines = [f"{len(kinds[i % 20]) % 5 * 0.2 + 0.02 * (i % 7)},{kinds[i % 20]}" for i in range(1000)]
    (folder / "rare.csv").write_text("\n".join(["x,kind", *lines]))
    arguments = ["rare.csv", "--target", "kind", "--bounds", "x=0:2", "--epsilon", "5"]
    main(arguments)
    assert "Most rows have the same label: --scoring roc_auc shows more." in capsys.readouterr().out
    main([*arguments, "--scoring", "roc_auc"])
    out = capsys.readouterr().out
    assert "AUC: learnt from 70% of the rows" in out and "--scoring" not in out
    figures = printed(out.split("The table of the sketches")[0])
    assert figures["chance"] == [0.5] and figures["5"][0] > 0.9 and figures["not private"][0] > 0.9


def test_a_model_gets_the_bins_that_fit_makes(folder, capsys, seeded, undrawn):
    """The label changes four times along x, which no line on scaled numbers follows."""
    rows = [(i % 100 / 100, "yes" if i % 100 // 20 % 2 else "no") for i in range(3000)]
    (folder / "waves.csv").write_text("\n".join(["x,kind", *(f"{x},{kind}" for x, kind in rows)]))
    main(["waves.csv", "--target", "kind", "--bounds", "x=0:1", "--epsilon", "5"])
    assert printed(capsys.readouterr().out.split("The table of the sketches")[0])["5"][0] > 0.95


@pytest.mark.parametrize("gzipped", [False, True])
def test_libsvm(points, folder, capsys, seeded, undrawn, gzipped):
    name = "points.svm.gz" if gzipped else "points.svm"
    if gzipped:
        (folder / name).write_bytes(gzip.compress((folder / "points.svm").read_bytes()))
    main([name, "--n-features", "4", "--epsilon", "100"])
    assert min(printed(capsys.readouterr().out)["100"]) > 0.9


def with_line(position, line):
    return lambda lines: [*lines[:position], line, *lines[position + 1 :]]


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (list, ["nowhere.csv", "--target", "kind"], "No such file"),
        (list, ["points.csv"], "--target"),
        (list, ["points.csv", "--target", "colour"], "no column 'colour' among the 5"),
        (list, ["points.svm"], "--n-features"),
        (list, ["points.svm", "--target", "kind"], "the first line must hold the names"),
        (list, [*TABLE, "--n-features", "4"], "--n-features N for a LIBSVM file"),
        (list, ["points.svm", "--n-features", "3"], "not a valid LIBSVM file of 3 features, numbered from 1 to 3"),
        (list, ["points.svm", "--n-features", "4", "--zero-based"], "4 features, numbered from 0 to 3"),
        (list, ["--n-features", "4"], "go with a FILE"),
        (list, ["points.csv", "--target", "a"], "column 'kind' holds text"),
        (with_line(3, "secret,1,yes,2,3"), TABLE, "column 'a' holds text"),
        (
            with_line(3, ",1,yes,2,3"),
            TABLE,
            "column 'a' has missing values: give its --bounds, or leave it out by --drop a",
        ),
        (with_line(3, "inf,1,yes,2,3"), TABLE, "column 'a' has infinite"),
        (with_line(3, "1,1,,2,3"), TABLE, "points.csv: some labels are missing"),
        (
            with_line(3, "1,1,rare,2,3"),
            TABLE,
            "points.csv: there must be two classes or more, and each class needs at least 4 rows, to learn from",
        ),
        (with_line(3, "1,1,yes,2,3,4,5,6"), TABLE, "not a CSV"),
        (lambda lines: ["kind", *["yes", "no"] * 20], TABLE, "points.csv: there is no column of features"),
        (with_line(1, "1,1,yes,2,3,4"), TABLE, "not a CSV"),
        (lambda lines: [], TABLE, "is empty"),
        (lambda lines: lines[:1], TABLE, "no rows"),
        (list, ["--target", "kind"], "go with a FILE"),
        (list, ["--default-bounds", "0", "1"], "go with a FILE"),
        (list, ["points.svm", "--n-features", "4", "--center", "1"], "sparse"),
        (list, ["points.svm", "--n-features", "4", "--drop", "a"], "--drop goes with a CSV"),
        (list, ["--n-components", "0"], "positive int"),
        (list, ["--random-state", "-1"], "argument --random-state: invalid seed value: '-1'"),
        (list, ["--output", "out.foo"], "not the name of a picture"),
        (
            lambda lines: ["a,y", *[f"{i},{i + 0.5}" for i in range(30)]],
            ["points.csv", "--target", "y"],
            "points.csv: the labels are real",
        ),
        (list, [*TABLE, "--epsilon", "0"], "argument --epsilon: invalid positive float"),
        (list, [*TABLE, "--epsilon", "nan"], "argument --epsilon: invalid positive float"),
        (list, [*TABLE, "--max-change", "-1"], "argument --max-change: invalid positive float"),
        (list, [*TABLE, "--output", "nowhere/out.png"], "no such folder"),
        (list, ["--unknown"], "unrecognized arguments: --unknown\n"),
        (
            list,
            [*TABLE, "--classes=yes,no", "--private-bins"],
            "--private-bins; of the command fit there is --classes, --private-bins: python -m skdprp fit FILE ...",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(points, folder, capsys, change, arguments, message):
    (folder / "points.csv").write_text("\n".join(change(points)))
    before = set(folder.iterdir())
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    error = capsys.readouterr().err
    assert exit_.value.code == 2
    assert error.count("\n") == 1 and message in error and "secret" not in error
    assert set(folder.iterdir()) == before


def test_what_is_said_of_the_rows_is_public(folder, capsys, untold):
    """Before the table of shares, rows of other values make no difference; bounds are advised where there are none."""
    said = []
    for scale in (1, 1000):
        lines = ["a,b,kind"] + [f"{i / 60},{scale * i / 60},{i % 2}" for i in range(60)]
        (folder / "table.csv").write_text("\n".join(lines))
        with pytest.raises(TableBegins):
            main(["table.csv", "--target", "kind", "--epsilon", "1"])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and "by --bounds" in said[0] and "keep them with the rows" in said[0]
