"""The agent's page about a pod's request for a GPU: what this node and the API server show."""

from __future__ import annotations

import threading
from http import HTTPStatus

from gpugauge.errors import SettingError
from gpugauge.export.exposition import Exposition
from gpugauge.export.http import Answer, Request
from gpugauge.settings import Settings


class ExplainPage:
    """Answers one question at a time: each reads /proc and asks the API server."""

    def __init__(self, settings: Settings, exposition: Exposition) -> None:
        """Take where the newest snapshot is."""
        self._settings = settings
        self._exposition = exposition
        self._busy = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        """Return evidence and report as JSON."""
        # Only here: an agent that nobody asks does without the memory of these.
        from gpugauge.explain import page
        from gpugauge.explain.gather.look import look
        from gpugauge.explain.sources import of_agent

        if not self._busy.acquire(blocking=False):
            return Answer(
                b"another explanation is being made\n", status=HTTPStatus.SERVICE_UNAVAILABLE
            )
        try:
            sources = of_agent(self._settings, lambda: self._exposition.snapshot)
            body = page.answer(request.query, lambda wanted: look(wanted, sources))
        except SettingError as error:
            return Answer(f"{error}\n".encode(), status=HTTPStatus.BAD_REQUEST)
        finally:
            self._busy.release()
        return Answer(body, "application/json")
