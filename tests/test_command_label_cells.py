"""Labels come in a type that no cell decides, or as the classes that are listed."""

import numpy as np
import pytest
from command import BOUNDS, FIT, SPARSE_FIT

from skdprp import load_model
from skdprp._command import main

UNTOLD = " (check the spelling; which ones is not told, because it would reveal rows)"


@pytest.mark.parametrize("label", ["1", "1.0", "+1", "1e0"])
def test_labels_may_be_written_in_any_way(folder, label):
    (folder / "points.csv").write_text("\n".join(["a,kind", f"1,{label}", *["1,1", "0,0"] * 20]))
    (folder / "points.svm").write_text("\n".join([f"{label} 1:1", *["1 1:1", "0"] * 20]))
    for arguments in (FIT, SPARSE_FIT):
        main([*arguments, "--default-bounds", "-1", "1", "--force"])
        classes = load_model("skdprp_model.npz").estimator.classes_
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
        found = load_model("skdprp_model.npz").estimator.classes_.tolist()
        assert found == classes and [*map(type, found)] == [*map(type, classes)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("points.csv", ["a,kind", *["1,123456789012345678901", "2,2"] * 9], "labels are real numbers, beyond 64 bits"),
        ("points.csv", ["a,kind", *["1,0.123", "2,inf"] * 9], "to predict a number give --target-bounds"),
        ("points.svm", [f"{2**53} 1:1", *["1 1:1", "0"] * 9], "the labels of a LIBSVM file must be below 2^53"),
    ],
)
def test_labels_that_cannot_be_kept_exactly_are_refused(folder, capsys, name, lines, message):
    (folder / name).write_text("\n".join(lines))
    with pytest.raises(SystemExit, match="2"):
        main([*(FIT if "csv" in name else SPARSE_FIT), "--default-bounds", "-1", "1"])
    error = capsys.readouterr().err
    assert message in error and "123" not in error


@pytest.mark.filterwarnings("error")
def test_the_command_does_not_warn_of_many_labels(folder):
    """Such a warning counts them."""
    (folder / "points.csv").write_text("\n".join(["a,kind", *[f"{i},{max(i, 1)}" for i in range(24)]]))
    main([*FIT, "--default-bounds", "0", "30", "--epsilon", "20"])


@pytest.mark.parametrize(
    ("listed", "cells", "classes"),
    [
        ("0,1", ["1.0", "1", "+1", "0", "0e0"], [0, 1]),
        ("2,0,1", ["1", "0"], [0, 1, 2]),
        ("True,False", ["True", "False"], [False, True]),
        ("a,1", ["1", "a"], ["1", "a"]),
        ("True,False", ["TRUE", "false"], [False, True]),
        ("yes,no", ["yes", "no"], ["no", "yes"]),
        ("1_0,2_0", ["1_0", "2_0"], ["1_0", "2_0"]),
        ("1,١", ["1", "١"], ["1", "١"]),
        (f"{2**53},{2**53 + 1}.0", [f"{2**53 + 1}", f"{2**53}.0"], [2**53, 2**53 + 1]),
    ],
)
def test_listed_classes_decide_how_labels_are_read(folder, capsys, listed, cells, classes):
    """As numbers if all of them are, and no cell has a say: neither a text among numbers nor a number among texts."""
    arguments = [*FIT, "--default-bounds", "-1", "1", "--force", "--classes", listed]
    lines = ["a,kind", *[f"{i % 2},{cell}" for i, cell in enumerate(cells * 8)]]
    (folder / "points.csv").write_text("\n".join(lines))
    main(arguments)
    found = load_model("skdprp_model.npz").estimator.classes_.tolist()
    assert found == classes and {type(label) for label in found} == {type(classes[0])}
    for cell, message in (("secret", "some labels are not among --classes"), ("", "some labels are missing")):
        (folder / "points.csv").write_text("\n".join([*lines, f"1,{cell}"]))
        capsys.readouterr()
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        error = capsys.readouterr().err
        assert error.startswith(f"skdprp: error: points.csv: {message}") and error.count("\n") == 1


def test_other_rows_are_held_against_the_listed_classes(points, folder, capsys):
    """A label that the rows lack is right to ask for; one that nobody listed is not."""
    header = "a,b,kind,c,d"
    (folder / "more.csv").write_text(f"{header}\n1,2,never,3,4\n1,2,yes,3,4")
    arguments = [*FIT, *BOUNDS, "--test", "more.csv", "--force", "--classes"]
    main([*arguments, "yes,no,never"])
    assert "more.csv: 2 rows" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "yes,no"])
    assert capsys.readouterr().err == f"skdprp: error: more.csv: some labels are not among --classes{UNTOLD}\n"


def test_a_class_without_rows_needs_none(folder, capsys):
    """What is listed suffices: that all rows have one label is not told."""
    (folder / "points.csv").write_text("\n".join(["a,kind", *["1,0"] * 20]))
    main([*FIT, "--default-bounds", "-1", "1", "--classes", "0,1", "--test", "points.csv"])
    assert load_model("skdprp_model.npz").estimator.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("cells", "others", "right"),
    [
        (["1", "2", "three"], ["1", "2"], 2),
        (["1", "2", "three"], ["three", "three"], 2),
        (["1.0", "2", "three"], ["1", "2"], None),
        (["True", "false"], ["TRUE", "FALSE"], 2),
        (["True", "false"], ["1", "0"], None),
        (["0", "1"], ["1.0", "+1"], 2),
        (["0", "1"], ["1.5", "1"], None),
    ],
)
def test_labels_of_other_rows_are_read_as_those_of_the_model(folder, capsys, cells, others, right):
    """Not by how they alone would be: a label that is text among the model's rows is text here too."""
    lines = ["a,kind", *[f"{i % len(cells)},{cells[i % len(cells)]}" for i in range(60)]]
    (folder / "points.csv").write_text("\n".join(lines))
    (folder / "more.csv").write_text("\n".join(["a,kind", *[f"1,{cell}" for cell in others]]))
    arguments = [*FIT, "--default-bounds", "0", "2", "--test", "more.csv"]
    if right:
        main(arguments)
        assert f"more.csv: {right} rows" in capsys.readouterr().out
        return
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    told = f"more.csv: some labels are not among those of points.csv{UNTOLD}"
    assert capsys.readouterr().err == f"skdprp: error: {told}\n"
