"""Small valid files of every kind that alignkit reads, and commands that read them, for mutations.py."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import shutil
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.views import View
from alignkit.errors import AlignkitError
from alignkit.kernels.cache_folder import write_checked
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import train_word_pieces
from alignkit_cli.main import run

PAIRS = [
    *(("das Haus ist groß", "the house is big"), ("das Buch", "the book"), ("ein Haus", "a house"), ("", "")),
    *(("ein großes Buch .", "a big book ."), ("das ist mein Haus", "that is my house"), ("7 Bücher", "7 books")),
]
LINES = len(PAIRS)
SHORT = {
    "TEXT": "{s}/s.txt {s}/t.txt",
    "QUIET": "-q --threads 1",
    "LINKS": "-o {o}/links",
    "PAGE": "-o {o}/page.html",
    "TRAIN": "train {s}/many.s {s}/many.t --steps 2 --preset small --set text.tokens=words "
    "--set network.hidden=4 --set network.embedding=4 QUIET",
    "CLASSIFY": "-o {o}/runs --preset small --set training.steps=2 --set training.batch=4 --set text.minimum=1 "
    "--set network.embedding=3 QUIET",
}
#: Of each kind: the file that is changed; its name in the table; a command with {f} for that file, {d} for the
#: folder that it is in, {s} for that of the seeds, {o} for that of the outputs; "=" and the number of lines of the
#: output, that of the text or of the file; "checked" if a checksum tells all damage.
TABLE = """
s.txt | source text | ibm1 {f} {s}/t.txt LINKS QUIET | =text
t.txt | target text, default aligner | align {s}/s.txt {f} LINKS QUIET | =text
joined.txt | text between bars | ibm1 {f} LINKS QUIET | =file
plain.tsv | text between tabs | ibm1 {f} LINKS QUIET | =file
text.tsv | TSV with a header | ibm1 {f} LINKS QUIET |
text.csv | CSV | ibm1 {f} LINKS QUIET |
text.parquet | Parquet | ibm1 {f} LINKS QUIET |
text.jsonl | JSON lines | ibm1 {f} LINKS QUIET --encoding-errors replace | =file
s.gz | gzip | ibm1 {f} {s}/t.txt LINKS QUIET | =text checked
s.xz | xz | ibm1 {f} {s}/t.txt LINKS QUIET | =text checked
s.bz2 | bzip2 | ibm1 {f} {s}/t.txt LINKS QUIET | =text checked
s.zst | zstd | ibm1 {f} {s}/t.txt LINKS QUIET | =text checked
joined.txt | stream | align --model {s}/ibm1.npz - --on-error skip QUIET | =file
links | links to symmetrize | symmetrize {f} {s}/links2 LINKS | =text
links | links to remap | remap TEXT {f} --to TEXT LINKS | =text
links | links to show | show TEXT {f} --pairs 1-7 |
links | links to diagnose | diagnose TEXT {f} QUIET --json --per-sentence {o}/rows |
links | links to count | lexicon TEXT {f} -q -o {o}/lexicon |
scored.links | links to evaluate | evaluate --text TEXT --by-class {s}/gold {f} |
gold | gold links, Pharaoh | evaluate {f} {s}/links --json --per-sentence {o}/rows |
gold.naacl | gold links, NAACL | evaluate --text TEXT {f} {s}/links |
ibm1.npz | model, IBM 1 | align --model {f} TEXT LINKS QUIET | =text checked
diagonal.npz | model, diagonal | align --model {f} TEXT LINKS QUIET | =text checked
hmm.npz | model, HMM | align --model {f} TEXT LINKS QUIET | =text checked
joint.npz | model, joint HMM | align --model {f} TEXT LINKS QUIET | =text checked
subwords.npz | model with SentencePiece models | align --model {f} TEXT LINKS QUIET | =text checked
symmetrized.npz | model, symmetrized | align --model {f} TEXT LINKS QUIET | =text checked
reversed.npz | model, reversed | align --model {f} TEXT LINKS QUIET | =text checked
joint.npz | model to adapt | align --model {f} TEXT LINKS --adapt QUIET | =text checked
hmm.npz | model to start from | hmm --start {f} TEXT LINKS QUIET | =text checked
joint.npz | model as a lexicon | lexicon --both -q {f} -o {o}/lexicon | checked
prior.eflomal | prior, eflomal | ibm1 TEXT --prior {f} LINKS QUIET | =text
prior.moses | prior, Moses | ibm1 TEXT --prior {f} LINKS QUIET | =text
prior.tsv | prior, TSV | align TEXT --prior {f} LINKS QUIET | =text
tabs.dict | dictionary with tabs | hmm TEXT --prior {f} LINKS QUIET | =text
spaces.dict | dictionary with spaces | ibm1 TEXT --prior {f} LINKS QUIET | =text
vectors.txt | word vectors | align --embeddings {f},{f} TEXT LINKS QUIET | =text
scores.npz | scores | compare TEXT --scores x={f} QUIET | checked
arrays.npz | scores as arrays | compare TEXT --scores x={f} QUIET | checked
attention.npz | attention | compare TEXT --scores x={f}:0.1 QUIET | checked
scores.parquet | scores as Parquet | compare TEXT --scores x={f} QUIET |
scores.jsonl | scores as JSON lines | compare TEXT --scores x={f} QUIET |
scores.soft | scores, soft alignments | compare TEXT --scores x={f} QUIET |
scored.links | scores as links | compare TEXT --scores x={f} QUIET |
inseq.json | scores, inseq | heads {f} {s}/inseq.txt QUIET |
attention.npz | attention to rank | heads {f} TEXT --gold {s}/gold QUIET | checked
config.json | configuration of CTranslate2 | heads {s}/attention.npz TEXT --export ctranslate2 {f} QUIET |
heads.json | ranking of heads to compare with | heads {s}/attention.npz TEXT --gold {s}/gold --other {f} QUIET |
gold | gold links to report | report --text TEXT --gold {f} PAGE QUIET |
scores.jsonl | scores to report | report --text TEXT --scores x={f} PAGE QUIET |
kernel | compiled kernel | | checked
vectors.txt | word vectors to classify | classify {s}/labels.tsv --vectors {f} CLASSIFY |
labels.tsv | labelled text | classify {f} CLASSIFY |
many.links | links that guide | TRAIN --guide {f} -o {o}/run |
run/best.pt | checkpoint | align --model {f} TEXT LINKS QUIET | =text checked
run/config.json | run to resume: configuration | TRAIN -o {d} |
run/state.pt | run to resume: state | TRAIN -o {d} | checked
run/best.pt | run to resume: network | TRAIN -o {d} | checked
run/train.npz | run to resume: text | TRAIN -o {d} | checked
run/log.jsonl | run to resume: log | TRAIN -o {d} |
run/config.json | run to report: configuration | report {d} PAGE QUIET |
run/valid.npz | run to report: text | report {d} PAGE QUIET | checked
run/log.jsonl | run to report: log | report {d} PAGE QUIET |
run/checkpoints/step-000002.pt | run to report: network | report {d}/.. PAGE QUIET | checked
runs/standard/config.json | run to explain: configuration | explain {d} --test order QUIET |
runs/standard/best.pt | run to explain: network | explain {d} --test order QUIET | checked
"""


@dataclass(frozen=True)
class Kind:
    """A line of :data:`TABLE`."""

    file: str
    name: str
    command: str
    judge: str


KINDS = [Kind(*(part.strip() for part in line.split("|"))) for line in TABLE.strip().splitlines()]


def words_of(command: str, **places: Path) -> list[str]:
    """The words of a command, with :data:`SHORT` written out, and these places."""
    for short, long in reversed(SHORT.items()):
        command = command.replace(short, long)
    return [word.format(**places) for word in command.split()]


def run_quietly(words: list[str], stdin: BinaryIO | None = None) -> None:
    """Run a command that cannot fail, without its output."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        sys.stdin = sys.__stdin__ if stdin is None else io.TextIOWrapper(stdin)
        code = run(words)
    sys.stdin = sys.__stdin__
    if code != 0:
        raise AlignkitError(f"alignkit {' '.join(words)} failed")


