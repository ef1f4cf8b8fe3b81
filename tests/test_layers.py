"""The layer rule: a module imports strictly lower layers only."""

import ast
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from inspect import isabstract
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import skdprp

PACKAGE = Path(skdprp.__file__).parent
LAYERS = [
    {"_adjacency", "_digits", "_fits_around", "_lazy", "_open_ledgers", "_version"},
    {"_errors", "_recording"},
    {"_kernels", "_noise", "_rows", "_sums"},
    {"_validation"},
    {"_threads", "_labels", "_persons", "_printing", "random_projection", "losses", "mechanisms"},
    {"composition", "sensitivity"},
    {"guarantee"},
    {"ledger"},
    {"_calibration"},
    {"metrics", "moments", "similarity"},
    {"decomposition", "sketch", "linear_model", "histograms"},
    {"neural_network", "preprocessing"},
    {"audit", "out_of_core", "report"},
    {"model_selection"},
    {"inspection", "release_file"},
    {"testing", "_command"},
]
LAYER_OF = {module: layer for layer, modules in enumerate(LAYERS) for module in modules}
MODULES = [
    path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem not in ("__init__", "__main__")
]


@cache
def nodes_of(path):
    """Return the parts of what a file says."""
    return list(ast.walk(ast.parse(path.read_text())))


