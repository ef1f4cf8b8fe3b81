"""The command: its main job, its own files, and one clear line for what it cannot use."""

import gzip
import pickle
import re
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest

from skdprp import AMPClassifier, privacy_report
from skdprp.__main__ import EPSILONS, main
from skdprp._tables import check_features, read_file

FIT = ["fit", "points.csv", "--target", "kind"]
SPARSE_FIT = ["fit", "points.svm", "--n-features", "4", "--default-bounds", "-8", "8"]
BOUNDS = ["--bounds", "a=-3:7", "b=-3:7", "--default-bounds", "-4", "8"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(text):
    """Return the figures of the printed table by the first word of their line."""
    rows = re.findall(r"^ +(not private|chance|[\d.]+)((?: +[\d.]+)+)$", text, flags=re.MULTILINE)
    return {name: [float(figure) for figure in figures.split()] for name, figures in rows}


@pytest.fixture
def points(folder):
    """Write two clouds of points as CSV and as LIBSVM; return the CSV's lines."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 4)) + 4 * y[:, None]
    lines = ["a,b,kind,c,d"] + [
        f"{r[0]},{r[1]},{'yes' if k else 'no'},{r[2]},{r[3]}" for r, k in zip(X, y, strict=True)
    ]
    (folder / "points.csv").write_text("\n".join(lines))
    libsvm = [f"{k} 1:{r[0]} 2:{r[1]} 3:{r[2]} 4:{r[3]}" for r, k in zip(X, y, strict=True)]
    (folder / "points.svm").write_text("\n".join(libsvm))
    return lines


def test_digits(folder, capsys):
    main([])
    out = capsys.readouterr().out
    figures = table(out)
    assert list(figures) == ["not private", *(f"{epsilon:g}" for epsilon in EPSILONS), "chance"]
    assert figures["chance"] == pytest.approx([0.102, 0.1, 0.102, 0.1], abs=1e-3)
    assert min(figures["not private"]) > 0.9
    oporp, sign = figures["20"][0], figures["5"][2]
    assert oporp > 0.7 and sign > 0.8, "far above chance where the noise is small"
    assert max(figures["0.5"]) < 0.4, "and near it where it is large"
    assert "(0.5, 1e-06)-DP" in out and "0.5-DP" in out
    assert (folder / "skdprp_utility.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv(points, folder, capsys, separator):
    (folder / "points.csv").write_text("\n".join(points).replace(",", separator))
    main(["points.csv", "--target", "kind", "--epsilon", "100", "--output", "out.png", "--max-change", "0.5"])
    out = capsys.readouterr().out
    assert "points.csv: 200 rows, 4 features, 2 classes" in out
    assert min(table(out)["100"]) > 0.9
    assert "at most 0.5" in out and (folder / "out.png").exists()


def test_column_of_row_numbers_is_no_feature(points, folder, capsys):
    numbered = [f"{i or ''},{line}" for i, line in enumerate(points)]
    (folder / "points.csv").write_text("\n".join(numbered))
    main(["points.csv", "--target", "kind", "--epsilon", "1"])
    out = capsys.readouterr().out
    assert "200 rows, 4 features" in out
    assert out.startswith("points.csv: the first column has no name, so it numbers the rows and is left out\n")
    main([*FIT, *BOUNDS])
    model, table = joblib.load("skdprp_model.joblib"), pd.read_csv("points.csv", index_col=0)
    assert model.predict(table.drop(columns="kind")).shape == (200,)


def test_public_centre_makes_signs_tell_something(points, folder, capsys):
    """Between two clouds around 0 and 4 the sign of x - 2 tells them apart; the sign of x + 100 tells nothing."""
    accuracy = {}
    for centre in ("2", "-100"):
        main(["points.csv", "--target", "kind", "--epsilon", "20", "--center", centre])
        accuracy[centre] = table(capsys.readouterr().out)["20"][2]
    assert accuracy["2"] > 0.9 > 0.7 > accuracy["-100"]


@pytest.mark.parametrize("gzipped", [False, True])
def test_libsvm(points, folder, capsys, gzipped):
    name = "points.svm.gz" if gzipped else "points.svm"
    if gzipped:
        (folder / name).write_bytes(gzip.compress((folder / "points.svm").read_bytes()))
    main([name, "--n-features", "4", "--epsilon", "100"])
    assert min(table(capsys.readouterr().out)["100"]) > 0.9


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
        (list, ["points.csv", "--target", "kind", "--n-features", "4"], "--n-features N for a LIBSVM file"),
        (list, ["points.svm", "--n-features", "3"], "not a valid LIBSVM file of 3 features, numbered from 1 to 3"),
        (list, ["points.svm", "--n-features", "4", "--zero-based"], "4 features, numbered from 0 to 3"),
        (list, ["--n-features", "4"], "go with a FILE"),
        (list, ["points.csv", "--target", "a"], "column 'kind' holds text"),
        (with_line(3, "secret,1,yes,2,3"), ["points.csv", "--target", "kind"], "column 'a' holds text"),
        (
            with_line(3, ",1,yes,2,3"),
            ["points.csv", "--target", "kind"],
            "column 'a' has missing values: name a public constant for them by --fill a=VALUE",
        ),
        (with_line(3, "inf,1,yes,2,3"), ["points.csv", "--target", "kind"], "column 'a' has infinite"),
        (with_line(3, "1,1,,2,3"), ["points.csv", "--target", "kind"], "points.csv: some labels are missing"),
        (
            with_line(3, "1,1,rare,2,3"),
            ["points.csv", "--target", "kind"],
            "points.csv: there must be two classes or more, and each needs at least 4 rows",
        ),
        (with_line(3, "1,1,yes,2,3,4,5,6"), ["points.csv", "--target", "kind"], "not a CSV"),
        (
            lambda lines: ["kind", *["yes", "no"] * 20],
            ["points.csv", "--target", "kind"],
            "points.csv: there is no column of features",
        ),
        (with_line(1, "1,1,yes,2,3,4"), ["points.csv", "--target", "kind"], "not a CSV"),
        (lambda lines: [], ["points.csv", "--target", "kind"], "is empty"),
        (lambda lines: lines[:1], ["points.csv", "--target", "kind"], "no rows"),
        (list, ["--target", "kind"], "go with a FILE"),
        (list, ["--default-bounds", "0", "1"], "go with a FILE"),
        (list, ["points.csv", "--target", "kind", "--bounds", "a=0:1"], "no bounds for 'b', 'c', 'd'"),
        (list, ["points.svm", "--n-features", "4", "--center", "1"], "sparse"),
        (list, ["--n-components", "0"], "positive int"),
        (list, ["--output", "out.foo"], "not the name of a picture"),
        (
            lambda lines: ["a,y", *[f"{i},{i + 0.5}" for i in range(30)]],
            ["points.csv", "--target", "y"],
            "points.csv: the labels are real",
        ),
        (list, ["points.csv", "--target", "kind", "--epsilon", "0"], "argument --epsilon: invalid positive float"),
        (list, ["points.csv", "--target", "kind", "--epsilon", "nan"], "argument --epsilon: invalid positive float"),
        (
            list,
            ["points.csv", "--target", "kind", "--max-change", "-1"],
            "argument --max-change: invalid positive float",
        ),
        (list, ["points.csv", "--target", "kind", "--output", "nowhere/out.png"], "no such folder"),
        (list, ["--unknown"], "unrecognized arguments"),
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


@pytest.mark.parametrize(
    "header",
    [
        "0.111,0.222,secret,0.333,0.444",
        "0.111,0.222,kind,0.333,0.444",
        "\ufeff0.111,b,kind,c,d",
        "a,b,kind,c,1e3",
        "a,b,kind,c,nan",
        "a,b,kind,c, 7 ",
        "a,b,kind,c,-",
        'a,b,kind,c,"0.111"',
        "a,b,kind,c,2001-02-03",
        "a,b,kind,c,0.111€",
        "a,b,kind,c,True",
        "a,b,kind,,d",
        "a,b,kind,c,Unnamed: 4",
        "2,3,kind,4,5",
        "1,3,kind,2,4",
        "a,1,kind,2,3",
        "a,b,kind,0.111,0.111",
    ],
)
@pytest.mark.parametrize("arguments", [[], BOUNDS])
def test_a_row_in_place_of_a_header_is_refused_and_not_quoted(points, folder, capsys, header, arguments):
    (folder / "points.csv").write_text("\n".join([header, *points[1:]]), encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        main([*FIT, *arguments])
    error = capsys.readouterr().err
    assert "the first line must hold the names of the 5 columns" in error
    assert not any(cell in error for cell in ("secret", "0.111", "0.222", "1e3", "nan", "2001", "True", "Unnamed"))
    assert {path.name for path in folder.iterdir()} == {"points.csv", "points.svm"}


@pytest.mark.parametrize("header", ["0,1,kind,2,3", "1,2,kind,3,4", "0,1,2,3,4", "a,1stFloor,kind,x1,größe"])
def test_names_may_be_consecutive_numbers_or_hold_them(points, folder, header):
    target = header.split(",")[2]
    (folder / "points.csv").write_text("\n".join([header, *points[1:]]), encoding="utf-8")
    main(["fit", "points.csv", "--target", target, "--default-bounds", "-4", "8"])
    names = [name for name in header.split(",") if name != target]
    assert list(joblib.load(folder / "skdprp_model.joblib").feature_names_in_) == names


@pytest.mark.parametrize("label", ["1", "1.0", "+1", "1e0"])
def test_labels_may_be_written_in_any_way(folder, label):
    (folder / "points.csv").write_text("\n".join(["a,kind", f"1,{label}", *["1,1", "0,0"] * 20]))
    (folder / "points.svm").write_text("\n".join([f"{label} 1:1", *["1 1:1", "0"] * 20]))
    for arguments in (FIT, SPARSE_FIT):
        main([*arguments, "--default-bounds", "-1", "1", "--force"])
        classes = joblib.load("skdprp_model.joblib").classes_
        assert classes.dtype == np.int64 and classes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        ([f"{2**53 + 1}.0", f"{2**53 + 1}", f"{-(2**63)}"], [-(2**63), 2**53 + 1]),
        (["-0.0", "0", " 1"], [0, 1]),
        (["True", "false", "TRUE"], [False, True]),
        (["1.0", "1", "a"], ["1", "1.0", "a"]),
        (["007", "0.5", "1_0", "true"], ["0.5", "007", "1_0", "true"]),
    ],
)
def test_the_set_of_labels_as_written_decides_how_they_are_read(folder, cells, classes):
    """Exactly, and in one type that is none of a cell's alone."""
    for order in (cells, cells[::-1]):
        (folder / "points.csv").write_text("\n".join(["a,kind", *[f"{i},{cell}" for i, cell in enumerate(order * 9)]]))
        main([*FIT, "--default-bounds", "0", "40", "--epsilon", "20", "--force"])
        found = joblib.load("skdprp_model.joblib").classes_.tolist()
        assert found == classes and [*map(type, found)] == [*map(type, classes)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("points.csv", ["a,kind", *["1,123456789012345678901", "2,2"] * 9], "real numbers, or beyond 64 bits; this"),
        ("points.csv", ["a,kind", *["1,0.123", "2,inf"] * 9], "the labels are real numbers, or beyond 64 bits; this"),
        ("points.svm", [f"{2**53} 1:1", *["1 1:1", "0"] * 9], "the labels of a LIBSVM file must be below 2^53"),
    ],
)
def test_labels_that_cannot_be_kept_exactly_are_refused(folder, capsys, name, lines, message):
    (folder / name).write_text("\n".join(lines))
    with pytest.raises(SystemExit, match="2"):
        main([*(FIT if "csv" in name else SPARSE_FIT), "--default-bounds", "0", "1"])
    error = capsys.readouterr().err
    assert message in error and "123" not in error


