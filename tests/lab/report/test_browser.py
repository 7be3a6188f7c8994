"""The page in a real browser: it loads in silence, asks for nothing, and hover, keys and search work."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest
from browser import Browser, chromium

from alignkit.lab.report.page import build_page
from alignkit.metrics.agreement import agreement_rows
from tests.lab.report.conftest import HOSTILE, find, make_report, no_tables

pytestmark = pytest.mark.skipif(chromium() is None, reason="Chromium is not installed (apt-get install chromium)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(build_page(report))
    return path


@pytest.fixture
def opened(browser, page):
    return show(browser, page)


def show(browser, path, width=1280, height=1000, **screen):
    """The browser with a page, which has made no trouble."""
    browser.problems.clear()
    browser.requests.clear()
    browser.size(width, height, **screen)
    browser.open(path)
    frames(browser)
    assert browser.problems == []
    assert browser.requests == [path.resolve().as_uri()]
    return browser


def frames(browser):
    """Waits until what was changed has been laid out and drawn."""
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def search(browser, text):
    browser.run("(() => { const box = document.getElementById('search'); box.value = ''; box.focus(); })()")
    browser.type(text)


def items(browser):
    """Numbers of the pairs in the list, in its order."""
    return browser.run("[...document.querySelectorAll('.item')].map((item) => Number(item.id.slice(5)) - 1)")


def readout(browser):
    return browser.run("document.getElementById('readout').textContent")


def point(browser):
    """Where the first picture is, once it is in view."""
    place = browser.run("""(() => {
        const canvas = document.querySelector('#maps canvas');
        canvas.scrollIntoView({block: 'center', behavior: 'instant'});
        const box = canvas.getBoundingClientRect();
        return [box.left, box.top, box.width, box.height];
    })()""")
    frames(browser)
    return place


@pytest.mark.parametrize(("width", "phone"), [(1280, False), (390, True), (320, True)])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_any_screen(browser, page, width, phone, dark):
    show(browser, page, width, 800, dark=dark, phone=phone)
    assert browser.run("document.documentElement.scrollWidth") <= width
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, background[4:-1].split(",")))
    assert (light < 200) if dark else (light > 600)


def test_figures_are_there(opened):
    for place, shapes in (("course", "path.line"), ("frequency", ".dot"), ("length", ".dot"), ("mass", ".bar")):
        assert opened.run(f"document.querySelectorAll('#{place}-figure {shapes}').length") > 0, place
        assert opened.run(f"document.querySelectorAll('#{place}-table tr').length") > 1, place


def test_scripts_of_the_corpus_are_text(opened, report):
    search(opened, "#4")
    assert items(opened) == [3]
    shown = opened.run("document.querySelector('.item').textContent")
    assert HOSTILE[0] in shown
    assert "</script>" in shown
    assert opened.run("document.scripts.length") == 2
    assert opened.run("document.querySelector('h1').textContent") == report.title


def test_search(opened, report):
    assert len(items(opened)) > 5
    search(opened, "nothing like this")
    assert items(opened) == []
    assert "No pair has these words" in readout(opened)
    search(opened, "#6")  # a blank pair
    assert items(opened) == [5]
    assert "0 source" in readout(opened)
    assert opened.problems == []
    word = report.bitext.source.words(0)[0]
    wanted = {m for m in range(len(report.bitext)) if any(word in x for x in report.bitext.source.words(m))}
    search(opened, word.upper())
    assert set(items(opened)) == wanted
    assert f"{len(wanted)} of {len(report.bitext)} pairs" in opened.run(
        "document.getElementById('count').textContent"
    )


def share(report, m, u="lstm.alpha", v="ibm1.beta"):
    rows = agreement_rows(find(report, u).scores, find(report, v).scores, report.percent)
    found = rows.hits[rows.sentence == m]
    return found.mean() if len(found) else None


def test_worst_agreement_comes_first(opened, report):
    shares = [share(report, m) for m in items(opened)]
    known = [x for x in shares if x is not None]
    assert len(known) > 5
    assert known == sorted(known)
    assert shares[0] == min(share(report, m) for m in range(len(report.bitext)) if m != 5)


def test_another_pair_of_aligners(opened, report):
    opened.run("(() => { const s = document.getElementById('choose-u'); s.value = 2;"
               " s.dispatchEvent(new Event('change')); })()")  # fmt: skip
    shares = [share(report, m, u="lstm.beta") for m in items(opened)]
    known = [x for x in shares if x is not None]
    assert known == sorted(known)
    assert known != sorted(share(report, m) for m in items(opened) if m != 5)
    labels = opened.run("document.querySelector('#length-figure .legend').textContent")
    assert find(report, "lstm.beta").label in labels


def cell_text(report, m, s, t):
    return [each.scores[m][t, s] for each in report.sets]


def test_pointing_at_a_cell_shows_its_words_and_numbers(opened, report):
    m = 0
    search(opened, f"#{m + 1}")
    left, top, _, height = point(opened)
    seen = set()
    for y in range(int(top) + 2, int(top + height), 6):
        opened.mouse(left + opened.run("document.querySelector('#maps canvas').clientWidth") / 2, y)
        frames(opened)
        word = opened.run("document.getElementById('target-word')?.textContent")
        if word is None:
            continue
        seen.add(word)
        check_readout(opened, report, m)
    assert seen == set(report.bitext.target.words(m))


def check_readout(browser, report, m):
    """The words shown are of one cell of the pair, and the numbers are that cell's."""
    source = browser.run("document.getElementById('source-word').textContent")
    target = browser.run("document.getElementById('target-word').textContent")
    numbers = browser.run("[...document.querySelectorAll('#readout li b')].map((b) => Number(b.title))")
    x, y = report.bitext.source.words(m), report.bitext.target.words(m)
    cells = [(s, t) for s in range(len(x)) for t in range(len(y)) if (x[s], y[t]) == (source, target)]
    assert any(
        all(abs(a - b) <= 0.001 * abs(b) for a, b in zip(numbers, cell_text(report, m, s, t), strict=True))
        for s, t in cells
    ), (source, target, numbers)


