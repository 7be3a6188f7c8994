"""What a command gives to the library: what is asked for, and for all else the library's own defaults."""

from __future__ import annotations

import json
import os
import re
from importlib import import_module
from inspect import Parameter, signature
from operator import attrgetter
from typing import get_args

import pytest

import alignkit_cli.train
import alignkit_data
from alignkit.errors import AlignkitError
from alignkit.lab.comparison import ALSO
from alignkit.lab.heads.ablation import FILLS
from alignkit.lab.time_course import Part
from alignkit.links.formats import OUTPUT_FORMATS
from alignkit.links.heuristics import HEURISTICS
from alignkit.metrics.registry import SCORE_METRICS
from alignkit.neural.settings import CLASSIFIER_PRESETS, NETWORKS, PRESETS, Keep
from alignkit.pipeline import models
from alignkit_cli.group import cli

#: A command, and below it the function of the library that it calls, with what differs from the defaults of this
#: function and of the settings that it takes. R stands for both options of reading.
CALLS = """
align s t
    pipeline.align:align source=s target=t
align s t --embeddings none
    pipeline.align:align source=s target=t embeddings=none lowercase=True
show s t --embeddings v.vec --prior lexicon --gold links
    pipeline.align:align source=s target=t embeddings=v.vec prior=lexicon gold=links
align s --gold links --gold-base 1 --quality fast --prior lexicon --embeddings v.vec --tokenize --threads 2 R
    pipeline.align:align source=s gold=links gold_base=1 quality=fast prior=lexicon embeddings=v.vec
    tokenize=True threads=2 R
align s t --keep-case --start m --threshold .3 --no-tokenize --fit-on 10%
    pipeline.align:align_blocks source=s target=t keep_case=True start=m threshold=0.3 tokenize=False fit_on=10%
align s t --model m --model lexicon --symmetrize gdf --shard 2/3 R
    pipeline.align:align_blocks source=s target=t model=(m,lexicon) symmetrization=grow-diag-final shard=(2,3) R
align s t --model m
    pipeline.align:align_blocks source=s target=t model=m
align s t --model m --adapt --threads 3
    pipeline.align:align_blocks source=s target=t model=m adapt=True threads=3
align - --model m --on-error skip
    pipeline.align:align_stream model=m skip=True
align - --model m --threads 4 --threshold 1
    pipeline.align:align_stream model=m threads=4 threshold=1.0
ibm1 s t --iterations 3 --no-null --set dirichlet=.5 --reverse --prior lexicon --start m R
    pipeline.align:align source=s target=t method=ibm1 iterations=3 null=False dirichlet=0.5 reverse=True
    prior=lexicon start=m R
diagonal s t --symmetrize union --tokenize --threads 2
    pipeline.align:align source=s target=t method=diagonal symmetrization=union tokenize=True threads=2
show s t --model m --threads 2 --tokenize R
    pipeline.align:align source=s target=t model=m threads=2 tokenize=True R
gold s t --threads 2 --no-tokenize R
    pipeline.align:align source=s target=t threads=2 tokenize=False R
gold s t links --pairs 7
    uses.annotate:pairs_to_annotate count=7
gold --sample - --tokenize R
    text.pairs:read_text source=SAMPLE.de target=SAMPLE.en tokenize=True R
show s t links
    text.pairs:read_text source=s target=t tokenize=None
show both links --no-tokenize
    text.pairs:read_text source=both
evaluate links lexicon --gold-format naacl --gold-base 0 --hyp-base 1 --text s t
    uses.evaluation:evaluate_files gold=links hypothesis=lexicon gold_format=naacl gold_base=0 hypothesis_base=1
    text=(s,t)
evaluate links lexicon
    uses.evaluation:evaluate_files gold=links hypothesis=lexicon
diagnose s t links --embeddings v.vec --threads 2 --tokenize R
    uses.diagnose.diagnosis:diagnose_links source=s target=t links=links embeddings=v.vec threads=2 tokenize=True
    R
diagnose --sample links
    uses.diagnose.diagnosis:diagnose_links source=SAMPLE.de target=SAMPLE.en links=links
remap s t links --to t s
    uses.remapping:remap_files links=links old=(s,t) new=(t,s)
remap s t links --to t s --on-error skip
    uses.remapping:remap_files links=links old=(s,t) new=(t,s) skip=True
project s t links --format conll --rule head --least .5 --tokenize --threads 2
    uses.projection_files:project_files source=s target=t links=links file_format=conll rule=head least=0.5
    tokenize=True threads=2
project s t
    uses.projection_files:project_files source=s target=t
project both links
    uses.projection_files:project_files source=both links=links
cooc s t -o c.tsv
    classical.cooccurrence:cooccurrence
cooc s t -o c.tsv --weighting one --threads 2
    classical.cooccurrence:cooccurrence weighting=one threads=2
cooc --sample -o c.tsv R
    text.pairs:read_bitext source=SAMPLE.de target=SAMPLE.en R
phrases s t --max-length 5 --threads 2 R
    uses.phrases.extraction:PhraseText.read source=s target=t longest=5 threads=2 R
phrases --sample links
    uses.phrases.extraction:PhraseText.read source=SAMPLE.de target=SAMPLE.en links=links
terms both links --max-length 2
    uses.phrases.extraction:PhraseText.read source=both links=links longest=2
terms s t links
    uses.phrases.tables:find_terms
terms s t links --tbx de,en
    uses.phrases.tables:terms_as_tbx languages=de,en
terms s t links --min-count 2 --function-words .5 --best 9
    uses.phrases.tables:find_terms least=2 function_words=0.5 best=9
lexicon s t links
    classical.lexicon:lexicon_files
lexicon s t links --best 4 --format eflomal
    classical.lexicon:lexicon_files best=4 file_format=eflomal
train s t -o new
    pipeline.training:train source=s target=t output=new
train s t --valid t s -o new --preset small --architecture transformer --attention dot --guide links --epochs 3 R
    pipeline.training:train source=s target=t output=new valid=(t,s) preset=small architecture=transformer
    attention=dot guide=links epochs=3 R
train --sample -o new --set text.pieces=7 --set training.batch=2 --steps 9 --keep best --seed 4 --device cpu
    pipeline.training:train source=TRAIN.de target=TRAIN.en output=new valid=(TEST.de,TEST.en)
    set=(text.pieces=7,training.batch=2) steps=9 keep=best seed=4 device=cpu
classify d -o new --valid s --columns kind text --labels x,z --split-punctuation R
    text.labelled:read_training_texts data=d valid=s columns=(kind,text) labels=(x,z) split_punctuation=True R
classify d -o new
    text.labelled:read_training_texts data=d
classify d -o new --valid d --labels y,x --vectors v.vec --device cpu --threads 2 --leave-one-out
    lab.classification:classify folder=new labels=(y,x) vectors=v.vec device=cpu threads=2 loo=True
    tokens=words minimum=3 learning_rate=0.0002
heads a.npz s t --gold links --beta b.npz --save-model new.npz --threads 2 R
    lab.heads.ranking:rank_heads_of_file path=a.npz source=s target=t gold=links beta=b.npz combine=True
    threads=2 R
heads a.npz s t --model m
    lab.heads.ranking:rank_heads_of_file path=a.npz source=s target=t model=m
ablate a.npz s t --gold links --size 2 --size 3 --draws 5 --set-to mean --seed 7 --device cpu R
    lab.heads.ablation:ablate_heads_of_file path=a.npz source=s target=t gold=links sizes=(2,3) draws=5 fill=mean
    seed=7 device=cpu R
ablate a.npz s t --model net
    lab.heads.ablation:ablate_heads_of_file path=a.npz source=s target=t model=net
compare s t
    lab.comparison:compare_classical pairs=((A,c),(D,e)) others=()
compare s t --train t s --scores a=links --metric tau --also ibm1.alpha --iterations 3 --threads 2 R
    lab.comparison:compare_classical pairs=((a,c),(d,e)) training=((d,e),(a,c)) others=(a=links)
    metric=tau also=(ibm1.alpha) iterations=3 threads=2
compare s t --heads a.npz:1.2 --beta b.npz --percent 10 --metric tau
    lab.comparison:compare_classical pairs=((A,c),(D,e)) others=() heads=a.npz:1.2 beta=b.npz
    percent=10 metric=tau
compare --neural net --uniform net --train t s --scores a=links --device cpu --threads 2 R
    lab.comparison:compare_networks neural=net uniform=net training=((d,e),(a,c)) others=(a=links) device=cpu
    threads=2
compare s t --neural net --also delta
    lab.comparison:compare_networks neural=net pairs=((A,c),(D,e)) others=() also=(delta)
lab net --other net --uniform net --on train --limit 7 --bleu --percent 3 --seed 4 --device cpu --csv-steps x.csv
    lab.translation:lab run=net other=net uniform=net on=train limit=7 bleu=True percent=3 seed=4 device=cpu
    all_steps=True
lab lab --authors
    lab.translation:lab run=lab/general-0 other=lab/general-1 uniform=lab/uniform-0
    largest=True both_directions=True alpha_by=accuracy proxy_bias=True
lab --train s t --valid t s -o new --device cpu
    lab.translation:train_lab_runs folder=new training=((A,c),(D,e)) valid=((D,e),(A,c)) device=cpu
explain cls --other cls --test seeds --test inattention --limit 5 --avoid a --avoid b --device cpu
    lab.explain.subject:subject_of_run run=cls others=(cls) tests=(seeds,inattention) limit=5 avoid=(a,b)
    device=cpu
explain cls
    lab.explain.subject:subject_of_run run=cls
report --text s t --train t s --model m --scores a=links --gold links --heads h.json --device cpu -o page.html R
    lab.report.build:build_report text=((a,c),(d,e)) training=((d,e),(a,c)) models=(m) scores=(a=links)
    gold=links heads=h.json device=cpu
report net --proxy -o page.html
    lab.report.build:build_report runs=(net) proxy=True
"""


