"""``alignkit lexicon``, ``cooc``, ``phrases`` and ``terms``: words and phrases and their translations.

Args:
    LINKS: Links of SRC and TGT, a line per pair. Without them, the text is aligned as `alignkit align` does it.
    --max-length: The largest number of words of a phrase.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, get_args

import click

from alignkit.classical.settings import SHORTLIST, TABLE_ENDINGS, LexiconFormat, Weighting
from alignkit.errors import InputError, counted
from alignkit.lab.report.tables import to_json
from alignkit.pipeline.settings import ReadSettings
from alignkit.uses.phrases import FUNCTION_WORDS, LEAST_COUNT, LONGEST, PHRASE_LENGTH, TERM_LENGTH
from alignkit_cli import shared
from alignkit_cli.parameter_types import COUNT, LANGUAGES, SHARE, InputPath, OutputPath, WholeNumber

if TYPE_CHECKING:
    from alignkit.classical.lexical_model import LexicalModel
    from alignkit.uses.phrases.extraction import PhraseText


def length_option(default: int) -> shared.Option:
    """--max-length."""
    return click.option("--max-length", type=WholeNumber(1, LONGEST), default=default)


def read_linked_text(quiet: bool, max_length: int, **options: Any) -> PhraseText:
    """The text of the arguments with its links."""
    from alignkit.uses.phrases.extraction import PhraseText

    files, reading = shared.choose_linked_text(options), shared.with_given(ReadSettings(), options)
    with shared.ProgressBar("fitting", quiet) as bar:
        fitting = shared.how_to_link(options, files[2], bar)
        return PhraseText.read(*files, max_length, reading, fitting)


@shared.command("lexicon", "alignkit lexicon m.npz --best 3 -o lexicon.tsv", shortlist=SHORTLIST)
@shared.argument("first", "MODEL|SRC", type=InputPath())
@shared.argument("second", "[REVERSE|TGT]", type=InputPath())
@shared.argument("links", "[LINKS]", type=InputPath())
@shared.choice_option("--format", "file_format", choices=get_args(LexiconFormat))
@click.option("--best", type=COUNT)
@click.option("--both", is_flag=True)
@shared.output_option
@shared.quiet_option
def lexicon_command(first: str, second: str | None, links: str | None, output: str | None, **options: Any) -> None:
    """Write the translation table of a saved model, or of given links, as text.

    Source words are sorted by their bytes, their translations by decreasing probability. A model of target to
    source (--reverse) alone gives a lexicon of that direction, whose source words are those of the target text.

    With SRC TGT LINKS, the probabilities are relative frequencies: the number of links of two words, divided by
    the number of links of one of them plus its occurrences without a link.

    Args:
        MODEL|SRC: A saved model; or the source text of LINKS.
        REVERSE|TGT: A reverse model; or TGT.
        LINKS: Links of SRC and TGT to count.
        --format: tsv: source, target, p(target | source); with REVERSE or LINKS, p(source | target); with LINKS,
            their number. moses: "target source p(target | source)", the lexical weights lex.f2e; with REVERSE or
            LINKS, -o PREFIX writes PREFIX.f2e and PREFIX.e2f. shortlist: like moses, without NULL and with the
            best translations only, for Marian. eflomal: its priors, counted from LINKS.
        --best: The largest number of translations of a source word. [default: all; shortlist: $shortlist]
        --both: Take both directions from MODEL, a model of both (`align`, or --symmetrize), in place of REVERSE.
    """
    from alignkit.aligner import Reversed, load_aligner
    from alignkit.classical.lexicon import LinkedWords, lexicon_files, lexicon_of, reverse_lexicon_of
    from alignkit.support.files import check_writable

    both, file_format, quiet = (options[name] for name in ("both", "file_format", "quiet"))
    if both and second is not None:
        raise click.UsageError("--both goes only with one MODEL.")
    if (both or second is not None) and file_format == "moses":
        if output in (None, "-"):
            raise click.UsageError("Two Moses files cannot both go to standard output; give -o PREFIX.")
        for suffix in (".f2e", ".e2f"):
            check_writable(f"{output}{suffix}")
    counts: LinkedWords | None = None
    reverse: LexicalModel | None = None
    if links is not None:
        counts = LinkedWords.read(first, second, links)
        forward = counts.lexicon
        if file_format != "shortlist":
            reverse = counts.reversed.lexicon
    else:
        aligner = load_aligner(first)
        other = None if second is None else load_aligner(second)
        if isinstance(aligner, Reversed) and other is not None:
            raise InputError(first, "is a model of target to source (--reverse)", remedy="give it as REVERSE")
        forward = lexicon_of(aligner)
        if both:
            reverse = reverse_lexicon_of(aligner)
        elif other is not None:
            reverse = lexicon_of(other)
        if isinstance(aligner, Reversed):
            shared.note(f"{first}: a model of target to source (--reverse), and so is its lexicon", quiet)
    for suffix, parts in lexicon_files(forward, reverse, file_format, options["best"], counts).items():
        shared.write_output(parts, f"{output}{suffix}" if suffix else output)


@shared.command("cooc", "alignkit cooc corpus.de corpus.en -o counts.tsv")
@shared.text_arguments
@shared.choice_option("--weighting", choices=get_args(Weighting))
@click.option("-o", "--output", type=OutputPath(TABLE_ENDINGS), required=True)
@shared.work_options
def cooc_command(weighting: Weighting, output: str, threads: int | None, quiet: bool, **options: Any) -> None:
    """Count how often each source word occurs with each target word in a sentence pair.

    With the default weighting this is the count table of IBM Model 1's first iteration.

    Args:
        --weighting: The count of a source and a target token in the same sentence pair: 1 / the length of the
            source sentence, 1 / that of the target sentence, or one; presence counts the sentence pairs that
            contain both words.
        --output: The table: FILE.tsv with words, or FILE.npz with arrays.
    """
    from alignkit.classical.cooccurrence import cooccurrence, save_table
    from alignkit.text.pairs import read_bitext

    files = shared.choose_text(options)
    shared.give_memory_back()
    bitext = read_bitext(*files, encoding_errors=options["encoding_errors"], lowercase=options["lowercase"])
    table = cooccurrence(bitext, weighting, threads)
    save_table(output, table, bitext.source.vocabulary, bitext.target.vocabulary, weighting)
    shared.note(f"{counted(len(table.values), 'word pair')} of {counted(len(bitext), 'sentence pair')}", quiet)


@shared.command("phrases", "alignkit phrases corpus.de corpus.en links -o phrase-table.gz")
@shared.linked_text_arguments()
@length_option(PHRASE_LENGTH)
@click.option("-o", "--output", type=OutputPath(result=True, gzip=True))
def phrases_command(output: str | None, **options: Any) -> None:
    """Write the phrase table of a text, as Moses does.

    A line has source phrase, target phrase, p(source | target), lex(source | target), p(target | source),
    lex(target | source), their links, and the counts of the target phrase, of the source phrase and of both, with
    ||| between them. Phrases are consistent with LINKS: no word of one is linked outside the other.

    While phrases are counted, they are stored in files of the temporary folder (TMPDIR).

    Args:
        --output: Write the table to FILE once it is complete; compressed if the name ends in .gz.
    """
    from alignkit.uses.phrases.tables import gzipped, phrase_table

    table = phrase_table(read_linked_text(**options))
    shared.write_output(gzipped(table) if output is not None and output.endswith(".gz") else table, output)


@shared.command("terms", "alignkit terms corpus.de corpus.en links -o terms.tsv")
@shared.linked_text_arguments()
@click.option("--min-count", type=COUNT, default=LEAST_COUNT)
@length_option(TERM_LENGTH)
@click.option("--function-words", type=SHARE, default=FUNCTION_WORDS)
@click.option("--best", type=COUNT)
@shared.output_option
@shared.json_option
@click.option("--tbx", type=LANGUAGES)
def terms_command(output: str | None, as_json: bool, tbx: str | None, **options: Any) -> None:
    """List the terms of several words and their translations.

    A line has source, target, count, log-likelihood ratio (Dunning 1993), the mean probability of the links, and
    the number and text of the first sentence pair with the term. Terms are phrase pairs, as of `alignkit phrases`,
    with at least two words on one side. They are ranked by the log-likelihood ratio, multiplied by the mean
    probability if LINKS has probabilities (`alignkit align --format probabilities`). A term within another one
    that is as frequent is left out.

    Args:
        --min-count: The least count of a term.
        --function-words: A word that occurs more often than this share of the number of sentence pairs is a
            function word: no term begins or ends with one, or with punctuation.
        --best: The largest number of terms. [default: all]
        --json: Print one JSON object.
        --tbx: Write TBX, for tools of translators; give the languages, as --tbx de,en.
    """
    from alignkit.uses.phrases.tables import find_terms, terms_as_tbx

    if as_json and tbx is not None:
        raise click.UsageError("Give --json or --tbx, not both.")
    limits = (options[name] for name in ("min_count", "function_words", "best"))
    table = find_terms(read_linked_text(**options), *limits)
    if tbx is not None:
        text = terms_as_tbx(table, tbx)
    elif as_json:
        text = f"{to_json(table, 'terms')}\n".encode()
    else:
        text = table.to_csv(
            sep="\t", index=False, float_format="%.6g", quoting=csv.QUOTE_NONE, lineterminator="\n"
        ).encode()
    shared.write_output(text, output)
