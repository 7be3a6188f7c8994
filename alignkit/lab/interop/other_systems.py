"""Scores of other systems: read from files, checked, and projected onto the tokens of a bitext.

Formats, recognised by the file itself:

- ``.npz`` of :meth:`Scores.save` or :meth:`AttentionHeads.save`, or any npz with one array per pair, in the order
  of their names: (T, L), or (layers, heads, T, L);
- ``.parquet``: a tidy frame with the columns sentence, t, s and value (:meth:`Scores.to_frame`);
- JSON of inseq (``out.save("out.json")``), read without inseq; nothing in the file is executed;
- JSON lines: for each pair a list of rows, or an object with the matrix as ``alignment``, ``attention``,
  ``scores`` or ``matrix`` and, optionally, its tokens as lists ``source`` and ``target``;
- Marian's soft alignments: for each pair, rows separated by spaces and numbers separated by commas; anything up to
  the last ``|||`` of a line is ignored;
- Pharaoh links ``s-t`` as scores 0 and 1, or ``s-t:p`` as their probabilities.

One head of a file with several layers and heads is named ``FILE:LAYER.HEAD`` (:func:`split_choice`).

A row belongs to a target token, a column to a source token.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.errors import InputError, counted, of_file, plainly_shown
from alignkit.lab.interop import heads as attention
from alignkit.lab.interop.heads import AttentionHeads, split_choice
from alignkit.links.from_scores import link_places
from alignkit.links.links import check_range, parse_links, parse_probabilities
from alignkit.scores import KIND, Grouping, Scores, grouping_of, merge_to_words, spread_to_tokens
from alignkit.support.files import read_header
from alignkit.text.bitext import Bitext, Corpus, kept_tokens
from alignkit.text.reading import file_parts, split_lines, valid_text
from alignkit.text.tokenization import SPECIALS, UNK, check_words, corpus_groups, join_words, style_of, word_groups
from alignkit.types import PathLike

MATRIX_KEYS = ("alignment", "attention", "scores", "matrix")
TOKEN_KEYS = {"source": ("source", "src"), "target": ("target", "tgt")}
_SOFT = re.compile(r"[-+0-9.eEinfa]+(,[-+0-9.eEinfa]+)*\Z", re.ASCII)
_LINK = re.compile(r"\s*\d+[-p?]\d+(:[0-9.e+-]+)?(\s|\Z)", re.ASCII)
_NUMBER = re.compile(r"\d+\t", re.ASCII)
_MARKER = "sequence_attributions"
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


#: The tokens of M sentence pairs: (source, target).
TokenLists = tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]


@dataclass(frozen=True, eq=False)
class ExternalScores:
    """Scores as they are in a file.

    Attributes:
        path: the file.
        scores: of M pairs.
        source, target: the tokens of each pair's columns and rows, if the file has them.
        words: the words of the source tokens and of the target tokens, if the file has those.
    """

    path: str
    scores: Scores
    source: tuple[tuple[str, ...], ...] | None = None
    target: tuple[tuple[str, ...], ...] | None = None
    words: tuple[Grouping, Grouping] | None = None


def words_of_tokens(source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> tuple[Grouping, Grouping]:
    """The words of subwords with marks, of the source and of the target."""

    def words(side: Sequence[Sequence[str]]) -> Grouping:
        style = style_of(side)
        return grouping_of(word_groups(tokens, style) for tokens in side)

    return words(source), words(target)


def read_scores(path: PathLike, shapes: np.ndarray | None = None) -> ExternalScores:
    """Read the scores of another system.

    Args:
        path: a file in one of the formats of this module; ``FILE:LAYER.HEAD`` for one of several heads.
        shapes: int (M, 2), T and L of the text's pairs in words; required for links, and in another program's
            ``.parquet`` for pairs and tokens at the end that no row names.

    Raises:
        InputError: the file is unreadable, malformed or out of range; with the line (or the pair) if there is one.
            There are several heads and none is chosen, or not the chosen one.
    """
    place, choice = split_choice(path)
    if choice is None:
        found = _read(path, shapes)
        if isinstance(found, ExternalScores):
            return found
        remedy = f"choose one, as {path}:{found.heads[-1][0]}.0, or their mean, {path}:mean.mean"
        raise InputError(path, f"has several heads ({found.described})", remedy=remedy)
    heads = read_heads(place, shapes)
    with of_file(place):
        return ExternalScores(os.fspath(path), heads.scores(choice), words=heads.words)


def read_heads(path: PathLike, shapes: np.ndarray | None = None) -> AttentionHeads:
    """Read all layers and heads of a file; scores without them are layer 0, head 0.

    Args:
        path, shapes: as for :func:`read_scores`, without a choice.

    Raises:
        InputError: the file is unreadable, malformed or out of range.
    """
    found = _read(path, shapes)
    if isinstance(found, AttentionHeads):
        return found
    words = found.words
    if words is None and found.source is not None and found.target is not None:
        words = words_of_tokens(found.source, found.target)
    return AttentionHeads.from_scores(found.scores, words)


def _read(path: PathLike, shapes: np.ndarray | None) -> ExternalScores | AttentionHeads:
    if os.fspath(path).endswith(".parquet"):
        return ExternalScores(os.fspath(path), Scores.load(path, shapes))
    data = b"".join(file_parts(path, -1))
    if data.startswith(b"PK\x03\x04"):
        return read_npz(path, data)
    lines = split_lines(valid_text(path, data))
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("{") and f'"{_MARKER}"'.encode() in data:
        return read_inseq(path, lines)
    if first.startswith(("[", "{")):
        return read_json_lines(path, lines)
    lines = [line.rpartition("|||")[2] for line in lines]
    first = next((line.strip() for line in lines if line.strip()), "")
    if not first or _LINK.match(_NUMBER.sub("", first, count=1) or "0-0"):
        return read_link_lines(path, lines, shapes)
    return read_soft_alignments(path, lines)


def read_npz(path: PathLike, data: bytes) -> ExternalScores | AttentionHeads:
    """An npz file: one of :meth:`Scores.save` or :meth:`AttentionHeads.save`, or one array per pair.

    The latter as from ``numpy.savez(file, *matrices)``; ``arr_10`` comes after ``arr_9``.
    """
    header = read_header(path)
    if header is not None and header.get("kind") == attention.KIND:
        return AttentionHeads.load(path)
    if header is not None and header.get("kind") != KIND:
        remedy = "give what `alignkit attention`, or `alignkit align --model FILE --save-scores`, writes"
        raise InputError(path, f"holds {plainly_shown(header.get('kind'))}, and no scores", remedy=remedy)
    if header is not None:
        return ExternalScores(os.fspath(path), Scores.load(path))
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            names = sorted(archive, key=lambda n: [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", n)])
            arrays = {name: each for name in names if isinstance(each := archive[name], np.ndarray)}
    except Exception as error:  # a damaged archive makes zipfile and numpy raise almost anything
        raise InputError(path, f"damaged, or contains objects: {error or type(error).__name__}") from error
    if not arrays:
        raise InputError(path, "contains no arrays")
    dimensions = 4 if all(matrix.ndim == 4 for matrix in arrays.values()) else 2
    for name, matrix in arrays.items():
        numeric = matrix.dtype.kind in "fiub"
        if matrix.ndim != dimensions or not numeric or np.isnan(matrix.astype(np.float32)).any():
            shown = f"{matrix.dtype} with {matrix.ndim} dimensions"
            wanted = "is not a matrix of numbers (T, L)"
            raise InputError(path, f"array {name} {wanted}, but {shown} or with NaN")
    try:
        if dimensions == 4:
            return AttentionHeads.from_pairs(arrays.values())
        return ExternalScores(os.fspath(path), Scores.from_matrices(arrays.values()))
    except (ValueError, OverflowError) as error:  # an array without elements may have any number of columns
        raise InputError(path, str(error)) from error


def read_json_lines(path: PathLike, lines: Sequence[str]) -> ExternalScores:
    """JSON lines: a matrix per line, or an object with the matrix and perhaps the tokens."""
    matrices, source, target = [], [], []
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(path, f"not JSON: {error}", line=number) from error
        tokens: dict[str, tuple[str, ...] | None] = dict.fromkeys(TOKEN_KEYS)
        if isinstance(value, dict):
            tokens = {side: _tokens(path, number, value, keys) for side, keys in TOKEN_KEYS.items()}
            key = next((key for key in MATRIX_KEYS if key in value), None)
            if key is None:
                raise InputError(path, f"no matrix under any of {', '.join(MATRIX_KEYS)}", line=number)
            value = value[key]
        width = len(tokens["source"]) if tokens["source"] is not None else 0
        matrices.append(_matrix(path, number, value, width))
        source.append(tokens["source"])
        target.append(tokens["target"])
        for side, axis in (("target", 0), ("source", 1)):
            have, size = tokens[side], matrices[-1].shape[axis]
            if have is not None and len(have) != size:
                found = f"{size} {'rows' if axis == 0 else 'columns'}"
                raise InputError(path, f"{found} for {len(have)} {side} tokens", line=number)
    scores = Scores.from_matrices(matrices)
    if any(side is None for side in (*source, *target)):
        return ExternalScores(os.fspath(path), scores)
    return ExternalScores(os.fspath(path), scores, tuple(source), tuple(target))  # type: ignore[arg-type]


def _tokens(path: PathLike, number: int, value: dict[str, Any], keys: tuple[str, ...]) -> tuple[str, ...] | None:
    found = next((value[key] for key in keys if key in value), None)
    if found is None:
        return None
    if isinstance(found, str):
        found = found.split()
    if not isinstance(found, list) or any(not isinstance(token, str) for token in found):
        raise InputError(path, f"{keys[0]} is not a list of tokens", line=number)
    return tuple(found)


def _matrix(path: PathLike, number: int, value: Any, width: int = 0) -> np.ndarray:
    """float32 (T, L) of nested lists; ``width`` is L if there are no rows."""
    problem = "not a matrix: a list of rows of equally many numbers"
    if not isinstance(value, list) or any(not isinstance(row, list) for row in value):
        raise InputError(path, problem, line=number)
    if len({len(row) for row in value}) > 1:
        k = next(i for i, row in enumerate(value) if len(row) != len(value[0]))
        raise InputError(path, f"row {k + 1} has {len(value[k])} numbers, row 1 {len(value[0])}", line=number)
    if any(isinstance(x, bool) or not isinstance(x, int | float) for row in value for x in row):
        raise InputError(path, problem, line=number)
    try:
        exact = np.array(value, np.float64).reshape(len(value), len(value[0]) if value else width)
    except OverflowError as error:
        raise InputError(path, "a score that is too large", line=number) from error
    if np.isnan(exact).any():
        raise InputError(path, "a score that is not a number (NaN)", line=number)
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
        return exact.astype(np.float32)


def read_soft_alignments(path: PathLike, lines: Sequence[str]) -> ExternalScores:
    """Marian's soft alignments: rows separated by spaces, numbers by commas."""
    matrices = []
    for number, line in enumerate(lines, 1):
        rows = []
        for item in line.split():
            try:
                if _SOFT.match(item) is None:
                    raise ValueError(item)
                rows.append([float(x) for x in item.split(",")])
            except ValueError as error:
                problem = f"{item[:40]!r} is not a row of scores"
                remedy = "lines look like 0.9,0.1 0.2,0.8: the row of a target token, then the next"
                raise InputError(path, problem, line=number, remedy=remedy) from error
        matrices.append(_matrix(path, number, rows))
    return ExternalScores(os.fspath(path), Scores.from_matrices(matrices))


