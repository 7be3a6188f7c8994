"""Writes docs/commands.md, the reference of all commands, from the program itself.

python docs/generate.py
"""

from __future__ import annotations

from pathlib import Path

import click

from alignkit_cli.main import COMMANDS, cli

PLACE = Path(__file__).parent / "commands.md"


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


if __name__ == "__main__":
    PLACE.write_text(render(), encoding="utf-8")
