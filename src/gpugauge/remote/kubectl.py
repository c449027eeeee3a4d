"""`kubectl`, as the way to the user's cluster: its files, context, credentials and proxies."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from gpugauge.errors import GpugaugeError, SettingError, UnavailableError
from gpugauge.remote.rights import missing

PROGRAM = "kubectl"
SECONDS = 20.0
REQUEST_SECONDS = 10
PAGE_ITEMS = 250
ITEMS_LIMIT = 20_000
LINE_LIMIT = 500
DEFAULT_NAMESPACE = "default"
_PREFIX = re.compile(r"(?i:error from server \(\w+\): |error: )")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """How kubectl is called; empty fields leave it to kubectl."""

    kubeconfig: str = ""
    context: str = ""

    def command(self, *words: str) -> list[str]:
        """Return a command line."""
        chosen = [
            f"--{name}={value}"
            for name, value in (("kubeconfig", self.kubeconfig), ("context", self.context))
            if value
        ]
        return [PROGRAM, *chosen, *words]

    def namespace(self) -> str:
        """Return the namespace of the context.

        Raises:
            SettingError: there is no such context.
            UnavailableError: kubectl is not there, or answers with an error.
        """
        asked = ("config", "view", "--minify", "--output=jsonpath={..namespace}")
        return self._run(*asked).decode("utf-8", "replace").strip() or DEFAULT_NAMESPACE

    def config(self) -> dict[str, Any]:
        """Return the kubeconfig of the context alone, files merged, with its credentials.

        Raises:
            SettingError: there is no such context.
            UnavailableError: kubectl is not there, or answers with an error.
        """
        words = ("config", "view", "--minify", "--flatten", "--raw", "--output=json")
        found = _json(self._run(*words))
        return found if isinstance(found, dict) else {}

    def get(self, path: str) -> Any:
        """Return one object of the API server.

        Raises:
            MissingRight: the user may not.
            UnavailableError: kubectl or the server does not answer, or with an error.
        """
        return _json(self._run("get", f"--request-timeout={REQUEST_SECONDS}s", "--raw", path))

    def items(self, path: str, **params: str) -> list[Any]:
        """Return the items of a list, page by page.

        Raises:
            MissingRight: the user may not.
            UnavailableError: as `get`.
        """
        found: list[Any] = []
        more = ""
        while len(found) < ITEMS_LIMIT:
            asked = {**params, "limit": str(PAGE_ITEMS), **({"continue": more} if more else {})}
            page = self.get(f"{path}?{urlencode(asked)}")
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise UnavailableError("The API server's answer is no list.")
            found += page["items"]
            meta = page.get("metadata")
            more = str(meta.get("continue") or "") if isinstance(meta, dict) else ""
            if not more:
                break
        return found[:ITEMS_LIMIT]

    def _run(self, *words: str) -> bytes:
        try:
            done = subprocess.run(
                self.command(*words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"kubectl did not answer in {SECONDS:g} s.") from None
        except OSError as error:
            raise not_started(error) from None
        if done.returncode:
            raise failure(done.stderr.decode("utf-8", "replace"))
        return done.stdout


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise UnavailableError("The answer of kubectl is no JSON.") from None


def not_started(error: OSError) -> UnavailableError:
    """Return what to say where kubectl is not there."""
    return UnavailableError(
        f"kubectl could not be started ({error.strerror}).", "Put it on the PATH, or give --agent."
    )


def failure(text: str) -> GpugaugeError:
    """Return what kubectl's complaint means: its last line that is one, cleaned."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.lower().startswith(("error", "unable"))] or lines
    line = (told or ["nothing, and failed"])[-1][:LINE_LIMIT]
    low = line.lower()
    said = "".join(c for c in _PREFIX.sub("", line) if c.isprintable()).rstrip(".?")
    if "forbidden" in low:
        return missing(said)
    if "unauthorized" in low or "must be logged in" in low:
        return UnavailableError(f"The API server does not know you: {said}.", "Log in again.")
    if "context" in low and ("not exist" in low or "cannot locate" in low):
        return SettingError(f"kubectl says: {said}.", "`kubectl config get-contexts` lists them.")
    return UnavailableError(f"kubectl says: {said}.", "Does `kubectl get pods` work?")