def read_link_lines(path: PathLike, lines: list[str], shapes: np.ndarray | None) -> ExternalScores:
    """Pharaoh links as scores: 1, or the probability of the link, where there is a link and 0 elsewhere.

    Of a repeated link the first probability counts.

    Raises:
        InputError: the shapes of the text are not known, it has another number of pairs, an item is no link or no
            probability, or a link is outside its pair.
    """
    links = parse_links(path, lines).possible
    known = parse_probabilities(path, lines)
    if shapes is None:
        problem = "has links, which do not determine the lengths of the sentences"
        raise InputError(path, problem, remedy="give the text as well")
    check_range(path, links, shapes, whole=True)
    scores = Scores.zeros(np.ascontiguousarray(shapes, np.int32))
    scores.values[link_places(links, scores.shapes)] = 1 if known is None else np.nan_to_num(known, nan=1.0)
    return ExternalScores(os.fspath(path), scores)


def read_inseq(path: PathLike, lines: Sequence[str]) -> ExternalScores | AttentionHeads:
    """Attributions of the source tokens, by inseq; with layers and heads, if it did not sum them up.

    Its arrays have a row per *source* token and a column per target token, and are transposed here. Attention has
    two more dimensions, layers and heads; it is that of the step which predicts the token, not shifted.

    Raises:
        InputError: the file is damaged, has no attributions of source tokens, a number that is not finite, or a
            further dimension that is not layers and heads.
    """
    try:
        sequences = _attributes(json.loads("\n".join(lines)))[_MARKER]
        pairs = [_attribution(number, _attributes(each)) for number, each in enumerate(sequences, 1)]
        matrices = [matrix for matrix, _, _ in pairs]
        source, target = [tokens for _, tokens, _ in pairs], [tokens for _, _, tokens in pairs]
        if len({matrix.ndim for matrix in matrices}) > 1:
            raise ValueError("some attributions have layers and heads, others do not")
        if matrices and matrices[0].ndim == 4:
            return AttentionHeads.from_pairs(matrices, words_of_tokens(source, target))
        return ExternalScores(os.fspath(path), Scores.from_matrices(matrices), tuple(source), tuple(target))
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        problem = f"not an attribution of inseq that can be read: {error or type(error).__name__}"
        raise InputError(path, problem) from error


