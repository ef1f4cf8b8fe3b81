"""Reports on what a fit will release, against those on what it did."""

import dask.array
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from skdprp import (
    DPOPORP,
    DPPCA,
    AMPClassifier,
    DPBinner,
    DPMoments,
    DPRidge,
    DPSearchCV,
    DPSGDClassifier,
    DPSignOPORP,
    MIDPRegressor,
    PrivacyLedger,
    PublicScaler,
    iDPSignRP,
    privacy_report,
)

TABLE = pd.DataFrame({"size": np.linspace(0, 1, 300), "town": ["Hull", "Leeds", "York"] * 100})
BEFORE_A_FIT = [
    make_pipeline(Normalizer(), DPOPORP(4), LogisticRegression()),
    make_pipeline(DPSignOPORP(4), AMPClassifier()),
    FeatureUnion([("first", DPOPORP(4)), ("second", iDPSignRP(4))]),
    OneVsRestClassifier(make_pipeline(DPPCA(3), AMPClassifier())),
    OneVsRestClassifier(AMPClassifier(classes=[0, 1])),
    VotingClassifier([("plain", AMPClassifier()), ("scaled", make_pipeline(PublicScaler((-1, 1)), AMPClassifier()))]),
    FixedThresholdClassifier(AMPClassifier(), threshold=0.3),
    make_pipeline(StandardScaler(), DPSGDClassifier(n_epochs=2)),
    make_pipeline(PublicScaler((-1, 1)), DPSearchCV(AMPClassifier(), {"max_norm": [1.0, 2.0]}, n_trials=2)),
    DPRidge(target_bounds=(0, 1)),
    MultiOutputRegressor(DPRidge(target_bounds=(0, 1))),
    MultiOutputClassifier(AMPClassifier()),
    DPMoments(),
    LogisticRegression(),
]


def facts_of(report):
    """What a report says of the releases."""
    return report.steps, report.not_covered, report.private and (report.private.epsilon, report.private.delta)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("estimator", BEFORE_A_FIT, ids=repr)
def test_the_price_before_a_fit_is_what_the_fit_costs(estimator, n_classes, binary):
    n_classes = 2 if isinstance(estimator, FixedThresholdClassifier) else n_classes
    X, y = binary[0], np.arange(len(binary[1])) % n_classes
    y = np.column_stack([y, binary[1]]) if isinstance(estimator, MultiOutputClassifier | MultiOutputRegressor) else y
    given = X.copy()
    with PrivacyLedger() as ledger:
        before = privacy_report(estimator, X, y)
    assert ledger.entries == () and not any(name.endswith("_") for name in vars(estimator))
    np.testing.assert_array_equal(X, given)
    fitted = clone(estimator).fit(X, y)
    assert facts_of(before) == facts_of(privacy_report(fitted))
    assert facts_of(privacy_report(fitted, X, y)) == facts_of(before)
    assert "nothing has been released" in before.counted


def test_the_price_of_a_table_follows_from_a_few_rows(binary):
    model = make_pipeline(DPBinner(epsilon=0.3), AMPClassifier(epsilon=0.7, classes=["no", "yes"]))
    before = privacy_report(model, TABLE[:10], n_samples=300)
    assert facts_of(before) == facts_of(privacy_report(model, TABLE, n_samples=None))
    after = privacy_report(clone(model).fit(TABLE, np.tile(["no", "yes"], 150)))
    assert facts_of(before) == facts_of(after)
    assert privacy_report(model, TABLE[:10], n_samples=30_000).total.delta == 2 / 30_000**2


def test_what_a_report_before_a_fit_does_not_know_is_an_error(binary):
    X, y = binary
    with pytest.raises(ValueError, match="Give y: AMPClassifier lists no classes"):
        privacy_report(AMPClassifier(), X)
    with pytest.raises(ValueError, match="Give y: OneVsRestClassifier lists no classes"):
        privacy_report(OneVsRestClassifier(AMPClassifier()), X)
    with pytest.raises(ValueError, match="GridSearchCV is reported after its fit"):
        privacy_report(GridSearchCV(AMPClassifier(), {}), X, y)
    with pytest.raises(TypeError, match="MIDPRegressor does not say before a fit"):
        privacy_report(MIDPRegressor(), X, y)
    with pytest.raises(TypeError, match="X is a dask collection"):
        privacy_report(AMPClassifier(), dask.array.from_array(X), y)
    with pytest.raises(ValueError, match="n_samples is for a report on a fit to come"):
        privacy_report(AMPClassifier(), n_samples=10)
    with PrivacyLedger() as ledger, pytest.raises(ValueError, match="X is for what an estimator will release"):
        privacy_report(AMPClassifier(), X, y, ledger=ledger)
    with pytest.raises(NotFittedError, match=r"is not fitted.*give X"):
        privacy_report(AMPClassifier())
