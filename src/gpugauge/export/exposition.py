"""Snapshots as Prometheus text: rendered at most once a snapshot, and only when asked."""

from __future__ import annotations

import gzip
import io
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpugauge.export.budget import Admission, SeriesBudget
from gpugauge.export.family import FamilyWriter
from gpugauge.export.metrics import METRICS
from gpugauge.export.rising import Rising
from gpugauge.export.view import make_view
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import PriceSettings, SeriesSettings

GZIP_LEVEL = 1  # a tenth of the size already; higher levels cost more CPU than they save
GZIP_FORM = 31  # zlib's word for a gzip header; it writes no time into it


_EMPTY = (b"", gzip.compress(b"", mtime=0))


@dataclass(slots=True)
class _Published:
    """A snapshot, and its text once somebody asked for it."""

    snapshot: Snapshot
    findings: Sequence[Finding]
    lacked: Sequence[str]
    at_seconds: float
    plain: bytes | None = None
    packed: bytes | None = None


class Exposition:
    """The newest snapshot as text, for any number of scrapes."""

    def __init__(
        self,
        settings: SeriesSettings,
        now_seconds: Callable[[], float] = time.monotonic,
        *,
        price: PriceSettings | None = None,
    ) -> None:
        """Make one that has nothing to show yet."""
        self._settings = settings
        self._price = price
        self._now_seconds = now_seconds
        self._lock = threading.Lock()
        self._admission = Admission(int(settings.per_node) // int(settings.per_owner))
        self._rising = Rising(settings.retire_seconds, now_seconds)
        self._writer = FamilyWriter(self._rising)
        self._newest: _Published | None = None
        self._started_seconds = now_seconds()
        self.renew: Callable[[], None] = nothing
        """Called before what is answered should be fresh; may take a moment."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot; None before the first tick."""
        newest = self._newest
        return newest.snapshot if newest else None

    @property
    def findings(self) -> Sequence[Finding]:
        """What was open when the newest snapshot was published."""
        newest = self._newest
        return newest.findings if newest else ()

    @property
    def age_seconds(self) -> float:
        """Time since the newest snapshot, or since the start."""
        newest = self._newest
        return self._now_seconds() - (newest.at_seconds if newest else self._started_seconds)

    @property
    def lacked(self) -> Sequence[str]:
        """What the diagnosis could not see then."""
        newest = self._newest
        return newest.lacked if newest else ()

    def publish(
        self,
        snapshot: Snapshot,
        findings: Sequence[Finding] = (),
        lacked: Sequence[str] = (),
    ) -> None:
        """Make this the newest snapshot. Costs nothing until somebody asks.

        Takes no lock: the tick never waits for a rendering.
        """
        self._newest = _Published(snapshot, findings, lacked, self._now_seconds())

    def text(self, compressed: bool = False) -> bytes:
        """Return the exposition; empty before the first tick."""
        self.renew()
        with self._lock:
            newest = self._newest
            if newest is None:
                return _EMPTY[compressed]
            if newest.plain is None and newest.packed is None:
                # Family by family: the whole text is only held where it is what was asked for.
                families = self._families(newest)
                if compressed:
                    newest.packed = _packed(families)
                else:
                    newest.plain = _joined(families)
            if compressed:
                newest.packed = newest.packed or gzip.compress(newest.plain or b"", GZIP_LEVEL)
                return newest.packed
            newest.plain = newest.plain or gzip.decompress(newest.packed or b"")
            return newest.plain

    def _families(self, newest: _Published) -> Iterator[bytes]:
        """Yield the text of every family that has samples."""
        budget = SeriesBudget(self._settings.per_owner)
        view = make_view(newest.snapshot, self._admission, budget, newest.findings, self._price)
        self._rising.begin()
        for metric in METRICS:
            if not metric.option or getattr(self._settings, metric.option):
                text = self._writer.write(metric, view)
                if text:
                    yield text.encode()
        self._rising.end()


def nothing() -> None:
    """Do nothing: the newest snapshot is as fresh as it gets."""


def _joined(parts: Iterator[bytes]) -> bytes:
    whole = io.BytesIO()  # grows in place, and hands its buffer over
    for part in parts:
        whole.write(part)
    return whole.getvalue()


def _packed(parts: Iterator[bytes]) -> bytes:
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_FORM)
    whole = io.BytesIO()
    for part in parts:
        whole.write(packer.compress(part))
    whole.write(packer.flush())
    return whole.getvalue()
