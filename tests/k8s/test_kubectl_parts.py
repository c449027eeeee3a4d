"""The parts of `kubectl gpugauge`: foreign bytes and names, tables, terminals, figures."""

from __future__ import annotations

import contextlib
import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution.api_server import ApiServer
from gpugauge.cli.terminal import screen as screens
from gpugauge.cli.terminal.colour import Colour, colour_for
from gpugauge.cli.terminal.screen import Screen
from gpugauge.cli.terminal.table import Column, cut, table, visible, width
from gpugauge.cli.top import cells
from gpugauge.errors import GpugaugeError, UnavailableError
from gpugauge.model.finding import Severity
from gpugauge.remote import agents, cluster
from gpugauge.remote.kubectl import Kubectl, failure
from gpugauge.remote.rights import MissingRight, missing
from tests.k8s.fakes.api_server import PODS, FakeApiServer
from tests.k8s.gauges import agent_pod
from tests.k8s.kubectl import use_kubectl

NASTY = st.text(st.characters() | st.sampled_from("\x1b[]\u202e\u0301日本\t\n\x9b…\U0001f680"))
COLUMNS = (
    Column(head="NAME", least=8),
    Column(head="MORE", least=6, rank=3),
    Column(head="N", right=True),
    Column(head="LAST", rank=2),
)


# ---- tables --------------------------------------------------------------------


@given(st.lists(st.tuples(NASTY, NASTY, st.integers(0, 9999), NASTY)), st.integers(20, 200))
def test_a_table_of_any_names_is_no_wider_than_the_screen(rows: Any, room: int) -> None:
    lines = table(COLUMNS, [[a, b, str(n), c] for a, b, n, c in rows], room)
    assert len(lines) == len(rows) + 1
    for line in lines:
        assert width(line) <= room
        assert line.isprintable()


@given(NASTY, st.integers(0, 40))
def test_a_name_is_cut_in_its_middle(text: str, room: int) -> None:
    text = visible(text)
    fitted = cut(text, room)
    assert width(fitted) <= room
    assert fitted == text if width(text) <= room else len(fitted) <= room


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghij", 9, "abcd…ghij"),
        ("abcdefghij", 4, "ab…j"),
        ("abcdefghij", 1, "…"),
        ("abcdefghij", 0, ""),
        ("日本語", 5, "日…語"),
        ("日本語", 4, "日…"),
    ],
)
def test_cut(text: str, room: int, shown: str) -> None:
    assert cut(text, room) == shown


def test_the_least_important_columns_go_first() -> None:
    rows = [["a-name-of-a-pod", "container", "7", "finding"]]
    heads = {room: table(COLUMNS, rows, room)[0].split() for room in (40, 27, 18, 12)}
    assert heads[40] == ["NAME", "MORE", "N", "LAST"]
    assert heads[27] == ["NAME", "MORE", "N", "LAST"]
    assert heads[18] == ["NAME", "N", "LAST"]
    assert heads[12] == ["NAME", "N"]


# ---- figures -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, "?"), (0.0, "0"), (0.034, "0.034"), (9.94, "9.9"), (9.96, "10"), (1234.4, "1,234"),
        (99_999.4, "99,999"), (99_999.6, "100k"), (999_499, "999k"), (999_501, "1M"),
        (15_485_863, "15.5M"), (982_451_653, "982M"),
    ],
)  # fmt: skip
def test_rates(number: float | None, shown: str) -> None:
    assert cells.count(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, "?"), (0, "0"), (999, "999"), (1000, "0.977Ki"), (1 << 20, "1Mi"),
        (123_456_789, "118Mi"), (143_771_000_000, "134Gi"), (1 << 41, "2Ti"),
    ],
)  # fmt: skip
def test_sizes(number: float | None, shown: str) -> None:
    assert cells.size(number) == shown


def test_two_sizes_share_a_unit_and_what_is_not_known_stays_so() -> None:
    assert cells.sizes(5_915_587_277, 3_367_900_313) == "5.51/3.14Gi"
    assert cells.sizes(None, 3_367_900_313) == "?/3.14Gi"
    assert cells.sizes(None, None) == "?"
    assert cells.sizes(0, 0) == "0/0"