@pytest.mark.filterwarnings("error")
def test_the_command_does_not_warn_of_many_labels(folder):
    """Such a warning counts them."""
    (folder / "points.csv").write_text("\n".join(["a,kind", *[f"{i},{max(i, 1)}" for i in range(24)]]))
    main([*FIT, "--default-bounds", "0", "30", "--epsilon", "20"])


@pytest.mark.parametrize("arguments", [["fit", "cut.gz", *FIT[2:]], ["fit", "cut.gz", *SPARSE_FIT[2:]]])
def test_damaged_archives_are_refused(points, folder, capsys, arguments):
    whole = gzip.compress((folder / ("points.csv" if "kind" in arguments else "points.svm")).read_bytes())
    for content in (whole[:12], whole[:-200], whole[:20] + bytes(50) + whole[70:], b"no archive"):
        (folder / "cut.gz").write_bytes(content)
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert capsys.readouterr().err.count("\n") == 1


def test_binary_files_are_refused(folder, capsys):
    (folder / "image.png").write_bytes(bytes(range(256)))
    for kind, message in (("--target", "neither CSV nor LIBSVM"), ("--n-features", "not a valid LIBSVM")):
        with pytest.raises(SystemExit, match="2"):
            main(["image.png", kind, "1"])
        assert message in capsys.readouterr().err


