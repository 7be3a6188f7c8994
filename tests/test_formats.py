"""docs/formats.md against the formats that the code writes."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DECLARATION = re.compile(r'^(?:KIND, VERSION|SYMMETRIZED|REVERSED) = "([\w.-]+)", (\d+)$', re.MULTILINE)
ROW = re.compile(r"^\| `(alignkit\.[\w.-]+)` (\d+) \|", re.MULTILINE)


def test_the_table_of_arrays_has_every_kind_and_its_version():
    code = [path.read_text("utf-8") for path in (ROOT / "alignkit").rglob("*.py")]
    declared = [found for text in code for found in DECLARATION.findall(text)]
    table = ROW.findall((ROOT / "docs" / "formats.md").read_text("utf-8"))
    assert sorted(table) == sorted(declared)