@given(st.floats(0, 1e18))
def test_no_figure_is_wide(number: float) -> None:
    assert len(cells.count(number % 1e12)) <= 8
    assert len(cells.size(number)) <= 8


# ---- the terminal --------------------------------------------------------------


def test_colour_is_for_terminals_whose_user_wants_it() -> None:
    assert colour_for(True, {"TERM": "xterm"}).on
    assert colour_for(True, {"NO_COLOR": ""}).on  # https://no-color.org: when not empty
    for terminal, environ in ((False, {}), (True, {"NO_COLOR": "1"}), (True, {"TERM": "dumb"})):
        assert not colour_for(terminal, environ).on
    assert Colour(False).severity(Severity.CRITICAL, "x") == "x"
    assert Colour(True).severity(Severity.CRITICAL, "x") == "\x1b[1;31mx\x1b[0m"


def test_a_terminal_is_drawn_over_and_its_last_line_tells_what_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("LINES", "6")
    screen = Screen(in_place=True)
    screen.draw(["head"], [f"row {n}" for n in range(7)], ["foot"])
    first = capsys.readouterr().out
    assert first.startswith("\x1b[2J\x1b[H")
    lines = first.removeprefix("\x1b[2J\x1b[H").removesuffix("\x1b[J").split("\x1b[K\n")
    assert lines == [
        "head", "row 0", "row 1", "and 5 more: a higher window, or --once, shows them", "foot", "",
    ]  # fmt: skip
    screen.draw(["head"], ["row"], [])
    assert capsys.readouterr().out == "\x1b[Hhead\x1b[K\nrow\x1b[K\n\x1b[J"


def test_elsewhere_tables_follow_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(in_place=True)
    for _ in range(2):
        screen.draw(["head"], [f"row {n}" for n in range(99)], [])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count("row") == 2 * 99
    assert screens.ROOM_ELSEWHERE == 160


# ---- what the API server and kubectl answer ------------------------------------


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes kubectl say something, and fail with a code."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    def answer(out: bytes = b"", err: str = "", code: int = 0) -> Kubectl:
        (tmp_path / "out").write_bytes(out)
        (tmp_path / "err").write_text(err)
        script = tmp_path / "bin/kubectl"
        lines = f"#!/bin/sh\ncat {tmp_path}/out\ncat {tmp_path}/err >&2\nexit {code}\n"
        script.write_text(lines)
        script.chmod(0o755)
        return Kubectl()

    return answer


FIELDS = (
    "metadata,name,namespace,spec,nodeName,status,phase,containers,ports,conditions,type,"
    "containerStatuses,state,waiting,reason,capacity,nvidia.com/gpu,containerPort"
)
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS.split(",")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


class Listed(Kubectl):
    """A kubectl that has listed something."""

    def __init__(self, items: list[Any]) -> None:
        object.__setattr__(self, "_items", items)

    def items(self, path: str, **params: str) -> list[Any]:
        return self._items  # type: ignore[attr-defined,no-any-return]

    __slots__ = ("_items",)


@given(st.lists(PLAIN, max_size=4))
def test_any_list_of_objects_is_read_or_passed_over(items: list[Any]) -> None:
    listed = Listed(items)
    for agent in agents.find(listed).values():
        assert cluster.NAME.fullmatch(agent.node)
        assert cluster.NAME.fullmatch(agent.name)
        assert 0 < agent.port < 65_536
    for name in cluster.nodes_of(listed, "ml") | cluster.gpu_nodes(listed):
        assert cluster.NAME.fullmatch(name)


def test_names_that_would_be_options_or_paths_are_passed_over() -> None:
    good = agent_pod("gpugauge-1", "node-a")
    bad = []
    for where, what, name in (
        ("metadata", "name", "-o=yaml"),
        ("metadata", "name", "a/b"),
        ("metadata", "namespace", "--all"),
        ("spec", "nodeName", "x\n"),
        ("spec", "nodeName", "UPPER"),
    ):
        pod = json.loads(json.dumps(good))
        pod[where][what] = name
        bad.append(pod)
    assert set(agents.find(Listed([*bad, good]))) == {"node-a"}
    assert agents.find(Listed(bad)) == {}


