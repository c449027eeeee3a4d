"""Counts are exact in every mode, and nothing stays behind."""

from __future__ import annotations

import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

from gpugauge.ebpf.attachment import Attachment, Mode, Probe, ProgramSet, attach
from gpugauge.ebpf.loader import Loaded
from gpugauge.errors import UnavailableError, UnsupportedError
from tests.bpf.conftest import Target

CALLS = {"push_a": 1009, "push_b": 503, "push_c": 251, "jump_a": 2003, "jump_b": 127}
COOKIES = {"push_a": 3, "push_b": 5, "push_c": 7, "jump_a": 11, "jump_b": 13, "nap_a": 17}
BREAKPOINT = b"\xcc"
ENTRY_ONLY = "push_c"


def programs(loaded: Loaded, mode: Mode) -> ProgramSet:
    if mode is Mode.SESSION:
        return ProgramSet(
            loaded.programs["multi_entry_count"], both=loaded.programs["session_count"]
        )
    return ProgramSet(
        loaded.programs[f"{mode}_entry_count"], loaded.programs[f"{mode}_return_count"]
    )


def probes(offsets: dict[str, int]) -> list[Probe]:
    return [
        Probe(
            offset=offsets[name],
            cookie=COOKIES[name],
            wants_return=name != ENTRY_ONLY,
            hot=name == "push_a",
            core=name != "jump_b",
        )
        for name in CALLS
    ]


def hits(loaded: Loaded, name: str) -> tuple[int, int]:
    raw = loaded.maps["hits"].lookup(struct.pack("<I", COOKIES[name]))
    assert raw is not None
    entries, returns = struct.unpack("<QQ", raw)
    return entries, returns


def attached(
    loaded: Loaded, mode: Mode, library: Path, offsets: dict[str, int], **options: bool
) -> Attachment:
    return attach(mode, str(library), probes(offsets), programs(loaded, mode), **options)


@pytest.mark.parametrize("mode", list(Mode))
def test_prime_counts_are_exact(
    mode: Mode, loaded: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    attachment = attached(loaded, mode, library, offsets)
    try:
        for name, count in CALLS.items():
            target.call(name, count)
    finally:
        attachment.close()
    for name, count in CALLS.items():
        on = mode is not Mode.PERF or name != "jump_b"
        expected = (count if on else 0, count if on and name != ENTRY_ONLY else 0)
        assert hits(loaded, name) == expected, name
    assert [each.cookie for each in attachment.skipped] == (
        [COOKIES["jump_b"]] if mode is Mode.PERF else []
    )


@pytest.mark.parametrize("mode", list(Mode))
def test_after_close_nothing_is_counted_and_the_code_is_as_before(
    mode: Mode, loaded: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    before = {name: target.code(name, 16) for name in CALLS}
    attachment = attached(loaded, mode, library, offsets)
    assert target.code("push_a", 1) == BREAKPOINT
    attachment.close()
    assert {name: target.code(name, 16) for name in CALLS} == before
    target.call("push_a", 17)
    assert hits(loaded, "push_a") == (0, 0)


@pytest.mark.parametrize("mode", [Mode.SESSION, Mode.MULTI])
def test_a_call_that_is_open_while_probes_come_or_go_returns_right(
    mode: Mode, loaded: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    """Open at the attaching: counted by neither. Open at the closing: its entry was counted."""
    naps = [Probe(offset=offsets["nap_a"], cookie=COOKIES["nap_a"], wants_return=True)]
    failures: list[BaseException] = []

    def nap() -> None:
        try:
            target.nap(400)
        except BaseException as error:
            failures.append(error)

    def open_call() -> threading.Thread:
        thread = threading.Thread(target=nap)
        thread.start()
        time.sleep(0.1)
        return thread

    open_before = open_call()
    attachment = attach(mode, str(library), naps, programs(loaded, mode))
    open_before.join()
    assert hits(loaded, "nap_a") == (0, 0)
    open_after = open_call()
    attachment.close()
    open_after.join()
    assert hits(loaded, "nap_a") == (1, 0)
    assert failures == []


@pytest.mark.parametrize("mode", [Mode.SESSION, Mode.MULTI])
def test_processes_before_and_after_and_threads_are_counted(
    mode: Mode,
    loaded: Loaded,
    library: Path,
    offsets: dict[str, int],
    target: Target,
    child_command: list[str],
) -> None:
    attachment = attached(loaded, mode, library, offsets)
    try:
        subprocess.run([*child_command, "push_b", "7919", "jump_a", "31"], check=True)
        threads = [threading.Thread(target=target.call, args=("push_b", 997)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        attachment.close()
    assert hits(loaded, "push_b") == (7919 + 4 * 997,) * 2
    assert hits(loaded, "jump_a") == (31, 31)


@pytest.mark.parametrize("mode", list(Mode))
def test_entry_only(
    mode: Mode, loaded: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    attachment = attached(loaded, mode, library, offsets, returns=False)
    try:
        target.call("push_a", 19)
    finally:
        attachment.close()
    assert hits(loaded, "push_a") == (19, 0)


def test_hot_returns_are_dropped_alone(
    loaded: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    attachment = attached(loaded, Mode.MULTI, library, offsets)
    try:
        assert attachment.drop_hot_returns() == 1
        target.call("push_a", 23)
        target.call("push_b", 29)
    finally:
        attachment.close()
    assert hits(loaded, "push_a") == (23, 0)
    assert hits(loaded, "push_b") == (29, 29)


def test_the_same_offset_is_attached_once(
    loaded: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    twice = [
        Probe(offset=offsets["push_a"], cookie=cookie, wants_return=True)
        for cookie in (COOKIES["push_a"], COOKIES["push_b"])
    ]
    attachment = attach(Mode.MULTI, str(library), twice, programs(loaded, Mode.MULTI))
    try:
        assert attachment.sites == 2
        target.call("push_a", 37)
    finally:
        attachment.close()
    assert hits(loaded, "push_a") == (37, 37)
    assert hits(loaded, "push_b") == (0, 0)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_file_that_is_gone_is_an_error_and_leaves_nothing(
    mode: Mode, loaded: Loaded, offsets: dict[str, int]
) -> None:
    with pytest.raises(UnavailableError, match=r"/nowhere/libcuda\.so\.1"):
        attach(mode, "/nowhere/libcuda.so.1", probes(offsets), programs(loaded, mode))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_failing_site_takes_the_others_off_again(
    mode: Mode, loaded: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    beyond = Probe(offset=1 << 40, cookie=17, wants_return=True, core=True)
    with pytest.raises((UnsupportedError, UnavailableError)):
        attach(mode, str(library), [*probes(offsets), beyond], programs(loaded, mode))
    target.call("push_a", 5)
    assert hits(loaded, "push_a") == (0, 0)


def test_closing_from_many_threads_closes_once(
    loaded: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    attachment = attached(loaded, Mode.SESSION, library, offsets)
    threads = [threading.Thread(target=attachment.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert attachment.sites == 0
    target.call("push_a", 3)
    assert hits(loaded, "push_a") == (0, 0)
