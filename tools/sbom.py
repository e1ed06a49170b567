"""What an installation is made of, as CycloneDX JSON on standard output: `python tools/sbom.py`.

Every distribution that mercury-lsp needs in this environment, through all its dependencies, with version and licence.
It knows nothing about what is installed besides.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement

ROOT = "mercury-lsp"


def normal(name: str) -> str:
    """A distribution's name as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(found: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """(name, extras) of what a distribution needs here."""
    for line in found.requires or ():
        requirement = Requirement(line)
        marks = [{"extra": extra} for extra in extras] or [{"extra": ""}]
        if requirement.marker is None or any(requirement.marker.evaluate(mark) for mark in marks):
            yield normal(requirement.name), frozenset(requirement.extras)


def closure(name: str) -> dict[str, tuple[Distribution, set[str]]]:
    """Every distribution below `name` that is installed, with the names of what it needs."""
    result: dict[str, tuple[Distribution, set[str]]] = {}
    todo, seen = [(normal(name), frozenset[str]())], set[tuple[str, frozenset[str]]]()
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        try:
            found = distribution(here[0])
        except PackageNotFoundError:
            continue  # needed on other systems, or optional and absent
        below = list(needed(found, here[1]))
        result.setdefault(here[0], (found, set()))[1].update(name for name, _ in below)
        todo += below
    return result


def component(found: Distribution) -> dict[str, Any]:
    name, version = normal(found.metadata["Name"]), found.version
    said = found.metadata.get("License-Expression") or found.metadata.get("License") or ""
    licence = said.partition("\n")[0]
    entry: dict[str, Any] = {"type": "library", "name": name, "version": version}
    entry |= {"bom-ref": f"pkg:pypi/{name}@{version}", "purl": f"pkg:pypi/{name}@{version}"}
    return entry | ({"licenses": [{"license": {"name": licence}}]} if licence else {})


def sbom() -> dict[str, Any]:
    """Components in the order of their names: the same installation gives the same document."""
    parts = closure(ROOT)
    refs = {name: component(found)["bom-ref"] for name, (found, _) in parts.items()}
    own = component(parts[ROOT][0]) | {"type": "application"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": [component(parts[name][0]) for name in sorted(parts) if name != ROOT],
        "dependencies": [
            {"ref": refs[name], "dependsOn": sorted(refs[below] for below in parts[name][1] if below in refs)}
            for name in sorted(parts)
        ],
    }


if __name__ == "__main__":
    json.dump(sbom(), sys.stdout, indent=1)
    print()
