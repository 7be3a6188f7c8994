"""The panels of the page: each is a function of a report and of what the page's script reads, and returns HTML.

A panel that has nothing to show returns nothing. :data:`alignkit.lab.report.page.PANELS` puts them in order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from alignkit.lab.report.breakdown import gold_classes, gold_table, linking_sets
from alignkit.lab.report.model import Report, names_of
from alignkit.metrics.protocol import Metric, MetricSettings
from alignkit.metrics.registry import MAIN, METRICS
from alignkit.text.subword_marks import style_of

DASH = "\N{EN DASH}"


def asset(name: str) -> str:
    """A file of ``alignkit/lab/report/assets`` as text."""
    return (files("alignkit.lab.report") / "assets" / name).read_text(encoding="utf-8")


def share(value: float | None, digits: int = 0) -> str:
    """A fraction as per cent, with a space that does not break."""
    if value is None or math.isnan(value):
        return DASH
    return f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def table(label: str, header: Sequence[str], rows: Sequence[str], name: str = "") -> str:
    """A table that scrolls where it is wider than the page.

    Args:
        label: what a screen reader calls it.
        header: the columns' names, as text.
        rows: the rows as HTML.
        name: a CSS class.
    """
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in header)
    kind = f' class="{name}"' if name else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table{kind}>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def look(text: str) -> str:
    """A paragraph of HTML that says what a figure shows and what to look for."""
    return f'<p class="look">{text}</p>'


def figure(place: str, text: str) -> str:
    """The place of a figure and of the table with its numbers, which the page's script fills, and :func:`look`."""
    return (
        f'<div class="figure" id="{place}-figure"></div>{look(text)}<details><summary>The numbers</summary>'
        f'<div class="scroll" id="{place}-table"></div></details>'
    )


def agreement_panel(report: Report, data: Mapping[str, Any]) -> str:
    """A table for each metric of two sets of scores, and the error rate of each aligner against gold links."""
    others = "".join(_metric(report, METRICS[name]) for name in report.tables if name != MAIN.name)
    return f"{_matrix(report)}{others}{_gold(report)}{_errors_by_class(report)}"


def _matrix(report: Report) -> str:
    """The agreement table, and what its rows are."""
    notes = "".join(
        f"<div><dt>{escape(each.label)}<code>{escape(each.name)}</code></dt><dd>{escape(each.note)}</dd></div>"
        for each in report.sets
    )
    legend = f'<dl class="names">{notes}</dl>'
    if report.table.empty:
        return look("There is only one aligner, so there is nothing to agree with.") + legend
    shown = _metric_table("Agreement table", "favourite of ↓, looked up in →", report, MAIN)
    percent, limit = f"{float(report.percent):g}", top_word_limit(report)
    text = (
        "For each target word, take the source word that the aligner on the left ranks first, and see whether "
        f"the aligner above has it among its top {percent} % (in a sentence of up to {limit} words: at "
        "the very top). The large number is the share of target words where it has; below it the 95 % interval "
        "and what a source word drawn at random would reach. The darker a cell, the larger its number. Look for "
        "numbers whose interval lies well above chance."
    )
    return shown + look(text) + legend


def _metric(report: Report, metric: Metric) -> str:
    """The table of another metric than the main one."""
    if report.tables[metric.name].empty:
        return ""
    rule = MetricSettings(percent=report.percent)
    text = f"{metric.describe(rule)}; below it the 95 % interval"
    text += f" and {metric.chance}." if metric.chance else "."
    text = escape(text[:1].upper() + text[1:])
    title = f"By {metric.name}"
    shown = _metric_table(title, "u ↓, v →", report, metric)
    return f"<details><summary>{escape(title)}</summary>{shown}{look(text)}</details>"


def _metric_table(title: str, corner: str, report: Report, metric: Metric) -> str:
    """The values of a metric: u down, v across."""
    names = names_of(report.sets)
    found = {(row["u"], row["v"]): row for row in report.tables[metric.name].to_dict("records")}
    rows = []
    for u, label in names.items():
        cells = "".join(_cell(metric, found.get((u, v))) for v in names)
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>')
    return table(title, [corner, *names.values()], rows, "matrix")


def _cell(metric: Metric, row: Mapping[str, Any] | None) -> str:
    if row is None or math.isnan(row[metric.name]):
        return f'<td class="none">{DASH}</td>'
    value, low, high = row[metric.name], row["low"], row["high"]
    shade = min(5, max(0, int(6 * value)))
    ties = row.get("ties", 0)
    hint = f' title="{share(ties)} of the rows agree only because of ties"' if ties >= 0.005 else ""
    interval = f"{100 * low:.0f}{DASH}{100 * high:.0f}" if metric.share else f"{low:.2f} to {high:.2f}"
    chance = f"<small>chance {_shown(metric, row['chance'])}</small>" if metric.chance else ""
    return f'<td class="m{shade}"{hint}><b>{_shown(metric, value)}</b><small>{interval}</small>{chance}</td>'


