"""What columns can hold comes from the options alone: bounds, categories, and what is put for missing values."""

import pickle

import numpy as np
import pandas as pd
import pytest
from command import FIT, printed

from skdprp import load_model, privacy_report
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


PEOPLE = ["fit", "people.csv", "--target", "kind", "--bounds", "age=0:120", "weight=0:200"]
PEOPLE += ["--categories", "sector=public,private", "level=3,1,2", "--epsilon", "20"]
SCALED = ["--fill", "weight=70", "--numbers", "scaled"]


def write_people(path, sectors, levels, weights):
    """Write rows whose label is their sector; missing values are empty."""
    rows = [
        f"{i % 90},{weights[i % 3]},{sectors[i % 3]},{levels[i % 3]},{'no' if i % 3 else 'yes'}" for i in range(600)
    ]
    path.write_text("\n".join(["age,weight,sector,level,kind", *rows]))


def test_fit_takes_text_and_missing_values_by_what_is_listed(folder, capsys, seeded):
    write_people(folder / "people.csv", ["private", "public", ""], [1, 3, 7], [80, "", 60])
    main([*PEOPLE, *SCALED])
    assert "(20.0," in capsys.readouterr().out
    model, table = load_model("skdprp_model.npz").estimator, pd.read_csv("people.csv")
    assert model[1].max_norm == 1.0, "that of all rows"
    encoded = model[0]["columns"].transform(table[:3])
    np.testing.assert_allclose(encoded[:, :2], np.c_[np.arange(3) / 60 - 1, [-0.2, -0.3, -0.4]])
    np.testing.assert_array_equal(encoded[:, 2:], [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    np.testing.assert_allclose(np.linalg.norm(model[0].transform(table[:3]), axis=1), 1)
    assert privacy_report(model).total.epsilon == 20
    assert model.score(table, table["kind"]) > 0.9


def test_columns_of_text_go_into_sketches_too(folder, capsys, seeded):
    write_people(folder / "people.csv", ["private", "public", ""], [1, 3, 7], [80, "", 60])
    main([*PEOPLE[1:-2], "--fill", "weight=70", "--epsilon", "100"])
    out = capsys.readouterr().out
    assert "600 rows, 7 features" in out and "DPOPORP hides both from --max-change 2 on" in out
    assert printed(out)["100"][0] > 0.9


@pytest.mark.parametrize("listed", ["False,True", "1,2", "1,two", "1_0,2_0"])
def test_no_cell_decides_how_the_others_are_read(folder, listed):
    """Beside truth values and numbers a missing one or a text changed the type of all, and hid them."""
    first, second = listed.split(",")
    features = []
    for cell in ("", "maybe", first):
        lines = ["flag,kind", *[f"{first},1", f"{second},0"] * 20, f"{cell},1"]
        (folder / "points.csv").write_text("\n".join(lines))
        main([*FIT, "--categories", f"flag={listed}", "--force"])
        model = load_model("skdprp_model.npz").estimator
        X, _ = read_file(folder / "points.csv", target="kind", as_text=["flag"])
        encoder = model[0]["columns"].named_transformers_["categories"]
        checked = check_features("points.csv", X, {"flag": encoder.categories_[0].tolist()}, [])
        features.append(model[0].transform(checked))
    for encoded, last in zip(features, ([0, 0], [0, 0], [1, 0]), strict=True):
        np.testing.assert_array_equal(encoded, [[1, 0], [0, 1]] * 20 + [last])


def test_text_without_categories_is_told_what_to_do(folder, capsys):
    write_people(folder / "people.csv", ["secret", "public", ""], [1, 3, 7], [80, "", 60])
    with pytest.raises(SystemExit, match="2"):
        main([*FIT[:1], "people.csv", "--target", "kind", "--default-bounds", "0", "1"])
    error = capsys.readouterr().err
    assert "column 'sector' holds text" in error and "--categories sector=THIS,THAT" in error and "secret" not in error


@pytest.mark.parametrize("numbers", [[], SCALED], ids=["bins", "scaled"])
def test_a_saved_model_differs_by_its_release_alone(folder, capsys, numbers):
    """Rows with other values, other types of number, and none missing leave the same file but for the weights."""
    files = {}
    for name, rows in {
        "gaps": (["private", "public", ""], [1, 3, 7], [80, "", 60.5]),
        "whole": (["public", "other", "other"], [2.5, 1, ""], [50, 60, 70]),
    }.items():
        write_people(folder / "people.csv", *rows)
        main([*PEOPLE, *numbers, "--output", f"{name}.npz"])
        model = load_model(f"{name}.npz").estimator
        files[name] = model[1].coef_.copy()
        model[1].coef_, model[1].intercept_ = np.zeros_like(model[1].coef_), np.zeros(1)
        model[1].class_prior_ = model[1].prior_threshold_ = model[1]._fit_name = None
        files[f"state of {name}"] = pickle.dumps([vars(step) for step in model])
    assert files["state of gaps"] == files["state of whole"]
    assert not np.array_equal(files["gaps"], files["whole"])


MANY = ["age,born,income,town,zip,active,empty,kind"] + [
    f"{20 + i % 60},199{i % 9}-01-01,{1000 * (i % 37)},{('York', 'Hull', '')[i % 3]},{i % 5},{i % 2 == 0},,{i % 2}"
    for i in range(400)
]


def test_one_message_tells_what_is_wrong_with_all_columns(folder, capsys):
    """A line for each, which quotes no cell; what is of no column is told with the rest."""
    (folder / "many.csv").write_text("\n".join([*MANY, "1,secret,inf,York,1,True,,1"]))
    given = ["--bounds", "born=0:1", "income=0:1", "aeg=0:1", "--categories", "town=hidden", "--drop", "notes", "age"]
    with pytest.raises(SystemExit, match="2"):
        main(["fit", "many.csv", "--target", "kind", *given])
    error = capsys.readouterr().err
    told = [line.removeprefix("skdprp: error: many.csv: ") for line in error.splitlines()]
    assert [line.split(":")[0] for line in told[:2]] == ["--bounds", "--drop"] and "secret" not in error
    assert told[2].startswith("column 'born' holds text where numbers should be")
    assert told[3] == "column 'income' has infinite values"
    assert told[4] == "column 'town' holds none of its --categories"
    assert told[5:-1] == ["no bounds for 'zip'", "no bounds for 'active'", "no bounds for 'empty'"]
    assert "--drop COLUMN" in told[-1] and "--private-bins" in told[-1]
    assert not (folder / "skdprp_model.npz").exists()


def test_columns_of_which_nothing_is_given_are_found_for_a_share_of_the_budget(folder, capsys, seeded):
    """Numbers and names, bounded, constant and empty ones; the total is the epsilon that was asked for, and no more."""
    (folder / "many.csv").write_text("\n".join(MANY))
    given = ["--bounds", "age=0:120", "--drop", "born", "--epsilon", "30", "--delta", "1e-5", "--classes", "0,1"]
    main(["fit", "many.csv", "--target", "kind", *given, "--private-bins", "--test", "many.csv"])
    out = capsys.readouterr().out
    assert (
        "numbers: age, income, zip, active, empty\nnames: town\n" in out and "(30.0, 1e-05)-DP, one row replaced" in out
    )
    model = load_model("skdprp_model.npz").estimator
    total = privacy_report(model).total
    assert 30 * (1 - 1e-5) < total.epsilon <= 30 and total.delta <= 1e-5
    table = pd.read_csv("many.csv")
    assert model.score(table, table["kind"]) > 0.95, "active tells the label"


@pytest.mark.parametrize("flags", [["True", "False"], ["true", "", "false"], ["TRUE", "FALSE", ""]])
def test_truth_values_mean_the_same_to_the_command_and_to_who_loads_the_model(folder, capsys, flags, seeded):
    """As pandas reads them, whether or not some are missing; listed, or found."""
    lines = [f"{flag},{int(flag.lower() == 'true')},7" for flag in flags * 200]
    (folder / "flags.csv").write_text("\n".join(["flag,kind,row", *lines]))
    for given in (
        ["--categories", "flag=False,True"],
        ["--categories", "flag=true,false"],
        *[["--private-bins", "--target-bounds", "0:1"]] * (flags[0] != "true"),  # of moments, whose losses add up
    ):
        main(["fit", "flags.csv", "--target", "kind", "--drop", "row", *given, "--epsilon", "30", "--force"])
        model, table = load_model("skdprp_model.npz").estimator, pd.read_csv("flags.csv")
        assert model.score(table, table["kind"]) > 0.95


def test_categories_may_be_the_lines_of_a_file(folder, capsys, seeded):
    """With commas in them, whatever ends the lines."""
    (folder / "towns.txt").write_bytes("\ufeffYork, north\r\nHull\n\n".encode())
    lines = [('"York, north",1', "Hull,0", "Leeds,0")[i % 3] for i in range(300)]
    (folder / "people.csv").write_text("\n".join(["town,kind", *lines]))
    main(["fit", "people.csv", "--target", "kind", "--categories", "town=@towns.txt", "--epsilon", "30"])
    model = load_model("skdprp_model.npz").estimator
    assert model[0].get_feature_names_out().tolist() == ["town_York, north", "town_Hull"]


def test_text_among_listed_numbers_is_refused_when_the_model_meets_it(folder, capsys, seeded):
    """Names that look like numbers elsewhere are no silent zeros: the model says what it expects."""
    (folder / "people.csv").write_text("\n".join(["code,kind", *["a1,1", "07,0"] * 100]))
    main(["fit", "people.csv", "--target", "kind", "--categories", "code=a1,07", "--epsilon", "30"])
    model = load_model("skdprp_model.npz").estimator
    with pytest.raises(ValueError, match="code: type int64 where text should be, as its categories are"):
        model.predict(pd.DataFrame({"code": [7, 8]}))
