"""Finds the newest log file of a folder."""

import sys
from pathlib import 


def newest_log(folder: Path) -> Path | None:
    """The log file that was changed last, or None if there is none."""
    logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
    return logs[-1] if logs else None


if __name__ == "__main__":
    print(newest_log(Path(sys.argv[1])))
