"""A private model of a file: saved whole, checked before, and one clear line for what cannot be used."""

import numpy as np
import pandas as pd
import pytest
from command import BOUNDS, FIT, SPARSE_FIT, printed_scores
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

from skdprp import AMPClassifier, DPRidge, DPSGDClassifier, PublicScaler, load_model
from skdprp._command import main


def test_fit_saves_a_private_model_and_prints_what_it_guarantees(points, folder, capsys, seeded):
    (folder / "more.csv").write_text("\n".join(points[:1] + points[100:]))
    main([*FIT, *BOUNDS, "--epsilon", "20", "--delta", "1e-6", "--test", "more.csv", "--output", "out.npz"])
    out = capsys.readouterr().out
    assert "points.csv: 200 rows, 4 features, 2 classes" in out
    assert "(20.0, 1e-06)-DP" in out and "one row" in out and "in one row and its label or target" in out
    model, table = load_model(folder / "out.npz").estimator, pd.read_csv("points.csv")
    edges = model[0]["columns"].named_transformers_["numbers"].bin_edges_
    assert [(bins[0], bins[-1], len(bins)) for bins in edges] == [(-3, 7, 21)] * 2 + [(-4, 8, 21)] * 2
    assert (model[1].max_norm, set(model.classes_)) == (1.0, {"yes", "no"})
    right = model.predict(table.drop(columns="kind")) == table["kind"]
    scores = printed_scores(out, "more.csv: 101 rows")
    assert scores["private"][0] == pytest.approx(right[99:].mean(), rel=1e-3) and right.mean() > 0.9
    assert scores["not private"][0] > 0.9 > 0.7 > scores["constant"][0] and scores["constant"][1] == 0.5


def test_classes_are_listed_in_public_or_condition_the_guarantee(points, folder, capsys):
    """A listed class needs no row; what is read off the rows is printed as given."""
    main([*FIT, *BOUNDS, "--delta", "1e-6", "--classes", "yes,no,never"])
    out = capsys.readouterr().out
    assert "(1.0, 1e-06)-DP, one row replaced\n" in out and "labels listed in classes" in " ".join(out.split())
    assert "3 classes\nThese numbers are public, and so are the names of columns and of classes: the model" in out
    assert load_model("skdprp_model.npz").estimator.classes_.tolist() == ["never", "no", "yes"]
    main([*FIT, *BOUNDS, "--delta", "1e-6", "--force"])
    out = " ".join(capsys.readouterr().out.split())
    assert "(1.0, 1e-06)-DP, one row replaced, given the set of labels" in out
    assert "the names of columns: the model has them. Its classes are those of the rows" in out and "--classes" in out


@pytest.mark.parametrize("classes", [["--classes", "0,1,2"], []])
def test_more_than_two_classes_are_told_by_gradient_descent(folder, capsys, classes):
    """Of a LIBSVM file as of a CSV, whether classes are listed or read off the rows."""
    lines = [f"{i % 3},{np.cos(i % 3)},{np.sin(i % 3)}" for i in range(600)]
    (folder / "three.csv").write_text("\n".join(["kind,x,y", *lines]))
    (folder / "three.svm").write_text("\n".join("{} 1:{} 2:{}".format(*line.split(",")) for line in lines))
    table = ["--target", "kind", "--bounds", "x=-1:1", "y=-1:1"]
    sparse = ["--n-features", "2", "--default-bounds", "-1", "1"]
    for given in (["three.csv", *table], ["three.svm", *sparse]):
        main(["fit", *given, *classes, "--epsilon", "30", "--delta", "1e-6", "--force"])
        assert "(30.0, 1e-06)-DP, one row replaced" in capsys.readouterr().out
        model = load_model("skdprp_model.npz").estimator
        assert type(model[-1]) is DPSGDClassifier and model.classes_.tolist() == [0, 1, 2]
    main(["fit", "three.csv", *table, "--classes", "0,1,2", "--force", "--test", "three.csv", "--epsilon", "30"])
    assert printed_scores(capsys.readouterr().out, "three.csv: 600 rows\n")["private"][0] > 0.9