def write_seeds(folder: Path, inseq: Path) -> None:
    """All files of :data:`KINDS` whose packages are there."""
    sources, targets = zip(*PAIRS, strict=True)
    rows = ["0-0 1-1 2-2 3-3", "0-0 1-1", "0-0 1-1", "", "0-0 1-1 2-2 3-3", "0-0 1-1 2-2 3-3", "0-0 1-1"]
    number = [f"{m} {int(i) + 1} {int(i) + 1} {'SP'[m % 2]} 1" for m, row in enumerate(rows, 1) for i in row[::4]]
    header, scores = [("src", "tgt"), *PAIRS], [matrix.tolist() for matrix in matrices()]
    names = dict.fromkeys(" ".join(sources + targets).split())
    files = {
        "s.txt": sources,
        "t.txt": targets,
        "joined.txt": [f"{s} ||| {t}" for s, t in PAIRS],
        "plain.tsv": [f"{s}\t{t}" for s, t in PAIRS],
        "text.tsv": [f"{s}\t{t}" for s, t in header],
        "text.csv": [f'"{s}",{t}' for s, t in header],
        "text.jsonl": [json.dumps({"translation": {"de": s, "en": t}, "id": 1}) for s, t in PAIRS],
        "links": rows,
        "links2": ["0-1 2-2", *rows[1:]],
        "scored.links": [row.replace("0-0", "0-0:0.5").replace("1-1", "1-1:1e-3") for row in rows],
        "gold": [row.replace("1-1", "1p1") for row in rows],
        "gold.naacl": number,
        "many.s": sources * 6,
        "many.t": targets * 6,
        "many.links": rows * 6,
        "prior.eflomal": ["LEX\tdas\tthe\t3.5", "LEX\tHaus\thouse\t2", "HMMF\t1\t5", "FERF\tdas\t1\t2"],
        "prior.moses": ["the das 0.9000000", "house Haus 0.5", "a NULL 0.25", "big groß 1.0"],
        "prior.tsv": ["das\tthe\t0.9\t0.8\t12", "Haus\thouse\t0.5\t1\t3", "ein\ta\t1e-3\t0\t1"],
        "tabs.dict": ["das\tthe", "Haus\thouse", "Haus\tbuilding"],
        "spaces.dict": ["das the", "Haus house", "Haus building"],
        "vectors.txt": [f"{len(names)} 3", *(f"{name} {i % 3} {i / 7:.3f} -1e-1" for i, name in enumerate(names))],
        "scores.jsonl": [
            json.dumps({"attention": each, "src": s.split()}) for each, s in zip(scores, sources, strict=True)
        ],
        "scores.soft": [" ".join(",".join(map(str, row)) for row in each) for each in scores],
        "inseq.txt": ["ein Mann ||| man"],
        "heads.json": [
            '{"file": "a.npz", "positions": [{"name": "chance", "hits": 0.2}], "heads": [{"layer": 0, "head": 0, '
            '"shift": 0, "hits": 0.5}, {"layer": 0, "head": 1, "shift": 0, "hits": 0.4}]}'
        ],
        "config.json": ['{"alignment_heads": [[0, 0]], "add_source_eos": true, "layers": {"more": [1, null]}}'],
        "labels.tsv": [f"{'ab'[i % 2]}\t{s}{'ab'[i % 2]} {t}" for i, (s, t) in enumerate(PAIRS * 5) if s],
    }
    for name, lines in files.items():
        (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    shutil.copy(inseq, folder / "inseq.json")
    data = (folder / "s.txt").read_bytes()
    for end, pack in {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}.items():
        (folder / f"s.{end}").write_bytes(pack(data))
    write_checked(folder / "kernel", data)
    np.savez(folder / "arrays.npz", *matrices())
    heads = [np.stack([[matrix, 1 - matrix]]) for matrix in matrices()]
    AttentionHeads.from_pairs(heads).save(folder / "attention.npz")
    pieces = [train_word_pieces(dict.fromkeys(side, 3), 24) for side in ({"das", "Haus"}, {"the", "house"})]
    views = View(), View(subwords=24, tokenizers=(pieces[0], pieces[1]))
    text = Bitext.from_sentences(*([side.split() for side in sides] for sides in (sources, targets)))
    fit_joint(text, views=views).save(folder / "subwords.npz")
    for name, command in {
        "ibm1": "ibm1 TEXT --save-scores {s}/scores.npz",
        "diagonal": "diagonal TEXT",
        "hmm": "hmm TEXT",
        "joint": "align TEXT",
        "symmetrized": "ibm1 TEXT --symmetrize product",
        "reversed": "ibm1 TEXT --reverse",
    }.items():
        run_quietly(words_of(f"{command} --save-model {{s}}/{name}.npz LINKS QUIET", s=folder, o=folder))
    run_quietly(words_of("TRAIN -o {s}/run", s=folder))
    run_quietly(words_of("classify {s}/labels.tsv CLASSIFY", s=folder, o=folder))
    try:  # a kind without its package is left out
        import zstandard

        (folder / "s.zst").write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))
        from pyarrow import parquet, table
    except ImportError:
        return
    parquet.write_table(table({"src": sources, "tgt": targets}), folder / "text.parquet")
    run_quietly(words_of("ibm1 TEXT --save-scores {s}/scores.parquet LINKS QUIET", s=folder, o=folder))


def matrices() -> list[np.ndarray]:
    """Some scores of each pair."""
    shapes = [(len(target.split()), len(source.split())) for source, target in PAIRS]
    return [((np.indices(shape).sum(0) % 3 + 1) / 4).astype(np.float32) for shape in shapes]
