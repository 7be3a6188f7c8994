"""Calls of the library for type checkers, which report those marked ``wrong`` and no other; it is never run."""

import alignkit
from alignkit.lab.comparison import compare_classical, compare_networks
from alignkit.lab.heads.ranking import rank_heads
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.lab.report.build import build_report
from alignkit.lab.translation import lab
from alignkit.neural.settings import PRESETS
from alignkit.text.pairs import LinePairs, read_training_pairs
from alignkit.uses.diagnose.diagnosis import diagnose_links

text = alignkit.Bitext.from_sentences([["das", "Haus"]], [["the", "house"]])
lines = ["das Haus"], ["the house"]

aligned: alignkit.AlignedText = alignkit.align(*lines)
alignkit.align(
    *lines, method="ibm1", iterations=3, lowercase=True, tokenize=None, threshold=0.4, gold="gold.links"
)
alignkit.align(*lines, quality="best", embeddings="e5", start=aligned.aligner, threads=2)
alignkit.align(*lines, settings=alignkit.AlignSettings.of(symmetrization="union"))
alignkit.align(*lines, symmetrization="gdfa", method="hmm", encoding_errors="strict")
alignkit.align(*lines, methode="ibm1")  # wrong
alignkit.align(*lines, method="imb1")  # wrong
alignkit.align(*lines, quality="good")  # wrong
alignkit.align(*lines, symmetrization="gfda")  # wrong
alignkit.align(*lines, iterations="3")  # wrong
alignkit.align(*lines, lowercase="yes")  # wrong
alignkit.align(*lines, alignkit.AlignSettings())  # wrong
alignkit.AlignSettings.of(reverse=True, adapt=False)
alignkit.AlignSettings.of(reversed=True)  # wrong

alignkit.align_blocks("de", "en", fit_on="10%", shard=(1, 1), quality="fast", encoding_errors="replace")
alignkit.align_blocks("de", "en", model="m.npz", adapt=True)
alignkit.align_blocks("de", "en", fiton="10%")  # wrong
alignkit.align_blocks("de", "en", adapt="all")  # wrong
alignkit.align_blocks("de", "en", encoding_errors="ignore")  # wrong
alignkit.align_stream(["das Haus ||| the house"], "m.npz", lowercase=True, threshold=0.5, skip=True)
alignkit.align_stream(["das Haus ||| the house"], "m.npz", treshold=0.5)  # wrong
alignkit.align_stream(["das Haus ||| the house"], "m.npz", method="ibm1")  # wrong

ibm1: alignkit.IBM1 = alignkit.fit_ibm1(text, iterations=3, null=False, dirichlet=None, prune=0.1, threads=1)
alignkit.fit_ibm1(text, alignkit.IBM1Settings(), start=ibm1, null_probability=0.1, tolerance=0.0)
alignkit.fit_ibm1(text, iteration=3)  # wrong
alignkit.fit_ibm1(text, iterations=3.5)  # wrong
alignkit.fit_ibm1(text, alignkit.HMMSettings())  # wrong
alignkit.fit_ibm1(text, tension=2.0)  # wrong
alignkit.fit_diagonal(text, tension=2.0, optimize_tension=False, null_probability=0.05)
alignkit.fit_diagonal(text, tensions=2.0)  # wrong
alignkit.fit_diagonal(text, null_probability=None)  # wrong
alignkit.fit_hmm(text, iterations=2, affixes=(3,), fold_case=True, dirichlet=0.01)
alignkit.fit_hmm(text, lexical_prior=0.01)  # wrong
alignkit.fit_hmm(text, affixes=3)  # wrong
alignkit.fit_joint(text, quality="fast", leave_one_out=True, threads=1)
alignkit.fit_joint(text, quality="fast", method="joint")  # wrong
alignkit.fit_joint(text, quality="slow")  # wrong

scores = {"ibm1.alpha": ibm1.score(text), "ibm1.beta": ibm1.score(text, "beta")}
alignkit.compare(scores, "tau", percent=5, resamples=100, seed=1)
alignkit.compare(scores, percent="5", threads=2)
alignkit.compare(scores, percents=5)  # wrong
alignkit.compare(scores, resamples="100")  # wrong

alignkit.compare({"ibm1.beta": ibm1, "other": scores["ibm1.beta"]}, text=text)
alignkit.compare({"ibm1.beta": ibm1}, text="das Haus")  # wrong
low: float = alignkit.evaluate(*alignkit.sample()[1:], aligned).intervals["aer"][0]
alignkit.train(*lines, output="run", valid=lines, preset="small", architecture="lstm", epochs=2, seed=1)
alignkit.train(text, output="run", guide=aligned.links, keep="best", set=["text.pieces=400"], steps=None)
alignkit.train(*lines, out="run")  # wrong
alignkit.train(*lines, output="run", preset="large")  # wrong
alignkit.train(*lines, output="run", epoch=2)  # wrong
ibm1.score(text, "beta").plot(0, text)
ibm1.score(text, "beta").plot(text)  # wrong

pairs = LinePairs(*lines)
compare_networks("runs/general", metric="tau", also=("delta",), device="cpu", percent=5)
compare_networks("runs/general", metrics="tau")  # wrong
compare_networks("runs/general", metric="kendall")  # wrong
compare_networks("runs/general", also=("gradient",))  # wrong
compare_classical(pairs, iterations=5, seed=1)
compare_classical(pairs, iteration=5)  # wrong
lab("runs/general", on="train", alpha_by="bleu", limit=100, seed=1)
lab("runs/general", on="test")  # wrong
lab("runs/general", alphaby="bleu")  # wrong
build_report(runs=["runs/general"], gold="gold.links", proxy=True, resamples=10)
build_report(run="runs/general")  # wrong


def rank(heads: AttentionHeads, gold: alignkit.GoldLinks) -> None:
    rank_heads(heads, text, gold, percent=5, seed=1)
    rank_heads(heads, text, gold, metric="tau")  # wrong


diagnose_links("de", "en", "links", lowercase=True, encoding_errors="replace")
diagnose_links("de", "en", "links", lower_case=True)  # wrong
aligned.alignments(probabilities=True, words=True)
aligned.alignments(probability=True)  # wrong
read_training_pairs(("de", "en"), None, lowercase=True)
read_training_pairs(("de", "en"), None, lower=True)  # wrong
PRESETS["small"].change(network={"attention": "dot"}, training={"seed": 1})
PRESETS["small"].change(networks={"attention": "dot"})  # wrong
