"""The reference of the library as Markdown, from the docstrings of its public names.

`python docs/generate.py` writes it to docs/api.md.
"""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from typing import Any

import alignkit

#: heading -> the public names below it
GROUPS = {
    "Align": (
        "align",
        "AlignedText",
        "AlignedPair",
        "Link",
        "align_stream",
        "align_blocks",
        "AlignSettings",
        "load",
        "load_aligner",
    ),
    "Fit": ("fit_joint", "fit_hmm", "fit_ibm1", "fit_diagonal", "HMMSettings", "IBM1Settings", "DiagonalSettings"),
    "Aligners": ("Aligner", "JointHMM", "HMM", "IBM1", "Diagonal", "Symmetrized"),
    "Text": ("read_bitext", "Bitext", "Corpus", "Vocabulary", "cooccurrence"),
    "Links": (
        "Links",
        "GoldLinks",
        "read_links",
        "read_gold",
        "symmetrize",
        "evaluate",
        "remap_links",
        "project_spans",
        "ProjectedSpan",
    ),
    "Scores": ("Scores", "agreement", "kendall", "compare", "MetricSettings"),
    "Errors": ("AlignkitError", "InputError"),
}
INTRODUCTION = """# The library

Made from the docstrings by `python docs/generate.py`. Every name below is imported from `alignkit`, which loads
its modules when they are first used: `import alignkit` is quick, and classical alignment never loads PyTorch. M is
the number of sentence pairs, T and L the numbers of target and source tokens of one, V that of the words of a
vocabulary; indices count from 0, and links have their source first.
"""
_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`~?\.?([\w.]+)`")
_SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):\Z")
_ITEM = re.compile(r"(\*{0,2}\w[\w, *]*): (.*)", re.DOTALL)


def render() -> str:
    """The whole page; raises ValueError if the groups and the public names are not the same."""
    listed = [name for names in GROUPS.values() for name in names]
    public = [name for name in alignkit.__all__ if not name.startswith("__")]
    if sorted(listed) != sorted(public):
        raise ValueError(f"in GROUPS or in alignkit.__all__ only: {sorted(set(listed) ^ set(public))}")
    parts = [INTRODUCTION]
    for heading, names in GROUPS.items():
        parts.append(f"- {heading}: " + ", ".join(f"[{name}](#{name.lower()})" for name in names))
    for heading, names in GROUPS.items():
        parts.append(f"\n## {heading}")
        parts += [_entry(name, getattr(alignkit, name)) for name in names]
    return "\n".join(parts) + "\n"


def _entry(name: str, value: Any) -> str:
    parts = [f"\n### {name}\n"]
    callable_by_users = not getattr(value, "_is_protocol", False) and value is not alignkit.AlignkitError
    if callable_by_users:
        parts.append(f"```\n{name}{_signature(value)}\n```\n")
    parts.append(_markdown(inspect.getdoc(value) or ""))
    if inspect.isclass(value):
        members = "\n".join(_member(name, attribute) for name, attribute in _members(value))
        parts.append(f"\nMethods and properties:\n\n{members}" if members else "")
    return "\n".join(parts).rstrip()


def _members(owner: type) -> list[tuple[str, Any]]:
    """The documented methods and properties of a class and its bases in this package, in the order of the code."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        if base.__module__.startswith("alignkit"):
            found |= {name: each for name, each in vars(base).items() if not name.startswith("_")}
    kinds = (property, cached_property, classmethod, staticmethod)
    return [
        (n, x) for n, x in found.items() if (inspect.isfunction(x) or isinstance(x, kinds)) and inspect.getdoc(x)
    ]


def _member(name: str, value: Any) -> str:
    """A method or property as an item of a list; the sections of its docstring follow as text."""
    function = getattr(value, "__func__", value)
    call = "" if isinstance(value, property | cached_property) else _signature(function, method=value is function)
    first, *others = (_markdown(inspect.getdoc(value) or "")).split("\n\n")
    more = "".join(f"\n\n{other}" for other in others).replace("\n", "\n  ").replace("\n  \n", "\n\n")
    return f"- **`{name}{call}`** {' '.join(first.split())}{more}"


def _signature(value: Any, method: bool = False) -> str:
    signature = inspect.signature(value)
    parts, kind = [], None
    for number, each in enumerate(signature.parameters.values()):
        if number == 0 and each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and kind not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL):
            parts.append("*")
        kind = each.kind
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(kind, "")
        parts.append(star + each.name + _default(each))
    returned = signature.return_annotation
    end = f" -> {_type(returned)}" if returned is not signature.empty and not inspect.isclass(value) else ""
    return f"({', '.join(parts)}){end}"


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    shown = repr(parameter.default)
    return f"={'...' if '<' in shown else shown}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _markdown(text: str) -> str:
    """A docstring as Markdown: its sections as lists, its references as code."""
    text = _ROLE.sub(lambda match: f"`{_short(match[1])}`", text).replace("``", "`")
    parts = []
    for block in re.split(r"\n\n+(?=\S)", text):
        head, _, rest = block.partition("\n")
        section = _SECTION.match(head)
        parts.append(block if section is None else f"{section[1]}:\n\n{_items(rest)}")
    return "\n\n".join(parts)


def _items(block: str) -> str:
    """The items of a section; a line that is indented further goes on with the item before."""
    block = inspect.cleandoc(block)
    lines = []
    for text in re.split(r"\n(?=\S)", block):
        match = _ITEM.match(text)
        words = " ".join((match[2] if match else text).split())
        lines.append(f"- `{match[1]}`: {words}" if match else f"- {words}" if not lines else f"  {words}")
    return "\n".join(lines)


def _short(place: str) -> str:
    """The name of a reference: that of a method with its class, of anything else alone."""
    parts = place.split(".")
    return ".".join(parts[-2:]) if len(parts) > 1 and parts[-2][:1].isupper() else parts[-1]
