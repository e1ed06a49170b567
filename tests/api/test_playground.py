"""The playground page: what it names is there, nothing comes from elsewhere, its controls have names."""

import re

import pytest

from mercury_lsp.api.app import PAGE
from mercury_model.effort import DIALS
from mercury_model.policy import POLICIES
from tests.api.serving import client_of
from tests.fakes import FakeInfiller

HTML = (PAGE / "index.html").read_text(encoding="utf-8")
SCRIPT = (PAGE / "playground.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["", "playground.js", "editor.js", "style.css", "icon.svg"])
async def test_every_file_of_the_page_is_served_with_its_type(name: str) -> None:
    async with client_of(FakeInfiller("x")) as client:
        response = await client.get(f"/{name}")
    kinds = {"": "text/html", "js": "javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert response.status_code == 200
    assert kinds[name.rpartition(".")[2]] in response.headers["content-type"]


def test_the_page_loads_nothing_from_elsewhere() -> None:
    for text in (HTML, SCRIPT, (PAGE / "style.css").read_text(encoding="utf-8")):
        assert not re.search(r"""(?:src|href|url|from|fetch)\s*[=(]?\s*["']?(?:https?:)?//""", text)


def test_the_script_and_the_page_name_the_same_elements() -> None:
    used = set(re.findall(r'\$\("([\w-]+)"\)', SCRIPT))
    there = set(re.findall(r'\bid="([\w-]+)"', HTML))
    assert used
    assert used <= there


def test_every_control_has_a_name_for_those_who_hear_the_page() -> None:
    for control in re.findall(r"<(?:input|select)[^>]*>", HTML):
        at = HTML.index(control)
        label = HTML.rfind("<label", 0, at) > HTML.rfind("</label>", 0, at)
        assert label or "aria-label" in control, control


def test_its_efforts_and_policies_are_those_of_the_model() -> None:
    offered = set(re.findall(r'"(\w+)"', SCRIPT.split("const POLICIES")[1].split(";")[0]))
    assert offered - {"auto"} <= POLICIES.keys()
    efforts = re.findall(r"<option[^>]*>(\w+)</option>", HTML)
    assert efforts == list(DIALS)
