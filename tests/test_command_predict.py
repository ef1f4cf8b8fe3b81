"""Predictions of a file: those of the model that was saved, and one clear line for what cannot be used."""

from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from command import BOUNDS, FIT, SPARSE_FIT
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from test_command_output import full_disk

from skdprp import AMPClassifier, DPSearchCV, load_model, make_table_preprocessor, save_model
from skdprp._command import main

PREDICT = ["predict", "skdprp_model.npz", "points.csv"]


@pytest.fixture
def fitted(points, folder, capsys):
    main([*FIT, *BOUNDS, "--epsilon", "20"])
    capsys.readouterr()
    return folder


def test_each_row_has_a_label_and_probabilities(fitted, capsys):
    """In the order of the rows, whatever that of the columns is, and with others beside them."""
    model, table = load_model("skdprp_model.npz").estimator, pd.read_csv("points.csv")
    table[["d", "c", "kind", "b", "a"]].assign(note="text").to_csv("more.csv", index=False)
    main(PREDICT)
    out = capsys.readouterr().out
    assert "wrote skdprp_predictions.csv: 200 predictions" in out and "No guarantee covers the rows of points" in out
    main(["predict", "skdprp_model.npz", "more.csv", "--output", "more_predictions.csv"])
    for name in ("skdprp_predictions.csv", "more_predictions.csv"):
        found = pd.read_csv(name)
        assert list(found) == ["prediction", "probability_no", "probability_yes"]
        np.testing.assert_array_equal(found["prediction"], model.predict(table))
        np.testing.assert_allclose(found[["probability_no", "probability_yes"]], model.predict_proba(table), rtol=1e-12)


def test_a_search_predicts_by_its_best_model(points, folder):
    table = pd.read_csv("points.csv")
    columns = make_table_preprocessor(dict.fromkeys("abcd", (-4, 8)))
    search = DPSearchCV(make_pipeline(columns, AMPClassifier(classes=["no", "yes"])), {}, epsilon=20.0, n_trials=1)
    save_model("search.npz", search.fit(table[list("abcd")], table["kind"]))
    main(["predict", "search.npz", "points.csv"])
    found = pd.read_csv("skdprp_predictions.csv")
    np.testing.assert_array_equal(found["prediction"], search.predict(table[list("abcd")]))


def test_a_threshold_that_was_moved_is_that_of_the_predictions(fitted):
    model = load_model("skdprp_model.npz").estimator
    model[-1].threshold = 0.9
    save_model("skdprp_model.npz", model)
    main(PREDICT)
    found = pd.read_csv("skdprp_predictions.csv")
    np.testing.assert_array_equal(found["prediction"] == "yes", found["probability_yes"] > 0.9)


def test_a_threshold_is_for_the_second_of_two_classes(fitted, capsys):
    main([*PREDICT, "--threshold", "0.2"])
    found = pd.read_csv("skdprp_predictions.csv")
    np.testing.assert_array_equal(found["prediction"] == "yes", found["probability_yes"] >= 0.2)
    for threshold in ("0", "1", "nan", "half"):
        with pytest.raises(SystemExit):
            main([*PREDICT, "--force", "--threshold", threshold])
        assert "is no number above 0 and below 1, and not prior" in capsys.readouterr().err
    pd.read_csv("points.csv").drop(columns="kind").to_csv("numbers.csv", index=False)
    main(["fit", "numbers.csv", "--target", "d", "--target-bounds=-4:8", *BOUNDS, "--output", "number.npz"])
    with pytest.raises(SystemExit):
        main(["predict", "number.npz", "points.csv", "--force", "--threshold", "0.2"])
    assert "--threshold is for two classes, which number.npz does not predict" in capsys.readouterr().err


