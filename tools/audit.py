"""Known faults of the pinned releases: `python tools/audit.py PIP_AUDIT constraints.txt`.

Ends with 1 where a release has a known fault, with 2 where not one of them could be looked up (no network, or a package
index that serves no advisories), else with 0. It knows nothing about faults that are not in the index's advisories.
"""

import json
import subprocess
import sys
from typing import Any


def verdict(found: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Exit status and what to print, of pip-audit's `dependencies`."""
    bad = [part for part in found if part.get("vulns")]
    skipped = [part["name"] for part in found if "skip_reason" in part]
    lines = [f"{part['name']} {part['version']}: {fault(entry)}" for part in bad for entry in part["vulns"]]
    if len(skipped) == len(found):
        return 2, ["nothing was audited: the package index cannot be reached, or serves no advisories"]
    lines.append(f"{len(found) - len(skipped)} releases looked up, {len(bad)} with a known fault")
    if skipped:
        lines.append(f"not looked up: {', '.join(skipped)}")
    return (1 if bad else 0), lines


def fault(entry: dict[str, Any]) -> str:
    mended = ", ".join(entry.get("fix_versions", ())) or "no release yet"
    return f"{entry['id']} (mended in {mended})"


def main(pip_audit: str, requirements: str) -> int:
    asked = [pip_audit, "--requirement", requirements, "--no-deps", "--disable-pip", "--format", "json"]
    done = subprocess.run([*asked, "--progress-spinner", "off"], capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        found = []  # pip-audit ends without an answer where there is no network
    status, lines = verdict(found)
    print(*lines, sep="\n")
    return status


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
