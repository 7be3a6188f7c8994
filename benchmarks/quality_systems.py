"""The aligners that benchmarks/quality.py compares, each run on two files in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.embeddings.levels import UNKNOWN
from alignkit.scores import flat_offsets
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

# A process starts with the peak memory of the one that forked it, so a small one of its own stands between.
LAUNCHER = """
import resource, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
seconds = time.perf_counter() - start
if done.returncode:
    sys.exit(done.stderr.decode(errors="replace")[-500:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""

# Peers get: the source file, the target file, and where to write (forward and reverse, or all links).
SYSTRAN = """
import sys, systran_align
source, target, out = sys.argv[1:]
sides = [open(path, encoding="utf-8", newline="\\n").read().split("\\n")[:-1] for path in (source, target)]
joined = out + ".joined"
with open(joined, "w", encoding="utf-8", newline="\\n") as stream:
    stream.writelines(f"{x} ||| {y}\\n" for x, y in zip(*sides))
systran_align.generate_alignment_probabilities(
    joined, out + ".f", out + ".r", favor_diagonal=True, optimize_tension=True, variational_bayes=True
)
found = systran_align.Aligner(out + ".f", out + ".r").align_batch(*([x.split() for x in side] for side in sides))
with open(out, "w") as stream:
    for pair in found:
        stream.write(" ".join(f"{s}-{t}" for s, t in pair["alignments"]) + "\\n")
"""
THOT = """
import sys
from thot.alignment import EflomalAlignmentModel
source, target, *outs = sys.argv[1:]
sides = [
    [line.split() for line in open(path, encoding="utf-8", newline="\\n").read().split("\\n")[:-1]]
    for path in (source, target)
]
for turned, out in enumerate(outs):
    model = EflomalAlignmentModel()
    model.emit_training_alignments = True
    for x, y in zip(*(sides[::-1] if turned else sides)):
        model.add_sentence_pair(x, y)
    model.start_training()
    for _ in range(model.scheduled_iterations):
        model.train()
    model.end_training()
    with open(out, "w") as stream:
        for n in range(model.num_sentence_pairs):
            places = zip(*model.get_training_alignment(n)[1].to_numpy().nonzero())
            stream.write(" ".join(f"{t}-{s}" if turned else f"{s}-{t}" for s, t in places) + "\\n")
"""
NLTK = """
import sys
from nltk.translate import AlignedSent, IBMModel1
source, target, *outs = sys.argv[1:]
sides = [
    [line.split() for line in open(path, encoding="utf-8", newline="\\n").read().split("\\n")[:-1]]
    for path in (source, target)
]
for turned, out in enumerate(outs):
    x, y = sides[::-1] if turned else sides
    text = [AlignedSent(b, a) for a, b in zip(x, y)]  # a word of the first is explained by those of the second
    IBMModel1(text, 5)
    with open(out, "w") as stream:
        for pair in text:
            places = sorted((i, j) for i, j in pair.alignment if j is not None)
            stream.write(" ".join(f"{i}-{j}" if turned else f"{j}-{i}" for i, j in places) + "\\n")
"""

AGREEMENT = """
import sys
from alignkit import HMMSettings, align
source, target, links, threads = sys.argv[1:]
align(source, target, estimation=HMMSettings(), threads=int(threads)).write(links)
"""
JOINED = ("--symmetrize", "grow-diag-final-and")


@dataclass(frozen=True)
class Cost:
    """Wall seconds, processor seconds and peak megabytes of a process or its largest child."""

    seconds: float
    cpu: float
    mb: float


@dataclass(frozen=True)
class System:
    """An aligner.

    Attributes:
        name: as tables have it.
        command: (source file, target file, folder, threads) -> what to run.
        directions: whether it writes ``forward`` and ``reverse`` in the folder, else ``links``.
        most_pairs: it is not run on larger texts.
        note: why not, or what else is to be known of it.
        compiled: whether its first run on a machine compiles, and so is not to be measured.
    """

    name: str
    command: Callable[[str, str, Path, int], list[str]]
    directions: bool = False
    most_pairs: int | None = None
    note: str = ""
    compiled: bool = False


def measured(command: list[str], threads: int) -> Cost:
    """Run a command with ``threads`` threads; raises RuntimeError with its messages if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    launcher = [sys.executable, "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(launcher, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()}")
    return Cost(*map(float, done.stdout.split()))


def ours(label: str, *options: str) -> System:
    """A command of alignkit: `alignkit align`, or one that fits both directions with --symmetrize."""

    def command(source: str, target: str, folder: Path, threads: int) -> list[str]:
        arguments = ["-q", source, target, "--threads", str(threads), "-o", str(folder / "links")]
        return [sys.executable, "-m", "alignkit", *options, *arguments]

    return System(label, command, compiled=True)


def agreement() -> System:
    """Two hidden Markov models that share their links, without what `alignkit align` adds to them."""

    def command(source: str, target: str, folder: Path, threads: int) -> list[str]:
        return [sys.executable, "-c", AGREEMENT, source, target, str(folder / "links"), str(threads)]

    return System("alignkit agreement alone", command, compiled=True)


def peer(name: str, python: str, script: str, directions: bool, most: int | None = None, note: str = "") -> System:
    outs = ("forward", "reverse") if directions else ("links",)

    def command(source: str, target: str, folder: Path, threads: int) -> list[str]:
        return [python, "-c", script, source, target, *(str(folder / out) for out in outs)]

    return System(name, command, directions, most, note)


def eflomal(python: str) -> System:
    program = str(Path(python).with_name("eflomal-align"))

    def command(source: str, target: str, folder: Path, threads: int) -> list[str]:
        outs = ["-f", str(folder / "forward"), "-r", str(folder / "reverse"), "--overwrite"]
        return [python, program, "-s", source, "-t", target, *outs]

    return System("eflomal", command, True, note="its defaults; the seed is not settable")


def importable(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def systems(peer_python: str) -> list[System]:
    """Ours, and the peers that this Python has."""
    found = [
        ours("alignkit align (joint HMM)", "align"),
        ours("alignkit align --quality fast", "align", "--quality", "fast"),
        ours("alignkit align --quality best", "align", "--quality", "best"),
        agreement(),
        *(ours(f"alignkit {name}", name, *JOINED) for name in ("hmm", "diagonal", "ibm1")),
    ]
    if importable(peer_python, "eflomal") and Path(peer_python).with_name("eflomal-align").exists():
        found.append(eflomal(peer_python))
    if importable(peer_python, "thot"):
        note = "EflomalAlignmentModel with its defaults, one direction after the other"
        found.append(peer("sil-thot", peer_python, THOT, True, note=note))
    if importable(peer_python, "systran_align"):
        note = (
            "fast_align's model, -d -o -v, and its own grow-diag-final-and, with its default beam_threshold of "
            "-4, which drops improbable translations; benchmarks/fast_align.py compares parameters and keeps them "
            "all, which is why its error rates differ (cdt_da_en: 18.7 here, 19.6 there)"
        )
        found.append(peer("systran-align", peer_python, SYSTRAN, False, note=note))
    if importable(peer_python, "nltk"):
        note = (
            "IBM 1, 5 iterations; so slow (see cdt_da_en, 3,748 pairs) that texts over 20,000 pairs are left out"
        )
        found.append(peer("NLTK IBM 1", peer_python, NLTK, True, 20_000, note))
    return found


class FirstPairs:
    """Embeddings of the first pairs of a text; of the words of the others nothing is known."""

    def __init__(self, encoder: ContextualEmbeddings, count: int) -> None:
        self.encoder, self.count, self.seconds = encoder, count, 0.0
        self._known: np.ndarray | None = None

    def levels(self, bitext: Bitext, threads: int, progress: Progress | None = None) -> np.ndarray:
        """See :class:`alignkit.embeddings.levels.Embeddings`; encoded once."""
        if self._known is None:
            start = time.process_time()
            self._known = self.encoder.levels(bitext.block(0, min(self.count, len(bitext))), threads)
            self.seconds = time.process_time() - start
        levels = np.full(flat_offsets(bitext.shapes)[-1], UNKNOWN, np.uint8)
        levels[: len(self._known)] = self._known
        return levels
