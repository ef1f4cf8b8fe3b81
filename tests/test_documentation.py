"""The site knows every public object, and every public object has an example."""

import ast
import csv
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import numpy as np
import public
import pytest
import test_common

import skdprp
from skdprp.mechanisms import Published

ROOT = Path(__file__).parents[1]
API = (ROOT / "doc" / "api.rst").read_text()
WRITTEN = [*ROOT.glob("*.rst"), *ROOT.glob("doc/*.rst"), *ROOT.glob("doc/guide/*.rst"), *ROOT.glob("skdprp/**/*.py")]
OBJECTS = [getattr(skdprp, name) for name in skdprp.__all__ if not inspect.ismodule(getattr(skdprp, name))]
NAMES = [module.name for module in pkgutil.iter_modules(skdprp.__path__) if not module.name.startswith("_")]
MODULES = [importlib.import_module(f"skdprp.{name}") for name in NAMES]
PAGES = [*ROOT.glob("doc/*.rst"), *ROOT.glob("doc/guide/*.rst"), *ROOT.glob("examples/**/*.py"), ROOT / "README.rst"]
SOURCES = re.findall(r"proof in skdprp[\w.]+", "".join(path.read_text() for path in ROOT.glob("skdprp/**/*.py")))
ESTIMATORS_CODE = "".join(path.read_text() for path in ROOT.glob("skdprp/*/**/*.py"))
LESSONS = " ".join([page.read_text() for page in PAGES if page.stem not in ("api", "architecture")] + SOURCES)
# Returned by what is taught, or facts of a guarantee.
MET_ELSEWHERE = {"AuditResult", "Definition", "PrivacyLoss", "PrivacyReport", "Profile", "ReportedStep"} | {
    "Entry",
    "Total",
}


def public_names(module):
    """Names in ``__all__``, or else those of what is defined in the module."""
    defined = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
    return getattr(module, "__all__", [name for name in defined if not name.startswith("_")])


@pytest.mark.parametrize("name", skdprp.__all__)
def test_every_public_name_is_listed(name):
    assert f" skdprp.{name}\n" in API, "list it in doc/api.rst"


@pytest.mark.parametrize("page", ["choose", "review"])
def test_every_private_estimator_is_listed(page):
    """How to choose one, and what a reviewer has to read of it."""
    text = (ROOT / "doc" / f"{page}.rst").read_text()
    missing = [kind.__name__ for kind in public.PRIVATE if not re.search(rf"\b{kind.__name__}\b", text)]
    assert not missing, f"name it in doc/{page}.rst"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_module_or_what_is_in_it_is_listed(module):
    listed = [f"skdprp.{name}\n" in API or f"{module.__name__}.{name}\n" in API for name in public_names(module)]
    assert f"   {module.__name__}\n" in API or (listed and all(listed)), "list it in doc/api.rst"


@pytest.mark.parametrize("module", [skdprp, *MODULES], ids=lambda module: module.__name__)
def test_every_public_name_is_taught(module):
    """By a page, an example, or a printed guarantee that is proved there; but for what is met in the hands of those."""
    taught = {name for name in public_names(module) if re.search(rf"\b{name}\b", LESSONS)}
    untaught = set(public_names(module)) - taught - MET_ELSEWHERE
    assert not untaught, "leave them out of __all__, write about them in doc/guide, or have a source say where they are"


@pytest.mark.parametrize("profile", sorted(set(re.findall(r"Profile\.of\(\s*(\w+_profile)", ESTIMATORS_CODE))))
def test_a_profile_of_a_guarantee_is_found_by_its_name(profile):
    """As doc/review.rst says, where it computes delta from ``to_dict``."""
    assert getattr(skdprp.mechanisms, profile).__name__ in skdprp.mechanisms.__all__


@pytest.mark.parametrize("source", sorted(set(SOURCES)))
def test_every_proof_that_a_guarantee_names_is_there(source):
    thing = pkgutil.resolve_name(source.removeprefix("proof in ").rstrip("."))
    assert inspect.getdoc(thing), "a printed source names an object, by the path from which it is imported"


@pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: thing.__name__)
def test_every_public_object_has_an_example(thing):
    assert ">>>" in inspect.getdoc(thing) or issubclass(thing, Warning)


