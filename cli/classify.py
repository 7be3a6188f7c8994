"""``alignkit classify``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from alignkit.errors import abbreviated
from alignkit.lab.report.tables import NONE, align_columns, percent
from alignkit.metrics.registry import MAIN, SCORE_METRICS
from alignkit.neural.settings import CLASSIFIER_PRESETS
from alignkit.support.packages import missing, need
from alignkit.support.settings import assigned
from alignkit_cli import shared
from alignkit_cli.parameter_types import TEXT, InputPath, OutputFolder

if TYPE_CHECKING:
    from alignkit.lab.classification import Classification, ClassifySettings


class TwoLabels(click.ParamType):
    """Two labels with a comma between them."""

    name = "a,b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two labels; fails if there are not two, or the same twice."""
        labels = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
        if len(labels) != 2 or labels[0] == labels[1] or not all(labels):
            self.fail(f"{abbreviated(value)!r} is not two labels with a comma between them.", param, ctx)
        return labels[0], labels[1]


@shared.command("classify", "alignkit classify reviews.tsv -o runs/reviews")
@shared.argument("data", "DATA", type=InputPath(stdin=True, folder=True))
@click.option("-o", "--output", "folder", type=OutputFolder(), required=True)
@click.option("--valid", type=InputPath(stdin=True, folder=True), metavar="DATA")
@click.option("--columns", nargs=2, metavar="LABEL TEXT")
@click.option("--labels", type=TwoLabels())
@click.option("--lowercase", is_flag=True)
@click.option("--split-punctuation", is_flag=True)
@shared.encoding_option
@shared.choice_option("--preset", choices=CLASSIFIER_PRESETS)
@click.option("--vectors", type=TEXT)
@shared.set_option
@shared.seed_option()
@click.option("--leave-one-out", "loo", is_flag=True)
@shared.device_option
@shared.json_option
@shared.work_options
def classify_command(data: str, folder: str, quiet: bool, **options: Any) -> None:
    """Train classifiers on labelled text and show what their attention has learned.

    Trains the paper's classifier twice, then once with attention fixed to 1/L and once with only the attention
    trained, each from its own seed. Fits a bag-of-words proxy, logistic regression and counts. Then prints how
    often the word that one score ranks first is among the top 5 % of another, with chance level and 95 % interval,
    beside the rank correlation of the two. Run it again with the same FOLDER to resume after an interruption, or
    to see the table of finished runs.

    Args:
        DATA: Labelled texts: a file of lines LABEL<tab>TEXT; a table (CSV, or tab-separated) with --columns; or a
            folder with a subfolder of .txt files per label.
        --output: The folder for the runs.
        --valid: Held-out texts, which choose the best network and are scored. [default: one text in ten, at most
            1,000, drawn by a fixed seed]
        --columns: The columns of the label and of the text, if DATA is a table.
        --labels: Keep only the texts with these two labels.
        --lowercase: Lower-case the texts while reading.
        --split-punctuation: Make every punctuation mark a word.
        --preset: Sizes and training: paper, as published; small, for trying it out.
        --vectors: Word vectors in GloVe's text format, from which the embeddings start.
        --set: Any other setting, such as training.steps=500 or network.attention=feed-forward+entmax15; a name
            that does not exist lists them all. May be given several times.
        --seed: The seed of the first run and the bootstrap; the other runs have the next seeds.
        --leave-one-out: Also score by leaving out each word in turn.
        --json: Print JSON, with the time course of training.
    """
    from alignkit.text.labelled import read_training_texts

    need("torch")
    runs = CLASSIFIER_PRESETS[options["preset"]].change(training={"seed": options["seed"]})
    runs = assigned(runs, options["assignments"])
    reading = {name: options[name] for name in ("columns", "lowercase", "encoding_errors", "split_punctuation")}
    text, held, names = read_training_texts(data, options["valid"], options["labels"], **reading)
    from alignkit.lab.classification import ClassifySettings, classify
    from alignkit.neural.devices import set_threads

    settings = ClassifySettings(**{name: options[name] for name in ("seed", "threads", "loo")}, runs=runs)
    set_threads(settings.threads)
    more = {name: options[name] for name in ("vectors", "device")}
    with shared.ProgressBar("classify", quiet) as bar:
        found = classify(folder, text, held, names, settings, progress=bar, **more)
    if found.logistic is None:
        shared.note(str(missing("sklearn")), quiet)
    facts = {"labels": list(names), "training_texts": len(text), "validation_texts": len(held)}
    render = classification_json if options["as_json"] else classification_text
    shared.write_output(render(found, settings, facts))


def classification_text(found: Classification, settings: ClassifySettings, facts: dict[str, Any]) -> str:
    """The row and the accuracies."""
    others = [metric.name for metric in SCORE_METRICS[1:]]
    heads = [head for name in others for head in (name, "95 % interval")]
    grid = [["quantity", "A %", "95 % interval", "chance", "A is", "ties", *heads, "xi %"]]
    for row in found.row.to_dict(orient="records"):
        span = f"{percent(row['low'])} to {percent(row['high'])}"
        lies = f"{row['against_chance']} chance" if row["against_chance"] else NONE
        cells = [row["quantity"], percent(row[MAIN.name]), span, percent(row["chance"]), lies]
        cells.append(percent(row["ties"]))
        for name in others:
            cells += [f"{row[name]:.2f}", f"{row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f}"]
        grid.append([*cells, percent(row["xi"])])
    models = [["model", "accuracy %", "95 % interval", "step"]]
    for row in found.accuracy.itertuples():
        span = NONE if row.low != row.low else f"{percent(row.low)} to {percent(row.high)}"
        step = NONE if row.step != row.step else f"{row.step:.0f}"
        models.append([row.model, percent(row.accuracy), span, step])
    width = max(len(row.quantity) for row in found.row.itertuples())
    lines = [
        f"A(u, v): per cent of {found.row['rows'].max():.0f} texts whose first word by u is among the top "
        f"{settings.percent} % by v;",
        "chance: what a word drawn at random would reach; A is at chance if its interval includes that.",
        f"{facts['training_texts']} training and {facts['validation_texts']} validation texts, labels "
        f"{' and '.join(facts['labels'])};",
        f"beta_uf is that of step {found.uniform_step} and alpha_fr that of step {found.frozen_step}, which agree "
        "best with alpha.",
        "tau: Kendall's tau-b, the mean over texts. xi: the accuracy of the second classifier when its attention",
        f"first agrees better than that with alpha; alpha's own classifier has {percent(found.best_accuracy)}.",
        "",
        align_columns(grid),
        "",
        *(f"{row.quantity:<{width}}  {row.question}" for row in found.row.itertuples()),
        "",
        align_columns(models),
    ]
    return "\n".join(lines)


def classification_json(found: Classification, settings: ClassifySettings, facts: dict[str, Any]) -> str:
    """Everything but the scores."""
    from alignkit.lab.report import tables

    logistic = found.logistic
    more = {
        "accuracy": tables.records(found.accuracy),
        "courses": {name: tables.records(table) for name, table in found.time_courses.items()},
        "uniform_step": found.uniform_step,
        "frozen_step": found.frozen_step,
        "rise_and_fall": found.rise_and_fall._asdict(),
        "best_accuracy": found.best_accuracy,
        "logistic": None if logistic is None else logistic.strength,
        "penalties": None if found.penalties is None else tables.records(found.penalties),
        "percent": float(settings.percent),
        "scored": settings.scored,
        "settings": asdict(settings.runs),
        **facts,
    }
    return tables.to_json(found.row, "row", more)