def _attribution(number: int, fields: dict[str, Any]) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """float32 (layers, heads, T, L) or (T, L), and the L and T tokens of a sentence pair."""
    sides = fields["source"], fields["target"]
    source, target = (tuple(str(_attributes(token)["token"]) for token in side) for side in sides)
    target = target[fields.get("attr_pos_start") : fields.get("attr_pos_end")]
    if fields["source_attributions"] is None:
        raise ValueError(f"pair {number} has attributions of target tokens only")
    values = _tensor(fields["source_attributions"])
    if values.ndim not in (2, 4):
        remedy = "sum it up before you save it: out.aggregate()"
        raise ValueError(f"pair {number} has an attribution with {values.ndim} dimensions; {remedy}")
    if values.shape[:2] != (len(source), len(target)):
        tokens = f"{len(source)} source and {len(target)} target tokens"
        raise ValueError(f"pair {number} has an attribution of shape {values.shape} for {tokens}")
    if not np.isfinite(values).all():
        raise ValueError(f"pair {number} has an attribution that is not a finite number")
    return values.T if values.ndim == 2 else values.transpose(2, 3, 1, 0), source, target


def _attributes(value: Any) -> dict[str, Any]:
    """The fields of an object, which may be wrapped with its type."""
    if not isinstance(value, dict):
        raise TypeError(f"an object was expected, not {type(value).__name__}")
    return value.get("attributes", value)


