"""Settings and ignore globs of any kind: what is wrong is told and left, what is right is taken, nothing raises."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mercury_lsp.settings import Settings, Source, read_layers
from mercury_lsp.settings_files import FILE_NAME, folder_source
from mercury_lsp.workspace.ignore import GIT_FILE, OWN_FILE, Ignore
from tests.fuzz.messages import JSON, OPTIONS

GLOBS = st.lists(
    st.sampled_from(
        ("*", "**", "/", "!", "[", "]", "{", "}", "\\", "a", "~", "?", "#", " ", "\t", "é", "\udcff", "\0", "..")
    ),
    max_size=6,
).map("".join)  # fmt: skip
NESTED = st.dictionaries(
    st.sampled_from([*OPTIONS, "x"]), JSON | st.dictionaries(st.text(max_size=9), JSON, max_size=3)
)
HERE = [HealthCheck.function_scoped_fixture]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(JSON | NESTED | st.fixed_dictionaries({"mercury": NESTED}), st.booleans()), max_size=3))
def test_any_value_gives_settings_and_says_what_was_not_taken(layers: list[tuple[object, bool]]) -> None:
    found, problems = read_layers([Source("file" if project else "", raw, project) for raw, project in layers])
    assert isinstance(found, Settings)
    assert all(problem.strip() for problem in problems)
    if any(project for _, project in layers) and all(project for _, project in layers):
        assert (found.model, found.remote) == (Settings().model, Settings().remote)


@settings(max_examples=100, deadline=None, suppress_health_check=HERE)
@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_file_of_settings_is_read_or_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    source, problem = folder_source(tmp_path)
    assert (source is None) == bool(problem)


@settings(max_examples=200, deadline=None, suppress_health_check=HERE)
@given(st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=3), GLOBS)
def test_any_glob_ignores_or_not_and_secrets_stay_secret(
    tmp_path: Path, globs: list[str], lines: list[str], name: str
) -> None:
    text = "\n".join(lines)
    for file in (OWN_FILE, GIT_FILE):
        (tmp_path / file).write_bytes(text.encode("utf-8", "surrogatepass"))
    ignore = Ignore([tmp_path], tuple(globs), gitignore=True)
    for path in (f"a{name}.py", "a.py", "sub/a.py"):
        if "\0" not in path:
            ignore.reason(tmp_path / path)
        ignore.reason(path, on_disk=False)
    if not any("!" in glob for glob in (*globs, *lines)):
        assert ignore.reason(tmp_path / ".env") is not None
        assert ignore.reason(tmp_path / "sub" / "id_rsa") is not None


@pytest.mark.parametrize(
    "glob", ["*" * 200 + "b", "*a" * 100 + "b", "**/" * 60 + "b", "[" * 500, "(a+)+$" * 20, "{a,b}" * 50]
)
def test_no_glob_takes_for_ever(glob: str, tmp_path: Path) -> None:
    ignore = Ignore([tmp_path], (glob,), gitignore=False)
    ignore.reason(tmp_path / ("a" * 60) / ("a" * 120 + ".py"))