def _shown(metric: Metric, value: float) -> str:
    return share(value) if metric.share else f"{value:.2f}"


def top_word_limit(report: Report) -> int:
    """The longest sentence whose top holds one word only."""
    return max(1, math.floor(100 / float(report.percent) + 1e-9))


def _gold(report: Report) -> str:
    """Precision, recall and AER of the aligners that link, if there are gold links."""
    found = gold_table(report)
    if found.empty:
        return ""
    labels = names_of(report.sets)
    rows = [
        f'<tr><th scope="row">{escape(labels[row.set])}</th><td>{share(row.precision, 1)}</td>'
        f"<td>{share(row.recall, 1)}</td><td>{share(row.aer, 1)}</td>"
        f"<td>{100 * row.aer_low:.0f}{DASH}{100 * row.aer_high:.0f}</td></tr>"
        for row in found.itertuples(index=False)
    ]
    title = "Against gold links"
    header = ("Aligner", "Precision", "Recall", "Error rate", "95 % interval")
    text = (
        "Each target word is linked to its favourite source word, with subwords merged into words. Precision: the "
        "share of these links that are gold links; recall: the share of the sure gold links that are found. "
        "The alignment error rate combines both; 0 is perfect. Look whether agreement with the dictionary goes "
        "with few errors."
    )
    return f"<h3>{title}</h3>{table(title, header, rows)}{look(text)}"


def _errors_by_class(report: Report) -> str:
    """The error rates of rare and frequent words, one-to-one and other links, and so on."""
    found = gold_classes(report)
    if found.empty:
        return ""
    labels = {each.name: each.label for each in linking_sets(report)}
    rows = []
    for by, part in found.groupby("by", sort=False):
        rows.append(
            f'<tr class="group"><th colspan="{2 + len(labels)}" scope="rowgroup">{escape(str(by))}</th></tr>'
        )
        for name, row in part.groupby("class", sort=False):
            own = {each["set"]: each for each in row.to_dict("records")}
            if not any(each["links"] or each["sure"] for each in own.values()):
                continue
            sure = max(int(each["sure"]) for each in own.values())
            cells = "".join(_class_cell(own.get(each)) for each in labels)
            gold = DASH if by == "probability" else f"{sure:,}"
            rows.append(f'<tr><th scope="row">{escape(str(name))}</th><td>{gold}</td>{cells}</tr>')
    title = "Errors by class"
    text = (
        "The large number is the error rate of the links of that class, below it stand precision and recall; of a "
        "probability there is precision only, with the number of links; it should lie in the band if "
        "probabilities mean what they say. A link belongs to the class of its two words: how often the rarer of "
        "them occurs in the text learned from, how many sure gold links each has, whether they are "
        "punctuation, and how long their sentence is. Look for classes with many "
        "gold links and a high error rate: there the most is to be gained."
    )
    shown = table(title, ["Class", "Sure gold links", *labels.values()], rows, "classes")
    return f"<details><summary>{title}</summary>{shown}{look(text)}</details>"


def _class_cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return f"<td>{DASH}</td>"
    if math.isnan(row["aer"]):
        return f"<td>{share(row['precision'])}<small>of {row['links']:,}</small></td>"
    return f"<td><b>{share(row['aer'])}</b><small>{share(row['precision'])} / {share(row['recall'])}</small></td>"


def time_course_panel(report: Report, data: Mapping[str, Any]) -> str:
    """Agreement with the dictionary by training step."""
    if not data["course"]:
        return ""
    if not any(each["role"] == "agreement" for each in data["course"]["series"]):
        return figure(
            "course",
            "How good the network is at its task after each number of training steps. To see when it came to "
            "agree with the dictionary as well, train with <code>--keep logged</code>: this run kept only its "
            "best network.",
        )
    text = (
        "Solid lines: how far the network agrees with the dictionary after each number of training steps; broken "
        "lines: how good it is at its task. Look which rises first. Where the network&#39;s word knowledge leaves "
        "chance before attention does, that fits the account that attention is learned from it, and the opposite "
        "order speaks against it. The order alone does not show that one caused the other: both may follow the "
        "text, each at its own pace."
    )
    forced = data["course"]["forced"]
    if forced:
        text += (
            f" In the shaded steps, the first {forced:,}, the training settings fixed attention to uniform: it "
            "learned nothing, and its values there (hollow dots) are those of untrained weights. That attention "
            "comes later is then decided by the settings, and is no finding."
        )
    return figure("course", text)


