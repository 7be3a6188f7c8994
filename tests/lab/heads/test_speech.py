"""Attention of small untrained speech models, made here, and the times of words by heads."""

from __future__ import annotations

import json
import wave

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError, InputError
from alignkit.lab.heads.hugging_face import load_pretrained
from alignkit.lab.heads.speech import (
    FRAME,
    RATE,
    rank_speech_heads,
    read_recording,
    read_times,
    speech_attention,
    spoken_times,
    time_errors,
    warp,
)
from alignkit.lab.interop.heads import AttentionHeads, HeadChoice
from alignkit.metrics.intervals import bootstrap_ratio
from alignkit_cli.main import run

pytest.importorskip("transformers", reason="transformers is an optional library, and is not installed")
LAYERS, HEADS, SECONDS = 2, 3, 2
TEXT = ["a man plays", "", "two dogs run fast", "quiet"]


@pytest.fixture(scope="module")
def loaded():
    """A Whisper that hears two seconds, and a tokenizer of letters' pairs with Whisper's special tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, WhisperConfig, WhisperForConditionalGeneration

    special = ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=270, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXT, trainer)
    made.post_processor = processors.TemplateProcessing(
        f"{special[1]} {special[2]} $A {special[0]}",
        special_tokens=[(token, k) for k, token in enumerate(special)],
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made)
    sizes = {f"{side}_{name}": 16 for side in ("encoder", "decoder") for name in ("ffn_dim",)}
    sizes |= {f"{side}_layers": LAYERS for side in ("encoder", "decoder")}
    sizes |= {f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")}
    ids = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 1}
    limits = {"max_source_positions": round(SECONDS / FRAME), "max_target_positions": 32}
    torch.manual_seed(1)
    config = WhisperConfig(vocab_size=270, d_model=12, num_mel_bins=80, **sizes, **ids, **limits)
    model = WhisperForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model, tokenizer


@pytest.fixture(scope="module")
def audio():
    rng = np.random.default_rng(1)
    return [rng.normal(size=round(RATE * seconds)).astype(np.float32) * 0.1 for seconds in (1.0, 0.5, 1.33, 0)]


def test_attention_is_the_models(loaded, audio):
    """Row t is the model's own map at the place before token t, columns the frames that have sound."""
    from transformers import WhisperFeatureExtractor

    model, tokenizer = loaded
    heads = speech_attention(model, tokenizer, audio, TEXT, device="cpu")
    assert len(heads.heads) == LAYERS * HEADS
    assert [m for m in range(4) if heads.pair(m).size == 0] == [1, 3]
    for m in (0, 2):
        ids = tokenizer(" " + TEXT[m])["input_ids"]
        features = WhisperFeatureExtractor(80, chunk_length=SECONDS)
        given = features(audio[m], sampling_rate=RATE, return_tensors="pt").input_features
        with torch.inference_mode():
            maps = model(given, decoder_input_ids=torch.tensor([ids]), output_attentions=True).cross_attentions
        frames = int(np.ceil(len(audio[m]) / RATE / FRAME))
        wanted = torch.cat(maps)[:, :, :, :frames].flatten(0, 1)
        assert np.allclose(heads.pair(m), wanted.numpy(), atol=1e-5)
        words, count = heads.words[1][m]
        assert count == len(TEXT[m].split())
        pieces = [""] * count
        for token, word in zip(ids[1:], words[:-1], strict=True):
            if word >= 0:
                pieces[word] += tokenizer.decode([token])
        assert [piece.strip(" \u0120") for piece in pieces] == TEXT[m].split()
        assert words[[0, -2, -1]].tolist() == [-1] * 3
    one = speech_attention(model, tokenizer, audio, TEXT, layers=[1], device="cpu")
    assert np.allclose(one.pair(2), heads.pair(2)[HEADS:], atol=1e-6)


def test_what_is_too_long_is_one_line(loaded, audio):
    with pytest.raises(AlignkitError, match="4 recordings and 1 transcripts"):
        speech_attention(*loaded, audio, ["a"])
    for sound, text in ((np.zeros(RATE * 3, np.float32), "a"), (audio[0], "xyz " * 40)):
        with pytest.raises(
            AlignkitError, match="line 1: the model reads at most 2 seconds of audio and 32 tokens"
        ):
            speech_attention(*loaded, [sound], [text])


