"""The bill of materials names what is installed, all of it, with versions."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version

from packaging.requirements import Requirement

from tests.lsp.editor import ROOT


def test_the_bill_of_materials_holds_every_dependency_and_is_closed() -> None:
    made = subprocess.run(
        [sys.executable, "tools/sbom.py"], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout
    bill = json.loads(made)
    found = {part["name"]: part["version"] for part in bill["components"]}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    needed = [Requirement(line) for line in declared]
    here = [r.name.replace("_", "-") for r in needed if r.marker is None or r.marker.evaluate()]
    assert {name: version(name) for name in here} == {name: found.get(name) for name in here}
    assert "numpy" in found
    assert "markupsafe" in found, "torch needs jinja2, which needs it"
    refs = {part["bom-ref"] for part in [*bill["components"], bill["metadata"]["component"]]}
    assert {row["ref"] for row in bill["dependencies"]} == refs
    assert all(set(row["dependsOn"]) <= refs for row in bill["dependencies"])
