"""The dashboards hold what they promise: queries, units, variables, links, places."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict

import promql_parser as grammar
import pytest
import yaml

from deploy.grafana.catalog import texts as generated
from deploy.grafana.parts.names import Board, Unit
from tests.deploy.boards import (
    FOLDER,
    annotations,
    boards,
    filled,
    panels,
    queries,
    query_of,
    texts,
    used,
    variables,
)
from tests.deploy.promql import ANY, NUMBER, OWN, RULES, Wrong, check, recorded

BOARDS = boards()
QUERIES = [each for name, board in BOARDS.items() for each in queries(name, board)]
ANNOTATIONS = [each for name, board in BOARDS.items() for each in annotations(name, board)]
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in panels(board)]
BUILT_IN = {"__rate_interval", "__interval_ms", "__range", "__data", "__field", "__url_time_range"}
VALUES = defaultdict(lambda: "x") | {
    "__rate_interval": "1m",
    "__interval_ms": "15000",
    "compare": "1h",
}
UNITS = {
    Unit.SECONDS: {(("s", 1),)},
    Unit.BYTES: {(("B", 1),)},
    Unit.BYTES_PER_SECOND: {(("B", 1), ("s", -1))},
    Unit.PER_SECOND: {(("s", -1),)},
    Unit.SHARE: {NUMBER},
    Unit.COUNT: {NUMBER},
    Unit.MONEY: {(("money", 1),)},
    Unit.WATT: {(("W", 1),)},
    Unit.CELSIUS: {(("C", 1),)},
}
COUNTER_AS_AGE = "First GPU call seen"
"""This annotation reads a counter of seconds as an age: it is small where counting began."""


def by_name(query) -> str:
    return query.name


def type_of(query):
    return check(filled(query.expr, VALUES))


def columns(panel) -> dict[str, str]:
    """Return the shown value columns of a table: title by refId."""
    (organize,) = [each for each in panel["transformations"] if each["id"] == "organize"]
    renamed = organize["options"]["renameByName"]
    return {name[-1]: title for name, title in renamed.items() if name.startswith("Value #")}


def keys(panel) -> set[str]:
    """Return the label columns that a table puts in an order."""
    (organize,) = [each for each in panel["transformations"] if each["id"] == "organize"]
    return {name for name in organize["options"]["indexByName"] if not name.startswith("Value")}


def unit(query) -> str | None:
    """Return the unit that a query's values are shown in; None for a hidden column."""
    if query.panel["type"] != "table":
        return query.panel["fieldConfig"]["defaults"].get("unit")
    title = columns(query.panel).get(query.ref)
    for override in query.panel["fieldConfig"]["overrides"]:
        if override["matcher"]["options"] == title:
            return {each["id"]: each["value"] for each in override["properties"]}["unit"]
    return None


def test_what_is_written_is_what_is_generated():
    assert {path.stem: path.read_text() for path in FOLDER.glob("*.json")} == generated()


def test_generating_twice_gives_the_same():
    assert generated() == generated()


def test_every_metric_is_on_a_dashboard():
    asked = set(re.findall(r"gpugauge_\w+", " ".join(q.expr for q in QUERIES + ANNOTATIONS)))
    whole = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    assert set(OWN) <= asked | whole


def test_every_dashboard_has_its_uid():
    assert {board["uid"] for board in BOARDS.values()} == set(Board)
    assert all(len(board["uid"]) <= 40 for board in BOARDS.values())
    assert len({board["title"] for board in BOARDS.values()}) == len(Board)


@pytest.mark.parametrize("query", QUERIES, ids=by_name)
def test_a_query_asks_for_what_there_is(query):
    type_of(query)


@pytest.mark.parametrize("query", ANNOTATIONS, ids=by_name)
def test_an_annotation_asks_for_what_there_is(query):
    assert query.panel["target"]["expr"] == query.expr
    expr = filled(query.expr, VALUES)
    if query.title == COUNTER_AS_AGE:
        with pytest.raises(Wrong, match="without a rate"):
            check(expr)
        expr = expr.replace("_seconds_total{", "_seconds_total_as_gauge{")
        assert check_as_gauge(expr)
        return
    labels = check(expr).labels
    assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= labels
    assert set(filter(None, query.panel["tagKeys"].split(","))) <= labels


def check_as_gauge(expr: str) -> bool:
    """Check the one counter that is read as an age, with its labels."""
    name = re.findall(r"(gpugauge_\w+)_as_gauge", expr)
    found = set(re.findall(r"(\w+)=~", expr)) | {"namespace", "pod"}
    return found <= set(OWN[name[0]].labels) | {"cluster"}