def cases():
    reading = {
        "command": "--lowercase --encoding-errors replace",
        "wanted": "lowercase=True encoding_errors=replace",
    }
    for case in re.split(r"\n(?! )", CALLS.strip()):
        command, wanted = case.split("\n", 1)
        command = re.sub(r"\bR\b", reading["command"], command)
        wanted = re.sub(r"\bR\b", reading["wanted"], wanted)
        wanted = re.sub(r"[A-Z]+\.(de|en)", lambda name: str(alignkit_data.path(name[0].lower())), wanted)
        place, *values = wanted.split()
        yield pytest.param(command, place, dict(each.split("=", 1) for each in values), id=command)


def text(value):
    """A value as the table has it."""
    if isinstance(value, dict):
        value = [f"{name}={each}" for name, each in value.items()]
    return f"({','.join(map(text, value))})" if isinstance(value, tuple | list) else str(value)


def differing(given, defaults):
    """The given values that are not the defaults, those within settings, too."""
    found = {}
    for name, value in given.items():
        if type(value).__name__.endswith(("Settings", "Inputs")):
            found |= differing(vars(value), vars(type(value)()))
        elif name in ("options", "fitting"):
            found |= differing(value, {})
        elif isinstance(value, str | int | float | tuple | list | dict | os.PathLike | None):
            found |= {name: text(value)} if text(value) != text(defaults.get(name)) else {}
    return found


