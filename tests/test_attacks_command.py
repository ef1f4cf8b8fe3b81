"""Attacks on the command: cells and labels of its tables, and its ledger."""

import itertools
import random
from contextlib import redirect_stdout
from fractions import Fraction
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skdprp import (
    AMPClassifier,
    DPRidge,
    DPSGDClassifier,
    PrivacyLedger,
    load_model,
    make_table_preprocessor,
    privacy_report,
    set_budget,
)
from skdprp._command import main
from skdprp._command._columns import read_rows
from skdprp._command._tables import _numbers, _read_csv, check_features, check_sparse, read_file


def test_no_label_of_a_file_decides_how_the_others_are_read(tmp_path):
    """One label written with a decimal point makes floats of all, and of integers beyond 2^53 other ones."""
    kept = []
    for number, first in enumerate(("9007199254740993", "9007199254740993.0")):
        labels = [first, *["9007199254740993", "9007199254740995"] * 6]
        table, output = tmp_path / f"{number}.csv", tmp_path / f"{number}.npz"
        table.write_text("a,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
        main(["fit", str(table), "--target", "y", "--bounds", "a=0:20", "--output", str(output)])
        kept.append(load_model(output).estimator[-1].classes_.tolist())
    assert kept[0] == kept[1]


def test_columns_may_be_called_as_arguments_of_pandas(tmp_path):
    """One called `self` ended a fit, and a prediction, with a traceback."""
    table, model = tmp_path / "rows.csv", str(tmp_path / "model.npz")
    table.write_text("self,index,y\n" + "".join(f"{i % 9},{i % 4},{i % 2}\n" for i in range(80)))
    with redirect_stdout(StringIO()):
        main(["fit", str(table), "--target", "y", "--bounds", "self=0:9", "index=0:4", "--output", model])
        main(["predict", model, str(table), "--output", str(tmp_path / "predicted.csv")])
    assert len(pd.read_csv(tmp_path / "predicted.csv")) == 80


def test_no_cell_of_a_column_of_whole_numbers_rounds_the_others(tmp_path):
    """One fraction, or one number beyond 64 bits, has all cells of a column read by other code, to 19 digits."""
    numbers = np.random.default_rng(0).integers(2**53, 2**63, size=2000)
    path, seen = tmp_path / "rows.csv", set()
    for first in ("7", "0.5", "1e18", "9999999999999999999", "99999999999999999999"):
        path.write_text("\n".join(["number,label", f"{first},0", *(f"{number},1" for number in numbers)]))
        rows, _ = read_file(path, target="label")
        seen.add(check_features(path, rows, {}, rows)["number"].to_numpy()[1:].tobytes())
    assert len(seen) == 1


@pytest.mark.parametrize("columns", [["b=0:10"], ["b=0:10", "--categories", "a=1,2"]], ids=["number", "category"])
def test_a_cell_of_more_digits_than_floats_have_is_refused_in_one_line(tmp_path, capsys, columns):
    """A whole number of 320 digits ended the command with a traceback, and the code 1 of a mistake of ours."""
    is_category = "--categories" in columns
    rows = [{"a": i % 2, "b": i % 5, "label": ["no", "yes"][i % 2]} for i in range(8)]
    rows[4]["a" if is_category else "b"] = "98765431" * 40
    table, bounds = tmp_path / "table.csv", columns if is_category else ["a=0:10", *columns]
    pd.DataFrame(rows).to_csv(table, index=False)
    try:
        main(["fit", str(table), "--target", "label", "--bounds", *bounds, "--output", str(tmp_path / "m.joblib")])
    except SystemExit as end:
        assert end.code == 2
        assert capsys.readouterr().err.count("\n") == 1


_LONG = str(2**60)  # as of nanoseconds; a bound of bins, and of the cells of numbers of any size


def _read(path, cells, *, categories=None):
    """Numbers of a column of a file, as the command has them."""
    Path(path).write_text(
        "stamp,target\n" + "".join(f"{cell},{'yes' if i % 2 else 'no'}\n" for i, cell in enumerate(cells))
    )
    listed = {} if categories is None else {"stamp": categories}
    X, _ = read_file(path, target="target", as_text=listed)
    return check_features(path, X, listed, ["stamp"])["stamp"].to_numpy(dtype=np.float64)


@pytest.mark.parametrize("categories", [None, [5.0, 2.0**60]])
@pytest.mark.parametrize("cell", ["0.5", "", "99999999999999999999999", "-9223372036854775809"])
def test_no_cell_decides_how_numbers_of_other_rows_are_rounded(tmp_path, cell, categories):
    """A table of whole numbers is read exactly: with another row that is not, all others have to be as they were.

    pandas before version 3 rounds numbers of 17 digits or more in one way in a column of whole numbers, and in another
    in one that has a fraction, or a number beyond 64 bits.
    """
    others = [_LONG] * 20 + ["5"]
    without = _read(tmp_path / "a.csv", [*others, "5"], categories=categories)
    beside = _read(tmp_path / "b.csv", [*others, cell], categories=categories)
    assert (without[:20] == 2.0**60).all()
    np.testing.assert_array_equal(beside[:-1], without[:-1])


@pytest.mark.parametrize("known", [["--private-bins"], ["--bounds", "a=-3:3", "b=0:5", "--categories", "c=x,y"]])
@pytest.mark.parametrize("target", [["--classes", "0,1,2"], ["--target-bounds", "0:3", "--numbers", "scaled"]])
def test_what_the_command_enters_before_a_fit_is_what_its_file_has_spent(tmp_path, known, target):
    """Also where the few rows of the plan are all alike, and missing, as none of those after them are."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=300).round(2), "b": rng.integers(0, 5, 300), "c": rng.choice(["x", "y"], 300)}
    )
    table.loc[:70, ["a", "c"]] = [np.nan, "x"]
    table.assign(y=rng.integers(0, 3, 300)).to_csv(tmp_path / "rows.csv", index=False)
    files = ["--output", tmp_path / "model.npz", "--ledger", tmp_path / "people.jsonl", "--delta", "1e-4"]
    with redirect_stdout(StringIO()):
        main(["fit", *map(str, [tmp_path / "rows.csv", "--target", "y", *known, *target, *files])])
    [entered] = [one.guarantee for one in PrivacyLedger(tmp_path / "people.jsonl").entries]
    spent = privacy_report(load_model(tmp_path / "model.npz").estimator).total
    facts = ("epsilon", "delta", "loss", "given", "adjacency", "unit")
    assert [getattr(entered, fact) for fact in facts] == [getattr(spent, fact) for fact in facts]


def _table(path):
    rng = np.random.default_rng(0)
    numbers, labels = rng.normal(size=300), rng.integers(0, 2, 300)
    lines = [f"{number:.2f},{label}" for number, label in zip(numbers, labels, strict=True)]
    path.write_text("\n".join(["a,y", *lines]))


def _command(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, arguments)])
        raise SystemExit(0)
    return stopped.value.code


@pytest.mark.parametrize("is_first", [True, False])
def test_no_fit_by_the_command_writes_over_the_ledger_that_records_it(tmp_path, capsys, is_first):
    """Its record was lost, and with --force that of all fits before, and what was released was said not to be.

    A fit to one name for both is refused before anything is spent, or recorded in what is a ledger afterwards.
    """
    rows, ledger = tmp_path / "rows.csv", tmp_path / "people.npz"
    _table(rows)
    known = ["fit", rows, "--target", "y", "--bounds", "a=-3:3", "--classes", "0,1", "--ledger", ledger]
    if not is_first:
        assert _command(*known, "--output", tmp_path / "first.npz") == 0
    capsys.readouterr()
    _command(*known, "--output", ledger, *["--force"] * (not is_first))
    printed = capsys.readouterr()
    entries = PrivacyLedger(ledger).entries if ledger.exists() else ()
    assert len(entries) == (not is_first) + ("guarantee   (1.0" in printed.out)
    assert "nothing is released" not in printed.err


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("kind", ["numbers", "names"])
def test_what_a_plan_over_private_bins_says_is_what_their_fit_has_spent(n_classes, kind):
    """The command enters the plan: however few bins there are, columns and so kinds of noise are those of the plan."""
    import pandas as pd

    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (2000, 3))
    table = pd.DataFrame(values if kind == "numbers" else values.astype(str).astype(object), columns=["a", "b", "c"])
    y = rng.integers(0, max(n_classes, 2), 2000)
    model = DPRidge(target_bounds=(0, 1), epsilon=0.8)
    if n_classes:
        model = (AMPClassifier if n_classes == 2 else DPSGDClassifier)(classes=range(n_classes), epsilon=0.8)
    model = make_pipeline(make_table_preprocessor(epsilon=0.2), model)
    if (n_classes, kind) != (2, "numbers"):  # of which each total takes long
        set_budget(model, table, y, epsilon=3.0)
    planned = privacy_report(model, table, y).total
    spent = privacy_report(model.fit(table, y)).total
    assert (spent.epsilon, spent.delta, spent.loss) == (planned.epsilon, planned.delta, planned.loss)


@pytest.mark.parametrize("last", ["0", "1.5", "", "1e5", "-1", "18446744073709551615", "123456789012345678901.5", "-0"])
def test_no_last_cell_of_a_file_changes_how_the_numbers_above_it_are_read(tmp_path, last):
    rng = np.random.default_rng(0)
    cells = [*map(str, rng.integers(10**18, 9 * 10**18, 50)), *map(repr, rng.uniform(-1e5, 1e5, 50).tolist())]
    path = tmp_path / "rows.csv"
    for column in (cells[:50], cells[50:]):
        path.write_text("a,t\n" + "".join(f"{cell},x\n" for cell in [*column, last]))
        found = _numbers(_read_csv(path, ["t"], "t")["a"]).to_list()[:-1]
        assert found == [float(Fraction(cell)) for cell in column]


@pytest.mark.parametrize("usual", ["1.5", "-007"])
@pytest.mark.parametrize("missing", ["", "NA", "n/a"])
def test_no_cell_of_a_csv_decides_whether_empty_cells_of_other_rows_are_missing(tmp_path, missing, usual):
    """A whole number beyond 2^63 beside others had those of all rows as texts, and private bins named them."""
    path, seen = tmp_path / "rows.csv", []
    for first in ("9223372036854775808", "18446744073709551616", "abc"):
        path.write_text("\n".join(["income,label", f"{first},0", *(f"{cell},1" for cell in [usual, missing] * 9)]))
        rows, _ = read_file(path, target="label")
        seen.append(rows["income"][1:])
        assert seen[-1].isna().tolist() == [False, True] * 9
        if pd.api.types.is_string_dtype(seen[-1]):
            assert seen[-1].iloc[0] == usual


CELLS = {
    "numbers": "1|1.0|01| 1|1e3|+5|0|9007199254740993|9007199254740992.0|0.1|123456789.123456789|1e-320|1e23||NA|  .5",
    "truth values": "True|False|TRUE|true||1|0|1.0| True|NA",
    "texts": "a|b|abc|1|1.0|True||NA|01| a|1e3|nan|9007199254740993|inf",
}


def cells_of_others(path, lines, options):
    """What is read of all rows but the first, and the types of columns; None if the table is refused."""
    path.write_text("\n".join(["a,b,y", *lines]), encoding="utf-8")
    try:
        X, y = read_rows(path, options, unnamed="find")
    except ValueError:
        return None
    others = X.iloc[1:].to_numpy(dtype=object)
    return X.dtypes.tolist(), [repr(cell) if cell == cell else "missing" for cell in others.flat], y[1:].tolist()


def test_no_row_of_a_table_decides_how_the_cells_of_others_are_read(tmp_path):
    """Numbers, truth values and texts in any form, listed, bounded or found, beside a row with any other cells."""
    rng, n_read = np.random.default_rng(0), 0
    pools = {kind: cells.split("|") for kind, cells in CELLS.items()}
    listed = {"truth values": [False, True], "texts": ["a", "b", "1", "1.0", "True"]}
    for _ in range(120):
        kinds = rng.choice(list(pools), 2)
        few = [rng.choice(pools[kind], 3) for kind in kinds]
        rest = [",".join([*(rng.choice(some) for some in few), str(i % 2)]) for i in range(5)]
        named = {name: kind for name, kind in zip("ab", kinds, strict=True) if rng.random() < 0.6}
        categories = {name: listed[kind] for name, kind in named.items() if kind in listed}
        bounds = {name: (0, 1) for name, kind in named.items() if kind == "numbers"}
        options = SimpleNamespace(target="y", n_features=None, zero_based=False, categories=categories, bounds=bounds)
        vars(options).update(default_bounds=None, fill={}, drop=[], file=tmp_path / "rows.csv")
        firsts = [",".join([*(rng.choice(pools[kind]) for kind in kinds), label]) for label in "010"]
        read = [cells_of_others(options.file, [first, *rest], options) for first in firsts]
        for one, other in itertools.combinations(filter(None, read), 2):
            if one[0] == other[0]:  # types are public
                assert one[1:] == other[1:]
                n_read += 1
    assert n_read > 50


ODD_CELLS = ["", "NA", "nan", " ", " 1", "1 ", "+1", "-0", "1.", "1e5", "5e-324", "1e-400", "1e400", "inf", "0x10"]
ODD_CELLS += ["1_0", "True", "TRUE", "abc", "é", "٣", "18446744073709551616", "-9223372036854775809", "1e22"]
ODD_CELLS += [
    "9007199254740992.5",
    "1/2",
    "1%",
    "00012",
    "1d5",
    "1j",
    '"1"',
    '"a\nb"',
    "n/a",
    "-NaN",
    "3.1415926535897932384",
]


COLUMNS = [
    lambda draw: f"{draw.random():.17g}",
    lambda draw: str(draw.randint(-5, 5)),
    lambda draw: str(draw.randint(0, 2**64 - 1)),
    lambda draw: str(draw.randint(10**19, 10**21)),
    lambda draw: draw.choice(["True", "False"]),
    lambda draw: draw.choice(["a", "NA", "null"]),
    lambda draw: draw.choice(["1.5", ""]),
    lambda draw: draw.choice(["001", "01"]),
    lambda draw: draw.choice([" 1", "1 "]),
]


def test_no_cell_of_a_csv_decides_what_the_cells_of_other_rows_are_while_its_kind_is_the_same(tmp_path):
    draw, path, n_compared = random.Random(0), tmp_path / "rows.csv", 0
    for _ in range(180):
        unnamed = draw.choice(["find", "keep"])
        column = draw.choice(COLUMNS)
        cells = [column(draw) for _ in range(8)]
        seen = []
        for written in (cells, [draw.choice(ODD_CELLS), *cells[1:]]):
            path.write_text("x,label\n" + "".join(f"{cell},{i % 2}\n" for i, cell in enumerate(written)))
            try:
                rows, _ = read_file(path, target="label")
                seen.append(check_features(path, rows, {}, (), unnamed=unnamed)["x"][1:])
            except ValueError:
                break
        if len(seen) == 2 and (seen[0].dtype == object) == (seen[1].dtype == object):
            n_compared += 1
            assert [repr(cell) for cell in seen[0]] == [repr(cell) for cell in seen[1]]
    assert n_compared > 50


def test_no_line_of_a_libsvm_file_changes_the_features_of_others(tmp_path):
    draw, path, n_compared = random.Random(0), tmp_path / "rows.svm", 0
    odd = ["1", "+1 1:1e300", "nan 2:5e-324", "0 1:0x1p3", "2.5 5:1", "1 1:nan", "0 qid:3 1:1", "1 1:1 # 9:9"]
    odd += ["0  1 : 1", "1 2:1 1:1", "1 1:1 1:2", "0 7:1", "1\t1:1", "1 1:-0 2:0", "1 1:12345678901234567890"]
    for _ in range(100):
        lines = [f"{i % 2} {draw.randint(1, 5)}:{draw.random():.17g}" for i in range(6)]
        seen = []
        for written in (lines, [draw.choice(odd), *lines[1:]]):
            path.write_text("\n".join(written) + "\n")
            try:
                rows, _ = read_file(path, n_features=5)
                seen.append(check_sparse(path, rows).toarray())
            except ValueError:
                break
        if len(seen) == 2:
            n_compared += 1
            assert seen[0].shape == seen[1].shape
            assert seen[0][1:].tobytes() == seen[1][1:].tobytes()
    assert n_compared > 30


@pytest.mark.parametrize("odd", ['5,"a,1', "5,a,1" + 199 * "\r5,a,1" + '\r5,"a,1'])
def test_no_line_of_a_csv_takes_others_out_of_the_table(odd, tmp_path, capsys):
    """A quote that is not closed holds all lines up to the next one, and a carriage return begins a row."""
    lines = [f"{i % 50},{'ab'[i % 2]},{i % 2}" for i in range(400)]
    lines[50] = lines[260] = '7,"b",0'
    lines[60] = odd
    path = tmp_path / "people.csv"
    path.write_bytes("\n".join(["age,town,label", *lines, ""]).encode())
    known = ["--target", "label", "--classes", "0,1", "--bounds", "age=0:50", "--categories", "town=a,b"]
    with pytest.raises(SystemExit):  # as there is no way to read each line by itself
        main(["fit", str(path), *known, "--output", str(tmp_path / "model.npz")])
    assert "people.csv" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["unix", "windows", "mac"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_lines_are_rows_whatever_ends_them_and_blank_ones_are_none(end, separator, tmp_path):
    lines = ["age,town,label", *(f'{i},"{"ab"[i % 2]} or so",{i % 2}' for i in range(20))]
    lines = [line.replace(",", separator) for line in lines]
    path = tmp_path / "people.csv"
    for text in (end.join(lines), "\ufeff" + end.join(["", " ", *lines[:5], "", "  ", *lines[5:], "", ""])):
        path.write_bytes(text.encode())
        assert read_file(path, target="label")[0]["age"].tolist() == list(range(20))


ODD_CELLS_OF_LINES = [
    *('"', '""', '"a', 'a"', '"a""b"', '"a,b"', "\\", '\\"', "'", "\x00", "\x1a", "\x0c", "\x0b", "\u2028", "\x85"),
    *("\ufeff", "#", " ", "  1", "NA", "nan", "inf", "1e400", "0x10", "1_0", "True", "TRUE", "12345678901234567890"),
    *("-0.0", "1.7976931348623157e308", "0.1234567890123456789", "\u0663", "1j", "\r", "a\rb", '"\r"', '"b"c'),
]
CELLS_BY_KIND = {
    "number": ["7", "0.1", "1e22", "-3", "12345678.123456789012", ""],
    "text": ["York", "a b", '"q"', "", "x"],
    "truth": ["True", "False"],
}


@pytest.mark.parametrize(("kind", "end"), [("number", "\r\n"), ("text", "\n"), ("truth", "\r")])
def test_no_odd_line_of_a_csv_changes_how_other_lines_are_read_while_kinds_are_the_same(tmp_path, kind, end):
    """Each file is refused, or all other rows are what they are without the odd line."""
    rows = [f"{cell},{label}" for cell, label in zip(CELLS_BY_KIND[kind] * 2, "ynyyynynnyyn", strict=False)]
    tables = []
    for cell in ["9", *ODD_CELLS_OF_LINES]:
        path = tmp_path / "table.csv"
        path.write_bytes(end.join(["c,label", *rows[:3], f"{cell},y", *rows[3:]]).encode())
        try:
            X, y = read_file(path, target="label")
        except ValueError:
            continue
        assert len(X) == len(rows) + 1
        is_number = pd.api.types.is_numeric_dtype(X["c"])
        others = [None if cell != cell else float(cell) if is_number else str(cell) for cell in X["c"].drop(index=3)]
        tables.append((is_number, others, np.delete(y, 3).tolist()))
    for is_number in (True, False):
        of_kind = [table for table in tables if table[0] == is_number]
        assert all(table == of_kind[0] for table in of_kind)
    assert len(tables) > 10
