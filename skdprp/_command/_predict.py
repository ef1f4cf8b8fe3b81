"""``python -m skdprp predict``: predictions for the rows of a CSV by a model that ``fit`` has saved."""

from pathlib import Path

from sklearn.pipeline import Pipeline

from ..preprocessing import DPBinner
from ..preprocessing._table import TableColumns
from ..release_file import load_model
from ..release_file._file import replace_file
from ..report._structure import all_steps
from ._columns import known_columns
from ._options import threshold
from ._output import check_new, writing
from ._tables import check_file, describe_unusual, read_features

_NO_TABLE = (
    "this model does not take a table of named columns, as fit makes them of a CSV: predict in Python, by"
    " skdprp.load_model(MODEL).estimator"
)


def add_command(commands):
    """Add this command and its options."""
    text = "predict each row of a CSV by a model that fit has saved"
    columns = "columns go by their names, in any order, and others are passed over; cells may be empty"
    written = "prediction, and of classes also probability_CLASS for each"
    usage = "%(prog)s MODEL FILE [options]"
    parser = commands.add_parser("predict", help=text, description=f"{text}: {columns}", usage=usage)
    parser.set_defaults(run=run)
    parser.add_argument("model", type=Path, metavar="MODEL", help="model that fit has saved, such as skdprp_model.npz")
    parser.add_argument("file", type=Path, metavar="FILE", help="rows: CSV with a header")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("skdprp_predictions.csv"),
        help=f"where the predictions go, a line for each row, in their order: {written} (default:"
        " skdprp_predictions.csv)",
    )
    parser.add_argument(
        "--threshold",
        type=threshold,
        metavar="SHARE",
        help="of two classes, the probability of the one that is last in sorted order from which it is predicted, not"
        " chosen by rows of the fit; prior is the share of that class, as the fit has counted it (default: that of the"
        " model)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite a file that is there already")


def run(options):
    """Read model and rows, predict, and write the predictions."""
    for path in (options.model, options.file):
        check_file(path)
    check_new(options, "table", "csv", options.file, options.model)
    model = load_model(options.model).estimator
    model = getattr(model, "best_estimator_", model)  # of a search
    X = _read(options, model)
    if options.threshold is not None:
        if len(getattr(model, "classes_", ())) != 2 or not hasattr(model[-1], "threshold"):
            raise ValueError(f"--threshold is for two classes, which {options.model} does not predict")
        model[-1].threshold = options.threshold
    predictions = X[[]].assign(prediction=model.predict(X))
    if hasattr(model, "predict_proba"):
        for label, of_class in zip(model.classes_, model.predict_proba(X).T, strict=True):
            predictions[f"probability_{label}"] = of_class
    with writing(options.output):
        replace_file(options.output, lambda path: predictions.to_csv(path, index=False))
    print(f"wrote {options.output}: {len(X)} predictions, in the order of the rows")
    bounds, categories = known_columns(model)
    for line in describe_unusual(X, bounds, categories):
        print(f"{options.file}: {line}")
    print(
        f"They cost no further privacy of the rows that {options.model} was fitted to. No guarantee covers the rows of"
        f" {options.file}."
    )


def _read(options, model):
    """Return the columns that the model takes, with the types that they had at its fit."""
    steps = [step for _, step in all_steps(model)]
    table = next((step for step in steps if isinstance(step, TableColumns)), None)
    if not isinstance(model, Pipeline) or table is None:
        raise ValueError(f"{options.model}: {_NO_TABLE}")
    numbers = set(table.numbers)
    for step in steps:
        if isinstance(step, DPBinner):
            pairs = zip(step.feature_names_in_, step.bin_edges_, strict=True)
            numbers |= {name for name, edges in pairs if edges is not None}
    return read_features(options.file, table.columns_, numbers, table.categories)
