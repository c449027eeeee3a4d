"""What a GPU costs: the one price table, for the metric and for the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

_MIG = " MIG "
"""Between the model and the profile in NVML's name of a MIG instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSettings:
    """What a GPU costs, so that waste can be shown as money. Empty: no money is shown."""

    currency: str = "USD"
    """Written beside amounts; nothing is converted."""
    per_gpu_hour: Mapping[str, float] = field(default_factory=dict)
    """Price of one GPU for one hour, by its model name as `gpugauge_device_info` shows it, or by
    a pattern of it (`*H200*`). The exact name wins, then the first pattern in the order written.
    A MIG instance has a price only by an entry of its own, `NVIDIA H200 MIG 1g.18gb` or
    `*H200 MIG 1g.*`, because a slice does not cost what the whole GPU costs."""

    def of(self, model: str, mig_profile: str = "") -> float | None:
        """Return the price of one device for one hour, None where none is known.

        Args:
            model: As NVML names it; of a MIG instance, that of its GPU.
            mig_profile: Of a MIG instance, `1g.18gb`; "" for a whole GPU.
        """
        name = f"{model}{_MIG}{mig_profile}" if mig_profile else model
        if name in self.per_gpu_hour:
            return self.per_gpu_hour[name]
        for pattern, price in self.per_gpu_hour.items():
            if (_MIG in pattern) is bool(mig_profile) and fnmatchcase(name, pattern):
                return price
        return None
