"""The kubelet's messages, decoded from bytes that nobody vouches for."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution import podresources
from gpugauge.attribution.podresources import KubeletClient
from gpugauge.attribution.podresources_messages import MESSAGES
from tests.k8s.fakes.kubelet import Given, list_answer

GPU = "GPU-0a1b2c3d-1111-2222-3333-444455556666"
ANSWER = list_answer(
    [
        Given("ml", "a", "main", {"nvidia.com/gpu": [GPU, f"{GPU}::1"]}),
        Given("ml", "b", "main", claims=[("ml", "c", "gpu.nvidia.com", "node-a", "gpu-0")]),
    ]
)


def devices(data: bytes):
    answer = MESSAGES["ListPodResourcesResponse"].FromString(data)
    return list(KubeletClient()._devices(answer))


def test_the_wire_format_is_read():
    assert [(one.pod, one.device_id, one.claim) for one in devices(ANSWER)] == [
        ("a", GPU, ""),
        ("a", f"{GPU}::1", ""),
        ("b", "node-a/gpu-0", "ml/c"),
    ]


@given(
    st.lists(st.tuples(st.integers(min_value=0, max_value=len(ANSWER) - 1), st.binary(max_size=3)))
)
def test_damaged_answers_decode_within_bounds_or_are_refused(damages):
    data = bytearray(ANSWER)
    for place, change in damages:
        data[place : place + len(change)] = change
    try:
        found = devices(bytes(data))
    except DecodeError:
        return
    for one in found:
        texts = (one.namespace, one.pod, one.container, one.resource, one.device_id, one.claim)
        assert all(len(text) <= 256 and text.isprintable() for text in texts)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(data):
    for message in MESSAGES.values():
        try:
            message.FromString(data)
        except DecodeError:
            continue


def test_more_devices_than_a_node_can_have_are_cut(monkeypatch):
    monkeypatch.setattr(podresources, "DEVICES_LIMIT", 11)
    many = {"nvidia.com/gpu": [f"{GPU}::{n}" for n in range(97)]}
    assert len(devices(list_answer([Given("ml", "a", "main", many)]))) == 11


@pytest.mark.parametrize("name", ["PodResources", "ContainerResources", "DynamicResource"])
def test_fields_that_are_not_named_are_skipped(name):
    unknown = b"\xfa\x01\x03xyz"  # field 31, three bytes
    message = MESSAGES[name].FromString(unknown)
    assert message == MESSAGES[name].FromString(unknown)
    assert not message.ListFields()