@pytest.mark.parametrize(
    "thing",
    [getattr(module, name) for module in MODULES for name in public_names(module)],
    ids=lambda thing: thing.__name__,
)
def test_every_function_of_a_public_module_is_documented(thing):
    assert inspect.getdoc(thing)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    """Commands that reproduce figures, tests that support claims, pictures: Sphinx checks references, and not these."""
    named = re.findall(r"(?:benchmarks|changelog\.d|doc|examples|tests)/[\w/.]+\.(?:py|rst|png)", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_each_check_of_scikit_learn_that_fails_by_design_is_listed():
    """On the site: which, of what, and why, as the tests expect it, and no other."""
    expected = {}
    for estimator in test_common.ESTIMATORS:
        for check, reason in test_common.fails_by_design(estimator).items():
            expected.setdefault((f"``{check}``", reason), set()).add(type(estimator).__name__)
    groups = {"sketches": public.SKETCHES, "classifiers": public.CLASSIFIERS}
    groups = {group: {kind.__name__ for kind in kinds} for group, kinds in groups.items()}
    page = (ROOT / "doc" / "coming_from.rst").read_text().partition("check, of, why")[2].splitlines()
    listed = {}
    rows = csv.reader((line.strip() for line in page if line.startswith("   ``check_")), skipinitialspace=True)
    for check, names, reason in rows:
        for name in names.split(", "):
            listed.setdefault((check, reason), set()).update(groups.get(name, {name}))
    new = "make the table of doc/coming_from.rst agree with fails_by_design of tests/test_common.py"
    assert listed == expected, new


# Words that a reader of the field would not look for, and what to write in their place.
DIALECT = {
    r"shorten\w*": "clip",
    r"laws?": "distribution, or rule",
    r"slack": "failure probability, or margin",
    # Events are more likely by delta, and the loss exceeds epsilon far more often: 2e-5 of Gaussian noise at 1e-6.
    r"(bound by epsilon|\(ε, δ\)-DP) (may fail|fails)": "delta is added to the bound",
    r"except with probability delta": "plus delta, of the probability of an event",
    r"bound fails with a probability of at most one": "delta is added to the bound",
    r"delta is (a|the) (failure )?probability": "delta is added to the bound",
    r"fixed maps?": "data-independent step",
    r"(take|takes|taking) (it|the noise) off": "subtract the noise",
    r"in full view": "without noise",
    r"one price": "one guarantee",
    r"leaves? the house": "is published",
    r"known in public": "known without the data",
    r"(is|are|be) (a |fair )?coins?": "random",
    r"nobody must": "is hidden",
    r"stood": "replaces",
    r"house rule": "rule of this library",
    r"of like size": "of about the same size",
    r"worth the name": "useful",
    r"for whom": "where",
    r"dearest": "most expensive",
    r"one figure for both": "one number for both",
    r"(evened|evens) out (by|steps)": "preconditioned",
    r"made-up": "simulated",
    r"at hand": "available",
    r"turn(s|ed) (the \w+ )?round": "the opposite",
    r"by the letter": "as written",
    r"in (its|their) stead": "instead",
    r"(large|small) beside": "large compared with",
}
TOLD = [*WRITTEN, *ROOT.glob("changelog.d/*.rst"), *ROOT.glob("examples/**/*.py")]


def prose(path):
    """What a page or a gallery says, or the docstrings and messages of a module, without the code in it."""
    text = path.read_text()
    if "examples" in path.parts:
        return "\n".join([ast.get_docstring(ast.parse(text)), *re.findall(r"^# .*$", text, flags=re.MULTILINE)])
    if path.suffix == ".py":
        constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        text = "\n".join(value for value in constants if isinstance(value, str))
    return re.sub(r"`+[^`]*`+|^ *(>>>|\.\.\.) .*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", TOLD, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_speaks_a_dialect(path):
    text = " ".join(prose(path).split())
    found = [one.group() for one in re.finditer(rf"\b(?:{'|'.join(DIALECT)})\b", text, flags=re.IGNORECASE)]
    assert not found, {
        one: f"write {instead}"
        for one in found
        for word, instead in DIALECT.items()
        if re.fullmatch(word, one, flags=re.IGNORECASE)
    }


PAPERS = (ROOT / "doc" / "papers.rst").read_text().replace('""', '"')
ESTIMATORS = "|".join(name for name in skdprp.__all__ if hasattr(getattr(skdprp, name), "fit"))
CALLS = sorted(set(re.findall(rf"``((?:{ESTIMATORS})\(.*?\))``", PAPERS)))


@pytest.mark.filterwarnings("ignore:The published calibration")
@pytest.mark.parametrize("call", CALLS)
def test_calls_by_which_a_paper_is_found_here_work(call):
    names = {name: getattr(skdprp, name) for name in skdprp.__all__} | {"k": 8, "t": 2, "m": 2.0, "delta": 1e-6}
    names["Published"] = Published
    X = np.random.default_rng(0).uniform(0.5, 1, (150, 20))
    estimator = eval(call, names)
    if hasattr(estimator, "transform"):
        assert len(estimator.fit_transform(X)) == 150
    else:
        assert estimator.fit(X, np.arange(150) % 2).predict(X).shape == (150,)


# Reproductions show what they show whatever the defaults become.
REPRODUCTIONS = sorted(ROOT.glob("examples/reproductions/*.py"))
NAMED = {kind.__name__: kind for kind in public.SKETCHES | public.CLASSIFIERS | {skdprp.MIDPRegressor}}
NO_MATTER = {"random_state", "n_jobs", "output", "verbose", "max_nonzeros"}


def left_to_defaults(source):
    """Parameters of estimators that a script does not name, by line; ``**`` names none."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in NAMED:
            parameters = list(inspect.signature(NAMED[node.func.id]).parameters)
            named = {*parameters[: len(node.args)], *(keyword.arg for keyword in node.keywords)}
            if missing := set(parameters) - named - NO_MATTER:
                yield node.lineno, missing


@pytest.mark.parametrize("path", REPRODUCTIONS, ids=lambda path: path.stem)
def test_reproductions_name_every_parameter(path):
    assert list(left_to_defaults(path.read_text())) == []


def test_a_parameter_left_to_its_default_is_found():
    known = "epsilon=1.0, max_change=1.0, adjacency='l1', n_repeats=1"
    assert list(left_to_defaults(f"DPSignOPORP(4, {known}, method='rr')")) == []
    assert list(left_to_defaults(f"x = 0\nf(DPSignOPORP(4, {known}))")) == [(2, {"method"})]
    assert list(left_to_defaults(f"DPSignOPORP({known}, **more)")) == [(1, {"n_components", "method"})]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_are_named_exist(page):
    named = re.findall(r"(tests/\w+\.py)::(\w+)", page.read_text())
    assert [test for path, test in named if f"\ndef {test}(" not in (ROOT / path).read_text()] == []