def test_fit_on_sparse_rows(points, folder, capsys):
    main([*SPARSE_FIT, "--epsilon", "20", "--max-norm", "0.5"])
    assert "wrote skdprp_model.npz" in capsys.readouterr().out
    assert load_model("skdprp_model.npz").estimator[1].max_norm == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*FIT, *BOUNDS, "--bounds", "e=0:1"], "no column 'e'"),
        ([*FIT, *BOUNDS, "--bounds", "a=1:0"], "'a=1:0': LOW must be below HIGH; low and high exchanged?"),
        ([*FIT, *BOUNDS, "--bounds", "a=0-1"], "'a=0-1': write a=0:1"),
        ([*FIT, *BOUNDS, "--bounds", "a=-.5 .. 1"], "write a=-.5:1"),
        ([*FIT, *BOUNDS, "--bounds", "a=low:1"], "'a=low:1': write COLUMN=LOW:HIGH"),
        ([*FIT, *BOUNDS, "--bounds", "0:1"], "'0:1' is not COLUMN=LOW:HIGH"),
        (["fit", "--target", "kind", *BOUNDS[:3], "points.csv"], "FILE goes first, before all options"),
        ([*FIT, *BOUNDS, "--categories", "e=1,2"], "--categories: no column 'e'"),
        (
            [*FIT, *BOUNDS, "--categories", "c=few,many"],
            "points.csv: column 'c' holds none of its --categories",
        ),
        ([*FIT, *BOUNDS, "--categories", "c=few,few"], "one is empty or there twice"),
        ([*FIT, *BOUNDS, "--categories", "c=None,few"], "a cell None is read as a missing value"),
        ([*FIT, *BOUNDS, "--classes", "NA,yes"], "a cell NA is read as a missing value"),
        ([*FIT, *BOUNDS, "--categories", "points.csv"], "FILE goes first"),
        ([*FIT, *BOUNDS, "--fill", "c=none"], "'c=none': VALUE must be a finite number"),
        ([*FIT, *BOUNDS, "--fill", "c=nan"], "'c=nan': VALUE must be a finite number"),
        ([*FIT, *BOUNDS, "--fill", "e=1", "--numbers", "scaled"], "--fill: no column 'e'"),
        ([*FIT, *BOUNDS, "--fill", "a=1"], "--fill goes with --numbers scaled"),
        ([*FIT, *BOUNDS, "--drop", "e"], "--drop: no column 'e'"),
        ([*FIT, *BOUNDS, "--drop", "a"], "--bounds: column 'a' is left out by --drop"),
        ([*FIT, "--drop", "a", "b", "--drop", "c", "d"], "there is no column of features"),
        ([*FIT, *BOUNDS, "--categories", "c=@nowhere.txt"], "'c=@nowhere.txt': no text in UTF-8 can be read"),
        ([*FIT, *BOUNDS, "--categories", "c=@empty.txt"], "one is empty or there twice"),
        ([*FIT, *BOUNDS, "--target-bounds", "1:0"], "'1:0': LOW must be below HIGH"),
        ([*FIT, *BOUNDS, "--target-bounds", "low:high"], "'low:high': write LOW:HIGH"),
        ([*FIT, *BOUNDS, "--target-bounds", "0:1"], "points.csv: the targets must be numbers"),
        ([*FIT, *BOUNDS, "--target-bounds", "0:1", "--classes", "yes,no"], "give one of them"),
        ([*FIT[:3], "a", *BOUNDS[3:], "--categories", "kind=yes,no"], "to predict a number give --target-bounds"),
        ([*FIT, *BOUNDS, "--delta", "2"], "argument --delta: invalid positive float below 1 value: '2'"),
        ([*FIT, "--default-bounds", "3", "-3"], "--default-bounds: LOW must be below HIGH"),
        ([*FIT, "--default-bounds", "0", "inf"], "--default-bounds: LOW must be below HIGH, and both finite"),
        ([*FIT, *BOUNDS, "--zero-based"], "--zero-based is for LIBSVM files"),
        ([*FIT, *BOUNDS, "--output", "points.csv"], "not the name of a model, like points.npz"),
        ([*FIT, *BOUNDS, "--output", "old.npz"], "old.npz: exists already; --force overwrites it"),
        (["fit", "old.npz", *FIT[2:], *BOUNDS, "--output", "old.npz", "--force"], "old.npz: is a file to read, and"),
        ([*FIT, *BOUNDS, "--output", "old.npz", "--fill", "a=1"], "--fill goes with --numbers scaled"),
        ([*FIT, *BOUNDS, "--output", "old.npz", "--zero-based"], "--zero-based is for LIBSVM files"),
        ([*FIT, *BOUNDS, "--output", "old.npz", "--limit", "1"], "--limit goes with --ledger FILE"),
        ([*FIT, *BOUNDS, "--output", "folder.npz"], "folder.npz: cannot be written"),
        ([*FIT, *BOUNDS, "--test", "nowhere.csv"], "No such file"),
        ([*FIT, *BOUNDS, "--test", "points.svm"], "points.svm: the first line must hold the names"),
        ([*SPARSE_FIT, "--test", "wide.svm"], "wide.svm: not a valid LIBSVM file of 4 features"),
        (SPARSE_FIT[:4], "points.svm: no bounds of the features of a LIBSVM file: give --default-bounds LOW HIGH"),
        ([*SPARSE_FIT[:4], "--private-bins"], "no bounds of the features of a LIBSVM file"),
        ([*SPARSE_FIT, "--bounds", "a=0:1"], "--bounds goes with a CSV: features of a LIBSVM file are scaled"),
        ([*SPARSE_FIT, "--numbers", "bins"], "--numbers goes with a CSV"),
        (["fit", "nowhere.csv", "--target", "kind"], "No such file"),
        ([*FIT, *BOUNDS, "--classes", "yes"], "'yes': there must be two classes or more"),
        ([*FIT, *BOUNDS, "--classes", "1,1.0"], "there must be two classes or more"),
        ([*FIT, *BOUNDS, "--classes", "yes,no,yes"], "one is empty or there twice"),
        ([*FIT, *BOUNDS, "--classes", "yes,,no"], "one is empty or there twice"),
        ([*FIT, *BOUNDS, "--classes", "0.5,1"], "'0.5,1': classes are names or whole numbers"),
        ([*FIT, *BOUNDS, "--classes", "1,nan"], "classes are names or whole numbers"),
        ([*FIT, *BOUNDS, "--classes", "yes,never"], "--classes (check the spelling; which ones is not told"),
        ([*FIT, *BOUNDS, "--classes", "0,1"], "points.csv: some labels are not among --classes"),
        ([*SPARSE_FIT, "--classes", "yes,no"], "points.svm: some labels are not among --classes"),
        ([*SPARSE_FIT, "--classes", "1,2"], "points.svm: some labels are not among --classes"),
        ([*SPARSE_FIT, "--default-bounds", "0", "9"], "would not stay zero"),
        (["fit"], "the following arguments are required: FILE"),
    ],
)
def test_bad_input_to_fit_is_one_line_and_leaves_no_model(points, folder, capsys, arguments, message):
    (folder / "folder.npz").mkdir()
    (folder / "old.npz").write_bytes(b"an older model")
    (folder / "wide.svm").write_text("1 1:1\n0 5:1\n")
    (folder / "empty.txt").write_text("\n")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_bounds_may_be_given_in_several_options(points, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*FIT, "--bounds", "a=0:1", "b=0:1", "--bounds", "c=0:1"])
    first, second = capsys.readouterr().err.splitlines()
    assert first == "skdprp: error: points.csv: no bounds for 'd'" and "--default-bounds" in second


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b,kind,c", "1,2,yes,3"], "no column 'd', which points.csv has"),
        (["a,b,c,d", "1,2,3,4"], "no column 'kind' among the 4"),
        (["a,b,c,d,kind", "1,2,3,4,secret"], "some labels are not among those of points.csv"),
        (
            ["a,b,c,d,kind", "1,2,3,4,", "1,2,3,4,yes"],
            "some labels are missing: drop the rows without a label beforehand",
        ),
        (["a,b,c,d,kind", "1,2,secret,4,yes"], "column 'c' holds text"),
        (["a,b,c,d,kind", "1,2,-inf,4,yes"], "column 'c' has infinite"),
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
    assert not (folder / "skdprp_model.npz").exists()


