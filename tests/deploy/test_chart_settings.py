"""The agent accepts every settings file that the chart can write, and reads what was given."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import get_origin

import pytest
from hypothesis import Phase, given
from hypothesis import settings as how
from hypothesis import strategies as st
from tools.generate_manifests import OF_OTHER_VALUES

from gpugauge.settings import load
from gpugauge.settings.catalog import catalog
from tests.deploy.chart import CHART, CI, RELEASE, render

IDS = [path.name.removesuffix("-values.yaml") for path in CI]
OPEN = [one for one in catalog() if one.key not in OF_OTHER_VALUES]
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=40)
"""Any text but control characters, which YAML refuses: quotes, backslashes, other scripts."""


def strategy(setting):
    kind = setting.type
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(int(setting.low), int(setting.high))
    if kind is float:
        return st.floats(setting.low, setting.high, allow_nan=False)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from([str(one) for one in kind])
    if kind == tuple[str, ...]:
        return st.lists(TEXTS.filter(lambda text: text == text.strip()), max_size=3)
    if get_origin(kind) is not None:
        return st.dictionaries(TEXTS.filter(bool), st.floats(0, 1e6), max_size=3)
    if setting.pattern:
        return st.from_regex(setting.pattern, fullmatch=True)
    return TEXTS


def values():
    """Any settings that the schema allows."""
    chosen = st.sets(st.sampled_from(range(len(OPEN))), min_size=8, max_size=30)
    return chosen.flatmap(
        lambda numbers: st.fixed_dictionaries({OPEN[n].key: strategy(OPEN[n]) for n in numbers})
    )


def tree(flat):
    """Return settings by key as the chart's value `settings`."""
    nested = {}
    for one in OPEN:
        if one.key in flat:
            place = nested.setdefault(one.section, {}) if one.section else nested
            place[one.name] = flat[one.key]
    return nested


def loaded(rendered, tmp_path, name=RELEASE):
    file = tmp_path / "settings.toml"
    file.write_text(rendered.one("ConfigMap", name)["data"]["settings.toml"])
    environ = {
        one["name"]: one.get("value", "node-1")
        for one in rendered.container(name)["env"]
        if one["name"] != "GPUGAUGE_SETTINGS"
    }
    return load({}, environ, str(file))


@pytest.mark.parametrize("path", CI, ids=IDS)
def test_the_agent_takes_the_settings_of_every_mode(path, tmp_path) -> None:
    rendered = render(files=[path])
    for one in rendered.all("DaemonSet"):
        name = one["metadata"]["name"]
        found = loaded(rendered, tmp_path, name)
        assert found.node_name == "node-1"
        assert found.listen.port == rendered.container(name)["ports"][0]["containerPort"]
        mounts = {mount["mountPath"] for mount in rendered.container(name)["volumeMounts"]}
        assert f"{found.kubernetes.kubelet_path}/pod-resources" in mounts
        if found.listen.bearer_token_file:
            assert found.listen.bearer_token_file.rpartition("/")[0] in mounts
        assert "/etc/gpugauge/settings.toml" in mounts


@given(values())
@how(max_examples=15, deadline=None, phases=[Phase.generate])  # each starts helm
def test_what_is_given_is_what_the_agent_reads(tmp_path_factory, flat) -> None:
    address = flat.get("listen_address", "")
    if address.startswith("127.") or address in ("localhost", "::1"):
        flat = {key: value for key, value in flat.items() if key != "listen_address"}
    if flat.get("attach_mode") == "perf":
        flat = flat | {"attach_mode": "multi"}
    file = tmp_path_factory.mktemp("given") / "values.json"
    file.write_text(json.dumps({"settings": tree(flat)}, ensure_ascii=False))
    found = loaded(render(files=[file]), file.parent)
    for one in OPEN:
        if one.key in flat:
            part = getattr(found, one.section) if one.section else found
            read = getattr(part, one.name)
            assert (list(read) if isinstance(read, tuple) else read) == flat[one.key], one.key


def test_every_setting_is_a_value_or_decided_by_one() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["definitions"]["settings"]
    shown = set()
    for name, part in schema["properties"].items():
        inner = part.get("properties")
        shown |= {f"{name}_{each}" for each in inner} if inner else {name}
    assert shown == {one.key for one in OPEN}
    assert {one.key for one in catalog()} >= OF_OTHER_VALUES