def test_what_is_said_of_the_rows_is_public(folder, capsys):
    """Before the table of shares, rows of other values make no difference; bounds are advised where there are none."""
    said = []
    for scale in (1, 1000):
        lines = ["a,b,kind"] + [f"{i / 60},{scale * i / 60},{i % 2}" for i in range(60)]
        (folder / "table.csv").write_text("\n".join(lines))
        main(["table.csv", "--target", "kind", "--epsilon", "1"])
        said.append(capsys.readouterr().out.partition("DPOPORP")[0])
    assert said[0] == said[1] and "by --bounds" in said[0] and "keep them with the rows" in said[0]


def test_bounds_bring_columns_of_different_units_to_one_scale(points, folder, capsys):
    """One column in thousands: without bounds it drowns the noise, with them it is hidden like the others."""
    rows = [line.split(",") for line in points[1:]]
    lines = [",".join([str(1000 * float(row[0])), *row[1:]]) for row in rows]
    (folder / "points.csv").write_text("\n".join([points[0], *lines]))
    bounds = ["--bounds", "a=-4e3:8e3", "--default-bounds", "-4", "8"]
    main(["points.csv", "--target", "kind", "--epsilon", "1", "50", *bounds])
    out = capsys.readouterr().out
    assert "1 is the width of a column's bounds" in out and "by --bounds" not in out
    assert table(out)["50"][0] > 0.9 > table(out)["1"][0]