def test_keys_move_the_cursor_and_the_list(opened, report):
    search(opened, "#1")
    x, y = report.bitext.source.words(0), report.bitext.target.words(0)
    opened.run("document.querySelectorAll('#maps canvas')[1].focus()")
    assert opened.run("document.getElementById('source-word').textContent") == x[0]
    assert opened.run("document.getElementById('target-word').textContent") == y[0]
    assert "gold: linked" in readout(opened)
    for _ in range(len(x) + 1):
        opened.key("ArrowRight", 39)
    for _ in range(len(y) + 1):
        opened.key("ArrowDown", 40)
    assert opened.run("document.getElementById('source-word').textContent") == x[-1]
    assert opened.run("document.getElementById('target-word').textContent") == y[-1]
    check_readout(opened, report, 0)
    search(opened, "")
    opened.run("document.getElementById('search').dispatchEvent(new Event('input'))")
    opened.run("document.getElementById('list').focus()")
    opened.key("End", 35)
    assert opened.run("document.querySelector('[aria-selected=true]').id") == f"pair-{items(opened)[-1] + 1}"
    opened.key("Home", 36)
    assert opened.run("document.querySelector('[aria-selected=true]').getAttribute('aria-posinset')") == "1"


def test_a_figure_explains_itself_on_focus(opened):
    opened.run("document.querySelector('#course-figure .hit:last-of-type').focus()")
    text = opened.run("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")
    assert "after 500 steps" in text
    assert "60.0" in text


@pytest.mark.parametrize(("sets", "limit"), [(1, 500), (3, 0)])
def test_little_to_show(browser, report, tmp_path, sets, limit):
    """One aligner has nobody to agree with; a page may have no sentences."""
    few = make_report(sets=sets, **({"tables": no_tables()} if sets == 1 else {}))
    path = tmp_path / "few.html"
    path.write_bytes(build_page(few, limit))
    show(browser, path)
    assert browser.run("document.getElementById('frequency').hidden") is (sets == 1)
    assert len(items(browser)) > 5 if limit else items(browser) == []
    assert "agree" not in (browser.run("document.querySelector('.item')?.textContent") or "")
    assert sets > 1 or "#6" in browser.run("document.getElementById('rows').textContent")


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_of_steps_have_room_and_name_the_last(browser, tmp_path, width):
    steps = [0, 50, 100, 500, *range(1000, 37_000, 1000), 36_260]
    rows = [("r", step, "A(alpha(step), ibm1.beta)", 0.5) for step in steps]
    report = make_report(time_course=pd.DataFrame(rows, columns=["run", "step", "name", "value"]))
    path = tmp_path / "long.html"
    path.write_bytes(build_page(report))
    show(browser, path, width)
    boxes = """[...document.querySelectorAll('#course-figure text.step')].map((text) => {
        const box = text.getBoundingClientRect(); return [box.left, box.right, text.textContent]; })"""
    found = browser.run(boxes)
    assert len(found) >= 4
    assert found[-1][2] == "36,260"
    assert all(left[1] + 4 < right[0] for left, right in pairwise(found))


