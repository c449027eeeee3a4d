"""A bug report tells what is needed, and neither names nor paths nor secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpugauge.agent.bugreport import ReportPage, hidden, library_part, redacted, settings_part
from gpugauge.cli import main
from gpugauge.export.exposition import Exposition
from gpugauge.model.library import FileId, Library, Site, SiteKind
from gpugauge.settings import ListenSettings, Settings
from tests.support.snapshots import busy_snapshot

TENANT = "/var/lib/containers/acme-secret/libcuda.so.1"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            f"not attached to {TENANT}: it is empty",
            f"not attached to {hidden(TENANT)}: it is empty",
        ),
        ("attached to /usr/lib64/libcuda.so.1 (7 sites)", None),
        ("/proc/71/root/acme/x", hidden("/proc/71/root/acme/x")),
        ("/proc/71/maps could not be read", None),
        ("no path here, 3/4 of it", None),
        ("('/a/b', \"/c\")", f"('{hidden('/a/b')}', \"{hidden('/c')}\")"),
    ],
)
def test_paths_of_tenants_are_hidden(line: str, told: str | None) -> None:
    assert redacted(line) == (line if told is None else told)


def test_equal_paths_have_equal_marks_that_do_not_lead_back() -> None:
    assert hidden(TENANT) == hidden(TENANT) != hidden(TENANT + "x")
    assert "acme" not in hidden(TENANT)


def test_secrets_are_only_said_to_be_set() -> None:
    given = Settings(node_name="acme-node-7", listen=ListenSettings(bearer_token_file="/run/acme"))
    text = json.dumps(settings_part(given))
    assert "acme" not in text
    assert settings_part(given)["listen"]["bearer_token_file"] == "set"
    assert settings_part(Settings())["node_name"] == ""
    assert settings_part(given)["tick_seconds"] == 1.0


def test_a_tenants_library_has_no_path() -> None:
    library = Library(
        file_id=FileId(8, 1, 71), path=TENANT, shown_path=TENANT, vendor="cuda", version="580",
        sites=(Site("cuInit", 64, SiteKind.PUSH), Site("cuExit", 0, SiteKind.NONE, "no room")),
        exported=2, unknown_symbols=(), tenant_supplied=True,
    )  # fmt: skip
    part = library_part(library)
    assert "acme" not in json.dumps(part)
    assert part["sites"] == {"push": 1, "je": 0, "nop": 0, "none": 1}
    assert part["no_site"] == {"cuExit": "no room"}


def test_the_agents_part_has_health_and_no_names() -> None:
    settings = Settings()
    exposition = Exposition(settings.series)
    exposition.publish(busy_snapshot())
    page = ReportPage(settings, exposition, [f"x {TENANT}"])
    report = page.report()
    assert report["log"] == [f"x {hidden(TENANT)}"]
    assert report["health"]["attach_mode"] == busy_snapshot().agent.attach_mode
    text = json.dumps(report)
    owners = {
        name for s in busy_snapshot().series for name in (s.owner.pod, s.owner.namespace) if name
    }
    assert owners
    assert not [name for name in owners if f'"{name}"' in text]


def test_without_an_agent_it_says_so_and_tells_the_rest(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    assert main(["bugreport", "--output", str(target), "--listen-port", "1"]) == 0
    report = json.loads(target.read_text())
    assert report["agent"] is None
    assert "no agent answers" in report["agent_error"]
    assert report["machine"]["linux"]
    assert report["settings"]["listen"]["port"] == 1
    missing = tmp_path / "no" / "folder"
    assert main(["bugreport", "--output", str(missing), "--listen-port", "1"]) == 4