def module_name(path):
    """Return the public module that a file belongs to: packages of private files count as one."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_the_page_of_the_architecture_has_the_same_layers():
    page = (PACKAGE.parent / "doc" / "architecture.rst").read_text()
    table = page.partition(":header: layer")[2].partition("Only ``_noise.py`` draws")[0]
    names = re.findall(r"``([\w/.]+)``", table)
    listed = {name.strip("/").removesuffix(".py") for name in names}
    assert listed == set(LAYER_OF), "make the table of doc/architecture.rst and LAYERS above agree"


OF_SCIKIT_LEARN = {
    *("_checked_cv_orig", "_gamma", "_infrequent_enabled", "_infrequent_indices", "_parameter_constraints"),
    *("_skl_callbacks", "_sklearn_output_config", "_transformer_to_input_indices"),
}


def test_every_private_attribute_that_an_estimator_may_lack_is_listed():
    """What reports, plans, searches and files ask for by name; other attributes are those of a base class."""
    asking = ("_fits_around", "report", "model_selection", "inspection", "release_file", "audit")
    files = [PACKAGE / "_calibration.py", *(path for name in asking for path in (PACKAGE / name).glob("*.py"))]
    asked = "".join(path.read_text() for path in files)
    whom = r"(?:estimator|\w*model|step|member|one|thing|holder)"
    names = set(re.findall(rf"(?:get|has)attr\({whom}, \"(_[a-z]\w+)", asked))
    page = (PACKAGE.parent / "doc" / "architecture.rst").read_text()
    listed = re.findall(r"^   ``(_\w+)``", page.partition(":header: attribute")[2], flags=re.MULTILINE)
    new = "add it to the last table of doc/architecture.rst, or here if it is scikit-learn's"
    assert len(names) > 10 and names - OF_SCIKIT_LEARN <= set(listed), new


def test_every_mechanism_is_listed_on_the_page_of_the_architecture():
    page = (PACKAGE.parent / "doc" / "architecture.rst").read_text()
    listed = re.findall(r"``(\w+)``", page.partition("The files are")[2].partition("\n\n")[0])
    files = {path.stem for path in (PACKAGE / "mechanisms").glob("*.py")} - {"__init__"}
    assert set(listed) == files, "name each file under 'A mechanism is a file' in doc/architecture.rst"


def test_every_module_is_listed_in_its_layer():
    new = "give each module a layer, in LAYERS above and in the table of doc/architecture.rst"
    assert {module_name(path) for path in MODULES} == set(LAYER_OF), new


def imported_modules(path):
    """Yield the modules of the package that a file imports, relative to the package."""
    depth = len(path.relative_to(PACKAGE).parts)
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.level:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (module_name(path) if node.level < depth else name.split(".")[0] for name in names)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (name.split(".")[1] for name in names if name.startswith("skdprp."))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    own = module_name(path)
    for imported in imported_modules(path):
        is_lower = imported == own or LAYER_OF[imported] < LAYER_OF[own]
        assert is_lower, f"{own} imports {imported}, which is no lower layer: move what it needs down"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_randomness_is_drawn_in_one_place(path):
    """Only _noise asks the kernel for randomness; no module uses the generators of `random` or numpy's global one.

    But one check seeds all of them, to see that no noise comes from there; and _noise, so that nobody else's draws tell
    what a search did.
    """
    nodes = nodes_of(path)
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imports = {alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
    assert ("urandom" in attributes) == (path.stem == "_noise"), "draw by a function of skdprp/_noise.py"
    is_check = path.relative_to(PACKAGE).as_posix() == "testing/_freshness.py"
    assert imports & {"random", "secrets", "urandom"} == ({"random"} if path.stem == "_noise" else set()) or is_check
    if path.stem not in ("_noise", "random_projection") and not is_check:
        assert not attributes & {"random", "default_rng", "RandomState"}


def test_every_public_name_exists_and_is_listed():
    assert len(set(skdprp.__all__)) == len(skdprp.__all__)
    assert set(skdprp._MODULE_OF) | {"similarity"} == set(skdprp.__all__), "name it in _PLACES and in __all__"
    assert all(hasattr(skdprp, name) for name in skdprp.__all__)
    assert set(skdprp.__all__) <= set(dir(skdprp))
    with pytest.raises(AttributeError, match=r"module 'skdprp' has no attribute 'AMP'$"):
        skdprp.AMP  # noqa: B018


def test_every_estimator_of_the_package_is_listed():
    """A class with a public name that is not abstract is public, but for searches among sketches."""
    modules = [import_module(f"skdprp.{'.'.join(path.relative_to(PACKAGE).with_suffix('').parts)}") for path in MODULES]
    kinds = {thing for module in modules for thing in vars(module).values() if isinstance(thing, type)}
    ours = {kind for kind in kinds if issubclass(kind, BaseEstimator) and kind.__module__.startswith("skdprp.")}
    shown = {kind.__name__ for kind in ours if not isabstract(kind) and "similarity" not in kind.__module__}
    new = "name it in __all__ of its package, and in _PLACES and __all__ of skdprp/__init__.py"
    assert shown - {"TableColumns"} <= set(skdprp.__all__), new


def test_a_public_name_of_a_module_is_found_there():
    """Whoever looks for it in the package is told where it is, by an import as well; and ``hasattr`` says no."""
    with pytest.raises(AttributeError, match=r"no attribute 'SketchNeighbors': it is in skdprp\.similarity$"):
        skdprp.SketchNeighbors  # noqa: B018
    with pytest.raises(ImportError, match=r"no attribute 'SketchNeighbors': it is in skdprp\.similarity$"):
        from skdprp import SketchNeighbors  # noqa: F401
    with pytest.raises(AttributeError, match=r"no attribute 'LogisticLoss': it is in skdprp\.losses$"):
        skdprp.LogisticLoss  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'AMP'"):
        from skdprp import AMP  # noqa: F401
    assert not hasattr(skdprp, "SketchNeighbors")
    from skdprp import ledger, testing

    assert {ledger.__name__, testing.__name__} == {"skdprp.ledger", "skdprp.testing"}


def test_only_public_names_are_listed():
    listed = dir(skdprp)
    assert [name for name in listed if name.startswith("_")] == ["__version__"]
    assert set(listed) - {"__version__"} == set(skdprp.__all__) | {
        name for name in LAYER_OF if not name.startswith("_")
    }
    assert all(hasattr(skdprp, name) for name in listed)


def test_a_module_is_imported_when_it_is_first_asked_for():
    asked = (
        "import sys, skdprp; print('numpy' in sys.modules); skdprp.losses; print('sklearn.linear_model' in sys.modules)"
    )
    asked = f"import sys; sys.modules['pandas'] = None; {asked}"  # which scikit-learn would import
    told = subprocess.run([sys.executable, "-c", f"{asked}; skdprp.AMPClassifier"], capture_output=True, text=True)
    assert told.stdout.split() == ["False", "False"] and told.returncode == 0


def test_who_is_an_ancestor_is_seen_when_the_package_is_imported():
    """A ledger of a grandparent missed what the child of a parent that had ended released."""
    asked = "import sys, skdprp; print('skdprp._open_ledgers' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert told.stdout == "True\n"


def test_private_names_that_docstrings_and_comments_mention_exist():
    """A proof pointed at a function that was no more."""
    known, mentioned = {path.stem for path in MODULES}, {}
    for path in MODULES:
        named = re.findall(r"(?<!`)`(?:\w+\.)*(_[a-zA-Z]\w*)`(?!`)", path.read_text())
        mentioned |= dict.fromkeys(named, path.name)
        for node in nodes_of(path):
            names = (getattr(node, name, None) for name in ("id", "attr", "name", "arg"))
            known |= {name for name in names if isinstance(name, str)}
    page = (PACKAGE.parent / "doc" / "architecture.rst").read_text()
    mentioned |= dict.fromkeys(re.findall(r"``(_[a-z]\w*)``", page), "architecture.rst")
    assert len(mentioned) > 40
    assert {name: place for name, place in mentioned.items() if name not in known} == {}
