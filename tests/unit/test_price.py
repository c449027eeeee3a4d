"""What a device costs: one price table, shown where a price is known and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gpugauge.export.exposition import Exposition
from gpugauge.settings import PriceSettings, SeriesSettings
from tests.support.snapshots import busy_snapshot

TABLE = {
    "*H200*": 3.5,
    "NVIDIA H200 NVL": 3.1,
    "*H100*": 2.9,
    "NVIDIA H* MIG 1g.*": 0.7,
    "NVIDIA [AB]*": 1.3,
    "*": 0.11,
}


@pytest.mark.parametrize(
    ("model", "mig_profile", "price"),
    [
        ("NVIDIA H200", "", 3.5),
        ("NVIDIA H200 NVL", "", 3.1),  # the exact name wins over the pattern before it
        ("NVIDIA H100 80GB HBM3", "", 2.9),
        ("NVIDIA A100-SXM4-40GB", "", 1.3),
        ("Tesla T4", "", 0.11),
        ("nvidia h200", "", 0.11),  # as NVML spells it
        ("NVIDIA H200", "1g.18gb", 0.7),
        ("NVIDIA H200", "3g.71gb", None),  # a slice never costs what the whole costs
    ],
)
def test_the_first_entry_that_fits_is_the_price(
    model: str, mig_profile: str, price: float | None
) -> None:
    assert PriceSettings(per_gpu_hour=TABLE).of(model, mig_profile) == price


def test_without_a_table_nothing_has_a_price() -> None:
    assert PriceSettings().of("NVIDIA H200") is None


@given(st.text(max_size=200), st.text(max_size=50), st.text(min_size=1, max_size=200))
def test_any_name_and_any_pattern_have_an_answer(model: str, profile: str, pattern: str) -> None:
    assert PriceSettings(per_gpu_hour={pattern: 1.0}).of(model, profile) in (None, 1.0)


def exported(price: PriceSettings | None, **changes: str) -> dict[tuple[str, str], float]:
    """Return the price by device and currency, as a scrape has it."""
    snapshot = busy_snapshot()
    devices = (replace(snapshot.devices[0], **changes), *snapshot.devices[1:])
    exposition = Exposition(SeriesSettings(), price=price)
    exposition.publish(replace(snapshot, devices=devices))
    return {
        (sample.labels["gpu_uuid"], sample.labels["currency"]): sample.value
        for family in text_string_to_metric_families(exposition.text().decode())
        for sample in family.samples
        if sample.name == "gpugauge_device_price_per_hour"
    }


def test_a_device_without_a_price_has_no_series() -> None:
    first, *others = busy_snapshot().devices
    table = PriceSettings(currency="EUR", per_gpu_hour={"*": 2.5})
    assert exported(table) == {(d.uuid, "EUR"): 2.5 for d in (first, *others)}
    assert exported(None) == {}
    assert exported(PriceSettings(per_gpu_hour={"Tesla*": 1.0})) == {}
    only = PriceSettings(per_gpu_hour={"Tesla*": 0.0})  # a price of nothing is a price
    assert exported(only, model="Tesla T4") == {(first.uuid, "USD"): 0.0}


def test_a_mig_instance_does_not_cost_what_its_gpu_costs() -> None:
    first, *others = busy_snapshot().devices
    table = PriceSettings(per_gpu_hour={"*": 2.5})
    found = exported(table, mig_profile="1g.18gb", mig_parent_uuid="GPU-parent")
    assert found == {(d.uuid, "USD"): 2.5 for d in others}
    assert (first.uuid, "USD") not in found