@pytest.mark.parametrize("shape", [(9, 40), (20, 21), (12, 9), (1, 5), (5, 1)])
def test_the_path_is_that_of_transformers(shape):
    from transformers.models.whisper.generation_whisper import _dynamic_time_warping

    for seed in range(10):
        matrix = np.random.default_rng(seed).normal(size=shape)
        rows, columns = _dynamic_time_warping(matrix)
        assert warp(matrix).tolist() == [int(columns[rows == t].min()) for t in range(shape[0])]


def naive_times(heads, m, chosen):
    """As Whisper tells the times of words: head by head, column by column."""
    from transformers.models.whisper.generation_whisper import _dynamic_time_warping

    smooth = []
    for k in chosen:
        weights = heads.pair(m)[k].astype(float)
        for row in weights:
            row /= row.sum()
        for column in weights.T:
            column -= column.mean()
            column /= np.sqrt((column**2).mean()) or 1
        if weights.shape[1] > 3:
            padded = np.pad(weights, ((0, 0), (3, 3)), mode="reflect")
            weights = np.median([padded[:, low : low + weights.shape[1]] for low in range(7)], axis=0)
        smooth.append(weights)
    words, count = heads.words[1][m]
    own = slice(list(words).index(0), len(words) - 1) if count else slice(0)  # not the signs before, nor the end
    rows, columns = _dynamic_time_warping(-np.mean(smooth, axis=0)[own])
    words = words[own]
    first = [min(columns[rows == t]) for t in range(len(words))]
    tokens = [[t for t, word in enumerate(words) if word == k] for k in range(count)]
    return [(first[own[0]] * 0.02, first[own[-1] + 1] * 0.02) for own in tokens]


def random_heads(seed=2):
    """Attention without a plan to recordings of few and of many frames, and times that fall on frames' middles."""
    rng = np.random.default_rng(seed)
    pairs, words, times = [], ([], []), []
    for count, frames in ((4, 30), (2, 7), (2, 3), (0, 5), (5, 50), (1, 6)):
        tokens = [-1, -1, *np.repeat(np.arange(count), rng.integers(1, 3, count)), -1, -1]
        pairs.append(rng.dirichlet(np.full(frames, 0.3), size=(LAYERS, HEADS, len(tokens))) * rng.random() + 1e-6)
        words[0].append((np.arange(frames), frames))
        words[1].append((np.array(tokens), count))
        times.append((np.sort(rng.integers(0, frames, (count, 2)), axis=1) + 0.5) * FRAME)
    return AttentionHeads.from_pairs(pairs, words), times


@pytest.mark.parametrize("chosen", [[0], [3], [1, 4, 5]])
def test_times_are_those_of_whisper(chosen):
    heads, times = random_heads()
    wanted = [naive_times(heads, m, chosen) for m in range(len(times))]
    for m, each in enumerate(wanted):
        assert spoken_times(heads, m, chosen) == pytest.approx(np.array(each).reshape(-1, 2))
    errors = [
        np.abs(np.array(own) - known).mean() if own else np.nan for own, known in zip(wanted, times, strict=True)
    ]
    assert time_errors(heads, times, chosen) == pytest.approx(np.array(errors), nan_ok=True)


@pytest.mark.parametrize("tolerance", [None, 0, 0.2])
def test_the_ranking_is_what_loops_find(tolerance):
    heads, times = random_heads()
    found = rank_speech_heads(heads, times, **({} if tolerance is None else {"tolerance": tolerance}))
    far = 0.05 if tolerance is None else tolerance
    counts, rows = np.array([len(each) for each in times]), []
    inside = [
        [[low - far <= (k + 0.5) * FRAME <= high + far for k in range(heads.shapes[m, 1])] for low, high in each]
        for m, each in enumerate(times)
    ]
    chance = np.mean([np.mean(frames) for each in inside for frames in each])
    for k, (layer, head) in enumerate(heads.heads):
        errors = np.nan_to_num(time_errors(heads, times, [k])) * counts
        hits = np.zeros(len(times))
        for m, each in enumerate(inside):
            weights = heads.word_scores(HeadChoice(layer, head))[m]
            hits[m] = sum(frames[row.argmax()] for row, frames in zip(weights, each, strict=True))
        row = {"layer": layer, "head": head, "chance": chance}
        for name, ends, sums in (("error", ("low", "high"), errors), ("hits", ("hits_low", "hits_high"), hits)):
            filled = counts > 0
            row |= {name: sums.sum() / counts.sum()}
            row |= zip(ends, bootstrap_ratio(sums[filled], counts[filled]), strict=True)
        rows.append(row)
    for row, wanted in zip(found.to_dict("records"), sorted(rows, key=lambda row: row["error"]), strict=True):
        assert row == pytest.approx(wanted)


