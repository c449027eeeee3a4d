"""The build hook of the wheel: puts the compiled BPF objects inside."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BpfBuildHook(BuildHookInterface[Any]):
    """Compiles the BPF programs before the wheel is packed."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Compile, and name the objects as files to pack (git ignores them)."""
        source = Path(self.root) / "tools" / "build_bpf.py"
        spec = importlib.util.spec_from_file_location("build_bpf", source)
        if spec is None or spec.loader is None:
            raise ImportError(f"{source} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for built in module.build():
            build_data["artifacts"].append(f"/{built.relative_to(self.root)}")

    def dependencies(self) -> list[str]:
        """Ask for ziglang only where clang is missing, or not wanted: it is 100 MB."""
        import os
        import shutil

        chosen = os.environ.get("GPUGAUGE_BPF_COMPILER", "")
        clang = chosen != "zig" and shutil.which("clang")
        return [] if clang else ["ziglang>=0.14"]
