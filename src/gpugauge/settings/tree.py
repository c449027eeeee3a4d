"""Every setting, once: its type, default, unit (in its name), meaning and reason.

A setting `mode` of the section `attach` is the flag `--attach-mode`, the
variable `GPUGAUGE_ATTACH_MODE`, and `mode` under `[attach]` in a settings file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpugauge.settings.diagnosis import DiagnosisSettings
from gpugauge.settings.fields import bounded
from gpugauge.settings.kubernetes import (
    LoadScoreSettings,
    OffSwitchSettings,
    PodEventSettings,
)
from gpugauge.settings.price import PriceSettings


class AttachMode(StrEnum):
    """How probes are attached."""

    AUTO = "auto"
    SESSION = "session"
    MULTI = "multi"
    PERF = "perf"


class Switch(StrEnum):
    """On, off, or on where it is found."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"

    @property
    def wanted(self) -> bool | None:
        """True, False, or None for where it is found."""
        return {"on": True, "off": False}.get(self.value)


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachSettings:
    """Where and how probes go into the driver library."""

    mode: AttachMode = AttachMode.AUTO
    """`session` needs Linux 6.13, `multi` 6.6, `perf` 5.15 and attaches a core set of at most
    40 functions. `auto` takes the first one that works, because a mode is tried, not guessed
    from the version."""
    libraries: tuple[str, ...] = ()
    """Paths of driver libraries to attach to, and no others. Empty: those found on this node,
    which is right unless the library lies where no search looks."""
    driver_roots: tuple[str, ...] = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia")
    """Folders under which the host's driver is looked for: the host itself, the driver
    container of the GPU Operator, and GKE's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenSettings:
    """The HTTP server."""

    address: str = "0.0.0.0"  # noqa: S104 - /metrics is meant for the pod network
    """Address to listen on. /metrics, /healthz and /readyz answer everybody who can reach it;
    everything else answers loopback only, unless `bearer_token_file` is set."""
    port: int = bounded(9836, 0, 65535)
    """TCP port; 0 lets Linux choose one, which is logged."""
    bearer_token_file: str = ""
    """File with a token. With it, the API and the page answer any peer that sends
    `Authorization: Bearer TOKEN`, and nobody else. A file and not a value, so that it is not
    seen in a process list."""
    connections: int = bounded(16, 1, 256)
    """Connections served at a time; one peer gets a quarter of them, so that a slow one
    does not shut the others out."""
    timeout_seconds: float = bounded(5.0, 0.1, 60.0)
    """How long one request may take to arrive, and one answer to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSettings:
    """How many series are exported, and for how long."""

    per_owner: int = bounded(60, 40, 1000)
    """At most so many for one container on one device; what is left out is counted in
    `gpugauge_agent_series_dropped`. 60 keeps a node of 8 GPUs and 100 pods affordable."""
    per_node: int = bounded(20_000, 100, 1_000_000)
    """At most so many for all workloads of the node; owners that came later are added up in
    one owner named `other`."""
    retire_seconds: float = bounded(300.0, 15.0, 86_400.0)
    """How long the series of an ended pod are still exported: some scrapes, so that its last
    counts arrive."""
    launch_threads: bool = False
    """Also export `gpugauge_launch_threads_total`, the GPU threads launched. Off, because
    few need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """What the agent remembers for diagnosis."""

    bytes: int = bounded(20 * 1024 * 1024, 1024 * 1024, 1024 * 1024 * 1024)
    """Memory for snapshots kept: the last 10 minutes at every tick, then an hour at 15 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Where pods and their devices are learned from."""

    mode: Switch = Switch.AUTO
    """`auto` asks the API server and the kubelet where a service account or a kubelet socket
    is found; `on` reports it as an error where there is none; `off` never asks."""
    kubelet_path: str = "/var/lib/kubelet"
    """The kubelet's root folder, with `pod-resources/kubelet.sock` in it."""
    kubeconfig: str = ""
    """Path of a kubeconfig. Empty: the pod's service account, which is right in a cluster; a
    kubeconfig is for an agent that runs outside a pod."""
    gpu_resources: tuple[str, ...] = ("nvidia.com/",)
    """Names of resources that are GPUs, or what their names begin with. Device plugins can give
    theirs another name; without it here nobody seems to have been given a device."""
    dra_drivers: tuple[str, ...] = ("gpu.nvidia.com",)
    """Drivers of dynamic resource allocation (DRA) whose devices are GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """`gpugauge demo`."""

    libraries: str = "build/sim"
    """Folder of the simulated driver libraries, as `make sim` builds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one run."""

    tick_seconds: float = bounded(1.0, 0.1, 60.0)
    """How often the counters are read. A second is far below any scrape interval and costs
    the same whatever the call rate. A full node is read up to every 5 s while nobody asks."""
    scan_seconds: float = bounded(3.0, 0.5, 300.0)
    """How often /proc is searched for processes that map a driver library nobody probes yet.
    Events find most of them sooner; the scan finds what events lost."""
    node_name: str = ""
    """The node as Kubernetes names it. Empty: the host's name."""
    log_level: LogLevel = LogLevel.INFO
    """Lines below it are not written. Lines go to standard error."""
    attach: AttachSettings = field(default_factory=AttachSettings)
    listen: ListenSettings = field(default_factory=ListenSettings)
    series: SeriesSettings = field(default_factory=SeriesSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    off_switch: OffSwitchSettings = field(default_factory=OffSwitchSettings)
    pod_events: PodEventSettings = field(default_factory=PodEventSettings)
    load_score: LoadScoreSettings = field(default_factory=LoadScoreSettings)
    price: PriceSettings = field(default_factory=PriceSettings)
    demo: DemoSettings = field(default_factory=DemoSettings)
    diagnosis: DiagnosisSettings = field(default_factory=DiagnosisSettings)