@pytest.fixture
def given(alignkit, write, tmp_path, monkeypatch):
    """Runs a command until it calls a function of the library, and returns what it gives to it, by name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(models, "READ_TEXT", 2)
    monkeypatch.setattr(models, "is_here", lambda name: True)  # e5 needs words in their own case
    texts = {
        "s": "A\nc\n",
        "t": "D\ne\n",
        "both": "a ||| b\n",
        "links": "0-0\n0-0\n",
        "d": "x\ta\ny\tb\nx\tc\ny\td\n",
    }
    for name in ("m", "lexicon", "a.npz", "b.npz", "v.vec", "h.json"):
        texts[name] = "not looked into"
    runs = dict.fromkeys(("net", "lab/general-0", "lab/general-1", "lab/uniform-0"), "run")
    for name, kind in {**runs, "cls": "classifier-run"}.items():
        (tmp_path / name).mkdir(parents=True)
        texts |= {f"{name}/config.json": json.dumps({"kind": f"alignkit.{kind}"}), f"{name}/best.pt": ""}
    for name, content in texts.items():
        write(name, content)

    def call(command, place):
        module, _, name = place.partition(":")
        owner, _, name = name.rpartition(".")
        whole = import_module(f"alignkit.{module}")
        whole = attrgetter(owner)(whole) if owner else whole
        own, found = getattr(whole, name), []

        def note(*arguments, **options):
            found.append(signature(own).bind(*arguments, **options).arguments)
            raise AlignkitError("that is all")

        for each in (whole, alignkit_cli.train):
            if getattr(each, name, None) == own:
                monkeypatch.setattr(each, name, note)
        outcome = alignkit(*command.split(), stdin=b"0-0\n")
        assert outcome.err.endswith("error: that is all\n"), outcome.err
        defaults = {each.name: each.default for each in signature(own).parameters.values()}
        return found[0], {name: None if each is Parameter.empty else each for name, each in defaults.items()}

    return call


@pytest.mark.parametrize(("command", "place", "wanted"), list(cases()))
def test_options_and_defaults_reach_the_library(given, command, place, wanted):
    assert differing(*given(command, place)) == wanted


def test_presets_and_settings_of_networks_reach_the_library(given):
    options = "-o new --valid d --preset small --set text.minimum=2 --seed 5"
    found, _ = given(f"classify d {options}", "lab.classification:classify")
    wanted = CLASSIFIER_PRESETS["small"].change(text={"minimum": 2}, training={"seed": 5})
    assert (found["settings"].runs, found["settings"].seed) == (wanted, 5)
    options = "-o new --valid t s --preset small --set training.epochs=5 --seed 4"
    found, _ = given(f"lab --train s t {options}", "lab.translation:train_lab_runs")
    assert found["settings"] == PRESETS["small"].change(training={"seed": 4, "epochs": 5})
    options = (
        "-o new --preset small --attention dot --epochs 3 --steps 9 --keep best --seed 4 --set text.pieces=77"
    )
    found, _ = given(f"train s t --valid t s {options}", "neural.training.translation:train_translation")
    training = {"epochs": 3, "steps": 9, "keep": "best", "seed": 4}
    changed = {"text": {"pieces": 77}, "network": {"attention": "dot"}, "training": training}
    assert found["settings"] == PRESETS["small"].change(**changed)


@pytest.mark.parametrize(
    ("name", "option", "choices"),
    [
        ("ibm1", "symmetrization", HEURISTICS),
        ("align", "output_format", OUTPUT_FORMATS),
        ("symmetrize", "method", [name for name, each in HEURISTICS.items() if not each.needs_scores]),
        ("compare", "metric", [metric.name for metric in SCORE_METRICS]),
        ("compare", "also", ALSO),
        ("ablate", "fill", FILLS),
        ("train", "preset", PRESETS),
        ("train", "architecture", NETWORKS),
        ("train", "keep", get_args(Keep)),
        ("lab", "preset", PRESETS),
        ("lab", "on", get_args(Part)),
        ("classify", "preset", CLASSIFIER_PRESETS),
    ],
)
def test_choices_are_those_of_the_registries(name, option, choices):
    (found,) = (each.type.choices for each in cli.get_command(None, name).params if each.name == option)
    assert list(found) == list(choices)
