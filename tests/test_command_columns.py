"""What columns can hold comes from the options alone: bounds, categories, and what is put for missing values."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from command import FIT, printed

from skdprp import privacy_report
from skdprp._command import main
from skdprp._command._tables import check_features, read_file


def test_bounds_bring_columns_of_different_units_to_one_scale(points, folder, capsys, seeded):
    """One column in thousands: without bounds it drowns the noise, with them it is hidden like the others."""
    rows = [line.split(",") for line in points[1:]]
    lines = [",".join([str(1000 * float(row[0])), *row[1:]]) for row in rows]
    (folder / "points.csv").write_text("\n".join([points[0], *lines]))
    bounds = ["--bounds", "a=-4e3:8e3", "--default-bounds", "-4", "8"]
    main([*FIT[1:], "--epsilon", "1", "50", *bounds])
    out = capsys.readouterr().out
    assert "1 is the width of a column's bounds" in out and "by --bounds" not in out
    assert printed(out)["50"][0] > 0.9 > printed(out)["1"][0]


PEOPLE = ["fit", "people.csv", "--target", "kind", "--bounds", "age=0:120", "weight=0:200", "--fill", "weight=70"]
PEOPLE += ["--categories", "sector=public,private", "level=3,1,2", "--epsilon", "20"]


def write_people(path, sectors, levels, weights):
    """Write rows whose label is their sector; missing values are empty."""
    rows = [
        f"{i % 90},{weights[i % 3]},{sectors[i % 3]},{levels[i % 3]},{'no' if i % 3 else 'yes'}" for i in range(600)
    ]
    path.write_text("\n".join(["age,weight,sector,level,kind", *rows]))


def test_fit_takes_text_and_missing_values_by_what_is_listed(folder, capsys, seeded):
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


def test_columns_of_text_go_into_sketches_too(folder, capsys, seeded):
    write_people(folder / "people.csv", ["private", "public", ""], [1, 3, 7], [80, "", 60])
    main([*PEOPLE[1:-2], "--epsilon", "100"])
    out = capsys.readouterr().out
    assert "600 rows, 7 features" in out and "DPOPORP hides both from --max-change 2 on" in out
    assert printed(out)["100"][0] > 0.9


@pytest.mark.parametrize("listed", ["True,False", "1,2", "1,two", "1_0,2_0"])
def test_no_cell_decides_how_the_others_are_read(folder, listed):
    """Beside truth values and numbers a missing one or a text changed the type of all, and hid them."""
    first, second = listed.split(",")
    features = []
    for cell in ("", "maybe", first):
        lines = ["flag,kind", *[f"{first},1", f"{second},0"] * 20, f"{cell},1"]
        (folder / "points.csv").write_text("\n".join(lines))
        main([*FIT, "--categories", f"flag={listed}", "--force"])
        model = joblib.load("skdprp_model.joblib")
        X, _ = read_file(folder / "points.csv", target="kind", as_text=["flag"])
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
