"""Each alert has its paragraph, and the paragraphs speak of what exists."""

from __future__ import annotations

import re

import pytest

from gpugauge.settings.catalog import catalog
from tests.deploy.promql import OWN, ROOT, recorded
from tests.deploy.rules_files import Alert, alerts

DOCUMENT = ROOT / "docs" / "alerts.md"
README = ROOT / "deploy" / "prometheus" / "README.md"
PARTS = ("What it means", "What it is not", "First look", "Remedy")
TEMPLATED = "{{ $labels.severity }}"


def paragraphs() -> dict[str, str]:
    """Return the text below each heading that names an alert."""
    pieces = re.split(r"^###? (.+)$", DOCUMENT.read_text(), flags=re.MULTILINE)
    return {
        name: text
        for name, text in zip(pieces[1::2], pieces[2::2], strict=True)
        if name.startswith("Gpugauge")
    }


def test_alerts_and_paragraphs_are_the_same_in_the_same_order() -> None:
    assert list(paragraphs()) == list(alerts())


@pytest.mark.parametrize("alert", alerts().values(), ids=lambda alert: alert.name)
def test_a_paragraph_tells_all_and_the_link_leads_to_it(alert: Alert) -> None:
    assert alert.annotations["runbook_url"] == f"docs/alerts.md#{alert.name.lower()}"
    text = paragraphs()[alert.name]
    assert re.findall(r"^\*\*(.+?)\.\*\*", text, flags=re.MULTILINE) == list(PARTS)
    said = re.search(r"^Severity: ([^.]+)\. After (\w+)\b", text, flags=re.MULTILINE)
    assert said
    severity = alert.labels["severity"]
    assert said[1].startswith("as the finding" if severity == TEMPLATED else severity)
    assert said[2] == alert.wait


@pytest.mark.parametrize("path", [DOCUMENT, README], ids=lambda path: path.name)
def test_series_that_are_named_exist(path) -> None:
    text = path.read_text()
    for name in re.findall(r"\b[a-z_]+:gpugauge_\w+:\w+", text):
        assert name in recorded(), name
    for name in re.findall(r"(?<![:\w])gpugauge_[a-z_]+(?!\w|:)", text):
        assert name in OWN, name


def test_the_list_of_recorded_series_is_whole() -> None:
    text = README.read_text()
    listed = re.findall(r"^\| `(gpugauge_[^`]+)` \| ((?:`\w+`)?) ?\|", text, flags=re.MULTILINE)
    levels = {name.partition(":")[2] for name in recorded() if name.startswith("namespace:")}
    assert {name for name, _ in listed} == levels
    for name, label in listed:
        from_rule = re.search(r"\b(cause|state|direction|family|currency)\b", recorded_labels(name))
        assert label.strip("`") == (from_rule[1] if from_rule else ""), name


def recorded_labels(name: str) -> str:
    """Return the labels of a series of the namespaces that are not the level's own."""
    from tests.deploy.promql import check

    own = {"cluster", "namespace", "scope"}
    return " ".join(check(recorded()[f"namespace:{name}"]).labels - own)


def test_settings_that_are_named_exist() -> None:
    known = {f"{one.section}.{one.name}" if one.section else one.name for one in catalog()}
    sections = {one.section for one in catalog() if one.section}
    text = DOCUMENT.read_text() + README.read_text()
    for section, name in re.findall(r"`([a-z_]+)\.([a-z_]+)`", text):
        if section in sections:
            assert f"{section}.{name}" in known, f"{section}.{name}"
    assert "series.per_owner" in text


def test_links_of_the_document_lead_somewhere() -> None:
    for path in (DOCUMENT, README):
        for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            assert there.exists(), target
            if anchor:
                headings = re.findall(r"^#+ (.+)$", there.read_text(), flags=re.MULTILINE)
                assert anchor in {slug(heading) for heading in headings}, target


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")