def test_fit_saves_a_private_model_and_prints_what_it_promises(points, folder, capsys):
    (folder / "more.csv").write_text("\n".join(points[:1] + points[100:]))
    main([*FIT, *BOUNDS, "--epsilon", "20", "--delta", "1e-6", "--test", "more.csv", "--output", "out.joblib"])
    out = capsys.readouterr().out
    assert "points.csv: 200 rows, 4 features, 2 classes" in out
    assert "(20.0, 1e-06)-DP" in out and "one row" in out and "in one row and its label" in out
    model, table = joblib.load(folder / "out.joblib"), pd.read_csv("points.csv")
    np.testing.assert_array_equal(model[0].bounds_, [[-3, 7], [-3, 7], [-4, 8], [-4, 8]])
    assert (model[1].max_norm, set(model.classes_)) == (1.0, {"yes", "no"})
    right = model.predict(table.drop(columns="kind")) == table["kind"]
    share = float(re.search(r"more.csv: right on ([\d.]+) of 101 rows", out)[1])
    assert share == pytest.approx(right[99:].mean(), abs=1e-3) and right.mean() > 0.9


def test_classes_are_listed_in_public_or_condition_the_guarantee(points, folder, capsys):
    """A listed class needs no row; what is read off the rows is printed as given."""
    main([*FIT, *BOUNDS, "--delta", "1e-6", "--classes", "yes,no,never"])
    out = capsys.readouterr().out
    assert "(1.0, 1e-06)-DP, one row replaced\n" in out and "as given in classes" in " ".join(out.split())
    assert "3 classes\nThese numbers are public, and so are the names of columns and classes: the model has them" in out
    assert joblib.load("skdprp_model.joblib").classes_.tolist() == ["never", "no", "yes"]
    main([*FIT, *BOUNDS, "--delta", "1e-6", "--force"])
    out = " ".join(capsys.readouterr().out.split())
    assert "(1.0, 1e-06)-DP, one row replaced, given the set of labels" in out
    assert "the names of columns: the model has them. Its classes are those of the rows" in out and "--classes" in out


