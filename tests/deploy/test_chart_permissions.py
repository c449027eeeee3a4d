"""docs/permissions.md names every right that the chart takes, and no other."""

from __future__ import annotations

import re

import pytest

from tests.deploy.chart import RELEASE, ROOT, render
from tests.deploy.test_chart_rights import rules, single

PAGE = (ROOT / "docs" / "permissions.md").read_text()
SWITCH = f"{RELEASE}-probes"
BY_DEFAULT = {
    "rbac.namespaces",
    "rbac.resourceSlices",
    "offSwitch.nodeAnnotation",
    "offSwitch.configMap",
}


def table(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert rows and len({len(row) for row in rows}) == 1, rows
    return rows[1:]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_capabilities() -> None:
    rows = {code(row[0])[0]: row for row in table("Capabilities")}
    plain = set(render().container()["securityContext"]["capabilities"]["add"])
    more = set(
        render({"security.sysAdmin": True}).container()["securityContext"]["capabilities"]["add"]
    )
    assert plain == {name for name, row in rows.items() if row[1] == "always"}
    assert more - plain == {name for name, row in rows.items() if row[1] == "`security.sysAdmin`"}
    for row in rows.values():
        assert all(row), row
        for path in code(row[3]):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    "values", [{}, {"driver.access": "hostPath", "security.preset": "privileged"}], ids=str
)
def test_mounts(values) -> None:
    rendered = render(values)
    mounts = {one["name"]: one for one in rendered.container()["volumeMounts"]}
    volumes = {one["name"]: one for one in rendered.pod()["volumes"]}
    taken = {
        one["hostPath"]["path"]: bool(mounts[name].get("readOnly"))
        for name, one in volumes.items()
        if "hostPath" in one
    }
    whens = ("always", "`driver.access: hostPath`") if values else ("always",)
    told = {
        code(row[0])[0]: row[2].startswith("read-only")
        for row in table("Mounts")
        if row[1] in whens
    }
    assert taken == told
    assert volumes.keys() - {n for n, one in volumes.items() if "hostPath" in one} == {
        "settings", "tmp",
    }  # fmt: skip


def told_rights(*values: str) -> set[tuple[str, str, str]]:
    found = set()
    for right, value, *_ in table("Rights at the API server"):
        match = re.fullmatch(r"((?:`\w+`(?:, )?)+) on `(\w+)`(?: \(`([\w.]+)`\))?", right)
        assert match, right
        if value == "always" or code(value)[0] in values:
            found |= {(verb, match[3] or "", match[2]) for verb in code(match[1])}
    return found


def taken_rights(values) -> set[tuple[str, str, str]]:
    return {
        (part["verbs"][0], part["apiGroups"][0], part["resources"][0])
        for _, rule in rules(render(values))
        for part in single(rule)
    }


@pytest.mark.parametrize(
    "value", [*sorted(BY_DEFAULT), "rbac.explain", "podEvents.enabled", "loadScore.enabled"]
)
def test_rights_of_each_value(value) -> None:
    off = dict.fromkeys(BY_DEFAULT, False)
    assert taken_rights(off) == told_rights()
    assert taken_rights(off | {value: True}) == told_rights(value)


def test_rights_by_default() -> None:
    assert taken_rights({}) == told_rights(*BY_DEFAULT)
    shown = {code(row[1])[0] for row in table("Rights at the API server") if row[1] != "always"}
    assert shown == BY_DEFAULT | {"rbac.explain", "podEvents.enabled", "loadScore.enabled"}


def test_ways_to_the_devices() -> None:
    schema = (ROOT / "deploy/helm/gpugauge/values.schema.json").read_text()
    ways = re.search(r'"access": {\s*"enum": \[([^\]]+)\]', schema)
    assert ways
    told = {code(row[0])[0] for row in table("Devices")}
    assert told == set(re.findall(r'"(\w+)"', ways[1]))


def test_every_value_that_is_named_exists() -> None:
    import yaml

    values = yaml.safe_load((ROOT / "deploy/helm/gpugauge/values.yaml").read_text())
    names = [one.partition(":")[0] for one in code(PAGE)]
    dotted = [one for one in names if re.fullmatch(r"[a-z]\w+(\.[a-z]\w+)+", one)]
    sections = {name for name, part in values.items() if isinstance(part, dict)}
    seen = 0
    for one in dotted:
        first, _, rest = one.partition(".")
        if first in sections:
            assert rest.partition(".")[0] in values[first], one
            seen += 1
    assert seen > 20