@pytest.mark.parametrize("target", [["--classes", "no,yes"], ["--target-bounds", "0:1"]])
def test_columns_have_the_types_of_the_fit(folder, target):
    """Found and listed ones, of numbers, truth values and names; cells that are missing, and names of numbers only."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 90, 2000), "size": rng.normal(size=2000)})
    table["town"] = rng.choice(["7", "York"], 2000)
    table["level"] = rng.choice([1, 2], 2000)
    table["owns"] = rng.choice([True, False], 2000)
    table["sector"] = rng.choice(["1", "b"], 2000)
    is_young = table["age"] < 50
    table["y"] = np.where(is_young, "yes", "no") if target[0] == "--classes" else is_young.astype(int)
    table.to_csv("rows.csv", index=False)
    known = ["--bounds", "age=0:120", "--categories", "level=1,2", "owns=True,False", "sector=1,b", "--private-bins"]
    main(["fit", "rows.csv", "--target", "y", *target, *known, "--epsilon", "50"])
    model, features = load_model("skdprp_model.npz").estimator, table.drop(columns="y")
    expected = model.predict(features.assign(town=features["town"].astype(object)))
    few = table[(table["town"] == "7") & (table["sector"] == "1") & table["owns"]].drop(columns="y")
    few.to_csv("few.csv", index=False)  # in which all is numbers
    main(["predict", "skdprp_model.npz", "few.csv"])
    found = pd.read_csv("skdprp_predictions.csv")
    if target[0] == "--classes":
        np.testing.assert_array_equal(found["prediction"], expected[few.index])
    else:
        assert list(found) == ["prediction"]
        np.testing.assert_allclose(found["prediction"], expected[few.index], rtol=1e-12)
    few.assign(**dict.fromkeys(few)).to_csv("empty.csv", index=False)
    main(["predict", "skdprp_model.npz", "empty.csv", "--force"])
    assert pd.read_csv("skdprp_predictions.csv")["prediction"].nunique() == 1


@pytest.fixture(scope="module")
def bad_input(tmp_path_factory):
    """A folder of a model of the command, of models that it cannot use, and of tables that no model takes."""
    folder = tmp_path_factory.mktemp("bad")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()):
        patch.chdir(folder)
        y = np.arange(200) % 2
        X = np.random.default_rng(0).normal(size=(200, 4)) + 4 * y[:, None]
        dump_svmlight_file(X, y, "points.svm", zero_based=False)
        table = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(y, "yes", "no"))
        table[["a", "b", "kind", "c", "d"]].to_csv("points.csv", index=False)
        (folder / "model.csv").symlink_to(folder / "skdprp_model.npz")
        files = {
            "few": "a,b,c\n1,2,3",
            "text": "a,b,c,d\n1,secret,3,4",
            "infinite": "a,b,c,d\n1,2,inf,4",
            "none": "a,b,c,d",
            "numbers": "1.5,2.5,3.5,4.5\n1,2,3,4",
            "old": "older",
        }
        for name, text in files.items():
            (folder / f"{name}.csv").write_text(text)
        save_model(
            "other.npz", make_pipeline(Normalizer(), AMPClassifier(classes=[0, 1, 2])).fit(*load_iris(return_X_y=True))
        )
        main([*SPARSE_FIT, "--output", "sparse.npz"])
        main([*FIT, *BOUNDS, "--epsilon", "20"])
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "skdprp_model.npz"], "the following arguments are required: FILE"),
        (["predict", "nowhere.npz", "points.csv"], "nowhere.npz: No such file"),
        (["predict", "points.csv", "points.csv"], "points.csv: "),
        (["predict", "skdprp_model.npz", "nowhere.csv"], "nowhere.csv: No such file"),
        (["predict", "skdprp_model.npz", "points.zip"], "points.zip: unpack it first"),
        ([*PREDICT, "--output", "old.csv"], "old.csv: exists already; --force overwrites it"),
        ([*PREDICT, "--output", "points.csv", "--force"], "points.csv: is a file to read, and would be overwritten"),
        ([*PREDICT, "--output", "model.csv", "--force"], "model.csv: is a file to read, and would be overwritten"),
        ([*PREDICT, "--output", "predictions.txt"], "not the name of a table, like predictions.csv"),
        ([*PREDICT, "--output", "nowhere/predictions.csv"], "no such folder"),
        (["predict", "skdprp_model.npz", "few.csv"], "few.csv: no column 'd', which the model takes; if its values"),
        (["predict", "skdprp_model.npz", "text.csv"], "text.csv: column 'b' holds text, and the model takes numbers"),
        (["predict", "skdprp_model.npz", "infinite.csv"], "infinite.csv: column 'c' has infinite values"),
        (["predict", "skdprp_model.npz", "none.csv"], "none.csv: there are no rows"),
        (["predict", "skdprp_model.npz", "numbers.csv"], "the first line must hold the names of the 4 columns"),
        (["predict", "other.npz", "points.csv"], "other.npz: this model does not take a table of named columns"),
        (["predict", "sparse.npz", "points.csv"], "sparse.npz: this model does not take a table of named columns"),
    ],
)
def test_bad_input_to_predict_is_one_line_and_writes_nothing(bad_input, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(bad_input)
    before = {path: path.read_bytes() for path in bad_input.iterdir()}
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error and "secret" not in error
    assert {path: path.read_bytes() for path in bad_input.iterdir()} == before


def test_a_full_disk_is_one_line_and_older_predictions_stay(fitted, capsys):
    (fitted / "skdprp_predictions.csv").write_text("older")
    with full_disk(), pytest.raises(SystemExit, match="2"):
        main([*PREDICT, "--force"])
    error = "skdprp: error: skdprp_predictions.csv: File too large; nothing was written\n"
    assert capsys.readouterr().err == error
    assert (fitted / "skdprp_predictions.csv").read_text() == "older"
    main([*PREDICT, "--force"])
    assert len(pd.read_csv("skdprp_predictions.csv")) == 200


def test_the_share_that_the_fit_has_counted_is_a_threshold(fitted):
    main([*PREDICT, "--threshold", "prior"])
    found, prior = pd.read_csv("skdprp_predictions.csv"), load_model("skdprp_model.npz").estimator[-1].prior_threshold_
    np.testing.assert_array_equal(found["prediction"] == "yes", found["probability_yes"] > prior)


def test_cells_that_tell_a_model_nothing_are_counted(points, folder, capsys):
    """Predictions were silent of towns that the model does not know, and of numbers beyond all bounds."""
    table = pd.read_csv("points.csv").assign(town=["York", "Hull"] * 100)
    table.to_csv("towns.csv", index=False)
    listed = ["--categories", "town=Hull,York"]
    main(["fit", "towns.csv", "--target", "kind", *BOUNDS[:3], "--default-bounds", "-4", "8", *listed])
    table.assign(town="york", a=99, c=[None, *[0.5] * 3] * 50).to_csv("towns.csv", index=False)
    capsys.readouterr()
    main(["predict", "skdprp_model.npz", "towns.csv"])
    out = capsys.readouterr().out
    assert "towns.csv: column 'town': 100% of the cells are none of the listed categories\n" in out
    assert "towns.csv: column 'a': 100% of the cells are beyond the bounds\n" in out
    assert "towns.csv: column 'c': 25% of the cells are missing\n" in out and out.count("% of the cells") == 3


def test_whole_numbers_that_were_listed_in_python_are_found_in_a_file(folder, capsys):
    """Their cells were text, and of no category."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(-3, 3, 400), "k": rng.integers(1, 4, 400), "f": rng.integers(0, 2, 400) > 0})
    columns = make_table_preprocessor({"x": (-3, 3)}, categories={"k": [1, 2, 3], "f": [False, True]})
    model = make_pipeline(columns, AMPClassifier(epsilon=50.0, classes=[False, True])).fit(table, table["k"] > 1)
    save_model("model.npz", model)
    table.to_csv("table.csv", index=False)
    main(["predict", "model.npz", "table.csv"])
    assert "of the cells" not in capsys.readouterr().out
    np.testing.assert_array_equal(pd.read_csv("skdprp_predictions.csv")["prediction"], model.predict(table))