@pytest.mark.parametrize(
    ("listed", "cells", "classes"),
    [
        ("0,1", ["1.0", "1", "+1", "0", "0e0"], [0, 1]),
        ("2,0,1", ["1", "0"], [0, 1, 2]),
        ("True,False", ["True", "False"], [False, True]),
        ("a,1", ["1", "a"], ["1", "a"]),
        ("yes,no", ["yes", "no"], ["no", "yes"]),
        (f"{2**53},{2**53 + 1}.0", [f"{2**53 + 1}", f"{2**53}.0"], [2**53, 2**53 + 1]),
    ],
)
def test_listed_classes_decide_how_labels_are_read(folder, capsys, listed, cells, classes):
    """As numbers if all of them are, and no cell has a say: neither a text among numbers nor a number among texts."""
    arguments = [*FIT, "--default-bounds", "-1", "1", "--force", "--classes", listed]
    lines = ["a,kind", *[f"{i % 2},{cell}" for i, cell in enumerate(cells * 8)]]
    (folder / "points.csv").write_text("\n".join(lines))
    main(arguments)
    found = joblib.load("skdprp_model.joblib").classes_.tolist()
    assert found == classes and {type(label) for label in found} == {type(classes[0])}
    for cell, message in (("secret", "some labels are not among --classes"), ("", "some labels are missing")):
        (folder / "points.csv").write_text("\n".join([*lines, f"1,{cell}"]))
        capsys.readouterr()
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert capsys.readouterr().err == f"skdprp: error: points.csv: {message}\n"


def test_other_rows_are_held_against_the_listed_classes(points, folder, capsys):
    """A label that the rows lack is right to ask for; one that nobody listed is not."""
    header = "a,b,kind,c,d"
    (folder / "more.csv").write_text(f"{header}\n1,2,never,3,4\n1,2,yes,3,4")
    arguments = [*FIT, *BOUNDS, "--test", "more.csv", "--force", "--classes"]
    main([*arguments, "yes,no,never"])
    assert "of 2 rows" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "yes,no"])
    assert capsys.readouterr().err == "skdprp: error: more.csv: some labels are not among --classes\n"


def test_a_class_without_rows_needs_none(folder, capsys):
    """What is listed suffices: that all rows have one label is not told."""
    (folder / "points.csv").write_text("\n".join(["a,kind", *["1,0"] * 20]))
    main([*FIT, "--default-bounds", "-1", "1", "--classes", "0,1"])
    assert joblib.load("skdprp_model.joblib").classes_.tolist() == [0, 1]


def test_fit_on_sparse_rows(points, folder, capsys):
    main([*SPARSE_FIT, "--epsilon", "20", "--max-norm", "0.5"])
    assert "wrote skdprp_model.joblib" in capsys.readouterr().out
    assert joblib.load("skdprp_model.joblib")[1].max_norm == 0.5


@pytest.mark.parametrize("row", ["1", "1 1:0.5", "1 4:0.5", "1 qid:7 1:0.5", "# secret\n1 1:0.5"])
def test_no_row_of_libsvm_decides_the_number_of_columns(folder, capsys, row):
    (folder / "points.svm").write_text("\n".join([row, *["0 1:0.5 2:-0.5", "1 2:0.5 3:1"] * 30]))
    main(SPARSE_FIT)
    model = joblib.load("skdprp_model.joblib")[1]
    assert model.coef_.shape == (1, 4) and model.max_norm == 1.0
    assert "61 rows, 4 features, 2 classes\nThese numbers are public" in capsys.readouterr().out


