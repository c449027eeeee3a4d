"""What `gpugauge check` says of Linux and its privileges."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

from gpugauge.cli.check.line import Line, State
from gpugauge.ebpf import features
from gpugauge.ebpf.features import Feature
from gpugauge.errors import GpugaugeError
from gpugauge.settings import AttachMode, Settings


def linux_lines(settings: Settings) -> Iterator[Line]:
    """Yield a line for Linux itself, each feature, and the mode that would be used."""
    yield _linux()
    for feature in features.probe().values():
        yield feature_line(feature)
    locked = features.lockdown()
    if locked == "confidentiality":
        yield Line(
            State.FAILED,
            "lockdown",
            "It is at confidentiality: BPF cannot read the memory of traced processes.",
            "Boot with lockdown=integrity.",
        )
    elif locked:
        yield Line(State.OK, "lockdown", locked)
    forced = None if settings.attach.mode is AttachMode.AUTO else settings.attach.mode.value
    try:
        yield Line(State.OK, "attach mode", features.choose_mode(forced).value)
    except GpugaugeError as error:
        yield Line(State.FAILED, "attach mode", error.sentence, error.next_step)


def feature_line(feature: Feature) -> Line:
    """Return how it stands with one feature."""
    if feature.offered:
        return Line(State.OK, feature.name)
    since = f", which came with Linux {feature.minimum_linux}" if feature.minimum_linux else ""
    what = f"Linux answers {feature.why_not} to {feature.name}{since}."
    state = State.FAILED if feature.name in features.NEEDED else State.NOT_OFFERED
    return Line(state, feature.name, what, feature.remedy)


def _linux() -> Line:
    told = f"{platform.release()} {platform.machine()}, user {os.geteuid()}"
    if platform.machine() != "x86_64":
        return Line(State.WARN, "linux", f"{told}: only x86-64 is tested.", "")
    return Line(State.OK, "linux", told)
