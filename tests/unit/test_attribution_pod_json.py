"""What is kept of a pod, and what any bytes do."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution.pod_json import decode_namespace, decode_pod
from gpugauge.attribution.pod_view import Container, Pod
from gpugauge.attribution.resource_slices import decode_slice
from gpugauge.errors import ForeignDataError
from tests.k8s.fakes.objects import (
    container_id,
    namespace,
    pod,
    pod_uid,
    resource_slice,
    static_pod,
    status,
)

GPU = "GPU-0a1b2c3d-1111-2222-3333-444455556666"


def encoded(item):
    return json.dumps(item).encode()


def test_what_is_kept():
    made = pod(
        "web-6d4-abcde",
        containers=[
            status("main", container_id("now"), previous=container_id("before")),
            status("side", state="waiting"),
        ],
        init=[status("setup", container_id("init"), state="terminated")],
        ephemeral=[status("debugger", container_id("debug"))],
        labels={"pod-template-hash": "6d4"},
        owner=("ReplicaSet", "web-6d4"),
    )
    assert decode_pod(encoded(made)) == Pod(
        uid=pod_uid("ml/web-6d4-abcde"),
        namespace="ml",
        name="web-6d4-abcde",
        workload="web",
        workload_kind="Deployment",
        containers=(
            Container("main", container_id("now"), container_id("before"), "app", True),
            Container("side", "", "", "app", False),
            Container("setup", container_id("init"), "", "init", False),
            Container("debugger", container_id("debug"), "", "ephemeral", True),
        ),
    )


@pytest.mark.parametrize(
    ("value", "traced"), [("off", False), (" OFF ", False), ("on", True), ("", True)]
)
def test_opting_out(value, traced):
    marks = {"gpugauge.io/trace": value}
    assert decode_pod(encoded(pod("a", annotations=marks))).traced is traced
    assert decode_namespace(encoded(namespace("ml", marks))) == ("ml", not traced)


@pytest.mark.parametrize(
    ("phase", "terminal"), [("Running", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_that_ended_is_terminal(phase, terminal):
    assert decode_pod(encoded(pod("a", phase=phase))).terminal is terminal


def test_a_static_pod_is_known_by_its_hash():
    found = decode_pod(encoded(static_pod("etcd-node-a", "8e33146c8d0ab8d3a0e1c3f7c6a4d9b2")))
    assert found.config_hash == "8e33146c8d0ab8d3a0e1c3f7c6a4d9b2"
    assert (found.workload, found.workload_kind) == ("etcd-node-a", "Pod")


def test_nulls_are_absent_values():
    text = b"""{"metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": null,
        "annotations": null, "ownerReferences": null}, "status": null}"""
    assert decode_pod(text).containers == ()


def test_hamis_annotation_is_kept_in_bounds():
    marks = {"hami.io/vgpu-devices-allocated": f"{GPU},NVIDIA,1,1:;" + "x" * 9000}
    assert len(decode_pod(encoded(pod("a", annotations=marks))).hami_devices) == 4096


def test_control_characters_are_taken_out_of_names():
    made = pod("a", containers=[status("ma\x1b[31min\n", container_id("x"))])
    assert decode_pod(encoded(made)).containers[0].name == "ma[31min"


@pytest.mark.parametrize("old", [False, True])
def test_slices_of_either_version(old):
    name, uuids = decode_slice(encoded(resource_slice("s", {"gpu-0": GPU, "gpu-1": "x"}, old=old)))
    assert name == "s"
    assert uuids == {("gpu.nvidia.com", "node-a/gpu-0"): GPU}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "status",
                    "name",
                    "uid",
                    "labels",
                    "containerStatuses",
                    "state",
                    "spec",
                ]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.one_of(st.binary(max_size=400), JSON.map(encoded)))
def test_any_bytes_decode_or_are_refused(data):
    for decode in (decode_pod, decode_namespace, decode_slice):
        try:
            decode(data)
        except ForeignDataError:
            continue


@given(JSON, st.sampled_from(["metadata", "status", "spec"]))
def test_a_pod_with_one_wrong_part_decodes_or_is_refused(value, part):
    made = pod("a")
    made[part] = value
    try:
        assert decode_pod(encoded(made)).name
    except ForeignDataError:
        return


def test_deep_nesting_is_refused():
    with pytest.raises(ForeignDataError):
        decode_pod(b'{"metadata":' + b"[" * 100_000)
    decode_pod(encoded(pod("a")))