def test_columns_of_other_rows_are_taken_by_name(points, folder, capsys):
    """In any order, with more beside them; as sparse rows they may end early."""
    table = pd.read_csv("points.csv")
    table[["d", "kind", "a", "c", "b"]].assign(note="text").to_csv("more.csv", index=False)
    main([*FIT, *BOUNDS, "--epsilon", "20", "--test", "more.csv"])
    scores = printed_scores(capsys.readouterr().out, "more.csv: 200 rows")
    model = load_model("skdprp_model.npz").estimator
    assert scores["private"][0] == pytest.approx(model.score(table[["a", "b", "c", "d"]], table["kind"]), rel=1e-3)
    (folder / "more.svm").write_text("1 1:4\n0 2:0.5\n")
    main([*SPARSE_FIT, "--test", "more.svm", "--force"])
    assert "more.svm: 2 rows" in capsys.readouterr().out


def test_a_number_is_predicted_where_bounds_of_it_are_given(folder, capsys, seeded):
    """By ridge regression, with R² and errors beside those of two models without privacy."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 90, 3000), "town": rng.choice(["York", "Hull"], 3000)})
    table["rent"] = 5 * table["age"] + np.where(table["town"] == "York", 300, 0)
    table.to_csv("rents.csv", index=False)
    given = ["--bounds", "age=0:120", "--categories", "town=York,Hull", "--target-bounds", "0:1000", "--epsilon", "10"]
    main(["fit", "rents.csv", "--target", "rent", *given, "--test", "rents.csv"])
    out = capsys.readouterr().out
    assert "rents.csv: 3000 rows, 2 features, a number to predict" in out and "(10.0, " in out
    scores, model = printed_scores(out, "rents.csv: 3000 rows\n"), load_model("skdprp_model.npz").estimator
    assert type(model[1]) is DPRidge and model[1].target_bounds == (0, 1000)
    assert type(model[0]["columns"].named_transformers_["numbers"]) is PublicScaler
    r2, rmse = scores["private"]
    assert r2 == pytest.approx(model.score(table, table["rent"]), rel=1e-3) and r2 > 0.9
    assert rmse == pytest.approx(np.sqrt(np.mean((model.predict(table) - table["rent"]) ** 2)), rel=1e-3)
    assert scores["not private"][0] > 0.9 and scores["constant"][0] == pytest.approx(0, abs=1e-3)


def test_scores_are_those_of_the_model_and_are_said_to_be_without_noise(folder, capsys, seeded):
    """Three classes, one of which the other rows lack: AUC is the mean of each against the rest that is there."""
    lines = [f"{i % 3 + 0.1 * np.sin(i)},{'abc'[i % 3]}" for i in range(900)]
    (folder / "rows.csv").write_text("\n".join(["x,kind", *lines]))
    (folder / "more.csv").write_text("\n".join(["x,kind", *(line for line in lines if not line.endswith("c"))]))
    main(["fit", "rows.csv", "--target", "kind", "--bounds", "x=-1:4", "--epsilon", "20", "--test", "more.csv"])
    out = capsys.readouterr().out
    scores, model, table = (
        printed_scores(out, "more.csv: 600 rows"),
        load_model("skdprp_model.npz").estimator,
        pd.read_csv("more.csv"),
    )
    found = model.predict_proba(table)
    auc = np.mean([roc_auc_score(table["kind"] == label, found[:, i]) for i, label in enumerate("ab")])
    accuracy = model.score(table, table["kind"])  # of two classes of as many rows, the balanced one as well
    expected = [accuracy, auc, log_loss(table["kind"], found, labels=["a", "b", "c"]), accuracy]
    np.testing.assert_allclose(scores["private"], expected, rtol=1e-3)
    assert scores["not private"][2] < scores["constant"][2] == pytest.approx(np.log(3), rel=1e-3)
    assert "computed from the rows without noise" in out and "keep them with the rows" in out


def test_a_model_on_private_bins_is_told_from_one_on_bins_without_noise(folder, capsys, recwarn):
    """The label changes three times along x, which the few bins found at this epsilon cannot follow."""
    x = np.arange(600) % 400 / 100
    rows = pd.DataFrame({"x": x, "kind": np.array(["low", "high", "middle", "high"])[x.astype(int)]})
    rows.to_csv("rows.csv", index=False)
    main(["fit", "rows.csv", "--target", "kind", "--private-bins", "--epsilon", "0.3", "--test", "rows.csv"])
    out = capsys.readouterr().out
    scores = printed_scores(out, "rows.csv: 600 rows\n")
    assert list(scores) == ["private", "same bins", "not private", "constant"]
    assert scores["not private"][0] > 0.9 > scores["same bins"][0]
    assert "same bins: a model without noise on the private bins" in out and not recwarn.list
    assert "The noise hides most of what 600 rows show: numbers without bounds have a single bin.\nGive --bounds" in out
    main(["fit", "rows.csv", "--target", "kind", "--bounds", "x=0:4", "--test", "rows.csv", "--force"])
    assert "same bins" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "is_found"),
    [([], True), (["--target-bounds", "0:2"], True), (["--target-bounds", "0:2", "--numbers", "scaled"], False)],
)
def test_private_bins_lie_between_bounds_that_are_given(folder, capsys, seeded, given, is_found):
    """Unless scaled numbers are asked for, of classes as of numbers; the reference has bins between them as well."""
    rows = pd.DataFrame({"x": np.arange(400.0) % 40, "kind": np.arange(400) % 40 // 14})
    rows.to_csv("rows.csv", index=False)
    bounded = ["--bounds", "x=0:1000", "--private-bins", "--epsilon", "30", "--test", "rows.csv"]
    main(["fit", "rows.csv", "--target", "kind", *bounded, *given])
    out = capsys.readouterr().out
    columns = load_model("skdprp_model.npz").estimator[0]["columns"]
    assert ("same bins" in printed_scores(out, "rows.csv: 400 rows\n")) == ("numbers: x\n" in out) == is_found
    assert ("numbers" in columns.named_transformers_) != is_found
    if is_found:
        assert printed_scores(out, "rows.csv: 400 rows\n")["not private"][0] > 0.9
        edges = columns.named_transformers_["remainder"].bin_edges_[0]
        assert len(edges) > 5 and edges[-2] < 40, "bins of equal width would be 50 wide"


@pytest.mark.parametrize("threshold", ["0.2", "prior"])
def test_a_threshold_goes_with_the_model(points, folder, capsys, threshold):
    (folder / "more.csv").write_text("\n".join(points[:1] + points[100:]))
    main([*FIT, *BOUNDS, "--epsilon", "20", "--threshold", threshold, "--test", "more.csv"])
    out = capsys.readouterr().out
    model, table = load_model("skdprp_model.npz").estimator, pd.read_csv("points.csv")[99:]
    limit = model[-1].prior_threshold_ if threshold == "prior" else 0.2
    predicted = model.predict(table.drop(columns="kind"))
    np.testing.assert_array_equal(predicted == "yes", model.predict_proba(table.drop(columns="kind"))[:, 1] > limit)
    balanced = printed_scores(out, "more.csv: 101 rows")["private"][3]
    assert balanced == pytest.approx(balanced_accuracy_score(table["kind"], predicted), rel=1e-3)
    assert "Only the private model has the --threshold" in out


def test_a_threshold_is_refused_where_there_are_no_two_classes(points, folder, capsys):
    for more in (["--classes", "yes,no,never"], ["--target-bounds", "0:1"]):
        with pytest.raises(SystemExit):
            main([*FIT, *BOUNDS, *more, "--threshold", "0.2"])
        assert "--threshold is for two classes" in capsys.readouterr().err


def test_rows_to_score_on_are_said_to_lie_beyond_the_bounds(points, folder, capsys):
    main([*FIT, "--bounds", "a=5:6", "--default-bounds", "-9", "9", "--test", "points.csv"])
    out = capsys.readouterr().out
    assert "points.csv: column 'a': " in out and "of the cells are beyond the bounds\nThese figures are computed" in out
