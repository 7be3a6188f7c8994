"""README and docs are true: their Python examples print what they say, and the commands they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alignkit_cli.group import COMMANDS, cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
PROMISE = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)
#: examples that train networks
TRAINED = ("classification", "lab", "mechanisms")
#: all examples but those of guides that promise nothing, which test_guides.py runs after the blocks before them
EXAMPLES = [
    pytest.param(page.name, code, id=f"{page.stem}-{number}", marks=[pytest.mark.slow] * (page.stem in TRAINED))
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    if page.parent.name != "guides" or PROMISE.search(code)
]


def test_there_are_examples():
    assert {example.values[0] for example in EXAMPLES} >= {"README.md", "lab.md", "report.md"}


@pytest.mark.parametrize(("page", "code"), EXAMPLES)
def test_example(page, code, tmp_path, monkeypatch, capsys):
    """An example's comments ``# ...`` after a print say what it prints."""
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {})
    promised = PROMISE.findall(code)
    assert promised
    assert capsys.readouterr().out.splitlines() == promised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    """Every `alignkit NAME --option` in the text is a command with that option."""
    text = page.read_text(encoding="utf-8")
    for name, rest in re.findall(r"(?:^|[`/ ])alignkit ([a-z0-9]+)((?: [^`\n#|>]*)?)", text, re.MULTILINE):
        if name not in COMMANDS:
            continue
        known = {
            option
            for parameter in cli.get_command(None, name).params
            for option in [*parameter.opts, *parameter.secondary_opts]
        }
        for option in re.findall(r"(?<!\S)(--[a-z-]+)", rest):
            assert option in known | {"--help"}, f"{page.name}: alignkit {name} {option}"


def test_the_first_screen_has_the_two_commands():
    """Continuous integration finds what it runs by these marks."""
    first_screen = "\n".join(README.splitlines()[:26])
    assert re.findall(r"<!-- command: (\w+) -->", first_screen) == ["sample", "tests"]
    assert first_screen.count("```") == 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_heading(page):
    for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert heading in headings(there), f"{page.name} links to {target}#{heading}"


def headings(page):
    """The names of a page's headings in links, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.strip().lower()).replace(" ", "-") for line in lines}
