"""Files are read, or refused without a word of what is in them, and no row decides how the others are read."""

import bz2
import gzip
import lzma
import re

import numpy as np
import pandas as pd
import pytest
from command import BOUNDS, FIT, SPARSE_FIT

from skdprp import load_model
from skdprp._command import _tables, main
from skdprp._command._tables import check_features, read_file


def test_column_of_row_numbers_is_no_feature(points, folder, capsys):
    numbered = [f"{i or ''},{line}" for i, line in enumerate(points)]
    (folder / "points.csv").write_text("\n".join(numbered))
    main(["points.csv", "--target", "kind", "--epsilon", "1"])
    out = capsys.readouterr().out
    assert "200 rows, 4 features" in out
    assert out.startswith("points.csv: the first column has no name, so it numbers the rows and is left out\n")
    main([*FIT, *BOUNDS])
    model, table = load_model("skdprp_model.npz").estimator, pd.read_csv("points.csv", index_col=0)
    assert model.predict(table.drop(columns="kind")).shape == (200,)


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
    assert list(load_model(folder / "skdprp_model.npz").estimator.feature_names_in_) == names


COMPRESSORS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("arguments", [FIT, SPARSE_FIT])
def test_damaged_archives_are_refused(points, folder, capsys, arguments, suffix):
    whole = COMPRESSORS[suffix]((folder / ("points.csv" if "kind" in arguments else "points.svm")).read_bytes())
    for content in (whole[:12], whole[:-200], whole[:20] + bytes(50) + whole[70:], b"no archive"):
        (folder / f"cut.{suffix}").write_bytes(content)
        with pytest.raises(SystemExit, match="2"):
            main(["fit", f"cut.{suffix}", *arguments[2:]])
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("arguments", [[*FIT, *BOUNDS], SPARSE_FIT])
def test_compressed_tables_are_read_as_plain_ones(points, folder, capsys, arguments, suffix):
    plain = folder / ("points.csv" if "kind" in arguments else "points.svm")
    (folder / f"{plain.name}.{suffix}").write_bytes(COMPRESSORS[suffix](plain.read_bytes()))
    main(["fit", f"{plain.name}.{suffix}", *arguments[2:]])
    lines = capsys.readouterr().out.splitlines()
    main([*arguments, "--force"])
    assert lines == [
        line.replace(plain.name, f"{plain.name}.{suffix}") for line in capsys.readouterr().out.splitlines()
    ]


@pytest.mark.parametrize("suffix", ["zip", "tar", "tgz", "zst"])
def test_packed_tables_are_refused_with_what_to_do(points, folder, capsys, suffix):
    (folder / f"points.csv.{suffix}").write_bytes((folder / "points.csv").read_bytes())
    with pytest.raises(SystemExit, match="2"):
        main(["fit", f"points.csv.{suffix}", *FIT[2:], *BOUNDS])
    known = "of compressed files those that end in .gz, .bz2, .xz are read"
    assert capsys.readouterr().err == f"skdprp: error: points.csv.{suffix}: unpack it first; {known}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [*FIT, *BOUNDS, "--test", "nowhere.csv"],
        [*FIT, *BOUNDS, "--test", "points.csv.zip"],
        [*FIT, "--default-bounds", "1", "0"],
        ["points.csv", "--target", "kind", "--zero-based"],
        ["points.svm", "--n-features", "4", "--fill", "a=0"],
        SPARSE_FIT[:4],
    ],
)
def test_what_can_be_known_before_is_refused_before_any_row_is_read(points, folder, monkeypatch, arguments):
    for name in ("_read_csv", "_read_libsvm"):
        monkeypatch.setattr(_tables, name, None)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def test_too_little_memory_is_one_line(points, folder, capsys, monkeypatch):
    """To pandas it is an error of the parser, as if the file were no table."""

    def fails(error):
        def read(*args, **known):
            raise error

        return read

    for error in (MemoryError(), pd.errors.ParserError("Error tokenizing data. C error: out of memory")):
        monkeypatch.setattr(pd, "read_csv", fails(error))
        with pytest.raises(SystemExit, match="2"):
            main([*FIT, *BOUNDS])
        said = capsys.readouterr()
        assert said.err == "skdprp: error: there is too little memory for so many rows and columns\n"
    assert not (folder / "skdprp_model.npz").exists()