def _tensor(text: str) -> np.ndarray:
    """float32, the array of a safetensors file in base64: the header's length, the header, the numbers."""
    data = base64.b64decode(text, validate=True)
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])["attribution"]
    if entry["dtype"] not in _FLOATS:
        raise ValueError(f"numbers of type {entry['dtype']}; save them with scores_precision='float32'")
    low, high = entry["data_offsets"]
    numbers = np.frombuffer(data[8 + size :][low:high], _FLOATS[entry["dtype"]])
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
        return numbers.astype(np.float32).reshape(entry["shape"])


def project_scores(
    found: ExternalScores, bitext: Bitext, *, specials: bool = True, divided: bool = True
) -> Scores:
    """The scores between the tokens of ``bitext``.

    Scores between the bitext's own tokens are taken unchanged. Scores between other subwords are merged to
    words, if their file has the subwords, and scores between words are spread over the tokens of the bitext
    (:mod:`alignkit.scores`).

    Args:
        found: scores of kind ``alpha``.
        bitext: M pairs of words or subwords.
        specials: the bitext consists of subwords with BOS and EOS, as a network reads it; otherwise its tokens are
            words.
        divided: as of :func:`alignkit.scores.spread_to_tokens`.

    Raises:
        InputError: the scores do not belong to this text, with the first line where this shows.
    """
    path, scores, shapes = found.path, found.scores, bitext.shapes
    if len(scores) != len(bitext):
        raise InputError(path, f"has scores for {counted(len(scores), 'pair')}, the text has {len(bitext):,}")
    if is_between_tokens(found, bitext):
        return Scores(scores.values, scores.offsets, np.ascontiguousarray(shapes, np.int32))
    if found.words is not None:
        scores = merge_to_words(scores, found.words[1], found.words[0])
    elif found.source is not None and found.target is not None:
        scores = _merged(path, scores, (found.source, found.target), bitext, specials)
    columns, rows = (word_grouping(side, specials, specials) for side in (bitext.source, bitext.target))
    scores = _checked(path, scores, _sizes(rows, columns), "words", shapes)
    return spread_to_tokens(scores, rows, columns, divided)


