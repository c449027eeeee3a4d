"""The list of promised names: a removal, a rename, another type or a lost label is an error."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tools import generate_promises
from tools.generate_promises import kept, offered

from tests.deploy.docs_blocks import ROOT

HAVE = {
    "metric gpugauge_launches_total counter namespace pod",
    "setting attach_mode",
    "snapshot 2 Snapshot.node",
    "exit 1 found",
}


@pytest.mark.parametrize(
    ("promise", "answer"),
    [
        ("metric gpugauge_launches_total counter namespace pod", True),
        ("metric gpugauge_launches_total counter namespace", True),
        ("metric gpugauge_launches_total counter namespace pod container", False),
        ("metric gpugauge_launches_total gauge namespace pod", False),
        ("metric gpugauge_launched_total counter namespace pod", False),
        ("setting attach_mode", True),
        ("setting attach_way", False),
        ("snapshot 2 Snapshot.node", True),
        ("snapshot 2 Snapshot.number", False),
        ("snapshot 1 Snapshot.number", True),
        ("exit 3 found", False),
    ],
)
def test_what_keeps_a_promise(promise: str, answer: bool) -> None:
    assert kept(promise, HAVE) is answer


def test_everything_offered_is_promised() -> None:
    text = generate_promises.LIST.read_text()
    assert {line for line in text.splitlines() if line and line[0] != "#"} >= set(offered())


@pytest.mark.parametrize("how", [[], ["--check"]])
def test_a_lost_name_fails_and_stays_in_the_list(how, tmp_path, monkeypatch) -> None:
    file = tmp_path / "promises.txt"
    lost = "metric gpugauge_gone_total counter namespace"
    text = f"{generate_promises.LIST.read_text()}{lost}\n"
    file.write_text(text)
    monkeypatch.setattr(generate_promises, "LIST", file)
    monkeypatch.setattr(sys, "argv", ["generate_promises.py", *how])
    with pytest.raises(SystemExit, match=lost):
        generate_promises.main()
    assert file.read_text() == text


def test_new_names_are_added(tmp_path, monkeypatch) -> None:
    text = generate_promises.LIST.read_text()
    file = tmp_path / "promises.txt"
    shorter = re.sub(r"^metric gpugauge_launches_total .*\n", "", text, flags=re.M)
    fewer = re.sub(r"^(metric gpugauge_errors_total .*) \w+$", r"\1", shorter, flags=re.M)
    assert text != shorter != fewer
    file.write_text(fewer)
    monkeypatch.setattr(generate_promises, "LIST", file)
    monkeypatch.setattr(sys, "argv", ["generate_promises.py", "--check"])
    with pytest.raises(SystemExit, match="make generate"):
        generate_promises.main()
    monkeypatch.setattr(sys, "argv", ["generate_promises.py"])
    generate_promises.main()
    assert sorted(file.read_text().splitlines()) == sorted(text.splitlines())


def test_documented_exit_codes_are_those_of_the_errors() -> None:
    text = (ROOT / "docs" / "stability.md").read_text()
    shown = {int(code) for code in re.findall(r"^\| (\d+) \| ", text, re.M)}
    promised = {int(line.split()[1]) for line in offered() if line.startswith("exit ")}
    assert shown == promised | {130}


def test_an_unknown_setting_is_refused_with_the_one_that_comes_closest() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpugauge", "run"], cwd=ROOT, text=True, capture_output=True,
        env={"PYTHONPATH": "src", "GPUGAUGE_ATACH_MODE": "auto"}, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Did you mean GPUGAUGE_ATTACH_MODE?" in done.stderr