@pytest.mark.parametrize("row", ["0 5:777", "0 0:777", "777x 1:2", "0 1:777x", "0 99999999999999:777", "0 777"])
def test_bad_row_of_libsvm_is_not_quoted(folder, capsys, row):
    for position in (0, 30):
        rows = ["0 1:0.5 2:-0.5", "1 2:0.5 3:1"] * 30
        rows.insert(position, row)
        (folder / "points.svm").write_text("\n".join(rows))
        with pytest.raises(SystemExit, match="2"):
            main(SPARSE_FIT)
        error = capsys.readouterr().err
        assert error == "skdprp: error: points.svm: not a valid LIBSVM file of 4 features, numbered from 1 to 4\n"


def test_features_numbered_from_zero(points, folder):
    text = (folder / "points.svm").read_text()
    (folder / "shifted.svm").write_text(re.sub(r"(\d+):", lambda match: f"{int(match[1]) - 1}:", text))
    X, y = read_file(folder / "points.svm", n_features=4)
    X0, y0 = read_file(folder / "shifted.svm", n_features=4, zero_based=True)
    np.testing.assert_array_equal(X.toarray(), X0.toarray())
    np.testing.assert_array_equal(y, y0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (FIT, "no bounds for 'a', 'b', 'c', 'd'"),
        ([*FIT, "--bounds", "a=0:1", "b=0:1", "--bounds", "c=0:1"], "no bounds for 'd'"),
        ([*FIT, *BOUNDS, "--bounds", "e=0:1"], "no column 'e'"),
        ([*FIT, *BOUNDS, "--bounds", "a=1:0"], "'a=1:0': LOW must be below HIGH; low and high exchanged?"),
        ([*FIT, *BOUNDS, "--bounds", "a=0-1"], "'a=0-1': write a=0:1"),
        ([*FIT, *BOUNDS, "--bounds", "a=-.5 .. 1"], "write a=-.5:1"),
        ([*FIT, *BOUNDS, "--bounds", "a=low:1"], "'a=low:1': write COLUMN=LOW:HIGH"),
        ([*FIT, *BOUNDS, "--bounds", "0:1"], "'0:1' is not COLUMN=LOW:HIGH"),
        (["fit", "--target", "kind", *BOUNDS[:3], "points.csv"], "FILE goes first, before all options"),
        ([*FIT, *BOUNDS, "--categories", "e=1,2"], "--categories: no column 'e'"),
        ([*FIT, *BOUNDS, "--categories", "a=1,2"], "--bounds: column 'a' has categories already"),
        ([*FIT, *BOUNDS, "--categories", "c=1,2", "--fill", "c=1"], "--fill: column 'c' has categories already"),
        (
            [*FIT, *BOUNDS, "--categories", "c=few,many"],
            "points.csv: column 'c' holds none of its --categories",
        ),
        ([*FIT, *BOUNDS, "--categories", "c=few,few"], "one is empty or there twice"),
        ([*FIT, *BOUNDS, "--categories", "points.csv"], "FILE goes first"),
        ([*FIT, *BOUNDS, "--fill", "c=none"], "'c=none': VALUE must be a finite number"),
        ([*FIT, *BOUNDS, "--fill", "c=nan"], "'c=nan': VALUE must be a finite number"),
        ([*FIT, *BOUNDS, "--fill", "e=1"], "--fill: no column 'e'"),
        ([*FIT, *BOUNDS, "--delta", "2"], "delta"),
        ([*FIT, *BOUNDS, "--output", "points.csv"], "not the name of a model, like points.joblib"),
        ([*FIT, *BOUNDS, "--output", "old.joblib"], "old.joblib: exists already; --force overwrites it"),
        ([*FIT, *BOUNDS, "--output", "folder.joblib"], "folder.joblib: cannot be written"),
        ([*FIT, *BOUNDS, "--test", "nowhere.csv"], "No such file"),
        ([*FIT, *BOUNDS, "--test", "points.svm"], "points.svm: the first line must hold the names"),
        ([*SPARSE_FIT, "--test", "wide.svm"], "wide.svm: not a valid LIBSVM file of 4 features"),
        (["fit", "nowhere.csv", "--target", "kind"], "No such file"),
        ([*FIT, *BOUNDS, "--classes", "yes"], "'yes': there must be two classes or more"),
        ([*FIT, *BOUNDS, "--classes", "1,1.0"], "there must be two classes or more"),
        ([*FIT, *BOUNDS, "--classes", "yes,no,yes"], "one is empty or there twice"),
        ([*FIT, *BOUNDS, "--classes", "yes,,no"], "one is empty or there twice"),
        ([*FIT, *BOUNDS, "--classes", "0.5,1"], "'0.5,1': classes are names or whole numbers"),
        ([*FIT, *BOUNDS, "--classes", "1,nan"], "classes are names or whole numbers"),
        ([*FIT, *BOUNDS, "--classes", "yes,never"], "points.csv: some labels are not among --classes"),
        ([*FIT, *BOUNDS, "--classes", "0,1"], "points.csv: some labels are not among --classes"),
        ([*SPARSE_FIT, "--classes", "yes,no"], "points.svm: some labels are not among --classes"),
        ([*SPARSE_FIT, "--classes", "1,2"], "points.svm: some labels are not among --classes"),
        ([*SPARSE_FIT, "--default-bounds", "0", "9"], "would not stay zero"),
        (["fit"], "the following arguments are required: FILE"),
    ],
)
def test_bad_input_to_fit_is_one_line_and_leaves_no_model(points, folder, capsys, arguments, message):
    (folder / "folder.joblib").mkdir()
    (folder / "old.joblib").write_bytes(b"an older model")
    (folder / "wide.svm").write_text("1 1:1\n0 5:1\n")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b,kind,c", "1,2,yes,3"], "no column 'd', which points.csv has"),
        (["a,b,c,d", "1,2,3,4"], "no column 'kind' among the 4"),
        (["a,b,c,d,kind", "1,2,3,4,secret"], "some labels are not among those of points.csv"),
        (["a,b,c,d,kind", "1,2,3,4,", "1,2,3,4,yes"], "some labels are missing"),
        (["a,b,c,d,kind", "1,2,secret,4,yes"], "column 'c' holds text"),
        (["a,b,c,d,kind", "1,2,,4,yes"], "column 'c' has missing"),
        (["a,b,c,d,kind"], "there are no rows"),
    ],
)
def test_other_rows_are_checked_before_the_fit(points, folder, capsys, monkeypatch, lines, message):
    """A mistake in them costs no release: nothing is fitted."""
    monkeypatch.setattr(AMPClassifier, "fit", lambda *_: pytest.fail("fitted"))
    (folder / "more.csv").write_text("\n".join(lines))
    with pytest.raises(SystemExit, match="2"):
        main([*FIT, *BOUNDS, "--test", "more.csv"])
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"error: more.csv: {message}" in error and "secret" not in error
    assert not (folder / "skdprp_model.joblib").exists()


