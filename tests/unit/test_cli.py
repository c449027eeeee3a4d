"""The command line: exit codes, one sentence on standard error, and what check says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpugauge import __version__, cli
from gpugauge.cli import check, functions
from gpugauge.cli.check import driver as check_driver
from gpugauge.cli.check import linux as check_linux
from gpugauge.cli.check.line import Line, State
from gpugauge.ebpf.features import NEEDED, Feature
from gpugauge.errors import ForeignDataError, SettingError, UnavailableError, UnsupportedError
from gpugauge.model.device import Inventory
from gpugauge.model.library import FileId, Library, Site, SiteKind
from gpugauge.settings import AttachSettings, Settings
from gpugauge.vendors import CUDA
from tests.support.snapshots import device

README = Path(__file__).parents[2] / "README.md"


def library(sites: tuple[Site, ...], unknown: tuple[str, ...] = ()) -> Library:
    return Library(
        file_id=FileId(8, 1, 7919),
        path="/host/libcuda.so.1",
        shown_path="/usr/lib/libcuda.so.580.159.04",
        vendor="cuda",
        version="580.159.04",
        sites=sites,
        exported=674,
        unknown_symbols=unknown,
        tenant_supplied=False,
    )


LEGAL = Site("cuLaunchKernel", 0x24F0, SiteKind.PUSH)
REFUSED = Site("cuMemAlloc_v2", 0, SiteKind.NONE, "a branch comes first")


# ---- the door ----------------------------------------------------------------


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"gpugauge {__version__}\n"
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name}" in shown for name in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--help"]) == 0
    assert f"gpugauge {name}" in capsys.readouterr().out.partition("examples:")[2]
    assert f"`gpugauge {name}" in README.read_text()


@pytest.mark.parametrize("argv", [[], ["sing"], ["run", "--attach"], ["run", "x"], ["record"]])
def test_a_bad_line_is_exit_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 2
    assert "gpugauge" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingError("A.", "B."), 2),
        (UnsupportedError("A.", "B."), 3),
        (UnavailableError("A.", "B."), 4),
        (ForeignDataError("A.", "B."), 4),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_are_a_sentence_and_an_exit_code(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(functions, "run", fail)
    assert cli.main(["functions"]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == ("gpugauge: A. B.\n" if code != 130 else "")


def test_a_fault_of_our_own_is_exit_code_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise ZeroDivisionError("by 0")

    monkeypatch.setattr(functions, "run", fail)
    assert cli.main(["functions"]) == 70
    told = capsys.readouterr().err
    assert re.fullmatch(r"gpugauge: A fault of gpugauge itself: .*by 0.* -v\.\n", told)
    with pytest.raises(ZeroDivisionError):
        cli.main(["functions", "-v"])


def test_bad_settings_are_told_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("run", "demo", "check"):
        assert cli.main([name, "--attach-mode", "magic"]) == 2
        assert "auto, session, multi, perf" in capsys.readouterr().err
    assert cli.main(["record", "x", "--limit-mib", "0"]) == 2
    assert not Path("x").exists()


# ---- functions ---------------------------------------------------------------


def test_functions_lists_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["functions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CUDA.functions)
    assert lines[0].split()[:3] == ["1", "cuLaunchKernel", "launch"]
    assert cli.main(["functions", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert [row["symbol"] for row in table] == [f.symbol for f in CUDA.functions]
    assert "site" not in table[0]


def test_functions_of_a_library_show_each_site(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = library((LEGAL, REFUSED), ("cuLaunchTeleport",))
    inspector = SimpleNamespace(inspect=lambda *_, **__: SimpleNamespace(library=found))
    monkeypatch.setattr(functions, "Inspector", lambda _: inspector)
    assert cli.main(["functions", "/x/libcuda.so.1"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"cuLaunchKernel +launch .*push at 0x24f0\n", out)
    assert re.search(r"cuMemAlloc_v2 .*no legal site: a branch comes first\n", out)
    assert re.search(r"cuStreamSynchronize .*not exported\n", out)
    assert out.endswith("cuLaunchTeleport: exported, and in no row of the table\n")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not a library"])
def test_functions_of_no_library(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "libcuda.so.1"
    path.write_bytes(content)
    assert cli.main(["functions", str(path)]) == 4
    told = capsys.readouterr().err
    assert "cannot be traced" in told
    assert told.count("\n") == 1


def test_functions_of_a_file_with_another_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["functions", "/bin/true"]) == 2
    assert "not named like a driver library" in capsys.readouterr().err


# ---- check -------------------------------------------------------------------


def test_show_prints_lines_and_fails_only_for_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    fine = [Line(State.OK, "bpf"), Line(State.WARN, "nvml", "Silent.", "Wait.")]
    assert check.show(fine, as_json=False) == 0
    assert capsys.readouterr().out == (
        "ok          bpf\nwarn        nvml                    Silent. Wait.\n"
    )
    assert check.show([*fine, Line(State.NOT_OFFERED, "session")], as_json=False) == 0
    assert check.show([*fine, Line(State.FAILED, "btf")], as_json=True) == 1
    assert json.loads(capsys.readouterr().out.partition("\n[")[2].join(["[", ""]))[2] == {
        "state": "failed", "subject": "btf", "what": "", "remedy": "",
    }  # fmt: skip


def test_a_needed_feature_fails_and_another_is_not_offered() -> None:
    for name in ("session", *NEEDED):
        line = check_linux.feature_line(Feature(name, False, "6.13", "EINVAL", "Upgrade."))
        assert line.state is (State.NOT_OFFERED if name == "session" else State.FAILED)
        assert line.what == f"Linux answers EINVAL to {name}, which came with Linux 6.13."
        assert line.remedy == "Upgrade."
    assert check_linux.feature_line(Feature("bpf", True, "4.4")).state is State.OK


@pytest.mark.parametrize(
    ("sites", "unknown", "state", "told"),
    [
        ((LEGAL,), (), State.OK, "1 of 1 functions have a site."),
        ((LEGAL, REFUSED), (), State.WARN, "Without: cuMemAlloc_v2."),
        ((LEGAL,), tuple("abcde"), State.WARN, "In no row: a, b, c and 2 more."),
        ((REFUSED,), (), State.FAILED, "0 of 1 functions"),
        ((), (), State.FAILED, "0 of 0 functions"),
    ],
)
def test_sites(sites: tuple[Site, ...], unknown: tuple[str, ...], state: State, told: str) -> None:
    line = check_driver.sites_line(library(sites, unknown))
    assert line.state is state
    assert told in line.what


def test_a_library_that_cannot_be_read_fails_and_its_name_is_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "libcuda.so.1"
    path.write_bytes(b"\x7fELF\x1b[31m")
    line = check_driver.library_line(CUDA, str(path), "/x/\x1b[31m\udcff/libcuda.so.1")
    assert line.state is State.FAILED
    assert line.what.isprintable()


def test_no_library_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_driver, "libraries", lambda _: iter(()))
    monkeypatch.setattr(check_driver, "loaded_driver_version", lambda: "580.159.04")
    states = [line.state for line in check_driver.library_lines(Settings())]
    assert states == [State.OK, State.WARN]


def test_libraries_of_the_settings_are_the_only_ones() -> None:
    given = Settings(attach=AttachSettings(libraries=("/none/libcuda.so.1",)))
    assert list(check_driver.libraries(given)) == [
        (CUDA, "/none/libcuda.so.1", "/none/libcuda.so.1")
    ]


def test_the_loaded_driver_and_the_libraries_differ() -> None:
    (line,) = check_driver.version_lines("580.159.04", ["580.159.04", "", "570.124.06"])
    assert line.state is State.WARN
    assert "570.124.06" in line.what
    (line,) = check_driver.version_lines("580.159.04", ["580.159.04", ""])
    assert line.state is State.OK
    (line,) = check_driver.version_lines("", [])
    assert line.state is State.WARN


def test_nvml_lines() -> None:
    silent = Inventory((), "", "", error="NVML does not answer.")
    (line,) = check_driver.inventory_lines(silent)
    assert (line.state, line.what) == (State.WARN, "NVML does not answer.")
    first, second = check_driver.inventory_lines(
        Inventory((device(simulated=True),), "580.159.04", "13.0")
    )
    assert first.what == "driver 580.159.04, CUDA 13.0"
    assert second.what.endswith(", simulated")
