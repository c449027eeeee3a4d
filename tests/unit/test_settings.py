"""Settings: three sources, one order, and one sentence with the next step for what is off."""

from __future__ import annotations

import argparse
import dataclasses
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge import settings
from gpugauge.errors import SettingError
from gpugauge.settings import AttachMode, Settings, Switch, load
from gpugauge.settings.catalog import Setting, catalog
from gpugauge.settings.document import settings_document
from gpugauge.settings.flags import default_text

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"


def get(tree: Settings, setting: Setting) -> Any:
    owner = getattr(tree, setting.section) if setting.section else tree
    return getattr(owner, setting.name)


def other_value(setting: Setting) -> tuple[str, str, Any]:
    """Return a value that is not the default, as text, as TOML, and as it is kept."""
    kind = setting.type
    if kind is bool:
        word = str(not setting.default).lower()
        return word, word, not setting.default
    if kind in (int, float):
        low, high = setting.low, setting.high
        assert low is not None
        assert high is not None
        value = kind(high if setting.default == low else low)
        return str(value), str(value), value
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        value = next(member for member in kind if member is not setting.default)
        return value, f'"{value}"', value
    if kind == tuple[str, ...]:
        return "/a, /b c", '["/a", "/b c"]', ("/a", "/b c")
    if kind is str:
        word = "seven/seven" if setting.form else "seven"
        return word, f'"{word}"', word
    return (
        "NVIDIA H200=3.5,x=y=2",
        '{"NVIDIA H200" = 3.5, "x=y" = 2}',
        {
            "NVIDIA H200": 3.5,
            "x=y": 2.0,
        },
    )


def toml(setting: Setting, value: str) -> str:
    head = f"[{setting.section}]\n" if setting.section else ""
    return f"{head}{setting.name} = {value}\n"


def flags(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    settings.add_flags(parser)
    return parser.parse_args(argv)


def test_the_defaults_are_those_of_the_tree() -> None:
    assert load() == Settings()
    assert Settings().listen.port == 9836


@pytest.mark.parametrize("setting", catalog(), ids=lambda setting: setting.key)
def test_each_setting_from_each_source(setting: Setting, tmp_path: Path) -> None:
    text, written, value = other_value(setting)
    file = tmp_path / "settings.toml"
    file.write_text(toml(setting, written))
    assert value != get(Settings(), setting)
    for made in (
        load({setting.key: text}),
        load(environ={setting.variable: text}),
        load(file=str(file)),
        load(environ={"GPUGAUGE_SETTINGS": str(file)}),
        settings.from_arguments(flags(setting.flag, text), {}),
    ):
        assert get(made, setting) == value
        assert type(get(made, setting)) is type(get(Settings(), setting))
        others = [other for other in catalog() if other is not setting]
        assert all(get(made, other) == get(Settings(), other) for other in others)


@pytest.mark.parametrize("setting", catalog(), ids=lambda setting: setting.key)
def test_each_setting_is_told(setting: Setting) -> None:
    assert len(setting.meaning) > 8, "a docstring below the field"
    assert (setting.low is not None) == (setting.type in (int, float)), "numbers have bounds"
    unit = (
        r"seconds|bytes|port|connections|per_owner|per_node|per_minute|windows|ratio|processes"
        r"|calls|points"
    )
    if setting.type in (int, float):
        assert setting.section == "diagnosis" or re.search(unit, setting.name), "its unit"


def test_the_order_of_sources(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('tick_seconds = 2\nscan_seconds = 2\nnode_name = "file"\n')
    made = load({"tick_seconds": "4"}, {"GPUGAUGE_TICK_SECONDS": "3", "GPUGAUGE_SCAN_SECONDS": "3"},
                str(file))  # fmt: skip
    assert (made.tick_seconds, made.scan_seconds, made.node_name) == (4.0, 3.0, "file")


def test_the_file_of_the_flag_wins_over_that_of_the_variable(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("tick_seconds = 2")
    (tmp_path / "b").write_text("scan_seconds = 7")
    made = load(environ={"GPUGAUGE_SETTINGS": str(tmp_path / "a")}, file=str(tmp_path / "b"))
    assert (made.tick_seconds, made.scan_seconds) == (1.0, 7.0)


def test_sub_tables(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[price.per_gpu_hour]\n"NVIDIA H200" = 3\n[kubernetes]\nmode = "off"\n')
    made = load(file=str(file))
    assert made.price.per_gpu_hour == {"NVIDIA H200": 3.0}
    assert made.kubernetes.mode is Switch.OFF


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("attach_mode", "Session"),
        ("attach_mode", ""),
        ("tick_seconds", "0"),
        ("tick_seconds", "nan"),
        ("tick_seconds", "inf"),
        ("tick_seconds", "1s"),
        ("listen_port", "65536"),
        ("listen_port", "-1"),
        ("listen_port", "9836.0"),
        ("listen_port", "0x10"),
        ("series_launch_threads", "maybe"),
        ("off_switch_config_map", "gpugauge-probes"),
        ("off_switch_config_map", "gpugauge/"),
        ("off_switch_config_map", "Gauge/probes"),
        ("off_switch_config_map", "a/b/c"),
        ("off_switch_config_map", "a.b/c"),
        ("price_per_gpu_hour", "H200"),
        ("price_per_gpu_hour", "=3"),
        ("price_per_gpu_hour", "H200=-1"),
        ("price_per_gpu_hour", "H200=inf"),
        ("node_name", "a\0b"),
        ("node_name", "x" * 5000),
    ],
)
def test_bad_values_are_one_sentence_and_the_next_step(flag: str, value: str) -> None:
    with pytest.raises(SettingError) as refused:
        load({flag: value})
    assert refused.value.sentence.startswith(f"The flag --{flag.replace('_', '-')} is ")
    assert refused.value.next_step.startswith("Give ")
    assert len(str(refused.value)) < 300
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "tick_second = 1",
        "[attach]\nmodus = 1",
        "[attach.mode]\nx = 1",
        "attach = 1",
        'attach = "session"',
        "[attatch]\nmode = 'perf'",
        "tick_seconds = '1'",
        "tick_seconds = true",
        "[listen]\nport = 9836.0",
        "[attach]\nlibraries = '/a'",
        "[attach]\nlibraries = [1]",
        "[series]\nlaunch_threads = 1",
        "[price]\nper_gpu_hour = [1]",
        "[price.per_gpu_hour]\nx = true",
        "tick_seconds = ",
        "\xff",
        "a = " + "[" * 5000,
    ],
)
def test_bad_files(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingError) as refused:
        load(file=str(file))
    assert str(file) in refused.value.sentence
    assert refused.value.next_step


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="No such file"):
        load(file=str(tmp_path / "none"))
    with pytest.raises(SettingError, match="directory"):
        load(file=str(tmp_path))
    large = tmp_path / "large"
    large.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(SettingError, match="larger"):
        load(file=str(large))