def test_columns_of_other_rows_are_taken_by_name(points, folder, capsys):
    """In any order, with more beside them; as sparse rows they may end early."""
    table = pd.read_csv("points.csv")
    table[["d", "kind", "a", "c", "b"]].assign(note="text").to_csv("more.csv", index=False)
    main([*FIT, *BOUNDS, "--epsilon", "20", "--test", "more.csv"])
    share = float(re.search(r"right on ([\d.]+) of 200 rows", capsys.readouterr().out)[1])
    model = joblib.load("skdprp_model.joblib")
    assert share == pytest.approx(model.score(table[["a", "b", "c", "d"]], table["kind"]), abs=1e-3)
    (folder / "more.svm").write_text("1 1:4\n0 2:0.5\n")
    main([*SPARSE_FIT, "--test", "more.svm", "--force"])
    assert "of 2 rows" in capsys.readouterr().out


PEOPLE = ["fit", "people.csv", "--target", "kind", "--bounds", "age=0:120", "weight=0:200", "--fill", "weight=70"]
PEOPLE += ["--categories", "sector=public,private", "level=3,1,2", "--epsilon", "20"]


def write_people(path, sectors, levels, weights):
    """Write rows whose label is their sector; missing values are empty."""
    rows = [
        f"{i % 90},{weights[i % 3]},{sectors[i % 3]},{levels[i % 3]},{'no' if i % 3 else 'yes'}" for i in range(600)
    ]
    path.write_text("\n".join(["age,weight,sector,level,kind", *rows]))


