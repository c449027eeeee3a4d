"""Many agents, asked at the same time: so many at once, each with its own time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeVar

from gpugauge.errors import GpugaugeError
from gpugauge.remote.link import Link

T = TypeVar("T")
AT_ONCE = 8
"""A forwarded port is a process of 50 MiB."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What one agent answered, or why it did not."""

    link: Link
    value: T | None = None
    error: GpugaugeError | None = None


class Fleet:
    """Links to agents, until it is closed."""

    def __init__(self, links: Iterable[Link], at_once: int = AT_ONCE) -> None:
        """Take the links; nothing is opened yet."""
        self.links = tuple(links)
        self._at_once = at_once
        self._pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="agent")

    def __enter__(self) -> Fleet:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def follow(self, links: Iterable[Link]) -> None:
        """Go on with these links; those to the same agents stay as they are."""
        had = {link.leads_to: link for link in self.links}
        wanted = {link.leads_to: link for link in links}
        # Before any is ended: close() ends what is in `links`.
        self.links = tuple(had.get(agent, link) for agent, link in wanted.items())
        for agent, link in had.items():
            if agent not in wanted:
                link.end()

    def each(self, question: Callable[[Link], T]) -> list[Answer[T]]:
        """Return every agent's answer, in the order of the links.

        A link stays open for the next round where all of them may be open at once.
        """
        keep = len(self.links) <= self._at_once

        def one(link: Link) -> Answer[T]:
            try:
                return Answer(link, question(link))
            except GpugaugeError as error:
                return Answer(link, error=error)
            finally:
                if not keep:
                    link.close()

        if len(self.links) == 1:
            return [one(self.links[0])]  # here, where ^C arrives
        return list(self._pool.map(one, self.links))

    def close(self) -> None:
        """End everything that was opened, also what is being asked just now."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for link in self.links:
            link.end()
        self._pool.shutdown(wait=True)