@pytest.mark.parametrize("query", QUERIES, ids=by_name)
def test_a_unit_is_that_of_the_values(query):
    shown = unit(query)
    dimension = type_of(query).dimension
    hidden = query.panel["type"] == "table" and query.ref not in columns(query.panel)
    if hidden or query.panel["type"] == "state-timeline":
        assert dimension == NUMBER
    else:
        assert dimension in UNITS[Unit(shown)] | {ANY}, f"{shown} for {dimension}"


@pytest.mark.parametrize("query", QUERIES, ids=by_name)
def test_a_legend_names_labels_that_the_lines_have(query):
    labels = type_of(query).labels
    assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= labels
    if query.panel["type"] == "timeseries":
        # Lines that differ only by a label which no legend shows cannot be told apart; a GPU's
        # index stands for its UUID and model, a node for its instance.
        assert query.legend


@pytest.mark.parametrize("query", [q for q in QUERIES if q.panel["type"] == "table"], ids=by_name)
def test_a_table_has_the_labels_of_its_queries(query):
    assert type_of(query).labels == keys(query.panel)


@pytest.mark.parametrize("query", QUERIES, ids=by_name)
def test_absence_is_not_zero(query):
    """A zero is put in only where something is there to say so: a product with what there is."""
    made_up = []

    def look(tree) -> bool:
        if isinstance(tree, grammar.BinaryExpr) and str(tree.op) == "or":
            side = tree.rhs
            while isinstance(side, grammar.ParenExpr):
                side = side.expr
            if isinstance(side, grammar.NumberLiteral):
                made_up.append(str(side))
        if isinstance(tree, grammar.Call) and tree.func.name in {"vector", "absent"}:
            made_up.append(str(tree))
        return True

    grammar.walk(grammar.parse(filled(query.expr, VALUES)), pre_visit=look)
    assert not made_up


def test_every_panel_says_what_it_means_and_why_it_may_be_empty():
    for name, panel in PANELS:
        if panel["type"] == "text":
            continue
        where = f"{name}: {panel['title']}"
        assert "When it misleads: " in panel["description"], where
        assert "Metrics: " in panel["description"], where
        assert panel["fieldConfig"]["defaults"]["noValue"], where
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, where
        assert all(each["datasource"] == panel["datasource"] for each in panel["targets"]), where


@pytest.mark.parametrize("name", BOARDS)
def test_variables_that_are_used_are_defined(name):
    board = BOARDS[name]
    defined = variables(board)
    rest = {key: value for key, value in board.items() if key != "templating"}
    named = {variable for text in texts(rest) for variable in used(text)}
    assert named - BUILT_IN <= set(defined)
    # Each is used, in a panel or by another variable, and depends on earlier ones only.
    seen: set[str] = set()
    for each in defined.values():
        assert used(query_of(each)) <= seen, each["name"]
        seen.add(each["name"])
        named |= used(query_of(each))
    assert set(defined) <= named


@pytest.mark.parametrize("name", BOARDS)
def test_variables_ask_for_what_there_is(name):
    for each in variables(BOARDS[name]).values():
        if each["type"] != "query":
            continue
        query = filled(query_of(each), VALUES)
        if found := re.fullmatch(r"label_values\((.*), (\w+)\)", query):
            selector, label = found.groups()
            for metric in re.findall(r"gpugauge_\w+", selector):
                labels = {*OWN[metric].labels, "cluster", "instance"}
                assert label in labels
                assert {m for m in re.findall(r"(\w+)=~", selector) if m != "__name__"} <= labels
        else:
            asked = re.fullmatch(r"query_result\((.*)\)", query)
            assert asked, query
            named = set(re.findall(r"(\w+)=\"", each["regex"]))
            assert named <= check(asked[1]).labels


def rectangles(panels_of_a_row):
    return [(p["title"], p["gridPos"]) for p in panels_of_a_row]


def overlaps(one, other) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


@pytest.mark.parametrize("name", BOARDS)
def test_panels_lie_in_the_grid_and_not_on_each_other(name):
    board = BOARDS[name]
    groups = [rectangles(board["panels"])]
    for row in board["panels"]:
        if row["type"] == "row" and row["panels"]:
            assert row["collapsed"]
            assert all(p["gridPos"]["y"] > row["gridPos"]["y"] for p in row["panels"])
            groups.append(rectangles(row["panels"]))
    for group in groups:
        for _title, place in group:
            assert place["x"] >= 0 and place["x"] + place["w"] <= 24
        for (one, a), (other, b) in itertools.combinations(group, 2):
            assert not overlaps(a, b), f"{one} lies on {other}"


