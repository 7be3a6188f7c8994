"""Write the references of commands (commands.md) and library (api.md) and the index of experiments.

The first comes from the program itself, the second from the public names and their docstrings, the third from the
committed results.

python docs/generate.py
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import click

import alignkit
from alignkit.lab.experiments.registry import EXPERIMENTS
from alignkit_cli.group import COMMANDS, load_command

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results" / "experiments"
VERDICTS = ("holds", "does not hold", "undecided")
#: An option that as many commands have, in the same words, is explained once.
COMMON = 3
#: Options that nearly every command has, which its list leaves out.
EVERYWHERE = ("--quiet", "--verbose", "--help-all", "--threads", "--encoding-errors")


def render_commands() -> str:
    """Return the options of all commands as Markdown, a line each."""
    commands = {name: load_command(name) for name in COMMANDS}
    options = {name: [_option(each) for each in options_of(command)] for name, command in commands.items()}
    times = Counter(option for each in options.values() for option in each)
    most = dict.fromkeys((left for left, _ in times), (0, ""))
    for (left, right), number in times.items():
        most[left] = max(most[left], (number, right))
    common = [
        option for option, number in times.items() if number >= COMMON and most[option[0]] == (number, option[1])
    ]
    parts = [
        "# Commands",
        "",
        "Made from the program by `python docs/generate.py`; `alignkit COMMAND --help-all` says more of each.",
        "SRC TGT are two files with a sentence on each line, or one file of `SRC ||| TGT` or tab-separated lines,",
        "JSON lines, CSV or Parquet; `-` is standard input. Results go to standard output, everything else to",
        "standard error; `--quiet` leaves only warnings and errors there, and no result depends on `--threads`.",
        "",
        'A shell completes commands and options after `eval "$(_ALIGNKIT_COMPLETE=bash_source alignkit)"`,',
        "for example in `~/.bashrc`; `zsh_source` and `fish_source` are for other shells.",
        "",
        "## Options that several commands share",
        "",
        *(f"- `{left}`: {right}" for left, right in common),
    ]
    for name, command in commands.items():
        usage = " ".join(str(each.make_metavar(click.Context(command))) for each in arguments_of(command))
        names = [_long(left) for left, right in options[name] if (left, right) in common]
        shared = ", ".join(f"`{option}`" for option in names if option not in EVERYWHERE)
        parts += [
            "",
            f"## alignkit {name}",
            "",
            f"`alignkit {name} {usage}".rstrip() + f"`: {COMMANDS[name]}",
            "",
        ]
        parts += [f"- `{left}`: {right}" for left, right in options[name] if (left, right) not in common]
        parts += [f"- also {shared}"] if shared else []
    return "\n".join(parts) + "\n"


def options_of(command: click.Command) -> list[click.Option]:
    """Return the options of a command that its help shows."""
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def arguments_of(command: click.Command) -> list[click.Parameter]:
    """Return the arguments of a command."""
    return [each for each in command.params if not isinstance(each, click.Option)]


def _option(option: click.Option) -> tuple[str, str]:
    """The names of an option, and the first sentence of its help with its default."""
    record = option.get_help_record(click.Context(click.Command("none")))
    assert record is not None
    left, right = record
    text, _, bracket = right.partition("  [")
    shown = re.sub(r"(?:; |\[)?[-\d.e+]*<?=?x[<>]=?[-\d.e+]+|\]\s*(?=\[)", "", f"[{bracket}").strip("[] ")
    return left, first_sentence(text) + (f" [{shown}]" if shown else "")


def _long(names: str) -> str:
    return re.findall(r"--[\w-]+", names)[0]


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, on one line."""
    line = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", line)[0].rstrip(".") + "." if line else ""


def render_library() -> str:
    """Return the public names of the library by package, each with its signature and the first sentence."""
    public = {name: getattr(alignkit, name) for name in alignkit.__all__ if not name.startswith("__")}
    groups: dict[str, list[str]] = {}
    for name, value in public.items():
        groups.setdefault(".".join(value.__module__.split(".")[:2]), []).append(name)
    parts = [
        "# The library",
        "",
        "Made from the docstrings by `python docs/generate.py`. Every name is imported from `alignkit` itself,",
        "which loads its modules when they are first used. `help(alignkit.align)` has arguments, shapes, errors.",
        "M is the number of sentence pairs, T and L are the numbers of target and source tokens of one; indices",
        "count from 0, and links have their source first.",
    ]
    for group in sorted(groups, key=lambda group: ("align" not in groups[group], group)):
        parts += ["", f"## {group}", ""]
        parts += [_entry(name, public[name]) for name in groups[group]]
    return "\n".join(parts) + "\n"


def _entry(name: str, value: Any) -> str:
    simple = inspect.isclass(value) and (inspect.isabstract(value) or issubclass(value, Exception))
    call = "" if simple or getattr(value, "_is_protocol", False) else _signature(value)
    members = _members(value) if inspect.isclass(value) else []
    more = f" Has {', '.join(f'`{member}`' for member in members)}." if members else ""
    return f"- **`{name}{call}`** {_summary(value)}{more}"


def _members(owner: type) -> list[str]:
    """The documented methods and properties of a class and its bases in this package, in the order of the code."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        if base.__module__.startswith("alignkit"):
            found |= {name: each for name, each in vars(base).items() if not name.startswith("_")}
    kinds = (property, cached_property, classmethod, staticmethod)
    return [
        name if isinstance(each, kinds[:2]) else f"{name}()"
        for name, each in found.items()
        if (inspect.isfunction(each) or isinstance(each, kinds)) and inspect.getdoc(each)
    ]


def _signature(value: Any) -> str:
    parts, kind = [], None
    for each in inspect.signature(value).parameters.values():
        if each.kind is each.KEYWORD_ONLY and kind not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL):
            parts.append("*")
        kind = each.kind
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(kind, "")
        default = (
            "" if each.default is each.empty else f"={'...' if '<' in repr(each.default) else repr(each.default)}"
        )
        parts.append(star + each.name + default)
    return f"({', '.join(parts)})"


def _summary(value: Any) -> str:
    """The first sentence of a docstring as Markdown."""
    text = re.sub(r":(?:func|class|meth|mod|data|attr):`~?\.?([\w.]+)`", r"`\1`", inspect.getdoc(value) or "")
    return first_sentence(text).replace("``", "`")


def render_experiments() -> str:
    """Return how many claims of each experiment hold, do not hold or are undecided in the committed runs."""
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


#: file below docs -> what makes it
PAGES = {
    "commands.md": render_commands,
    "api.md": render_library,
    "experiments/README.md": render_experiments,
}

if __name__ == "__main__":
    for page, render in PAGES.items():
        (DOCS / page).write_text(render(), encoding="utf-8")
