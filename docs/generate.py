"""Writes the references of commands (commands.md) and library (api.md) and the index of experiments.

The first comes from the program itself, the second from its docstrings (api_reference.py), the third from the
committed results.

python docs/generate.py
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import click

from alignkit.experiments.registry import EXPERIMENTS
from alignkit_cli.group import COMMANDS, cli

PLACE = Path(__file__).parent / "commands.md"
API = PLACE.with_name("api.md")
EXPERIMENTS_PLACE = Path(__file__).parent / "experiments" / "README.md"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "experiments"
VERDICTS = ("holds", "does not hold", "undecided")


def render() -> str:
    """The help of the program and of every command, as Markdown."""
    parts = ["# Commands", "", "Made from the program by `python docs/generate.py`.", ""]
    settings = {"terminal_width": 100, "max_content_width": 100}
    root = click.Context(cli, info_name="alignkit", **cli.context_settings | settings)
    parts += ["```", cli.get_help(root), "```"]
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root, **settings)
        parts += ["", f"## alignkit {name}", "", "```", command.get_help(context), "```"]
    return "\n".join(parts) + "\n"


def render_experiments() -> str:
    """How many claims of each experiment hold, do not hold or are undecided in the committed runs."""
    parts = [
        "# Experiments",
        "",
        "Made from the committed results by `python docs/generate.py`.",
        "",
        "`alignkit experiment NAME` runs one, `--quick` at a small size; `--settings` shows what can be set. The",
        "numbers of verdicts are those of the committed runs (`benchmarks/results/experiments`), at the size",
        "given, with the paper's number where it is another one. A claim holds, or does not hold, if the whole",
        "interval of its statistic says so; otherwise it is undecided.",
        "",
        f"| experiment | size of the run | {' | '.join(VERDICTS)} |",
        "|---|---|---|---|---|",
    ]
    for name in EXPERIMENTS:
        path = RESULTS / f"{name}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text(encoding="utf-8"))
        verdicts = [claim["verdict"] for claim in found["claims"]]
        size = EXPERIMENTS[name].size_of(found["settings"])
        size = f"quick: {size}" if found["size"].startswith("quick") else size
        size += ", products rounded to bfloat16" if found["settings"].get("products") == "bfloat16" else ""
        numbers = " | ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)
        parts.append(f"| [{name}]({name}.md) | {size} | {numbers} |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    API.write_text(runpy.run_path(str(API.with_name("api_reference.py")))["render"](), encoding="utf-8")
    PLACE.write_text(render(), encoding="utf-8")
    EXPERIMENTS_PLACE.write_text(render_experiments(), encoding="utf-8")
