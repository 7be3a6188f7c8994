"""Any encoder of Hugging Face's transformers, from a folder (the extra ``transformers``)."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from alignkit.errors import InputError, first_line
from alignkit.support.packages import missing
from alignkit.types import PathLike

#: The share of the layers that are run: translations are most alike a little above the middle.
DEPTH = 7 / 12
LONGEST = 512  # pieces at a time of an encoder that names no limit


class HuggingFaceEncoder:
    """An encoder such as mBERT, LaBSE or XLM-R, on a GPU if there is one (:class:`PieceEncoder`).

    Args:
        folder: with the model and its tokenizer, as ``save_pretrained`` writes them.

    Raises:
        MissingPackageError: transformers is not installed.
        InputError: the folder has no such model.
    """

    def __init__(self, folder: PathLike) -> None:
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
                config.num_hidden_layers = max(round(DEPTH * config.num_hidden_layers), 1)
                tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
                model = AutoModel.from_pretrained(
                    folder, config=config, local_files_only=True, dtype=torch.float32
                )
            around = tokenizer("a", return_special_tokens_mask=True)
            mask = np.array(around["special_tokens_mask"], bool)
            if config.is_encoder_decoder or mask.all():
                raise ValueError("it is not the model of an encoder, or its tokenizer knows no letters")
        except Exception as error:  # transformers and its tokenizers raise errors of many kinds
            problem = f"cannot be loaded as an encoder of transformers: {first_line(error)}"
            raise InputError(
                folder, problem, remedy="give e5, a folder that save_pretrained wrote, or files"
            ) from error
        finally:
            logging.set_verbosity(level)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model, self._tokenizer = model.to(self.device).eval(), tokenizer
        ids, inner = np.array(around["input_ids"], np.int32), np.flatnonzero(~mask)
        self.before, self.after = ids[: inner[0]], ids[inner[-1] + 1 :]
        self.width = int(config.hidden_size)
        self.most_pieces = min(int(tokenizer.model_max_length), LONGEST)
        files = sorted(path for path in Path(folder).iterdir() if path.is_file())
        sizes = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        self.about = f"{os.path.abspath(folder)} {config.num_hidden_layers} {sizes}"

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
