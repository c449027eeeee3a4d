"""Families of prometheus_client as text, byte for byte as its own writer gives them.

Its writer sorts, checks and escapes the labels of every sample anew: 20 us a
sample, two thirds of a scrape of a full node. Label sets live for hours, so
here each is written once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.utils import floatToGoString

KEPT_LABEL_SETS = 65_536
"""Beyond it all are forgotten and written anew: pods come and go."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})

_number: Callable[[float], str] = floatToGoString


class TextWriter:
    """Writes the text format 0.0.4, and remembers label sets."""

    def __init__(self) -> None:
        self._label_sets: dict[tuple[tuple[str, str], ...], str] = {}

    def write(self, families: Iterable[Family]) -> bytes:
        """Return the exposition of these families.

        Only what this package makes is written: no time stamps, no exemplars, no names
        outside of the plain alphabet.
        """
        if len(self._label_sets) > KEPT_LABEL_SETS:
            self._label_sets.clear()
        lines = []
        for family in families:
            name = family.name + ("_total" if family.type == "counter" else "")
            lines.append(f"# HELP {name} {family.documentation.translate(_HELP_ESCAPES)}\n")
            lines.append(f"# TYPE {name} {family.type}\n")
            lines += [
                f"{sample.name}{self._labels(sample.labels)} {_number(sample.value)}\n"
                for sample in family.samples
            ]
        return "".join(lines).encode()

    def _labels(self, labels: dict[str, str]) -> str:
        if not labels:
            return ""
        key = tuple(labels.items())
        written = self._label_sets.get(key)
        if written is None:
            pairs = ",".join(f'{n}="{v.translate(_ESCAPES)}"' for n, v in sorted(key))
            written = self._label_sets[key] = f"{{{pairs}}}"
        return written