def test_times_of_other_words():
    heads, times = random_heads()
    with pytest.raises(AlignkitError, match="line 2: there are 2 words, and times of 1"):
        rank_speech_heads(heads, [times[0], times[1][:1], *times[2:]])


def write_wav(path, samples, rate=RATE):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32768).astype("<i2").tobytes())


def test_the_command(loaded, audio, tmp_path, capfd, monkeypatch):
    model, tokenizer = loaded
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    asked = []
    monkeypatch.setattr(
        type(tokenizer), "set_prefix_tokens", lambda _, **options: asked.append(options), raising=False
    )
    load_pretrained(tmp_path / "model", target_language="de")
    assert asked == [{"language": "de", "task": "transcribe"}]
    with pytest.raises(AlignkitError, match="speech has a target language only"):
        load_pretrained(tmp_path / "model", source_language="de")
    paths = [tmp_path / f"{m}.wav" if m != 1 else "" for m in range(3)]
    for m in (0, 2):
        write_wav(paths[m], audio[m])
    (tmp_path / "audio").write_text("".join(f"{path}\n" for path in paths))
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TEXT[:3]))
    inputs = [str(tmp_path / name) for name in ("model", "audio", "text")]
    assert run(["attention", *inputs, "-o", str(tmp_path / "h.npz"), "--device", "cpu"]) == 0
    found = AttentionHeads.load(tmp_path / "h.npz")
    wanted = speech_attention(model, tokenizer, [audio[0], audio[1][:0], audio[2]], TEXT[:3], device="cpu")
    assert np.allclose(found.values, wanted.values, atol=1e-3)  # samples have 16 bits
    assert found.heads == wanted.heads
    for option in (["--prefix", "x"], ["--template", "{source}{target}"], ["--quantity", "norms"]):
        assert run(["attention", *inputs, "-o", str(tmp_path / "no.npz"), *option]) == 2
        assert "are for models of text" in capfd.readouterr().err
    for bad, problem in ((b"RIFF", "no WAV file"), (b"RIFF", "as by: ffmpeg -i"), (None, "No such file")):
        if bad is None:
            paths[0].unlink()
        else:
            paths[0].write_bytes(bad)
        assert run(["attention", *inputs, "-o", str(tmp_path / "no.npz"), "--device", "cpu"]) == 2
        error = capfd.readouterr().err.splitlines()[-1]
        assert str(paths[0]) in error
        assert problem in error
    write_wav(paths[0], audio[0], rate=8000)
    with pytest.raises(InputError, match=r"it has 1 channels of 16 bits, 8000 samples a second, not .* ffmpeg"):
        read_recording(paths[0])


def test_times_are_read(tmp_path):
    place = tmp_path / "times"
    place.write_text("[[0.1, 0.35], [0.35, 0.8]]\n\n[]\n")
    assert [one.tolist() for one in read_times(place)] == [[[0.1, 0.35], [0.35, 0.8]], [], []]
    for line, problem in (
        ("[[1, 2, 3]]", "no list"),
        ("nothing", "no list"),
        ("[[2, 1]]", "ends before it starts"),
    ):
        place.write_text(f"[]\n{line}\n")
        with pytest.raises(InputError, match=f"line 2: .*{problem}"):
            read_times(place)


def test_the_ranking_of_the_command(tmp_path, capfd):
    heads, times = random_heads()
    heads.save(tmp_path / "h.npz")
    (tmp_path / "times").write_text("".join(f"{json.dumps(one.tolist())}\n" for one in times))
    (tmp_path / "audio").write_text("a.wav\n" * 6)
    arguments = ["heads", str(tmp_path / "h.npz"), str(tmp_path / "audio"), str(tmp_path / "audio")]
    assert run([*arguments, "--times", str(tmp_path / "times")]) == 0
    assert run([*arguments, "--times", str(tmp_path / "times"), "--lowercase"]) == 2
    found = rank_speech_heads(heads, times)
    shown = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown[3:9]] == [
        f"{layer}.{head}" for layer, head in found[["layer", "head"]].values.tolist()
    ]
    assert shown[3].split()[1] == f"{1000 * found['error'][0]:.0f}"
    assert run([*arguments, "--times", str(tmp_path / "times"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["heads"][0]["error"] == pytest.approx(found["error"][0])
    (tmp_path / "times").write_text("[[0, 1]]\n")
    assert run([*arguments, "--times", str(tmp_path / "times")]) == 2
    assert f"{tmp_path / 'times'}: there are 6 recordings with words, and times of 1" in capfd.readouterr().err