def test_of_two_agents_on_a_node_the_ready_one_is_asked() -> None:
    old, new = agent_pod("old", "node-a", "Completed"), agent_pod("new", "node-a")
    gone = agent_pod("gone", "node-a") | {}
    gone["metadata"] = {**gone["metadata"], "deletionTimestamp": "2026-11-01T00:00:00Z"}
    for listed in ([gone, old, new], [new, old, gone]):
        assert agents.find(Listed(listed))["node-a"].name == "new"
    assert agents.find(Listed([old]))["node-a"].why_not_ready == "Completed"


@given(st.text(string.printable) | NASTY)
def test_any_complaint_of_kubectl_is_one_printable_sentence(text: str) -> None:
    error = failure(text)
    assert str(error).isprintable()
    assert len(str(error)) < 800


def test_refusals() -> None:
    told = missing('nodes is forbidden: User "a" cannot list resource "nodes" in API group "" at '
                   "the cluster scope")  # fmt: skip
    assert str(told) == (
        "You may not list nodes. It takes a ClusterRole with `list` on nodes (docs/kubectl.md)."
    )
    assert isinstance(failure("Error from server (Forbidden): by a webhook"), MissingRight)
    assert "by a webhook" in str(failure("Error from server (Forbidden): by a webhook"))


@pytest.mark.parametrize("out", [b"", b"{}", b"[]", b'{"items":{}}', b"\xff", b"[" * 99_999])
def test_what_is_no_list_is_refused(out: bytes, answering: Any) -> None:
    with pytest.raises(UnavailableError):
        answering(out).items("/api/v1/pods")


def test_lists_are_read_page_by_page(answering: Any, tmp_path: Path) -> None:
    first = {"items": [1, 2], "metadata": {"continue": "more"}}
    (tmp_path / "last").write_text(json.dumps({"items": [3], "metadata": {}}))
    kubectl = answering(json.dumps(first).encode())
    pages = f"*continue=more*) cat {tmp_path}/last;; *) cat {tmp_path}/out;;"
    script = f'#!/bin/sh\ncase "$*" in {pages} esac\n'
    (tmp_path / "bin/kubectl").write_text(script)
    assert kubectl.items("/api/v1/pods") == [1, 2, 3]


def test_a_kubectl_that_fails(answering: Any) -> None:
    with pytest.raises(GpugaugeError, match="kubectl says: it is broken"):
        answering(err="warning: x\nerror: it is broken\n", code=1).get("/api/v1/pods")
    with pytest.raises(UnavailableError, match="kubectl says: nothing, and failed"):
        answering(code=3).namespace()
    with contextlib.suppress(GpugaugeError):
        answering(b"\xff").config()
    assert answering(b"").namespace() == "default"
    assert answering(b"ml").namespace() == "ml"


def test_two_kubeconfigs_and_a_context_are_what_kubectl_makes_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: FakeApiServer
) -> None:
    use_kubectl(tmp_path, monkeypatch)
    server.put(PODS, agent_pod("gauge", "node-a"))
    server.tokens.add("")  # without TLS kubectl sends no token
    whole = json.loads(server.kubeconfig(tmp_path).read_text())
    other = {"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}
    (tmp_path / "one").write_text(json.dumps({"clusters": whole["clusters"]}))
    (tmp_path / "two").write_text(
        json.dumps({"users": whole["users"], "contexts": [*whole["contexts"], other]})
    )
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one:{tmp_path}/two")
    kubectl = Kubectl(context="other")
    assert kubectl.namespace() == "ml"
    assert list(agents.find(kubectl)) == ["node-a"]
    # The same for what asks without kubectl, as `explain` does.
    api = ApiServer(config=kubectl.config())
    try:
        body = api.get(PODS, {}, limit_bytes=1 << 20, seconds=5.0)
        assert json.loads(body)["items"][0]["metadata"]["name"] == "gauge"
    finally:
        api.close()
    for wrong in (Kubectl(), Kubectl(context="third")):
        with pytest.raises(GpugaugeError):
            wrong.config()
