"""The messages of the kubelet's PodResources v1, as far as they are read.

Names and numbers are those of `k8s.io/kubelet/pkg/apis/podresources/v1` (stable
since Kubernetes 1.20, `dynamic_resources` since 1.27). They are described here,
not generated, so that no generated file ties the agent to one protobuf release;
fields that are not named are skipped. protobuf is imported only where the kubelet is asked.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1"
SERVICE = "/v1.PodResourcesLister/"

# Message -> (field, number, type): `string`, `string[]` or the name of a message, repeated.
_MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "ListPodResourcesRequest": (),
    "AllocatableResourcesRequest": (),
    "ListPodResourcesResponse": (("pod_resources", 1, "PodResources"),),
    "AllocatableResourcesResponse": (("devices", 1, "ContainerDevices"),),
    "PodResources": (
        ("name", 1, "string"),
        ("namespace", 2, "string"),
        ("containers", 3, "ContainerResources"),
    ),
    "ContainerResources": (
        ("name", 1, "string"),
        ("devices", 2, "ContainerDevices"),
        ("dynamic_resources", 5, "DynamicResource"),
    ),
    "ContainerDevices": (("resource_name", 1, "string"), ("device_ids", 2, "string[]")),
    "DynamicResource": (
        ("claim_name", 2, "string"),
        ("claim_namespace", 3, "string"),
        ("claim_resources", 4, "ClaimResource"),
    ),
    "ClaimResource": (
        ("driver_name", 2, "string"),
        ("pool_name", 3, "string"),
        ("device_name", 4, "string"),
    ),
}


def _build() -> dict[str, Any]:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="gpugauge/podresources_v1.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number)
            added.label = kinds.LABEL_OPTIONAL if kind == "string" else kinds.LABEL_REPEATED
            if kind.startswith("string"):
                added.type = kinds.TYPE_STRING
            else:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    # A pool of its own: another package may have registered the kubelet's real file.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in _MESSAGES
    }


MESSAGES: dict[str, Any] = _build()
"""Message classes by name."""