def test_a_misspelt_name_is_met_with_the_nearest() -> None:
    with pytest.raises(SettingError, match="Did you mean GPUGAUGE_TICK_SECONDS") as refused:
        load(environ={"GPUGAUGE_TICK_SECOND": "1"})
    assert refused.value.sentence == "The variable GPUGAUGE_TICK_SECOND is not a setting."


def test_variables_of_a_kubernetes_service_are_not_settings() -> None:
    linked = {
        "GPUGAUGE_SERVICE_HOST": "10.0.0.1",
        "GPUGAUGE_SERVICE_PORT": "9836",
        "GPUGAUGE_SERVICE_PORT_METRICS": "9836",
        "GPUGAUGE_PORT": "tcp://10.0.0.1:9836",
        "GPUGAUGE_PORT_9836_TCP": "tcp://10.0.0.1:9836",
        "GPUGAUGE_PORT_9836_TCP_ADDR": "10.0.0.1",
        "GPUGAUGE_API_SERVICE_HOST": "10.0.0.2",
        "GPUGAUGE_LISTEN_PORT": "tcp://10.0.0.3:80",  # a Service named gpugauge-listen
    }
    assert load(environ=linked) == Settings()
    assert load(environ=linked | {"GPUGAUGE_LISTEN_PORT": "7919"}).listen.port == 7919


def test_other_variables_are_not_ours() -> None:
    others = {"GPUGAUGEX": "1", "gpugauge_tick_seconds": "5", "GPUGAUGE_SIM_STATE": "/x"}
    assert load(environ=others) == Settings()
    assert not any(s.variable.startswith("GPUGAUGE_SIM_") for s in catalog())


@given(st.sampled_from(catalog()), st.text(max_size=40))
def test_any_text_is_a_value_or_refused(setting: Setting, text: str) -> None:
    try:
        made = load({setting.key: text})
    except SettingError as error:
        assert error.next_step
        return
    value = get(made, setting)
    if setting.low is not None and setting.high is not None:
        assert setting.low <= value <= setting.high


def test_the_tree_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().tick_seconds = 2.0  # type: ignore[misc]


def test_flags_do_not_guess() -> None:
    assert settings.from_arguments(flags("--attach-mode=perf"), {}).attach.mode is AttachMode.PERF


def test_the_document_has_every_setting() -> None:
    text = settings_document()
    assert text == DOCUMENT.read_text(), "make generate"
    for setting in catalog():
        assert f"`{setting.flag}` | `{setting.variable}`" in text
        assert f"default: `{default_text(setting.default)}`" in text
