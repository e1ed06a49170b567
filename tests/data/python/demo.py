"""Word statistics for plain text files."""

import re
import sys
from collections import Counter
from pathlib import Path

WORD = re.compile(r"[a-z']+")


def count_words(text: str) -> Counter[str]:
    """Count how often each lower-case word occurs in the text."""

    


def most_common(path: Path, limit: int = 10) -> list[tuple[str, int]]:
    """The most frequent words of a file, most frequent first."""
    counts = count_words(path.read_text(encoding="utf-8"))
    return counts.most_common(limit)


def main() -> None:
    for name in sys.argv[1:]:
        for word, count in most_common(Path(name)):
            print(f"{count:6d} {word}")


if __name__ == "__main__":
    main()
