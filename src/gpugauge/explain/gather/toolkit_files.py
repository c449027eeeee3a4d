"""The container toolkit: configurations of the runtimes, CDI specifications, validations."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from gpugauge.discovery.names import clean
from gpugauge.explain.evidence import ToolkitFacts
from gpugauge.explain.gather.places import Places, text

RUNTIME_CONFIGS = (
    "/etc/containerd/config.toml",
    "/etc/containerd/conf.d",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/var/snap/microk8s/current/args/containerd.toml",
    "/etc/k0s/containerd.d",
    "/etc/crio/crio.conf",
    "/etc/crio/crio.conf.d",
)
TOOLKIT_CONFIGS = (
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
)
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
VALIDATIONS = "/run/nvidia/validations"
MPS = "/run/nvidia/mps"
FILES_LIMIT = 64
FILE_LIMIT_BYTES = 4 << 20

_HANDLER = re.compile(r"runtimes\.[\"']?nvidia[\"'\]. ]")
_DEFAULT = re.compile(r"^\s*default_runtime(?:_name)?\s*=\s*[\"']nvidia[\"']", re.MULTILINE)
_KIND = re.compile(r"^[\"']?kind[\"']?\s*:\s*[\"']?([\w./-]{1,128})", re.MULTILINE)
_NAMED = re.compile(r"^\s*-?\s*[\"']?name[\"']?\s*:\s*[\"']?[\w.:-]{1,128}", re.MULTILINE)


def toolkit_facts(places: Places) -> ToolkitFacts:
    """Return what the toolkit left on the node."""
    runtimes = dict(_texts(places, RUNTIME_CONFIGS, ".toml", ".conf"))
    specs = {
        name: body
        for name, body in _texts(places, CDI_FOLDERS, ".yaml", ".yml", ".json")
        if "nvidia" in body
    }
    parsed = {name: specification(body) for name, body in specs.items()}
    toolkit = _toolkit(places)
    section = toolkit.get("nvidia-container-runtime")
    given = toolkit.get("accept-nvidia-visible-devices-envvar-when-unprivileged", True)
    return ToolkitFacts(
        runtime_configs=tuple(runtimes),
        nvidia_handler=any(_HANDLER.search(t) for t in runtimes.values()) if runtimes else None,
        nvidia_default=any(_DEFAULT.search(t) for t in runtimes.values()),
        toolkit_mode=clean(str(section.get("mode", ""))) if isinstance(section, dict) else "",
        unprivileged_env=bool(given) if toolkit else None,
        cdi_files=tuple(parsed),
        cdi_kinds=tuple(sorted({kind for kind, _ in parsed.values()} - {""})),
        cdi_devices=sum(count for _, count in parsed.values()),
        validations=places.names(VALIDATIONS),
        mps_folder=bool(places.host(MPS)),
    )


def specification(body: str) -> tuple[str, int]:
    """Return the kind of a CDI specification and how many devices it names."""
    try:
        plain = json.loads(body)
        devices = plain.get("devices") or []
        return clean(str(plain.get("kind", ""))), len(devices)
    except (ValueError, AttributeError, TypeError, RecursionError):
        kind = _KIND.search(body)
        below = re.split(r"^[\"']?devices[\"']?\s*:", body, maxsplit=1, flags=re.MULTILINE)
        listed = re.split(r"^\w", below[1], maxsplit=1, flags=re.MULTILINE)[0] if below[1:] else ""
        return (kind[1] if kind else ""), len(_NAMED.findall(listed))


def _toolkit(places: Places) -> dict[str, Any]:
    for _, body in _texts(places, TOOLKIT_CONFIGS, ".toml"):
        try:
            return tomllib.loads(body)
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
    return {}


def _texts(places: Places, paths: tuple[str, ...], *endings: str) -> list[tuple[str, str]]:
    """Return (path on the host, content) of files, and of the files in folders, once each."""
    found: dict[str, tuple[str, str]] = {}
    for path in paths:
        names = places.names(path)
        inside = [path] if names is None else [f"{path}/{n}" for n in names if n.endswith(endings)]
        for one in inside[:FILES_LIMIT]:
            real = places.host(one)
            body = text(real, FILE_LIMIT_BYTES) if real else ""
            if body:
                found.setdefault(real, (one, body))
    return list(found.values())
