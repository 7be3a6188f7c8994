"""The accuracy of the classifiers, the proxy and the regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from alignkit.analysis.logistic import Logistic, mean_of_words
from alignkit.metrics.intervals import bootstrap_mean
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.proxy import ProxyAligner
from alignkit.neural.scoring.classifier import judge_logits
from alignkit.text.labelled import LabelledText

if TYPE_CHECKING:
    import pandas as pd


def word_weights(proxy: ProxyAligner) -> np.ndarray:
    """float64 (V,): log p(y = 1) - log p(y = 0) of a text of that word alone."""
    return (proxy.embedding @ (proxy.output[1] - proxy.output[0])).double().cpu().numpy()


def accuracies(
    best: Mapping[str, ClassifierAligner],
    proxy: ProxyAligner,
    logistic: Logistic | None,
    valid: LabelledText,
    seed: int,
) -> pd.DataFrame:
    """Accuracy of every model on the validation text, by which its step or strength was chosen.

    Args:
        best: classifiers by name.
        proxy: trained on the text with its labels as target; judged without the bias that it may have had.
        logistic: None if there is none.
        valid: the text.
        seed: of the bootstrap over texts.

    Returns:
        columns model, step (NaN where there is none), accuracy, low, high, loss, texts; the last line is the more
        frequent label.
    """
    import pandas as pd

    logits = {name: model.logits(valid.bitext) for name, model in best.items()}
    logits["proxy"] = mean_of_words(word_weights(proxy), valid)
    if logistic is not None:
        logits["logistic"] = logistic.logits(valid)
    rows = []
    for name, values in logits.items():
        known = ~np.isnan(values)
        right = (values[known] > 0) == (valid.labels[known] == 1)
        low, high = bootstrap_mean(right, seed, 1000)
        loss, accuracy = judge_logits(values, valid.labels)
        shown = {"accuracy": accuracy, "low": low, "high": high, "loss": loss, "texts": int(known.sum())}
        # A float, so that what has no step has NaN.
        rows.append({"model": name, "step": float(best[name].step) if name in best else np.nan, **shown})
    share = float(valid.labels.mean())
    rows.append({"model": "majority", "step": np.nan, "accuracy": max(share, 1 - share), "texts": len(valid)})
    return pd.DataFrame(rows)
