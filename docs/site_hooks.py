"""What MkDocs does for this site beyond its settings in mkdocs.yml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PUBLISHED = ("*.md", "LICENSE", "benchmarks/**/*", "data/*", "docs/**/*.md", "docs/**/*.png", "docs/**/*.svg")
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?\.?([^`]*)`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Give the site the layout of the repository, so that a link between pages is right in both."""
    paths = {path for pattern in PUBLISHED for path in ROOT.glob(pattern) if path.is_file()}
    theme = [each for each in files if each.src_dir != config.docs_dir]
    ours = [
        File(path.relative_to(ROOT).as_posix(), str(ROOT), config.site_dir, config.use_directory_urls)
        for path in sorted(paths)
        if "__pycache__" not in path.parts
    ]
    return Files([*theme, *ours])


class Roles(griffe.Extension):
    """Show names that docstrings mark as Sphinx does, :func:`align`, as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
