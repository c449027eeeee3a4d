"""`gpugauge diagnose`: what it prints, and its exit codes: 0 nothing, 1 findings, 2 cannot look."""

import contextlib
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.cli import main
from gpugauge.cli.diagnose.lines import with_lines
from gpugauge.codec.finding import dump_findings, load_findings
from gpugauge.codec.recording import RecordingWriter
from gpugauge.diagnosis import Engine
from gpugauge.diagnosis.python_stack import StackSampler
from gpugauge.errors import ForeignDataError
from gpugauge.export.exposition import Exposition
from gpugauge.export.http import Server
from gpugauge.export.pages import standard_pages
from gpugauge.model.finding import Finding
from gpugauge.settings import ListenSettings, Settings
from tests.incidents import programs
from tests.incidents.node import Node


def play(seconds: float, crowd_at: float = 1e9) -> Iterator[Node]:
    node = Node(random.Random(3))
    node.start("train-0", programs.training(random.Random(5), gpu_s=0.02, loader_s=0.01))
    while node.elapsed_s < seconds:
        if node.elapsed_s >= crowd_at and len(node.processes) == 1:
            node.start("batch-0", programs.batch(random.Random(7)))
        yield node


def record(path: Path, seconds: float, crowd_at: float = 1e9) -> Path:
    with RecordingWriter(path) as writer:
        for node in play(seconds, crowd_at):
            writer.write(node.tick())
    return path


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recordings") / "crowded.jsonl", 300, 240)


def test_a_recording_of_an_incident_is_explained(
    crowded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", "--file", str(crowded)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("SIMULATED")
    assert "WARNING noisy_neighbour, since " in out
    assert "ml/train-0 shares its GPU with ml/batch-0" in out
    assert "usually" in out
    assert "next: Move one of the two" in out
    assert max(map(len, out.splitlines())) <= 100


def test_json_is_read_back_and_the_pod_filters(
    crowded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", "--file", str(crowded), "--json", "--pod", "ml/train-0"]) == 1
    text = capsys.readouterr().out
    assert {f.rule for f in load_findings(text.encode())} >= {"noisy_neighbour"}
    assert json.loads(text)["findings"][0]["severity"] == "warning"
    assert main(["diagnose", "--file", str(crowded), "--json", "--pod", "ml/other"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_since_leaves_out_what_ended_before(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    with RecordingWriter(path) as writer:
        for node in play(500, 240):
            if node.elapsed_s > 300:
                for process in node.processes[1:]:
                    node.end(process)
                node.processes[0].pod = "train-0"
            writer.write(node.tick())
            if node.elapsed_s > 300 and len(node.processes) == 1:
                node.processes.append(replace(node.processes[0], pod="train-0", paused=True,
                                              number=99, pid=99))  # fmt: skip
    assert main(["diagnose", "--file", str(path), "--since", "1h"]) == 1


def test_a_healthy_recording_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = record(tmp_path / "healthy.jsonl.gz", 200)
    assert main(["diagnose", "--file", str(path)]) == 0
    assert "Nothing found" in capsys.readouterr().out


def test_what_cannot_be_looked_at_is_exit_code_2(
    tmp_path: Path, crowded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text("{}\n")
    short = record(tmp_path / "short.jsonl", 2)
    for arguments in (
        ["--file", str(tmp_path / "none")],
        ["--file", str(foreign)],
        ["--file", str(short)],
        ["--prometheus", "http://127.0.0.1:1"],
        ["--agent", "http://127.0.0.1:1"],
        ["--pod", "no-namespace"],
        ["--file", str(crowded), "--agent", "http://127.0.0.1:1"],
        ["--since", "soon"],
    ):
        assert main(["diagnose", *arguments]) == 2, arguments
        assert capsys.readouterr().err


def test_a_truncated_recording_is_read_as_far_as_it_goes(
    tmp_path: Path, crowded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(crowded.read_bytes()[:-3001])
    assert main(["diagnose", "--file", str(path)]) == 1
    assert "could not be read" in capsys.readouterr().out


def test_the_agent_is_asked_for_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(listen=ListenSettings(address="127.0.0.1", port=0))
    exposition = Exposition(settings.series)
    engine = Engine(settings)
    for node in play(300, 240):
        snapshot = node.tick()
        findings = engine.observe(snapshot)
    now = [replace(f, seen_unix_ns=2**62) for f in findings]  # the virtual clock is not the host's
    exposition.publish(snapshot, now)
    server = Server(settings.listen, standard_pages(exposition, settings))
    server.start()
    try:
        agent = f"http://127.0.0.1:{server.port}"
        assert main(["diagnose", "--agent", agent, "--no-lines"]) == 1
        assert "shares its GPU with ml/batch-0" in capsys.readouterr().out
        exposition.publish(snapshot)
        assert main(["diagnose", "--agent", agent]) == 0
    finally:
        server.close()
    assert b'rule="noisy_neighbour"' not in exposition.text()
    exposition.publish(snapshot, now)
    assert b'rule="noisy_neighbour"' in exposition.text()


def findings_of(path: Path) -> tuple[Finding, ...]:
    from gpugauge.codec.recording import RecordingReader

    engine = Engine(Settings())
    for snapshot in RecordingReader(path):
        engine.observe(snapshot)
    return engine.findings


def test_lines_are_added_where_the_cause_is_a_line(crowded: Path) -> None:
    (finding, *_) = findings_of(crowded)
    frames = [{"filename": "/app/train.py", "line": 87, "name": "log_tensor"}]
    dump = json.dumps([{"frames": frames, "owns_gil": False}]).encode()
    sampler = StackSampler(dump=lambda _: dump, sleep=lambda _: None)
    waiting = replace(finding, rule="added_synchronization")
    (other, found), notes = with_lines((finding, waiting), sampler)
    assert other.lines == ()
    assert [(line.file, line.line, line.function) for line in found.lines] == [
        ("train.py", 87, "log_tensor")
    ]
    assert notes == ()
    (again,), notes = with_lines((waiting,), sampler)
    assert again.lines == ()
    assert "ago" in notes[0]


def test_findings_survive_json(crowded: Path) -> None:
    findings = findings_of(crowded)
    assert findings
    assert load_findings(dump_findings(findings)) == findings


ITEMS = st.none() | st.lists(
    st.none() | st.dictionaries(st.text(max_size=5), st.integers()), max_size=3
)


@given(
    st.binary(max_size=200)
    | ITEMS.map(lambda item: json.dumps({"version": 1, "findings": item}).encode())
)
def test_foreign_findings_are_refused(data: bytes) -> None:
    with contextlib.suppress(ForeignDataError):
        assert load_findings(data) == ()
