"""Speech models of transformers (Whisper): attention from words to audio, and which heads tell the time of words.

Rows are the tokens of a transcript, columns frames of audio, so that attention can be held against the times at
which the words are spoken.
"""

from __future__ import annotations

import json
import os
import wave
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.ndimage import median_filter

from alignkit.errors import AlignkitError, InputError, first_line, reading
from alignkit.lab.heads.hugging_face import NO_TOKENS, encode_side, model_errors, pairs_of_cross_attentions
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.metrics.intervals import bootstrap_ratio
from alignkit.neural.devices import pick_device
from alignkit.support.stages import no_progress
from alignkit.text.reading import read_lines
from alignkit.types import PathLike, Progress

RATE = 16_000  #: samples a second that Whisper reads
FRAME = 0.02  #: seconds of audio in a column
TOLERANCE = 0.05  #: seconds by which a frame may miss its word
_SMOOTHED = 7  # frames of the median filter, as Whisper's word times have it


def speech_attention(
    model: Any,
    tokenizer: Any,
    audio: Sequence[np.ndarray],
    transcripts: Sequence[str],
    *,
    layers: Sequence[int] | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> AttentionHeads:
    """The cross-attention of every layer and head while the model is given the transcript.

    Row t is the attention while token t is predicted. The first rows, of the signs before the words, and the last
    two, while the end is predicted and after it, have no word. Columns are frames of 20 ms, up to the end of the
    recording.

    Args:
        model: a WhisperForConditionalGeneration; it is moved to the device and set to evaluation.
        tokenizer: its tokenizer, of the tokenizers library.
        audio: M recordings of one channel, float32 samples from -1 to 1, 16,000 a second, 30 seconds at most.
        transcripts: M lines of words. A pair with a blank line or without sound has no tokens.
        layers: which decoder layers to keep, counted from 0; all if not given.
        device: as :func:`alignkit.neural.devices.pick_device`.
        progress: called after each recording.

    Raises:
        AlignkitError: the numbers differ, a recording or a transcript is too long, or there is no such layer.
    """
    from transformers import WhisperFeatureExtractor

    if len(audio) != len(transcripts):
        raise AlignkitError(f"there are {len(audio)} recordings and {len(transcripts)} transcripts")
    place, most = pick_device(device), model.config.max_source_positions
    model = model.to(place).eval()
    model.set_attn_implementation("eager")
    features = WhisperFeatureExtractor(model.config.num_mel_bins, chunk_length=round(most * FRAME))
    frames = [-(-len(samples) // round(RATE * FRAME)) for samples in audio]
    # Whisper's words have their space before them, the first one too.
    side = encode_side(tokenizer, transcripts, spaced=True)
    for m, (count, ids) in enumerate(zip(frames, side.ids, strict=True)):
        if count > most or len(ids) > model.config.max_target_positions:
            limits = f"{most * FRAME:.0f} seconds of audio and {model.config.max_target_positions} tokens"
            raise AlignkitError(f"line {m + 1}: the model reads at most {limits}; cut the recording")
    pairs = [np.zeros((0, 0, 0, 0), np.float32) for _ in audio]
    columns, targets = [NO_TOKENS] * len(audio), [NO_TOKENS] * len(audio)
    for m, (ids, (words, count)) in enumerate(zip(side.ids, side.words, strict=True)):
        if not ids or not frames[m]:
            continue
        sound = features(audio[m], sampling_rate=RATE, return_tensors="pt").input_features
        with model_errors("hear this"), torch.inference_mode():
            heard = model.get_encoder()(sound.to(place, model.dtype))
            given = {"encoder_outputs": heard, "decoder_input_ids": torch.tensor([ids], device=place)}
            attention = model(**given, output_attentions=True, use_cache=False).cross_attentions
        (pairs[m],) = pairs_of_cross_attentions(attention, [range(frames[m])], [ids], layers)
        columns[m], targets[m] = (np.arange(frames[m]), frames[m]), (np.append(words[1:], -1), count)
        (progress or no_progress)(m + 1, len(audio), "attention")
    return AttentionHeads.from_pairs(pairs, (columns, targets), layers)


def read_recording(path: PathLike) -> np.ndarray:
    """float32 samples from -1 to 1 of a WAV file as Whisper reads them: one channel, 16 bits, 16,000 a second.

    Raises:
        InputError: there is no such file, or it is none of this kind.
    """
    remedy = f"convert it, as by: ffmpeg -i FILE -ac 1 -ar {RATE} -c:a pcm_s16le OUT.wav"
    try:
        with reading(path), wave.open(os.fspath(path), "rb") as file:
            kind = file.getnchannels(), 8 * file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        problem = f"it is no WAV file that can be read ({first_line(error)})"
        raise InputError(path, problem, remedy=remedy) from error
    if kind != (1, 16, RATE):
        have = f"{kind[0]} channels of {kind[1]} bits, {kind[2]} samples a second"
        raise InputError(path, f"it has {have}, not 1 of 16 bits and {RATE}", remedy=remedy)
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float32) / 32768


def read_recordings(paths: Iterable[str]) -> list[np.ndarray]:
    """:func:`read_recording` of each path; no samples for a blank one."""
    return [read_recording(path.strip()) if path.strip() else np.zeros(0, np.float32) for path in paths]


def read_times(path: PathLike) -> list[np.ndarray]:
    """The times of words: on each line a JSON list of [start, end] in seconds.

    Raises:
        InputError: a line is none.
    """
    found = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            times = np.array(json.loads(line or "[]"), np.float64).reshape(-1, 2)
        except (ValueError, TypeError) as error:
            problem = "it is no list of word times"
            raise InputError(path, problem, line=number, remedy="write [[0.1, 0.35], [0.35, 0.8]]") from error
        if not (np.isfinite(times).all() and (times[:, 0] <= times[:, 1]).all()):
            raise InputError(path, "a word ends before it starts", line=number)
        found.append(times)
    return found


def warp(matrix: np.ndarray) -> np.ndarray:
    """int64 (T,): the first column of each row on the path of least sum through a matrix (T, L).

    The path goes from the first element to the last, each time to the next row, the next column or both (dynamic
    time warping).
    """
    T, L = matrix.shape
    before = np.full(L + 1, np.inf)
    before[0] = 0
    entries, steps = np.empty((T, L), np.int64), np.empty((T, L), bool)
    for t, row in enumerate(np.asarray(matrix, np.float64)):
        sums = np.cumsum(row)
        steps[t] = before[:-1] <= before[1:]  # a new row enters a column from the one before, or from above
        entering = np.minimum(before[:-1], before[1:]) - (sums - row)
        least = np.minimum.accumulate(entering)
        entries[t] = np.maximum.accumulate(np.where(entering == least, np.arange(L), 0))
        before = np.concatenate([[np.inf], sums + least])
    starts, column = np.empty(T, np.int64), L - 1
    for t in range(T - 1, -1, -1):
        column = starts[t] = entries[t, column]
        column -= steps[t, column] and t > 0
    return starts


def spoken_times(heads: AttentionHeads, m: int, chosen: Sequence[int]) -> np.ndarray:
    """float64 (words, 2): when each word of a pair starts and ends, in seconds, by the mean of some heads.

    As Whisper tells it: weights within the recording, standardized over all tokens, smoothed by a median filter,
    averaged over the heads; words start and end where dynamic time warping of their rows, and of that which
    predicts the end, has their tokens do so.

    Args:
        heads: of :func:`speech_attention`.
        m: the pair.
        chosen: rows of ``heads.heads``.
    """
    assert heads.words is not None
    words, count = heads.words[1][m]
    weights = heads.pair(m)[list(chosen)].astype(np.float64)
    weights /= weights.sum(axis=2, keepdims=True)
    spread = weights.std(axis=1, keepdims=True)
    weights = (weights - weights.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
    if weights.shape[2] > _SMOOTHED // 2:
        weights = median_filter(weights, (1, 1, _SMOOTHED), mode="mirror")
    first, last = np.flatnonzero(words >= 0)[[0, -1]] if count else (0, 0)
    bounds = warp(-weights.mean(axis=0)[first : last + 2]) * FRAME
    places = [np.flatnonzero(words[first:] == word) for word in range(count)]
    return np.array([[bounds[own[0]], bounds[own[-1] + 1]] for own in places]).reshape(-1, 2)


def rank_speech_heads(
    heads: AttentionHeads, times: Sequence[np.ndarray], *, tolerance: float = TOLERANCE
) -> pd.DataFrame:
    """Every head, by how far the word times that it tells are from the true ones; the best first.

    Args:
        heads: of M recordings, by :func:`speech_attention`.
        times: of each recording, float (words, 2): start and end of every word in seconds.
        tolerance: seconds by which a frame may lie outside of its word.

    Returns:
        a row for each head: ``layer``, ``head``; ``error``, the mean distance in seconds of a word's start and end
        by that head alone (:func:`spoken_times`) from the true ones, with ``low`` and ``high``; ``hits``, the
        share of words whose frame with the most attention lies within them, with ``hits_low``, ``hits_high`` and
        ``chance``, the share that a random frame would reach. Intervals are 95 % bootstrap intervals over
        recordings.

    Raises:
        AlignkitError: the times are not of these words.
    """
    if heads.words is None or len(heads) != len(times):
        raise AlignkitError(f"there are {len(heads)} recordings with words, and times of {len(times)}")
    for m, ((_, count), one) in enumerate(zip(heads.words[1], times, strict=True)):
        if len(one) != count:
            raise AlignkitError(f"line {m + 1}: there are {count} words, and times of {len(one)}")
    merged, rows = heads.on_words, []
    kept = [m for m in range(len(heads)) if len(times[m])]
    counts = np.array([len(times[m]) for m in kept])
    spans = []
    for m in kept:
        middles = (np.arange(heads.shapes[m, 1]) + 0.5) * FRAME
        start, end = np.asarray(times[m], np.float64).T[:, :, None]
        spans.append((start - tolerance <= middles) & (middles <= end + tolerance))
    chance = np.concatenate([span.mean(axis=1) for span in spans]).mean()
    for k, (layer, head) in enumerate(heads.heads):
        best = [merged.pair(m)[k].argmax(axis=1) for m in kept]
        hits = np.array([span[np.arange(len(span)), at].sum() for span, at in zip(spans, best, strict=True)])
        errors = time_errors(heads, times, [k])[kept]
        values = {"error": (errors * counts).sum() / counts.sum()}
        values["low"], values["high"] = bootstrap_ratio(errors * counts, counts)
        values["hits"] = hits.sum() / counts.sum()
        values["hits_low"], values["hits_high"] = bootstrap_ratio(hits, counts)
        rows.append({"layer": layer, "head": head, **values, "chance": chance})
    return pd.DataFrame(rows).sort_values(["error", "layer", "head"], ignore_index=True)


def time_errors(heads: AttentionHeads, times: Sequence[np.ndarray], chosen: Sequence[int]) -> np.ndarray:
    """float64 (M,): how far, on average, words start and end by the mean of some heads from the true times.

    In seconds; NaN for a recording without words. Arguments as of :func:`spoken_times`.
    """
    errors = np.full(len(times), np.nan)
    for m, one in enumerate(times):
        if len(one):
            errors[m] = np.abs(spoken_times(heads, m, chosen) - one).mean()
    return errors
