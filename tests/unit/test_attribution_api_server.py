"""Reading of answers and streams within bounds, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution.api_server import ANSWER_BYTES, ApiServer, Refused, TooLarge
from gpugauge.attribution.reflector import Reflector
from gpugauge.attribution.watch_json import ErrorStatus, ListPage, Versioned, WatchEvent, decode
from gpugauge.attribution.watch_limits import WatchLimits
from gpugauge.errors import ForeignDataError, UnavailableError


class Canned(ApiServer):
    """A connection that gives these chunks."""

    def __init__(self, chunks):
        self._chunks = chunks
        self._read_seconds = 1.0

    def _stream(self, path, params, read_seconds):
        yield b""
        yield from self._chunks


def cut(data, places):
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a < b]


@given(
    st.lists(st.binary(min_size=1, max_size=30).filter(lambda b: b"\n" not in b and b.strip())),
    st.lists(st.integers(min_value=0), max_size=9),
    st.booleans(),
)
def test_lines_do_not_depend_on_how_the_stream_is_cut(lines, places, ended):
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    accepted, *found = Canned(cut(data, places)).lines("/", {}, limit_bytes=99, silence_seconds=1)
    assert accepted == b""
    assert found == lines


def test_a_line_and_a_body_are_read_up_to_their_limit():
    whole = list(Canned([b"x" * 23, b"\n"]).lines("/", {}, limit_bytes=23, silence_seconds=1))
    assert whole == [b"", b"x" * 23]
    with pytest.raises(TooLarge):
        list(Canned([b"x" * 23, b"x"]).lines("/", {}, limit_bytes=23, silence_seconds=1))
    assert Canned([b"x" * 23]).get("/", {}, limit_bytes=23, seconds=9) == b"x" * 23
    with pytest.raises(TooLarge):
        Canned([b"x" * 23, b"x"]).get("/", {}, limit_bytes=23, seconds=9)
    with pytest.raises(UnavailableError):
        Canned([b"x"]).get("/", {}, limit_bytes=23, seconds=-1)


class Exchanged(Canned):
    """A connection that answers writes with these chunks, or with a status."""

    def __init__(self, chunks=(), status=0):
        super().__init__(chunks)
        self._status = status

    def _exchange(self, method, path, params, read_seconds, *, headers, body=None):
        self.sent = (method, path, headers["Content-Type"], body)
        if self._status:
            raise Refused(self._status, "No.")
        yield from self._stream(path, params, read_seconds)


@pytest.mark.parametrize(
    ("method", "kind"),
    [("POST", "application/json"), ("PATCH", "application/merge-patch+json")],
)
def test_a_write_says_what_it_is_and_returns_the_whole_answer(method, kind):
    server = Exchanged([b"{}"[:1], b"{}"[1:]])
    assert server.write(method, "/x", b"{}", what="events", seconds=9) == b"{}"
    assert server.sent == (method, "/x", kind, b"{}")


def test_an_answer_to_a_write_is_read_up_to_its_limit():
    chunk = b"x" * (1 << 20)
    full = Exchanged([chunk] * (ANSWER_BYTES >> 20))
    assert len(full.write("POST", "/x", b"", what="events", seconds=99)) == ANSWER_BYTES
    with pytest.raises(TooLarge):
        Exchanged([chunk] * 64).write("POST", "/x", b"", what="events", seconds=99)
    with pytest.raises(UnavailableError):
        Exchanged([b"x"]).write("POST", "/x", b"", what="events", seconds=-1)


@pytest.mark.parametrize(("method", "verb"), [("POST", "create"), ("PATCH", "patch")])
def test_a_refused_write_names_the_right_that_is_missing(method, verb):
    with pytest.raises(Refused, match=f"Give the service account `{verb}` on events") as caught:
        Exchanged(status=403).write(method, "/x", b"", what="events", seconds=9)
    assert caught.value.status == 403
    with pytest.raises(Refused, match="HTTP 409 for events") as caught:
        Exchanged(status=409).write(method, "/x", b"", what="events", seconds=9)
    assert caught.value.status == 409


@given(st.binary(max_size=200))
def test_any_envelope_decodes_or_is_refused(data):
    for kind in (ListPage, WatchEvent, Versioned, ErrorStatus):
        try:
            decode(data, kind, "answer")
        except ForeignDataError:
            continue


class Sink:
    def __init__(self):
        self.items = []

    def decode(self, data):
        if bytes(data) == b"23":
            raise ForeignDataError("23 is not an object.")
        return bytes(data)

    def replace(self, items):
        self.items = items

    def put(self, item):
        self.items.append(item)

    def remove(self, item):
        self.items.remove(item)


def test_a_list_of_more_than_a_node_can_have_is_refused():
    sink = Sink()
    limits = WatchLimits(items=5)
    one = Reflector("/api/v1/pods", sink, lambda: Canned([]), limits=limits)
    items = b",".join([b"1"] * 6)
    page = b'{"metadata": {"resourceVersion": "7"}, "items": [' + items + b"]}"
    with pytest.raises(ForeignDataError):
        one._list(Canned([page]))
    assert sink.items == []


@given(st.integers(min_value=0, max_value=90))
def test_waits_grow_to_their_limit_and_stay_there(failures):
    one = Reflector("/api/v1/pods", Sink(), lambda: Canned([]))
    one._failures = failures
    wait = one._backoff(OSError())
    limits = WatchLimits()
    expected = min(limits.backoff_first_seconds * 2**failures, limits.backoff_last_seconds)
    assert expected / 2 <= wait <= expected
