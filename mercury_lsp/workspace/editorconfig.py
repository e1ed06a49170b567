"""How `.editorconfig` files want a file indented (https://editorconfig.org): indent_style and its width.

Read when asked, not watched. A file that cannot be read or understood says nothing. Other properties are
not looked at.
"""

import re
from functools import lru_cache
from pathlib import Path, PurePath

from mercury_lsp.text import IndentStyle

_NAME = ".editorconfig"
_MAX_BYTES = 100_000


def indent_style(path: Path) -> IndentStyle | None:
    """The style for the file at `path`, or None where no `.editorconfig` above it says whether to use tabs.

    Nearer files win over farther ones, later sections over earlier ones; `root = true` ends the search.
    """
    found: dict[str, str] = {}
    for folder in path.absolute().parents:
        root, sections = _read(folder / _NAME)
        relative = path.absolute().relative_to(folder)
        here: dict[str, str] = {}
        for pattern, properties in sections:
            if _matches(relative, pattern):
                here |= properties
        found = here | found
        if root:
            break
    return _style(found)


def _style(properties: dict[str, str]) -> IndentStyle | None:
    style = properties.get("indent_style")
    if style not in ("tab", "space"):
        return None
    size = properties.get("indent_size", "tab")
    width = properties.get("tab_width", "") if size == "tab" else size
    return IndentStyle(style == "tab", int(width) if width.isdecimal() and 0 < int(width) <= 16 else 4)


def _read(path: Path) -> tuple[bool, list[tuple[str, dict[str, str]]]]:
    """(root, sections in order) of one file; nothing if it is not there."""
    try:
        text = path.read_bytes()[:_MAX_BYTES].decode("utf-8", "replace")
    except OSError:
        return False, []
    root, sections = False, list[tuple[str, dict[str, str]]]()
    for line in re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff")):
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            sections.append((line[1:-1], {}))
        elif "=" in line and not line.startswith(("#", ";")):
            key, value = (part.strip().lower() for part in line.split("=", 1))
            if sections:
                sections[-1][1][key] = value
            elif key == "root":
                root = value == "true"
    return root, sections


def _matches(relative: PurePath, pattern: str) -> bool:
    """Whether a section's pattern is about a file; one without a slash is about names in any folder."""
    regex = _regex(pattern.removeprefix("/"))
    name = relative.as_posix() if "/" in pattern else relative.name
    return regex is not None and regex.fullmatch(name) is not None


@lru_cache(maxsize=256)
def _regex(pattern: str) -> re.Pattern[str] | None:
    """The regular expression of a pattern; None if it makes no sense."""
    try:
        return re.compile(_translate(pattern))
    except (re.error, RecursionError):
        return None


def _translate(pattern: str) -> str:
    parts = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    done = ""
    for token in re.findall(r"\\.|\*\*|\*|\?|\[[^\]/]+\]|\{[^{}]*\}|.", pattern):
        if token in parts:
            done += parts[token]
        elif token[0] == "[" and len(token) > 2:
            done += "[" + re.sub(r"^!", "^", token[1:-1]).replace("\\", "\\\\") + "]"
        elif token[0] == "{" and len(token) > 1:
            done += _braces(token)
        else:
            done += re.escape(token[-1])
    return done


def _braces(token: str) -> str:
    """`{a,b*}` is a choice, `{1..9}` a range of numbers, anything else itself."""
    inside = token[1:-1]
    ends = re.fullmatch(r"(-?\d{1,4})\.\.(-?\d{1,4})", inside)
    if ends is not None:
        low, high = sorted((int(ends.group(1)), int(ends.group(2))))
        return "(?:" + "|".join(re.escape(str(number)) for number in range(low, high + 1)) + ")"
    if "," not in inside:
        return re.escape(token)
    return "(?:" + "|".join(_translate(choice) for choice in inside.split(",")) + ")"
