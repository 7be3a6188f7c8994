"""The picture of a report page in README, docs/report.png, taken by a headless Chromium.

python docs/screenshot.py                  # trains the sample's network first, in about two minutes
python docs/screenshot.py --run RUN        # with a network of `alignkit train --sample --preset small`
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser, chromium  # noqa: E402

SAMPLE = ROOT / "data" / "sample"
SIZE = (1180, 840)


def alignkit(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "alignkit", *arguments], check=True)


def make_page(run: str | None, folder: Path) -> Path:
    """A report of the sample: its network, IBM Model 1 and the joint HMM, beside gold links."""
    if run is None:
        run = str(folder / "run")
        alignkit("train", "--sample", "--preset", "small", "--keep", "logged", "-o", run)
    model, page = folder / "hmm-joint.npz", folder / "report.html"
    text = str(SAMPLE / "train.de"), str(SAMPLE / "train.en")
    alignkit("align", *text, "--save-model", str(model), "-o", str(folder / "links"))
    alignkit("report", run, "--gold", str(SAMPLE / "test.gold"), "--model", str(model), "-o", str(page))
    return page


def take(page: Path, number: int, cell: tuple[int, int], output: Path, folder: Path) -> None:
    """A picture of the page's sentences, with one of them and one of its cells chosen."""
    browser = Browser(folder / "profile")
    browser.send("Emulation.setScrollbarsHidden", hidden=True)
    browser.size(*SIZE)
    browser.open(page)
    browser.run("(() => { const order = document.getElementById('order'); order.value = 'text';"
                " order.dispatchEvent(new Event('change')); })()")  # fmt: skip
    press(browser, "#list", ("ArrowDown", 40, number - 1))
    press(browser, "#maps canvas", ("ArrowRight", 39, cell[0]), ("ArrowDown", 40, cell[1]))
    browser.run("document.activeElement.blur()")
    browser.run("scrollTo({top: 0, behavior: 'instant'})")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    box = browser.run("(() => { const box = document.querySelector('.browser').getBoundingClientRect();"
                      " return [box.x, box.y, box.width, box.height]; })()")  # fmt: skip
    browser.picture(output, box=box)
    browser.close()
    from PIL import Image  # comes with matplotlib

    Image.open(output).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(output, optimize=True)


def press(browser: Browser, place: str, *keys: tuple[str, int, int]) -> None:
    """Press keys, each (name, code, times), in an element of the page."""
    browser.run(f"document.querySelector('{place}').focus({{preventScroll: true}})")
    for name, code, times in keys:
        for _ in range(times):
            browser.key(name, code)


@click.command()
@click.option("--run", metavar="RUN", help="A run directory of `alignkit train --sample`.")
@click.option("--sentence", "number", default=24, show_default=True, help="The number of a sentence pair.")
@click.option("--cell", nargs=2, type=int, default=(6, 9), show_default=True, help="Source and target position.")
@click.option("-o", "--output", default=str(ROOT / "docs" / "report.png"), show_default=True)
def main(run: str | None, number: int, cell: tuple[int, int], output: str) -> None:
    """Take the picture of a report page."""
    if chromium() is None:
        raise click.ClickException("Chromium is not installed (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        take(make_page(run, folder), number, cell, Path(output), folder)


if __name__ == "__main__":
    main()
