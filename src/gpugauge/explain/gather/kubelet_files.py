"""The kubelet's folder: its socket, the plugins' sockets, its checkpoint."""

from __future__ import annotations

from pathlib import Path

from gpugauge.attribution.podresources import SOCKET_BELOW_KUBELET
from gpugauge.attribution.request_path_kubelet import CHECKPOINT_LIMIT_BYTES, checkpoint
from gpugauge.errors import GpugaugeError, UnavailableError
from gpugauge.explain.evidence import KubeletFacts
from gpugauge.explain.gather.places import Places, folder, read

PLUGINS = "device-plugins"
CHECKPOINT = "kubelet_internal_checkpoint"


def kubelet_facts(places: Places) -> KubeletFacts:
    """Return what the kubelet's folder shows; the checkpoint only where it can be read.

    Raises:
        UnavailableError: there is no such folder: no kubelet, or another root.
    """
    base = places.kubelet
    if folder(base) is None and not places.host(base):
        raise UnavailableError(f"there is no {base}: no kubelet here, or one with another root")
    names = folder(f"{base}/{PLUGINS}")
    if names is None:  # only the socket's folder is mounted in the agent's container
        base = places.host(places.kubelet) or base
        names = folder(f"{base}/{PLUGINS}")
    registered: dict[str, int] | None
    try:
        registered, holders = checkpoint(
            read(f"{base}/{PLUGINS}/{CHECKPOINT}", CHECKPOINT_LIMIT_BYTES)
        )
    except GpugaugeError:
        registered, holders = None, {}
    sockets = None if names is None else [n for n in names if n != "kubelet.sock"]
    return KubeletFacts(
        socket=Path(places.kubelet, SOCKET_BELOW_KUBELET).is_socket(),
        plugin_sockets=None
        if sockets is None
        else tuple(n for n in sockets if n.endswith(".sock") and ("nvidia" in n or "gpu" in n)),
        registered=registered,
        holders={uid: r for uid, r in holders.items() if r.startswith("nvidia.com/")},
    )