def sentences_panel(report: Report, data: Mapping[str, Any]) -> str:
    """Every sentence pair as heat maps."""
    total, shown = len(report.bitext), len(data["sentences"])
    parts = []
    if shown < total:
        parts.append(f"These are the first {shown:,} of {total:,} pairs; the figures count all.")
    if report.marked and style_of([report.bitext.source.vocabulary.tokens]) == "sentencepiece":
        parts.append("Rare words are cut into subwords; a hyphen in front marks one that continues a word.")
    return asset("sentences.html").replace("@@SENTENCES_NOTE@@", escape(" ".join(parts)))


def frequency_panel(report: Report, data: Mapping[str, Any]) -> str:
    """Agreement by the frequency of the favourite source word."""
    return figure(
        "frequency",
        "Each dot is the agreement over the target words whose favourite source word (of <span data-u></span>) "
        "occurs that often in the training text; the line is its 95&nbsp;% interval, the grey mark what a "
        "source word drawn at random would reach. Look for a slope: where rare words lie much lower, there may "
        "have been too little text to learn them from.",
    )


def length_panel(report: Report, data: Mapping[str, Any]) -> str:
    """Agreement by the length of the source sentence."""
    return figure(
        "length",
        "The same by the number of source words in the sentence. Long sentences offer more words to confuse, and "
        "chance falls as they grow: look whether the dots fall faster than the grey marks.",
    )


def mass_panel(report: Report, data: Mapping[str, Any]) -> str:
    """The weight of alpha scores by class of source token."""
    if not data["mass"]:
        return ""
    return figure(
        "mass",
        "The share of each aligner&#39;s weight that goes to words, to punctuation and to the marks of the "
        "sentence&#39;s start and end. The upright stroke is what weights spread evenly would give. Look for bars "
        "far beyond their stroke: a sentence end that draws much weight may be used as a place to rest rather "
        "than as a translation.",
    )


def heads_panel(report: Report, data: Mapping[str, Any]) -> str:
    """Layers by heads, shaded by the share of hits above chance."""
    ranked = report.heads
    if ranked is None:
        return ""
    chance = ranked.positions.get("chance", 0.0)
    layers, heads = (sorted({key[k] for key in ranked.hits}) for k in (0, 1))
    rows = []
    for layer in layers:
        cells = []
        for head in heads:
            value, shift = max((ranked.hits.get((layer, head, shift), -1.0), -shift) for shift in (0, 1))
            shade = min(5, max(0, int(6 * (value - chance) / max(1 - chance, 1e-9))))
            late = "<small>+1</small>" if shift else ""
            cells.append(f'<td class="m{shade}">{share(value)}{late}</td>' if value >= 0 else "<td></td>")
        rows.append(f'<tr><th scope="row">{layer}</th>{"".join(cells)}</tr>')
    alone = ", ".join(f"{name} {share(value, 1)}" for name, value in ranked.positions.items())
    best = share(max(ranked.hits.values()), 1)
    text = (
        "The share of linked target words whose source word with the most attention is one of theirs, by each "
        "head of the model, with its rows shifted (+1) where that is better. The darker, the further above "
        f"chance. To beat: {alone}. The best head is {ranked.best} ({best}); its grid stands beside the others in "
        "the sentences. The best of many looks better than it is: alignkit heads says what the best of one half "
        "of the text is worth on the other."
    )
    return table("Heads", ["layer ↓, head →", *map(str, heads)], rows) + look(escape(text))


def settings_panel(report: Report, data: Mapping[str, Any]) -> str:
    """Settings and versions."""
    return look("Settings and versions, so that the numbers can be made again.") + _facts(report.facts)


def _facts(facts: Mapping[str, Any]) -> str:
    """Nested settings as definition lists."""
    parts = []
    loose = {name: value for name, value in facts.items() if not isinstance(value, Mapping)}
    groups = {
        **({"general": loose} if loose else {}),
        **{k: v for k, v in facts.items() if isinstance(v, Mapping)},
    }
    for title, values in groups.items():
        rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in flat(values))
        parts.append(f"<div><h3>{escape(title)}</h3><dl>{rows}</dl></div>")
    return f'<div class="facts">{"".join(parts)}</div>'


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """(dotted name, text) of nested values."""
    found = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += flat(value, f"{prefix}{name}.")
        else:
            text = json.dumps(value) if isinstance(value, bool | None) else str(value)
            found.append((f"{prefix}{name}", text))
    return found
