"""What an annotation and a ConfigMap say of the probes, whatever bytes they hold."""

from __future__ import annotations

import contextlib
import json
import logging

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution.off_switch import (
    ANNOTATION,
    NODES_KEY,
    PROBES_KEY,
    OffSwitchSink,
    decode_config_map,
    decode_node,
    names_node,
    says_off,
)
from gpugauge.errors import ForeignDataError


def raw(item) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(item).encode())


def node(value=None, name="node-a", **more):
    annotations = {} if value is None else {ANNOTATION: value}
    return raw({"metadata": {"name": name, "annotations": annotations | more}, "status": {}})


def config_map(name="probes", **data):
    return raw({"metadata": {"name": name}, "data": data})


class Told:
    """A sink of a node or a ConfigMap, and how often it told of a change."""

    def __init__(self, kind="node") -> None:
        self.changes = 0
        if kind == "node":
            self.sink = OffSwitchSink("node-a", decode_node, {ANNOTATION: says_off}, self.changed)
        else:
            readers = {PROBES_KEY: says_off, NODES_KEY: lambda text: names_node(text, "node-a")}
            self.sink = OffSwitchSink("probes", decode_config_map, readers, self.changed)

    def changed(self) -> None:
        self.changes += 1

    def put(self, item: msgspec.Raw) -> bool:
        """Let it see an object as a reflector does; return whether probes are off."""
        with contextlib.suppress(ForeignDataError):
            self.sink.put(self.sink.decode(item))
        return self.sink.off

    def replace(self, *items: msgspec.Raw) -> bool:
        kept = []
        for item in items:
            try:
                kept.append(self.sink.decode(item))
            except ForeignDataError:
                continue
        self.sink.replace(kept)
        return self.sink.off


@pytest.mark.parametrize("word", ["off", "OFF", " off\n", "false", "False", "no", "0"])
def test_words_for_off(word):
    assert says_off(word) is True


@pytest.mark.parametrize("word", ["on", "On", "true", "yes", "1"])
def test_words_for_on(word):
    assert says_off(word) is False


@given(st.text(max_size=300))
def test_any_other_text_is_no_word_and_is_shown_on_one_short_line(text):
    try:
        assert says_off(text) is (text.strip().lower() in {"off", "false", "no", "0"})
    except ForeignDataError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 400


def test_an_annotation_switches_off_and_its_absence_on():
    it = Told()
    assert it.replace(node()) is False
    assert it.put(node("off")) is True
    assert it.put(node("off", other="x")) is True
    assert it.changes == 1
    assert it.put(node()) is False
    assert it.put(node("off")) is True
    assert it.put(node("on")) is False
    assert it.changes == 4
    it.put(node("off"))
    it.sink.remove(it.sink.decode(node("off")))
    assert it.sink.off is False
    assert not it.sink.present


def test_a_list_without_the_object_is_on_and_objects_of_other_names_say_nothing():
    it = Told()
    it.replace(node("off"))
    assert it.put(node("on", name="node-b")) is True
    it.sink.remove(it.sink.decode(node(name="node-b")))
    assert it.sink.off is True
    assert it.replace(node("off", name="node-b")) is False
    assert it.replace() is False


@pytest.mark.parametrize("state", ["off", "on", None])
def test_no_word_changes_nothing_is_counted_and_told_once(state, caplog):
    it = Told()
    it.put(node(state))
    before = it.sink.off
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert it.put(node("of")) is before
            assert it.replace(node("of")) is before
        assert it.sink.malformed == 1
        assert len(caplog.messages) == 1
        assert "'of' is neither `on` nor `off`" in caplog.text
        assert it.put(node("nope")) is before  # another try of a person: told again
        assert it.sink.malformed == 2
    it.put(node("off"))
    it.put(node("of"))
    assert it.sink.malformed == 3
    assert it.sink.off is True


BROKEN = [
    b"{",
    b"23",
    b'{"metadata": null}',
    b'{"metadata": {"name": "node-a", "annotations": {"gpugauge.io/probes": false}}}',
    b'{"metadata": {"name": "node-a", "annotations": []}}',
    b'{"metadata": {"name": "probes"}, "data": {"probes": false}}',
    b'{"metadata": {"name": "probes"}, "data": "off"}',
    b"\xff\xfe",
    b"[" * 100_000,
]


@pytest.mark.parametrize("kind", ["node", "config_map"])
def test_an_object_that_cannot_be_read_changes_nothing(kind, caplog):
    it = Told(kind)
    good = node("off") if kind == "node" else config_map(probes="off")
    assert it.put(good) is True
    broken = [each for each in BROKEN if not (kind == "node" and b"data" in each)]
    if kind == "config_map":
        broken = [each for each in broken if b"annotations" not in each or b"[]" in each]
    for number, each in enumerate(broken, 1):
        assert it.put(msgspec.Raw(each)) is True
        assert it.sink.malformed == 2 * number - 1
        assert it.replace(msgspec.Raw(each)) is True  # not taken for a list without it
        assert it.sink.malformed == 2 * number
    assert len([m for m in caplog.messages if "left as it was" in m]) == 1
    assert it.replace() is False


def test_a_config_map_for_all_nodes_and_for_single_ones():
    it = Told("config_map")
    assert it.put(config_map()) is False
    assert it.put(config_map(probes="off")) is True
    assert it.put(config_map(probes="on")) is False
    names = {"off-nodes": "node-b, node-a\nnode-c"}
    assert it.put(config_map(**names)) is True
    assert it.put(config_map(probes="on", **names)) is True
    assert it.put(config_map(**{"off-nodes": "node-b node-aa"})) is False
    assert it.put(config_map(probes="off", **{"off-nodes": ""})) is True
    assert it.put(raw({"metadata": {"name": "probes"}, "data": None})) is False
    assert it.put(raw({"metadata": {"name": "probes"}, "binaryData": {"probes": "b2Zm"}})) is False


def test_each_key_keeps_what_it_said_while_it_says_nonsense():
    it = Told("config_map")
    it.put(config_map(probes="on", **{"off-nodes": "node-a"}))
    assert it.put(config_map(probes="on", **{"off-nodes": "node-b; node_c"})) is True
    assert it.put(config_map(probes="maybe", **{"off-nodes": "node-b"})) is False
    assert it.put(config_map(probes="off", **{"off-nodes": "NODE-A"})) is True
    assert it.sink.malformed == 3


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from(["off"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["metadata", "name", "annotations", "data", ANNOTATION, "probes"])
            | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(ANY | st.binary(max_size=40), max_size=5))
def test_any_bytes_are_read_or_change_nothing(items):
    for kind in ("node", "config_map"):
        it = Told(kind)
        it.put(node("off") if kind == "node" else config_map(probes="off"))
        for item in items:
            data = msgspec.Raw(item) if isinstance(item, bytes) else raw(item)
            before, counted = it.sink.off, it.sink.malformed
            after = it.put(data)
            if it.sink.malformed > counted:
                assert after is before
