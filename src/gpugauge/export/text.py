"""The text format 0.0.4 of Prometheus, byte for byte as prometheus_client writes it.

The library makes an object of every sample, and sorts, checks and escapes its labels anew:
two thirds of a scrape of a full node, and 3 MiB of memory. Label sets live for hours, so
here each is written once and kept; the tests hold the text against the library's.
"""

from __future__ import annotations

import math

from gpugauge.export.metric import PREFIX, Labels, Metric

KEPT_LABEL_SETS = 65_536
"""Beyond it all are forgotten and written anew: pods come and go."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_WHOLE_DIGITS = 6
"""More digits before the point are written as Go's %g would: with an exponent."""
_SHORT = 7
"""So short that no number has more digits; the only words with an n are those of no number."""


def number(value: float) -> str:
    """Return a value as Go writes it."""
    text = repr(float(value))
    if len(text) <= _SHORT and "n" not in text:
        return text
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    point = text.find(".")
    if value > 0 and point > _WHOLE_DIGITS:
        digits = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{digits}e+{point - 1:02d}"
    return text


def header(metric: Metric) -> str:
    """Return the two lines before a family."""
    name = PREFIX + metric.name
    return f"# HELP {name} {metric.help.translate(_HELP_ESCAPES)}\n# TYPE {name} {metric.kind}\n"


class LabelTexts:
    """Label sets as text, by their values, for one set of names."""

    def __init__(self, names: Labels) -> None:
        """Take the names, in the order of the values."""
        self._order = sorted((name, at) for at, name in enumerate(names))
        self._kept: dict[Labels, str] = {}

    def __call__(self, labels: Labels) -> str:
        """Return the text of these values, in braces; nothing where there are none."""
        text = self._kept.get(labels)
        if text is None:
            if len(self._kept) >= KEPT_LABEL_SETS:
                self._kept.clear()
            pairs = [f'{name}="{labels[at].translate(_ESCAPES)}"' for name, at in self._order]
            text = self._kept[labels] = f"{{{','.join(pairs)}}}" if pairs else ""
        return text
