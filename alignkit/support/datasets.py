"""The public data sets that the benchmarks use: where they are, what is known of each file, and downloading them.

Every address names a Git commit, so its content does not change. A size and a SHA-256 are given only where they
are known: those of Multi30k are of the copies that the benchmarks ran on. Downloads are whole or absent, and
checked: ``SHA256SUMS`` keeps the SHA-256 of every file, in the format of sha256sum, so that the next call checks
what is there.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from alignkit.errors import AlignkitError, writing
from alignkit.support.files import atomic_write
from alignkit.support.packages import __version__
from alignkit.support.stages import no_progress
from alignkit.types import PathLike, Progress

_RAW = "https://raw.githubusercontent.com"
_TOKENIZED = f"{_RAW}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/tok"
#: part, language, size and SHA-256 of a file
_MULTI30K: tuple[tuple[str, str, int | None, str | None], ...] = (
    ("train", "de", 2150008, "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505"),
    ("train", "en", None, None),
    ("val", "de", 77273, "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00"),
    ("val", "en", 64608, "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec"),
    ("test_2016_flickr", "de", 71917, "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4"),
    ("test_2016_flickr", "en", 63307, "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2"),
)
_TATOEBA = "Tatoeba sentences (export of manythings.org/anki): CC BY 2.0 France, to be attributed to tatoeba.org"
#: books of the Old Testament; Genesis, Psalms, Isaiah and Ezekiel were not used
_BOOKS = """
02-EXO 03-LEV 04-NUM 05-DEU 06-JOS 07-JDG 08-RUT 09-1SA 10-2SA 11-1KI 12-2KI 13-1CH 14-2CH 15-EZR 16-NEH 17-EST
18-JOB 20-PRO 21-ECC 22-SNG 24-JER 25-LAM 27-DAN 28-HOS 29-JOL 30-AMO 31-OBA 32-JON 33-MIC 34-NAM 35-HAB 36-ZEP
37-HAG 38-ZEC 39-MAL
"""


@dataclass(frozen=True)
class RemoteFile:
    """A file to download.

    Attributes:
        name: it is stored under.
        url: its address.
        size: in bytes, or None if not known.
        sha256: of its content, in hexadecimal digits, or None if not known.
    """

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class DataSet:
    """Files that belong together.

    Attributes:
        name: as users write it.
        title: what it is, in one line.
        licence: under which terms it may be used, as far as its publishers say.
        files: all of them.
        remark: what else a user should know.
    """

    name: str
    title: str
    licence: str
    files: tuple[RemoteFile, ...]
    remark: str = ""


def _github(repository: str, commit: str, *paths: str) -> tuple[RemoteFile, ...]:
    """Files of a repository at a commit."""
    return tuple(
        RemoteFile(path.rpartition("/")[2], f"{_RAW}/{repository}/{commit}/{path.replace(' ', '%20')}")
        for path in paths
    )


_SETS = (
    DataSet(
        "multi30k",
        "image captions, German and English, tokenised, lower-cased: 29,000 pairs, 1,014 and 1,000 held out",
        "no licence file; by its README derived from Flickr30K, for non-commercial research and education",
        tuple(
            RemoteFile(
                f"{part.split('_')[0]}.{language}", f"{_TOKENIZED}/{part}.lc.norm.tok.{language}", size, digest
            )
            for part, language, size, digest in _MULTI30K
        ),
    ),
    DataSet(
        "cdt_da_en",
        "Copenhagen Dependency Treebank, Danish and English newspaper text, aligned by hand",
        "MIT, CC BY-SA 4.0 or LGPL, at choice; the Danish texts are those of PAROLE-DK",
        (
            RemoteFile(
                "copenhagen-dependency-treebank.zip",
                "https://github.com/mbkromann/copenhagen-dependency-treebank/archive/"
                "f72eb56a05f0105f4f20e242bde2131685240653.zip",
            ),
        ),
        "the whole repository; the texts are in releases/cdt1+2/{da,en,da-en}",
    ),
    DataSet(
        "europarl_de_en",
        "100 gold-aligned German-English pairs of Europarl; training text of Tatoeba and of WMT 2014",
        "gold: copyright E. Bicici 2014, may be used for training and testing, citation asked; WMT sample: none "
        f"stated; {_TATOEBA}",
        (
            *_github(
                "bicici/SMTData", "eb81ef33c1d77412eee2b5a0ab8dd97936d23cb0", "German-English_WordAlignment.zip"
            ),
            *_github("jhamburg/dats6450_nlp", "fc38d83c4353d753fb9b34d98e945cbc5fab2811", "deu-eng.zip"),
            *_github(
                "lmthang/nmt.hybrid",
                "50d5c025f18ed280ff0fd2e2adce327f4170a2c3",
                *("data/train.10k.de", "data/train.10k.en"),
            ),
        ),
    ),
    DataSet(
        "hansards_en_fr",
        "447 and 37 gold-aligned English-French pairs of the Hansards (WPT 2003); training text of Tatoeba",
        f"gold: none stated in the repositories that carry it; {_TATOEBA}",
        (
            *_github(
                "neulab/awesome-align",
                "5f150d45bbe51e167daf0a84abebaeb07c3323d1",
                *("examples/enfr.src-tgt", "examples/enfr.gold"),
            ),
            *_github(
                "santhoshrajamanickam/nlp2-projects",
                "fe242641fd7e5298cd82388a9a3fb5a3ff96efc4",
                *(f"Project 1/validation/dev.{name}" for name in ("e", "f", "wa.nonullalign")),
            ),
            *_github("genimind/seq2seq", "4f3f8eb0adde54fcc8b89394336b002e7961244c", "fra-eng.zip"),
        ),
    ),
    DataSet(
        "ult_hbo_en",
        "unfoldingWord Literal Text, 35 books of the Old Testament in English, aligned to the Hebrew",
        "CC BY-SA 4.0; the Hebrew text is in the public domain",
        _github(
            "openbible-io/en_ult",
            "3a491790706bc1a5ec842e99583a43e47df950d9",
            *(f"{book}.usfm" for book in _BOOKS.split()),
        ),
        "the Hebrew words are those of HELFI (Yli-Jyrä et al., LREC 2020), which is not downloaded",
    ),
)
#: All data sets by name.
DATA_SETS: dict[str, DataSet] = {each.name: each for each in _SETS}

SUMS = "SHA256SUMS"
TIMEOUT = 30.0  # seconds without a byte
LARGEST = 1 << 28  # bytes of a file whose size the catalogue does not know
_BLOCK = 1 << 16


def fetch(data: DataSet, folder: PathLike, progress: Progress | None = None) -> list[Path]:
    """Download all files of a data set that are not there yet; returns where they are.

    Args:
        data: what to download.
        folder: made if it does not exist.
        progress: called with (bytes so far, bytes of the file, its name).

    Raises:
        AlignkitError: no network, a file with another content than expected, an existing file that differs, or a
            folder that cannot be written to.
    """
    place, known, paths = Path(folder), {}, []
    with writing(f"make the folder {folder}"):
        place.mkdir(parents=True, exist_ok=True)
    if (place / SUMS).exists():
        lines = (place / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
        known = {name: digest for digest, name in (line.split("  ", 1) for line in lines if "  " in line)}
    for file in data.files:
        path = place / file.name
        paths.append(path)
        if path.exists():
            wanted = file.sha256 or known.get(file.name)
            if wanted is None or hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
                problem = "is there and not known" if wanted is None else "is there with another content"
                raise AlignkitError(f"{path} {problem}; move it away to download it again")
            continue
        with atomic_write(path) as stream:
            digest = _download(file, stream, progress or no_progress)
            if file.sha256 not in (None, digest):
                raise AlignkitError(f"{file.url}: has SHA-256 {digest}, expected {file.sha256}; nothing was kept")
            known[file.name] = digest
            with atomic_write(place / SUMS) as listed:
                listed.write("".join(f"{its}  {name}\n" for name, its in sorted(known.items())).encode())
    return paths


def _download(file: RemoteFile, stream: IO[bytes], progress: Progress) -> str:
    """Write the content of a file to a stream; returns its SHA-256."""
    headers = {"User-Agent": f"alignkit/{__version__}", "Accept-Encoding": "identity"}
    digest, done = hashlib.sha256(), 0
    try:
        opener = urllib.request.build_opener(_Redirects)
        with opener.open(urllib.request.Request(file.url, headers=headers), timeout=TIMEOUT) as answer:
            said, most = str(answer.headers.get("Content-Length", "")), file.size or LARGEST
            total = int(said) if re.fullmatch(r"\d{1,15}", said, re.ASCII) else file.size or 0
            while block := answer.read(_BLOCK):
                if max(total, done + len(block)) > most:
                    raise AlignkitError(f"{file.url}: is larger than {most:,} bytes; nothing was kept")
                stream.write(block)
                digest.update(block)
                done += len(block)
                progress(done, max(total, done), file.name)
        if done < total:
            raise ConnectionError(f"the connection broke after {done:,} of {total:,} bytes")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        raise AlignkitError(f"{file.url}: cannot be downloaded ({getattr(error, 'reason', error)})") from error
    return digest.hexdigest()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to where the file is, but not from an encrypted connection to one that is not."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith(("https:", f"{req.type}:")):
            raise AlignkitError(f"{req.full_url}: the server leads to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
