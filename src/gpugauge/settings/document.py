"""docs/settings.md, written from the tree."""

from __future__ import annotations

from gpugauge.settings.catalog import catalog, sections
from gpugauge.settings.flags import default_text
from gpugauge.settings.values import expected

HEAD = """\
# Settings

Written from `src/gpugauge/settings/` by `make generate`.

A setting can come from a flag, an environment variable or a TOML file
(`--settings FILE`, or `GPUGAUGE_SETTINGS`). A flag wins over a variable, and both win over
the file. An unknown name is an error. Units are part of the names.

```toml
tick_seconds = 1.0

[attach]
mode = "auto"

[price.per_gpu_hour]
"NVIDIA H200" = 3.5
```
"""


def settings_document() -> str:
    """Return docs/settings.md."""
    lines = [HEAD]
    section = None
    for setting in catalog():
        if setting.section != section:
            section = setting.section
            summary = (sections()[section].__doc__ or "").strip() if section else "At the top."
            lines.append(f"## {f'`[{section}]`' if section else 'General'}\n\n{summary}\n")
        lines.append(
            f"### `{setting.name}`\n\n"
            f"`{setting.flag}` | `{setting.variable}` | {expected(setting)} | "
            f"default: `{default_text(setting.default)}`\n\n{setting.meaning}\n"
        )
    return "\n".join(lines)