def is_between_tokens(found: ExternalScores, bitext: Bitext) -> bool:
    """True if the scores are between the bitext's own tokens, with BOS and EOS."""
    if found.words is not None or len(found.scores) != len(bitext):
        return False
    if first_mismatch(found.scores, bitext.shapes) is not None:
        return False
    if found.source is None or found.target is None:
        return True
    sides = (found.source, bitext.source), (found.target, bitext.target)
    if any(len(tokens) != len(text) for tokens, text in sides):
        return False
    return all(list(tokens[m]) == text.words(m) for tokens, text in sides for m in range(len(text)))


def _merged(path: str, scores: Scores, tokens: TokenLists, bitext: Bitext, specials: bool) -> Scores:
    """Scores between subwords to scores between words, which must be those of the bitext."""
    for side, text in zip(tokens, (bitext.source, bitext.target), strict=True):
        if len(side) != len(text):
            raise InputError(path, f"has subwords of {counted(len(side), 'sentence')}, the text has {len(text):,}")
    groupings = words_of_tokens(*tokens)
    wanted = np.array([(len(t), len(s)) for s, t in zip(*tokens, strict=True)], np.int32).reshape(-1, 2)
    scores = _checked(path, scores, wanted, "subwords")
    for side, grouping, text in zip(tokens, groupings, (bitext.source, bitext.target), strict=True):
        style = style_of(side)
        joined = [join_words(sentence, group, style) for sentence, (group, _) in zip(side, grouping, strict=True)]
        check_words(path, joined, _words(text, specials))
    return merge_to_words(scores, groupings[1], groupings[0])


def word_grouping(corpus: Corpus, specials: bool = True, marked: bool = True) -> Grouping:
    """The words of a corpus; arguments as for :func:`alignkit.text.tokenization.corpus_groups`."""
    return grouping_of(corpus_groups(corpus, specials=specials, marked=marked))


def word_shapes(bitext: Bitext, specials: bool = True, marked: bool = True) -> np.ndarray:
    """int32 (M, 2): the numbers of target and source words of each pair of a bitext of words or subwords."""
    columns, rows = (word_grouping(side, specials, marked) for side in (bitext.source, bitext.target))
    return _sizes(rows, columns)


