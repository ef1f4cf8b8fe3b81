"""Print constraints that pin every dependency with a lower bound in pyproject.toml to that version."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
of_extras = [requirement for name in ("table", "plot", "pld", "dask", "search", "test") for requirement in extras[name]]
for requirement in [*project["dependencies"], *of_extras]:
    if found := re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", requirement):
        print(f"{found[1]}=={found[2]}.*")
