"""The way to one agent: its URL, or a forwarded port that is opened when it is needed."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from gpugauge.errors import GpugaugeError, UnavailableError
from gpugauge.remote.agents import AgentPod
from gpugauge.remote.forward import Forward
from gpugauge.remote.kubectl import Kubectl
from gpugauge.remote.page import LIMIT_BYTES, SECONDS, PageError, ask


class Link(Protocol):
    """What can be asked."""

    @property
    def node(self) -> str:
        """The agent's node; "" where only the agent knows."""

    @property
    def where(self) -> str:
        """Which agent it is, for people."""

    @property
    def leads_to(self) -> object:
        """What it was made for: a link to an equal thing is the same."""

    def ask(self, path: str, *, seconds: float = SECONDS, limit_bytes: int = LIMIT_BYTES) -> bytes:
        """Return the body of a page; raises as `page.ask`, and as `Forward.url`."""

    def close(self) -> None:
        """End what was opened for it; the next question opens it again."""

    def end(self) -> None:
        """Close it for good; another thread may be asking."""


class DirectLink:
    """An agent whose URL is known."""

    def __init__(self, url: str, token: bytes | None = None) -> None:
        """Take the URL, and the bearer token where the agent wants one."""
        self.node = ""
        self.where = self.leads_to = url
        self._token = token

    def ask(self, path: str, *, seconds: float = SECONDS, limit_bytes: int = LIMIT_BYTES) -> bytes:
        """Return the body of a page."""
        return ask(self.where, path, self._token, seconds=seconds, limit_bytes=limit_bytes)

    def close(self) -> None:
        """Nothing is open between two questions."""

    def end(self) -> None:
        """Nothing is open between two questions."""


class PodLink:
    """An agent in a pod. One thread asks; `end` may come from another one."""

    def __init__(self, kubectl: Kubectl, agent: AgentPod, token: bytes | None = None) -> None:
        """Take the pod, and the bearer token where the agent wants one."""
        self.node = agent.node
        self.where = f"{agent.namespace}/{agent.name}"
        self.leads_to = agent
        self._kubectl = kubectl
        self._token = token
        self._lock = threading.Lock()
        self._forward: Forward | None = None
        self._ended = False

    def ask(self, path: str, *, seconds: float = SECONDS, limit_bytes: int = LIMIT_BYTES) -> bytes:
        """Return the body of a page, through a port that is forwarded for it if none is."""
        until = time.monotonic() + seconds
        forward = self._open()
        try:
            url = forward.url(seconds)
            return ask(
                url,
                path,
                self._token,
                where=self.where,
                seconds=max(0.001, until - time.monotonic()),
                limit_bytes=limit_bytes,
            )
        except PageError:
            raise
        except GpugaugeError as error:
            complaint = forward.complaint
            self.close()
            if self.leads_to.why_not_ready:
                why = f"its pod {self.where} is not ready ({self.leads_to.why_not_ready})"
                raise UnavailableError(why, f"kubectl -n {self._hint()}") from error
            if complaint:
                raise UnavailableError(f"no agent answers at {self.where} ({complaint})") from error
            raise

    def close(self) -> None:
        """End the forwarding."""
        with self._lock:
            forward, self._forward = self._forward, None
        if forward is not None:
            forward.close()

    def end(self) -> None:
        """End the forwarding, and let none begin."""
        with self._lock:
            self._ended = True
        self.close()

    def _open(self) -> Forward:
        with self._lock:
            old = self._forward
            if old is not None and old.alive:
                return old
            if self._ended:
                raise UnavailableError("interrupted")
            agent = self.leads_to
            self._forward = Forward(self._kubectl, agent.namespace, agent.name, agent.port)
            made = self._forward
        if old is not None:
            old.close()
        return made

    def _hint(self) -> str:
        return f"{self.leads_to.namespace} describe pod {self.leads_to.name}"
