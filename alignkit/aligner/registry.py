"""The registry of aligners: the loader of every kind of saved aligner."""

from __future__ import annotations

import os
from pathlib import Path

from alignkit.aligner.protocol import Aligner, with_threads
from alignkit.errors import InputError
from alignkit.lazy import imported
from alignkit.packages import need
from alignkit.records import plainly_shown
from alignkit.storage import read_header
from alignkit.types import PathLike

#: header kind of a saved npz -> where its loader is ("module:function", imported when needed)
LOADERS = {
    "alignkit.ibm1": "alignkit.classical.ibm1:load_ibm1",
    "alignkit.diagonal": "alignkit.classical.diagonal:load_diagonal",
    "alignkit.hmm": "alignkit.classical.hmm.model:load_hmm",
    "alignkit.hmm-joint": "alignkit.classical.hmm.joint:load_joint",
    "alignkit.hmm-views": "alignkit.classical.hmm.joint_views:load_views",
    "alignkit.reversed": "alignkit.aligner.reversed:load_reversed",
    "alignkit.symmetrized": "alignkit.aligner.symmetrized:load_symmetrized",
}
#: the loader of a checkpoint or a run directory
NEURAL_LOADER = "alignkit.neural.loading:load_checkpoint"
TORCH_THREADS = "alignkit.neural.devices:set_threads"


def load_aligner(path: PathLike, threads: int | None = None) -> Aligner:
    """Read any saved aligner: a model file, a neural checkpoint (.pt) or a run directory.

    Args:
        path: the file or folder.
        threads: how many it computes with (None: all cores), on which no result depends. A network shares this
            setting with all others of the process.

    Raises:
        InputError: the file is missing, damaged, or none of these.
    """
    if not Path(path).exists():
        raise InputError(path, "no such file")
    if Path(path).is_dir() or os.fspath(path).endswith(".pt"):
        need("torch")
        imported(TORCH_THREADS)(threads)
        network: Aligner = imported(NEURAL_LOADER)(path)
        return network
    header = read_header(path)
    if header is None:
        raise InputError(path, "not a saved aligner, or damaged", remedy="give a file that --save-model wrote")
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in LOADERS:
        raise InputError(path, f"holds {plainly_shown(kind)}, which is not an aligner this program knows")
    aligner: Aligner = imported(LOADERS[kind])(path)
    return with_threads(aligner, threads)
