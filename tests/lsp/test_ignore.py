"""Which files are ignored, as rows: files of a tree, a path, and the reason that is given for it."""

from pathlib import Path

import pytest

from mercury_lsp.workspace.ignore import FRESH_SECONDS, Ignore


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    "path",
    [
        ".env", ".env.local", "prod.env", "deep/down/.env.production", ".ENV", ".envrc", "a.pem", "server.KEY",
        "id_rsa", "id_rsa.pub", "id_ed25519", "x.p12", "x.pfx", "secrets.yml", "secrets.py", ".netrc", ".npmrc",
        ".pypirc", "credentials", "credentials.json", "db.kdbx", ".dev.vars", ".git-credentials", ".aws/credentials",
        "home/.ssh/config", ".env.example", "terraform.tfvars", "x.crt",
    ],
)  # fmt: skip
def test_L1_secrets_are_ignored_without_any_setting(tmp_path: Path, path: str) -> None:
    assert "secrets" in (Ignore([tmp_path]).reason(tmp_path / path) or "")
    assert "secrets" in (Ignore().reason(path, on_disk=False) or "")


@pytest.mark.parametrize(
    "path",
    ["main.py", "environment.ts", "env.py", "keys.py", "key", "monkey", "pem.go", "secretary.py", "credentials/api.py"],
)
def test_ordinary_files_are_not(tmp_path: Path, path: str) -> None:
    assert Ignore([tmp_path]).reason(tmp_path / path) is None
    assert Ignore().reason(path, on_disk=False) is None


@pytest.mark.parametrize(
    ("files", "patterns", "path", "why"),
    [
        # .gitignore, nested, with git's rules
        ({".gitignore": "*.log\n"}, (), "a/b.log", ".gitignore"),
        ({".gitignore": "*.log\n", "a/.gitignore": "!b.log\n"}, (), "a/b.log", None),
        ({".gitignore": "a/\n", "a/.gitignore": "!b.log\n"}, (), "a/b.log", ".gitignore"),
        ({".gitignore": "/top.py\n"}, (), "a/top.py", None),
        ({".gitignore": "/top.py\n"}, (), "top.py", ".gitignore"),
        ({"a/.gitignore": "/x.py\n"}, (), "a/x.py", ".gitignore"),
        ({"a/.gitignore": "x.py\n"}, (), "b/x.py", None),
        ({".git/info/exclude": "mine.py\n", ".git/HEAD": ""}, (), "mine.py", ".gitignore"),
        # what git ignores can be wanted, what it un-ignores can be a secret
        ({".gitignore": "*.gen.py\n", ".mercuryignore": "!a.gen.py\n"}, (), "a.gen.py", None),
        ({".gitignore": "!.env\n"}, (), ".env", "secrets"),
        # own files
        ({".mercuryignore": "private/\n"}, (), "private/x.py", ".mercuryignore"),
        ({"lib/.mercuryignore": "*.py\n"}, (), "lib/deep/x.py", ".mercuryignore"),
        # the user's globs add to the others
        ({}, ("*.sql",), "a/b.sql", "files.ignore"),
        ({}, ("*.sql",), ".env", "secrets"),
        ({".gitignore": "*.log\n"}, ("*.sql",), "b.log", ".gitignore"),
        ({}, ("data/**",), "data/x/y.py", "files.ignore"),
        ({}, ("/data",), "src/data", None),
        # allowed again, explicitly
        ({}, ("!.env.example",), ".env.example", None),
        ({}, ("!.env.example",), ".env", "secrets"),
        ({".mercuryignore": "!.env.example\n"}, (), "a/.env.example", None),
        # a broken line does not switch the others off
        ({".gitignore": "!\n*.log\n"}, (), "b.log", ".gitignore"),
    ],
)
def test_L2_L3_L5_rules(
    tmp_path: Path, files: dict[str, str], patterns: tuple[str, ...], path: str, why: str | None
) -> None:
    reason = Ignore([tree(tmp_path, files)], patterns).reason(tmp_path / path)
    assert (why in (reason or "")) if why else reason is None


def test_L2_absolute_globs_work_too(tmp_path: Path) -> None:
    ignore = Ignore([tmp_path], (f"{tmp_path.as_posix()}/private/**", "/elsewhere/*.py"))
    assert ignore.reason(tmp_path / "private" / "x.py")
    assert ignore.reason(tmp_path / "x.py") is None
    assert ignore.reason("/elsewhere/x.py")
    assert Ignore([], ("*.sql",)).reason("/somewhere/x.sql")


def test_L5_each_root_has_its_own_ignore_file(tmp_path: Path) -> None:
    tree(tmp_path, {"one/.mercuryignore": "*.py\n", "two/x.py": "", "one/x.py": ""})
    ignore = Ignore([tmp_path / "one", tmp_path / "two"])
    assert ignore.reason(tmp_path / "one" / "x.py")
    assert ignore.reason(tmp_path / "two" / "x.py") is None
    assert ignore.root_of(tmp_path / "two" / "x.py") == tmp_path / "two"


def test_the_rules_of_a_repository_hold_in_a_root_inside_it(tmp_path: Path) -> None:
    tree(tmp_path, {".git/HEAD": "", ".gitignore": "packages/*/generated/\n", "packages/a/generated/x.py": ""})
    assert Ignore([tmp_path / "packages" / "a"]).reason(tmp_path / "packages" / "a" / "generated" / "x.py")


def test_L5_a_link_to_a_secret_is_a_secret(tmp_path: Path) -> None:
    tree(tmp_path, {".env": "TOKEN=1", "notes.py": ""})
    (tmp_path / "settings.py").symlink_to(tmp_path / ".env")
    ignore = Ignore([tmp_path])
    assert "secrets" in (ignore.reason(tmp_path / "settings.py") or "")
    assert ignore.reason(tmp_path / "notes.py") is None
    assert ignore.reason(tmp_path / "sub" / ".." / ".env")


def test_gitignore_can_be_switched_off_and_secrets_cannot(tmp_path: Path) -> None:
    ignore = Ignore([tree(tmp_path, {".gitignore": "*.log\n"})], gitignore=False)
    assert ignore.reason(tmp_path / "a.log") is None
    assert ignore.reason(tmp_path / ".env")


def test_a_changed_ignore_file_is_noticed(tmp_path: Path) -> None:
    clock = Clock()
    ignore = Ignore([tree(tmp_path, {".gitignore": "*.log\n"})], clock=clock)
    assert ignore.reason(tmp_path / "a.py") is None
    tree(tmp_path, {".gitignore": "a.py # not a comment here\na.py\n"})
    clock.now += FRESH_SECONDS / 2
    assert ignore.reason(tmp_path / "a.py") is None
    clock.now += FRESH_SECONDS
    assert ignore.reason(tmp_path / "a.py")
    (tmp_path / ".gitignore").unlink()
    ignore.refresh()
    assert ignore.reason(tmp_path / "a.py") is None