@pytest.fixture(scope="module")
def long_page(tmp_path_factory):
    """A page of long sentences and three aligners."""
    path = tmp_path_factory.mktemp("long") / "report.html"
    path.write_bytes(build_page(make_report(12, longest=60)))
    return path


def longest_first(browser):
    browser.run("(() => { const o = document.getElementById('order'); o.value = 'longest';"
                " o.dispatchEvent(new Event('change')); })()")  # fmt: skip
    frames(browser)


def shown_maps(browser):
    return browser.run(
        "[...document.querySelectorAll('#maps figure')].map((f) => !f.hidden && f.offsetHeight > 0)"
    )


def press(browser, text):
    browser.run(f"[...document.querySelectorAll('#views button')].find((b) => b.textContent === '{text}').click()")
    frames(browser)


@pytest.mark.parametrize(("width", "height", "phone"), [(1280, 700, False), (390, 800, True)])
def test_the_numbers_and_the_list_stay_in_view(browser, long_page, width, height, phone):
    """However far down a long sentence's picture one scrolls; on a phone the list makes room."""
    longest_first(show(browser, long_page, width, height, phone=phone))
    press(browser, "side by side")
    browser.run("document.querySelector('#maps figure:not([hidden]) canvas').focus({preventScroll: true})")
    browser.run("document.getElementById('maps').scrollIntoView({block: 'end', behavior: 'instant'})")
    frames(browser)
    boxes = browser.run("""['#readout', '#list', '#maps'].map((name) => {
        const box = document.querySelector(name).getBoundingClientRect();
        return [box.top, box.bottom];
    })""")
    (top, bottom), list_box, maps_box = boxes
    assert maps_box[0] < -100  # the picture is higher than the window
    assert -1 <= top < bottom <= height / 2
    assert "no. " in readout(browser)
    if not phone:
        assert list_box[0] < 60
        assert list_box[1] > height - 100


def test_pictures_side_by_side_or_one_at_a_time(opened, report):
    """All where they fit beside each other; a button shows one, and all again."""
    search(opened, "#4")
    frames(opened)
    assert shown_maps(opened) == [True] * 3
    tops = opened.run("[...document.querySelectorAll('#maps figure')].map((f) => f.offsetTop)")
    assert tops[0] == tops[1]
    press(opened, report.sets[1].label)
    assert shown_maps(opened) == [False, True, False]
    assert opened.run("document.querySelector('#views [aria-pressed=true]').textContent") == report.sets[1].label
    press(opened, "side by side")
    assert shown_maps(opened) == [True] * 3


def test_a_long_sentence_shows_one_picture(browser, long_page):
    """On a phone there is room for one, with the numbers of all; the others are a button away."""
    longest_first(show(browser, long_page, 390, 800, phone=True))
    assert shown_maps(browser) == [True, False, False]
    browser.run("document.querySelector('#maps figure:not([hidden]) canvas').focus()")
    assert browser.run("document.querySelectorAll('#readout li b').length") == 3
    press(browser, "side by side")
    assert shown_maps(browser) == [True] * 3
    assert browser.run("document.documentElement.scrollWidth") <= 390


def test_every_mark_has_a_legend(opened):
    text = opened.run("document.getElementById('keys').textContent")
    for part in ("strongest of its row", "gold link", "possible gold link", "target word whose favourite by"):
        assert part in text
    for place in ("frequency", "length"):
        legend = opened.run(f"document.querySelector('#{place}-figure .legend').textContent")
        assert "95 % interval" in legend
        assert "chance" in legend
    overlap = opened.run("""['course', 'frequency', 'length', 'mass'].map((name) => {
        const [legend, plot] = ['.legend', ':scope > svg'].map((part) =>
            document.querySelector(`#${name}-figure`).querySelector(part).getBoundingClientRect());
        return legend.bottom > plot.top + 1;
    })""")
    assert overlap == [False] * 4


def test_tables_scroll_on_a_phone(browser, long_page):
    """The page itself stays as wide as the screen; a wide table moves under its first column."""
    show(browser, long_page, 320, 800, phone=True)
    found = browser.run("""(() => {
        const box = document.querySelector('.matrix').parentElement, first = box.querySelector('tbody th');
        const before = first.getBoundingClientRect().left;
        box.scrollLeft = 80;
        return [box.scrollWidth > box.clientWidth, box.scrollLeft, first.getBoundingClientRect().left - before];
    })()""")
    assert found == [True, 80, 0]
