"""Attacks on plans of ensembles, on refuted releases of a plan, on functions that solve for all rows at once."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.signal import detrend, savgol_filter
from sklearn.impute import SimpleImputer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdprp import (
    DPOPORP,
    AMPClassifier,
    DPSignOPORP,
    PrivacyLedger,
    PublicScaler,
    load_model,
    privacy_report,
    save_model,
)
from skdprp.ledger import entry

_X = np.random.default_rng(0).uniform(-1, 1, size=(200, 3))
_Y = (_X[:, 0] > 0).astype(int)


def test_a_release_that_an_audit_has_refuted_is_no_part_of_a_plan():
    """The total of the entry had no mark of it."""
    sketch = DPOPORP(2, random_state=0).fit(_X)
    plan = privacy_report(DPOPORP(2, random_state=0), _X)
    sketch.guarantee_ = replace(sketch.guarantee_, violation="epsilon is at least 3", audited_epsilon=3.0)
    with PrivacyLedger() as ledger, entry(plan):
        sketch.transform(_X)
    assert [bool(one.guarantee.violation) for one in ledger.entries] == [False, True]
    assert ledger.total()[0].guarantee is None


@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_a_planned_ensemble_is_one_entry_whatever_its_members_list(classes):
    """The total is given the set of labels, and its members assumed of them what that says: each was entered again."""
    model = OneVsRestClassifier(AMPClassifier(delta=1e-6, classes=classes))
    y = np.digitize(_X[:, 0], [-0.3, 0.3])
    plan = privacy_report(model, _X, y)
    with PrivacyLedger() as ledger, entry(plan):
        model.fit(_X, y)
    (only,) = ledger.entries
    assert only.guarantee.epsilon == plan.total.epsilon


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("function", [detrend, partial(savgol_filter, window_length=5, polyorder=2, deriv=2)])
def test_functions_that_solve_for_all_rows_at_once_are_no_maps_of_each_row(function):
    """Least squares scale all rows if one is huge: the loss of the others was 230 for a printed 1."""
    far, near = (np.vstack([_X, np.full((1, 3), value)]) for value in (1e300, 1.0))
    rows = np.hstack([far, far, far]), np.hstack([near, near, near])
    step = FunctionTransformer(function, kw_args={"axis": 1})
    model = make_pipeline(step, PublicScaler((-1, 1)), DPSignOPORP(8, random_state=0)).fit(rows[1])
    maps = [step.transform(one)[:-1] for one in rows]
    assert np.array_equal(*maps) or privacy_report(model).total is None


def test_a_pipeline_with_an_imputer_of_constants_has_a_file(tmp_path):
    """The type of numbers that it was fitted to is in the file, too."""
    imputer = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
    model = make_pipeline(imputer, AMPClassifier(delta=1e-6, classes=[0, 1])).fit(_X, _Y)
    save_model(tmp_path / "model.npz", model)
    saved = load_model(tmp_path / "model.npz").estimator
    holes = np.where(_X > 0.9, np.nan, _X)
    assert np.array_equal(saved.predict(holes), model.predict(holes))