def _sizes(rows: Grouping, columns: Grouping) -> np.ndarray:
    return np.array([(t, s) for (_, t), (_, s) in zip(rows, columns, strict=True)], np.int32).reshape(-1, 2)


def word_bitext(bitext: Bitext, specials: bool = True) -> Bitext:
    """The words of a bitext of subwords with BOS and EOS; a word that is unknown in part, or empty, is UNK.

    Args:
        bitext: M pairs.
        specials: true if it consists of subwords; a bitext of words is returned as it is.
    """
    if not specials:
        return bitext
    unknown = SPECIALS[UNK]
    sides = (_words(side, specials) for side in (bitext.source, bitext.target))
    source, target = ([[w or unknown for w in words] for words in side] for side in sides)
    return Bitext.from_sentences(source, target)


def _words(corpus: Corpus, specials: bool) -> list[list[str | None]]:
    """The words of every sentence; None for a word with an unknown subword."""
    if not specials:
        return [list(corpus.words(m)) for m in range(len(corpus))]
    style = style_of([corpus.vocabulary.tokens])
    return [join_words(corpus.words(m), group, style) for m, group in enumerate(corpus_groups(corpus))]


def first_mismatch(scores: Scores, wanted: np.ndarray) -> int | None:
    """The first pair whose matrix does not have the wanted shape; all shapes without elements are equal."""
    differs = (scores.shapes != wanted).any(axis=1)
    differs &= (scores.shapes.prod(axis=1) > 0) | (wanted.prod(axis=1) > 0)
    return int(differs.argmax()) if differs.any() else None


def _checked(path: str, scores: Scores, wanted: np.ndarray, unit: str, tokens: np.ndarray | None = None) -> Scores:
    """The scores with the wanted shapes; raises InputError if a matrix has another one, unless both are empty."""
    m = first_mismatch(scores, wanted)
    if m is None:
        return Scores(scores.values, scores.offsets, np.ascontiguousarray(wanted, np.int32))
    (t, s), (rows, columns) = scores.shapes[m].tolist(), wanted[m].tolist()
    problem = f"a matrix of {t} by {s} for {rows} target and {columns} source {unit}"
    if tokens is not None and tokens[m].tolist() != [rows, columns]:
        problem += f" ({tokens[m, 0]} and {tokens[m, 1]} tokens)"
    remedy = "scores between other subwords need these in their file, as a JSON object has them"
    if [s, t] == [rows, columns]:
        remedy = "rows must be target tokens, but here they seem to be source tokens"
    raise InputError(path, problem, line=m + 1, remedy=remedy)


def without_specials(bitext: Bitext) -> Bitext:
    """The bitext without BOS and EOS."""
    sides = bitext.source, bitext.target
    groups = (np.concatenate([np.zeros(0, np.int64), *corpus_groups(side)]) for side in sides)
    return Bitext(*(kept_tokens(side, own >= 0) for side, own in zip(sides, groups, strict=True)))


def scores_without_specials(scores: Scores, bitext: Bitext) -> Scores:
    """The scores of ``bitext`` without the rows and columns of BOS and EOS.

    Systems that only know words have no scores there, and a row of zeros would agree with every other row.
    """
    lines = zip(scores, corpus_groups(bitext.target), corpus_groups(bitext.source), strict=True)
    return Scores.from_matrices(matrix[row >= 0][:, column >= 0] for matrix, row, column in lines)


def scores_with_words(scores: Mapping[str, Scores], bitext: Bitext) -> dict[str, Scores]:
    """The scores of a bitext of subwords with BOS and EOS, and none of pairs with a blank side.

    A source of BOS and EOS alone has two columns, of which scores choose the same one half of the time.
    """
    filled: np.ndarray = word_shapes(bitext).min(axis=1) > 0
    if filled.all():
        return dict(scores)
    return {
        name: Scores.from_matrices(matrix[: len(matrix) * full] for matrix, full in zip(each, filled, strict=True))
        for name, each in scores.items()
    }
