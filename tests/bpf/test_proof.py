"""The proof at start passes here, and finds what it is there to find."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tools import build_bpf

from gpugauge.ebpf import objects_file, proof, proof_code, trial
from gpugauge.ebpf.attachment import Mode
from gpugauge.ebpf.loader import load
from gpugauge.ebpf.proof_code import CODE, JUMP, PUSH, Shape
from gpugauge.ebpf.proof_target import ProofTarget, TargetDiedError
from tests.bpf.conftest import HERE


@pytest.fixture(autouse=True)
def objects(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The package's own objects, built fresh elsewhere: a checkout may not have them yet."""
    directory = tmp_path_factory.mktemp("objects")
    build_bpf.compile_object(build_bpf.SOURCES["empty"], directory / "empty.x86_64.o", "x86_64")
    monkeypatch.setattr(objects_file, "DIRECTORY", directory)
    return iter((None,))


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_is_proved_here(mode: Mode) -> None:
    found = proof.prove(mode)
    assert found.faults == ()
    assert found.entries_safe
    assert found.returns_safe
    assert [each.shape for each in found.costs] == ["push", "je"]
    for cost in found.costs:
        assert cost.entry_ns > 0
        assert cost.entry_return_ns is not None


def shapes(monkeypatch: pytest.MonkeyPatch, *found: Shape) -> None:
    for module in (proof, proof_code):
        monkeypatch.setattr(module, "SHAPES", found)


def test_a_return_probe_one_instruction_too_late_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After `push` the word at the stack pointer is no return address any more."""
    shapes(monkeypatch, Shape("push", PUSH.entry, PUSH.site + 1), JUMP)
    monkeypatch.setattr(proof, "_stepped", lambda _: False)
    found = proof.prove(Mode.MULTI)
    assert found.entries_safe
    assert not found.returns_safe
    assert len(found.faults) == 1


def test_a_site_that_is_not_reached_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes(monkeypatch, Shape("push", PUSH.entry, proof_code.CALLER), JUMP)
    found = proof.prove(Mode.SESSION)
    assert not found.entries_safe
    assert not found.returns_safe
    assert "were counted as" in found.faults[0]


def test_a_site_that_costs_far_more_is_called_single_stepped() -> None:
    proof._not_stepped({PUSH: [5.0, 505.0], JUMP: [6.0, 1500.0]})
    with pytest.raises(proof._Fault, match="single-steps"):
        proof._not_stepped({PUSH: [5.0, 505.0], JUMP: [6.0, 9506.0]})


def test_a_child_that_dies_under_return_probes_makes_it_entry_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Linux 6.11 to 6.13 would have it: the strict child dies at its first probed return."""
    real = ProofTarget.call
    strict: list[ProofTarget] = []
    original = ProofTarget.__init__

    def start(self: ProofTarget, code_fd: int, *, strict: bool = False) -> None:
        original(self, code_fd, strict=strict)
        if strict:
            confined.append(self)

    confined = strict

    def call(self: ProofTarget, shape: Shape, count: int) -> tuple[int, int]:
        if self in confined and count > 1:
            self._process.send_signal(signal.SIGSYS)
        return real(self, shape, count)

    monkeypatch.setattr(ProofTarget, "__init__", start)
    monkeypatch.setattr(ProofTarget, "call", call)
    found = proof.prove(Mode.SESSION)
    assert found.entries_safe
    assert not found.returns_safe
    assert "SIGSYS" in found.faults[0]
    assert found.costs[0].entry_return_ns is None


def test_the_filter_kills_at_a_call_it_does_not_list() -> None:
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[1]); import proof_child\n"
        "proof_child.confine(); os.write(1, b'alive'); os.getppid(); os.write(1, b'still')"
    )
    directory = HERE.parent.parent / "src" / "gpugauge" / "ebpf"
    done = subprocess.run(
        [sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE, check=False
    )
    assert done.stdout == b"alive"
    assert done.returncode == -signal.SIGSYS


def test_a_killed_child_is_told() -> None:
    with trial.code_file(CODE) as (fd, _), ProofTarget(fd) as target:
        assert target.call(JUMP, 101)[0] == 0
        target._process.kill()
        with pytest.raises(TargetDiedError, match="SIGKILL"):
            target.call(PUSH, 1)


def test_given_programs_are_measured_on_both_shapes() -> None:
    with load(objects_file.read("empty"), proof.COUNTING_PROGRAMS[Mode.SESSION]) as loaded:
        found = proof.measure(Mode.SESSION, proof.counting_programs(loaded, Mode.SESSION), cookie=3)
        entries = int.from_bytes((loaded.maps["hits"].lookup(b"\3\0\0\0") or b"")[:8], "little")
    assert [each.shape for each in found] == ["push", "je"]
    assert entries == 2 * 2 * 5 * proof.COST_CALLS


def test_on_another_architecture_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof.platform, "machine", lambda: "aarch64")
    found = proof.prove(Mode.MULTI)
    assert not found.entries_safe
    assert "aarch64" in found.faults[0]