def test_binary_files_are_refused(folder, capsys):
    (folder / "image.png").write_bytes(bytes(range(256)))
    for kind, message in (("--target", "neither CSV nor LIBSVM"), ("--n-features", "not a valid LIBSVM")):
        with pytest.raises(SystemExit, match="2"):
            main(["image.png", kind, "1"])
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("row", ["1", "1 1:0.5", "1 4:0.5", "1 qid:7 1:0.5", "# secret\n1 1:0.5"])
def test_no_row_of_libsvm_decides_the_number_of_columns(folder, capsys, row):
    (folder / "points.svm").write_text("\n".join([row, *["0 1:0.5 2:-0.5", "1 2:0.5 3:1"] * 30]))
    main(SPARSE_FIT)
    model = load_model("skdprp_model.npz").estimator[1]
    assert model.coef_.shape == (1, 4) and model.max_norm == 0.35
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


@pytest.mark.parametrize("other", ["0", "0.5", "", "98765432109876543210987", "-1", "1e3", "no", "true"])
def test_no_cell_decides_how_the_numbers_of_other_rows_are_read(folder, other):
    """Numbers of 17 digits and more were rounded in one way beside whole numbers, and in another beside a 0.5."""
    rng = np.random.default_rng(0)
    written = [str(2**60), *map(str, rng.integers(2**57, 2**63, 300)), *[f"{x:.17e}" for x in rng.normal(size=300)]]
    for cells in (written[:301], written):  # whole numbers alone, and others among them
        (folder / "table.csv").write_text("\n".join(["size,kind", *[f"{cell},a" for cell in cells], f"{other},b", ""]))
        X, _ = read_file(folder / "table.csv", target="kind", classes=["a", "b"])
        for read in (_tables._numbers(X["size"]), _tables._coerced(X["size"])):
            assert read is None or np.array_equal(read[:-1], np.array(cells, dtype=object).astype(float))
        listed = check_features("table.csv", X[["size"]].astype(str), {"size": [float(2**60)]}, ())
        assert listed["size"][0] == 2.0**60


@pytest.mark.parametrize("separator", [";", "\t"])
def test_commas_in_a_quoted_name_separate_nothing(folder, separator):
    rows = ["name", '"age, in ""whole"" years, or months"', "label"], ["York", "30", "yes"], ["Hull", "40", "no"]
    (folder / "table.csv").write_text("".join(separator.join(row) + "\n" for row in rows))
    X, y = read_file(folder / "table.csv", target="label", classes=["no", "yes"])
    assert X.columns.tolist() == ["name", 'age, in "whole" years, or months'] and list(y) == ["yes", "no"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_header_that_is_repeated_is_refused(folder, end):
    """It was a row, which made text of all numbers, and a class of the name of the target."""
    rows = ["age,label", "30,yes", "40,no", "\ufeffage,label ", "50,yes"]
    (folder / "table.csv").write_bytes(end.join(rows).encode())
    with pytest.raises(ValueError, match="a later line repeats the first one"):
        read_file(folder / "table.csv", target="label")


def test_a_row_may_be_what_a_header_of_numbers_is(folder):
    """One row decided whether there was a fit, and its cells were told."""
    (folder / "table.csv").write_text("0,1\n" + "0,1\n1,0\n" * 3)
    X, y = read_file(folder / "table.csv", target="1")
    assert X["0"].tolist() == [0, 1] * 3 and y.tolist() == [1, 0] * 3
