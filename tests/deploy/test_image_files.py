"""The files that define the image: the Dockerfile, the pins and the SBOM."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from tools.image_pins import read_pins

from tests.deploy.image_root import IMAGE, ROOT, copy_context, dockerfile

PINNED = ("requirements.txt", "build.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def wanted(file: str) -> list[Requirement]:
    """Return what must be pinned: the agent's own packages and extras, or build.in."""
    extras = PROJECT["optional-dependencies"]
    if file == "requirements.txt":
        lines = PROJECT["dependencies"] + [line for extra in extras.values() for line in extra]
    else:
        lines = [line.partition("#")[0] for line in (IMAGE / "build.in").read_text().splitlines()]
    return [Requirement(line) for line in lines if line.strip()]


@pytest.mark.parametrize("file", PINNED)
def test_everything_is_pinned_with_hashes_of_each_file(file: str) -> None:
    pins = {pin.name: pin for pin in read_pins(IMAGE / file)}
    assert all(pin.hashes for pin in pins.values())
    for requirement in wanted(file):
        pin = pins[requirement.name.lower().replace("_", "-")]
        assert requirement.specifier.contains(pin.version), f"{requirement}: run make pin"
    for pin in pins.values():
        assert set(pin.needed_by) <= pins.keys() | {"gpugauge"}, pin


@pytest.mark.parametrize("file", PINNED)
def test_no_index_is_named(file: str) -> None:
    text = (IMAGE / file).read_text()
    assert not re.search(r"://|^\s*-", text.replace("    --hash=", ""), re.M)
    assert "make pin" in text


@pytest.mark.parametrize(
    "line", ["lightkube", "lightkube>=1", "--index-url x", "-e .", "x @ file:///x", "a==1"]
)
def test_what_is_no_pin_is_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"a==1 \\\n    --hash=sha256:{'0' * 64}\n    # via b\n{line}\n")
    with pytest.raises(ValueError, match="line 4 is no pin with hashes"):
        read_pins(file)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    class Given:
        name = "requirements.txt"

        def read_text(self) -> str:
            return text

    try:
        pins = read_pins(Given())  # type: ignore[arg-type]
    except ValueError:
        return
    assert all(pin.name and pin.version for pin in pins)


def test_the_sbom_is_valid_and_lists_everything_once() -> None:
    text = (IMAGE / "sbom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bom = json.loads(text)
    assert "timestamp" not in bom["metadata"]
    found = [(each.get("scope"), each["name"], each["version"]) for each in bom["components"]]
    assert len(found) == len(set(found))
    for file, scope in (("requirements.txt", "required"), ("build.txt", "excluded")):
        pins = {(scope, pin.name, pin.version) for pin in read_pins(IMAGE / file)}
        assert {each for each in found if each[0] == scope} == pins
    for each in bom["components"]:
        assert each["type"] == "container" or each["licenses"]
    licences = {
        each["name"]: each["licenses"][0]["expression"]
        for each in bom["components"]
        if each["type"] == "file"
    }
    assert len(licences) == 4
    assert set(licences.values()) == {"Apache-2.0 OR GPL-2.0-only"}
    references = {each["bom-ref"] for each in bom["components"]} | {"gpugauge"}
    for each in bom["dependencies"]:
        assert {each["ref"], *each.get("dependsOn", [])} <= references


def test_the_context_holds_what_the_build_needs_and_no_more(tmp_path: Path) -> None:
    copy_context(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    kept = {"bpf", "src", "tools", "deploy", "pyproject.toml", "README.md", "LICENSE"}
    assert names == kept | {".gitignore"}
    assert not [path for path in tmp_path.rglob("*") if path.suffix in {".o", ".pyc"}]
    assert [path.name for path in (tmp_path / "deploy").iterdir()] == ["image"]


def test_the_base_can_be_given_by_digest_and_names_no_host() -> None:
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", dockerfile(), re.M)
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", base)
    froms = re.findall(r"^FROM (\S+)", dockerfile(), re.M)
    assert froms == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}", "scratch"]


def test_it_starts_the_agent_as_root() -> None:
    text = dockerfile()
    assert re.findall(r"^USER (.*)$", text, re.M) == ["0:0"]
    assert re.findall(r"^CMD (.*)$", text, re.M) == ['["run"]']
    assert re.findall(r"^EXPOSE (.*)$", text, re.M) == ["9836"]
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in text
    assert f'image.description="{PROJECT["description"]}"' in text
    assert f'image.licenses="{PROJECT["license"]}"' in text