def test_fit_takes_text_and_missing_values_by_what_is_listed(folder, capsys):
    write_people(folder / "people.csv", ["private", "public", ""], [1, 3, 7], [80, "", 60])
    main(PEOPLE)
    assert "(20.0," in capsys.readouterr().out
    model, table = joblib.load("skdprp_model.joblib"), pd.read_csv("people.csv")
    assert model[1].max_norm == 2.5**0.5, "two columns of width 1, and two with categories"
    encoded = model[0].transform(table[:3])
    np.testing.assert_allclose(encoded[:, :2], np.c_[np.arange(3) / 120 - 0.5, [-0.1, -0.15, -0.2]])
    np.testing.assert_array_equal(encoded[:, 2:], [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    assert privacy_report(model).total.epsilon == 20
    assert model.score(table, table["kind"]) > 0.9


def test_columns_of_text_go_into_sketches_too(folder, capsys):
    write_people(folder / "people.csv", ["private", "public", ""], [1, 3, 7], [80, "", 60])
    main([*PEOPLE[1:-2], "--epsilon", "100"])
    out = capsys.readouterr().out
    assert "600 rows, 7 features" in out and "from one to another, each of them changes by 1" in out
    assert table(out)["100"][0] > 0.9


@pytest.mark.parametrize("listed", ["True,False", "1,2", "1,two"])
def test_no_cell_decides_how_the_others_are_read(folder, listed):
    """Beside truth values and numbers a missing one or a text changed the type of all, and hid them."""
    first, second = listed.split(",")
    features = []
    for cell in ("", "maybe", first):
        lines = ["flag,kind", *[f"{first},1", f"{second},0"] * 20, f"{cell},1"]
        (folder / "points.csv").write_text("\n".join(lines))
        main([*FIT, "--categories", f"flag={listed}", "--force"])
        model = joblib.load("skdprp_model.joblib")
        X, _ = read_file(folder / "points.csv", "kind", listed=["flag"])
        checked = check_features("points.csv", X, {"flag": model[0].transformers_[0][1].categories_[0].tolist()}, {})
        features.append(model[0].transform(checked))
    for encoded, last in zip(features, ([0, 0], [0, 0], [1, 0]), strict=True):
        np.testing.assert_array_equal(encoded, [[1, 0], [0, 1]] * 20 + [last])


def test_text_without_categories_is_told_what_to_do(folder, capsys):
    write_people(folder / "people.csv", ["secret", "public", ""], [1, 3, 7], [80, "", 60])
    with pytest.raises(SystemExit, match="2"):
        main([*FIT[:1], "people.csv", "--target", "kind", "--default-bounds", "0", "1", "--fill", "weight=70"])
    error = capsys.readouterr().err
    assert "column 'sector' holds text" in error and "--categories sector=THIS,THAT" in error and "secret" not in error


def test_a_saved_model_differs_by_its_release_alone(folder, capsys):
    """Rows with other values, other types of number, and none missing leave the same file but for the weights."""
    files = {}
    for name, rows in {
        "gaps": (["private", "public", ""], [1, 3, 7], [80, "", 60.5]),
        "whole": (["public", "other", "other"], [2.5, 1, ""], [50, 60, 70]),
    }.items():
        write_people(folder / "people.csv", *rows)
        main([*PEOPLE, "--output", f"{name}.joblib"])
        model = joblib.load(f"{name}.joblib")
        files[name] = model[1].coef_.copy()
        model[1].coef_, model[1].intercept_ = np.zeros_like(model[1].coef_), np.zeros(1)
        files[f"state of {name}"] = pickle.dumps([vars(step) for step in model])
    assert files["state of gaps"] == files["state of whole"]
    assert not np.array_equal(files["gaps"], files["whole"])


def test_a_closed_pipe_ends_quietly(folder):
    """As with ``| head``: no traceback, and nothing said at the end about what could not be flushed."""
    command = [sys.executable, "-m", "skdprp", "--epsilon", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
