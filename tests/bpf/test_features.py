"""Features are found by trying, and what is missing is told in one sentence."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.ebpf import features, trial
from gpugauge.ebpf.attachment import Mode
from gpugauge.ebpf.features import Feature
from gpugauge.ebpf.syscalls import BpfCallError
from gpugauge.errors import SettingError, UnsupportedError
from tests.bpf.conftest import HERE


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    features.probe.cache_clear()
    yield
    features.probe.cache_clear()


def offer(monkeypatch: pytest.MonkeyPatch, **offered: bool) -> None:
    found = {
        each.name: Feature(
            each.name,
            offered.get(each.name, False),
            each.minimum_linux,
            "" if offered.get(each.name) else "Invalid argument (EINVAL)",
            each.remedy,
        )
        for each in features._TRIALS
    }
    monkeypatch.setattr(features, "probe", lambda: found)


def test_here_everything_the_agent_needs_is_offered() -> None:
    assert features.missing() == ()
    assert features.best_mode() in list(Mode)
    for each in features.probe().values():
        assert each.offered == (not each.why_not)


def test_trials_leave_no_descriptor_open() -> None:
    features.probe()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    features.probe.cache_clear()
    features.probe()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_the_best_mode_is_the_cheapest_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, session=True, multi=True, perf=True)
    assert features.choose_mode() is Mode.SESSION
    offer(monkeypatch, multi=True, perf=True)
    assert features.choose_mode() is Mode.MULTI
    offer(monkeypatch, perf=True)
    assert features.choose_mode() is Mode.PERF


def test_a_mode_that_is_not_offered_is_told_with_the_version_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer(monkeypatch, multi=True)
    assert features.choose_mode("multi") is Mode.MULTI
    with pytest.raises(UnsupportedError, match=r"session is not offered .* \(needs 6\.13\)"):
        features.choose_mode("session")
    with pytest.raises(SettingError, match="session, multi, perf"):
        features.choose_mode("kprobe")
    offer(monkeypatch)
    with pytest.raises(UnsupportedError, match="no way to attach"):
        features.choose_mode()


def test_a_refused_trial_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise BpfCallError(errno.EPERM, os.strerror(errno.EPERM))

    row = features._Trial("multi", "6.6", refuse, "newer")
    found = features._try(row)
    assert found.why_not == "Operation not permitted (EPERM)"
    assert "capabilities BPF and PERFMON" in found.remedy
    monkeypatch.setattr(features, "lockdown", lambda: "confidentiality")
    assert "Lockdown" in features._try(row).remedy


def test_without_privileges_every_refusal_is_told_and_nothing_breaks() -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from gpugauge.ebpf import features\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "f = features.probe()\n"
        "assert not f['bpf'].offered and 'EPERM' in f['bpf'].why_not, f['bpf']\n"
        "assert not f['multi'].offered and f['multi'].remedy, f['multi']\n"
        "assert features.best_mode() is None\n"
        "assert f['host_pid'].offered\n"
    )
    subprocess.run([sys.executable, "-c", code, str(HERE.parent.parent / "src")], check=True)


def test_bpf_and_perfmon_are_enough_for_session_and_multi() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gpugauge.ebpf import features\n"
        "from gpugauge.ebpf.sideband import Sideband\n"
        "f = features.probe()\n"
        "assert f['session'].offered and f['multi'].offered, f\n"
        "assert not f['perf'].offered and 'SYS_ADMIN' in f['perf'].remedy, f['perf']\n"
        "Sideband().close()\n"
    )
    subprocess.run(
        [
            *("setpriv", "--bounding-set=-all,+bpf,+perfmon", "--inh-caps=-all"),
            *(sys.executable, "-c", code, str(HERE.parent.parent / "src")),
        ],
        check=True,
    )


def test_a_pid_namespace_of_its_own_is_found() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gpugauge.ebpf import features\n"
        "f = features.probe()['host_pid']\n"
        "assert not f.offered and 'hostPID' in f.remedy, f\n"
    )
    subprocess.run(
        [
            *("unshare", "--pid", "--fork", "--mount-proc"),
            *(sys.executable, "-c", code, str(HERE.parent.parent / "src")),
        ],
        check=True,
    )


def test_the_trial_file_cannot_be_found_later() -> None:
    with trial.code_file() as (fd, path):
        assert str(Path(path).readlink()).startswith("/memfd:gpugauge-trial")
    with pytest.raises(OSError):
        os.fstat(fd)