@pytest.mark.parametrize("name", BOARDS)
def test_ids_and_titles_are_unique(name):
    board = BOARDS[name]
    titles = [panel["title"] for panel in panels(board)]
    assert sorted(titles) == sorted(set(titles))
    rows = [each for each in board["panels"] if each["type"] == "row"]
    ids = [each["id"] for each in [*rows, *panels(board)]]
    assert len(ids) == len(set(ids))
    for panel in panels(board):
        refs = [target["refId"] for target in panel.get("targets", ())]
        assert len(refs) == len(set(refs))


@pytest.mark.parametrize("name", BOARDS)
def test_dashboards_share_their_cursor_and_their_look(name):
    board = BOARDS[name]
    assert board["graphTooltip"] == 1
    assert board["tags"] == ["gpugauge"]
    assert board["refresh"] and board["time"] == {"from": "now-1h", "to": "now"}


def links_of(panel):
    """Yield each link of a panel, with the field that it stands on."""
    for link in panel["fieldConfig"]["defaults"].get("links") or ():
        yield "", link["url"]
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            if each["id"] == "links":
                yield from ((override["matcher"]["options"], link["url"]) for link in each["value"])


DEFINED = {board["uid"]: set(variables(board)) for board in BOARDS.values()}


def check_link(url: str) -> None:
    uid = re.match(r"/d/([^?]+)", url)
    assert uid, url
    if uid[1] == "${dcgm}":
        return
    given = set(re.findall(r"var-(\w+)=", url)) | set(re.findall(r"\$\{(\w+):queryparam\}", url))
    assert given <= DEFINED[uid[1]], url


@pytest.mark.parametrize("name", BOARDS)
def test_links_lead_somewhere(name):
    board = BOARDS[name]
    targets = {link["url"] for link in board["links"]}
    assert targets == {f"/d/{each}" for each in Board if each != board["uid"]}
    assert all(link["includeVars"] and link["keepTime"] for link in board["links"])
    for panel in panels(board):
        if panel["type"] == "text":
            continue
        for column, url in links_of(panel):
            check_link(url)
            assert "${__url_time_range}" in url and "${datasource:queryparam}" in url
            fields = set(re.findall(r"\$\{__data\.fields\.(\w+)\}", url))
            labels = set(re.findall(r"\$\{__field\.labels\.(\w+)\}", url))
            if panel["type"] == "table":
                assert not labels and {column} | fields <= keys(panel), panel["title"]
            else:
                assert not fields
                for query in queries(name, {"panels": [panel]}):
                    assert labels <= type_of(query).labels, panel["title"]


def test_gpus_are_found_by_uuid_at_dcgm_exporter():
    urls = [url for _, panel in PANELS if panel["type"] != "text" for _, url in links_of(panel)]
    (to_dcgm,) = [url for url in urls if url.startswith("/d/${dcgm}")]
    assert "var-UUID=${__data.fields.UUID}" in to_dcgm


def test_alerts_link_to_dashboards_that_exist():
    groups = yaml.safe_load((RULES / "alerts.yaml").read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    for alert in alerts:
        link = alert["annotations"].get("dashboard", "")
        assert link, f"{alert['alert']} leads to no dashboard"
        check_link(link)


@pytest.mark.parametrize("name", recorded())
def test_recording_rules_make_sense_to_the_same_checker(name):
    check(recorded()[name])


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("gpugauge_launches_total", "without a rate"),
        ("sum(gpugauge_launches_total)", "without a rate"),
        ("rate(gpugauge_contexts[1m])", "is a gauge"),
        ("gpugauge_nothing", "no metric"),
        ('gpugauge_contexts{gpu="0"}', "has no label gpu"),
        ("sum by (cause) (gpugauge_contexts)", "does not have"),
        ("gpugauge_contexts + gpugauge_memory_held_bytes", r"\+ of"),
        ("gpugauge_contexts * on (gpu) gpugauge_device_info", "one side"),
        ("gpugauge_contexts * on (gpu_uuid) group_left (pod) gpugauge_device_info", "group takes"),
        ("gpugauge_contexts / gpugauge_device_info", "matches"),
        ("sum(rate(gpugauge_launches_total[1m])", "does not parse"),
    ],
)
def test_the_checker_refuses_what_makes_no_sense(query, why):
    with pytest.raises(Wrong, match=why):
        check(query)


def test_the_checker_knows_dimensions():
    share = "sum(rate(gpugauge_blocked_wall_seconds_total[1m])) / sum(gpugauge_contexts)"
    assert check(share).dimension == NUMBER
    assert check("rate(gpugauge_copy_bytes_total[1m])").dimension == (("B", 1), ("s", -1))
    one, other = "rate(gpugauge_copy_bytes_total[1m])", "rate(gpugauge_copies_total[1m])"
    assert check(f"sum({one}) / sum({other})").dimension == (("B", 1),)
