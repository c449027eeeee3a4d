"""A cluster from Prometheus: the exported series, asked for over a range, as snapshots again.

So the same rules serve a node, a recording and a cluster. What is not exported, above all
single processes, is not there: the rules then say what they lacked.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from gpugauge.diagnosis.exported import METRICS, Table, snapshots_of
from gpugauge.errors import ForeignDataError, UnavailableError
from gpugauge.model.snapshot import Snapshot

STEP_SECONDS = 15
TIMEOUT_SECONDS = 20.0
LIMIT_BYTES = 128 * 1024 * 1024
LIMIT_SERIES = 200_000
LIMIT_VALUE = 1e18
"""Everything exported is from 0 to here; NaN and infinity are not values."""
LIMIT_POINTS = 11_000
"""What Prometheus itself allows a query_range."""

Fetch = Callable[[str], bytes]


def cluster_snapshots(
    url: str, end_seconds: float, range_seconds: float, fetch: Fetch | None = None
) -> dict[str, Iterator[Snapshot]]:
    """Return snapshots of each node, oldest first.

    Args:
        url: of Prometheus, `http://prometheus:9090`.
        end_seconds: Unix time up to which to ask.
        range_seconds: how far back.
        fetch: returns the body of a URL; for tests.

    Raises:
        UnavailableError: Prometheus does not answer, or refuses the query.
        ForeignDataError: the answer is not one of Prometheus, or beyond a bound.
    """
    if not url.startswith(("http://", "https://")):
        raise UnavailableError(f"{url[:120]} is not an http(s) URL.", "Give http://HOST:9090.")
    if range_seconds / STEP_SECONDS > LIMIT_POINTS:
        raise UnavailableError(
            f"{range_seconds / 3600:.0f} h are more than Prometheus answers at a step of "
            f"{STEP_SECONDS} s.",
            "Ask for less with --since.",
        )
    get = fetch or _get
    table: Table = {}
    for name in METRICS:
        query = {
            "query": f"gpugauge_{name}",
            "start": f"{end_seconds - range_seconds:.3f}",
            "end": f"{end_seconds:.3f}",
            "step": str(STEP_SECONDS),
        }
        body = get(f"{url.rstrip('/')}/api/v1/query_range?{urllib.parse.urlencode(query)}")
        table[name] = list(_matrix(body))
    return snapshots_of(table, STEP_SECONDS)


def _matrix(body: bytes) -> Iterator[tuple[dict[str, str], list[tuple[float, float]]]]:
    """Yield (labels, points) of an answer of query_range."""
    try:
        answer = json.loads(body)
        if answer["status"] != "success":
            why = str(answer.get("error", "no reason"))[:200]
            raise UnavailableError(f"Prometheus refused the query: {why}.", "Check its version.")
        result = answer["data"]["result"]
        if answer["data"]["resultType"] != "matrix" or len(result) > LIMIT_SERIES:
            raise ValueError
        for series in result:
            labels = {str(k)[:256]: str(v)[:1024] for k, v in series["metric"].items()}
            points = [_point(pair) for pair in series["values"][: LIMIT_POINTS + 1]]
            yield labels, [(t, v) for t, v in points if 0 <= v < LIMIT_VALUE]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ForeignDataError(
            "The answer is not one of Prometheus' query_range.",
            "Check that the URL is Prometheus itself, not a page before it.",
        ) from error


def _point(pair: Any) -> tuple[float, float]:
    time, value = pair
    if not isinstance(value, str) or len(value) > 64 or type(time) not in (int, float):
        raise ValueError
    if not 0 <= time < LIMIT_VALUE:  # also refuses NaN
        raise ValueError
    return float(time), float(value)


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - http(s)
            body: bytes = answer.read(LIMIT_BYTES + 1)
    except urllib.error.HTTPError as error:
        body = error.read(LIMIT_BYTES)  # Prometheus says why in JSON, with status 400
        if not body.startswith(b"{"):
            raise UnavailableError(
                f"Prometheus answered {error.code} {error.reason}.", "Check the URL."
            ) from error
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"Prometheus cannot be reached: {getattr(error, 'reason', error)}.",
            "Check the URL, or forward its port with kubectl.",
        ) from error
    if len(body) > LIMIT_BYTES:
        raise ForeignDataError(
            f"An answer is over {LIMIT_BYTES} bytes.", "Ask for less with --since or --pod."
        )
    return body
