"""Whose a number is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

UNKNOWN = "unknown"


class Scope(StrEnum):
    """Where a process belongs."""

    POD = "pod"
    HOST = "host"
    CONTAINER = "container"
    """In a container, outside Kubernetes or not yet resolved to a pod."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a process: all label values a series of it carries.

    Empty strings for host processes; UNKNOWN where it could not be resolved.
    """

    scope: Scope
    namespace: str = ""
    pod: str = ""
    container: str = ""
    workload: str = ""
    workload_kind: str = ""
    pod_uid: str = ""
    container_id: str = ""
    reason: str = ""
    """Why it is unknown."""
    traced: bool = True
    """False for a pod that opted out: its calls are not counted."""
    pending: bool = field(default=False, compare=False)
    """The pods' list is to come, or its next change may name it: ask again before it is final."""


HOST = Owner(Scope.HOST)
NOBODY = Owner(Scope.UNKNOWN, reason="not looked up yet")
