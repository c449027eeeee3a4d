"""The settings of a run: flags, variables and a TOML file, into one frozen tree."""

from gpugauge.settings.diagnosis import DiagnosisSettings
from gpugauge.settings.flags import add_flags, from_arguments
from gpugauge.settings.kubernetes import (
    LoadScoreSettings,
    OffSwitchSettings,
    PodEventSettings,
)
from gpugauge.settings.load import load
from gpugauge.settings.price import PriceSettings
from gpugauge.settings.tree import (
    AttachMode,
    AttachSettings,
    DemoSettings,
    HistorySettings,
    KubernetesSettings,
    ListenSettings,
    LogLevel,
    SeriesSettings,
    Settings,
    Switch,
)

__all__ = [
    "AttachMode",
    "AttachSettings",
    "DemoSettings",
    "DiagnosisSettings",
    "HistorySettings",
    "KubernetesSettings",
    "ListenSettings",
    "LoadScoreSettings",
    "LogLevel",
    "OffSwitchSettings",
    "PodEventSettings",
    "PriceSettings",
    "SeriesSettings",
    "Settings",
    "Switch",
    "add_flags",
    "from_arguments",
    "load",
]
