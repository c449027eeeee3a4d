"""What switches the probes of this node off: an annotation of the node, and a ConfigMap.

Both are watched at the API server, since the kubelet takes a minute to renew a mounted
file. What a place said last holds while it cannot be read, or says what is no word for
on or off; where it says nothing, it says on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

import msgspec

from gpugauge.attribution.names import clean
from gpugauge.attribution.watch_json import decode
from gpugauge.errors import ForeignDataError
from gpugauge.settings.values import FALSE, TRUE

LOG = logging.getLogger(__name__)

ANNOTATION = "gpugauge.io/probes"
"""`"off"` on a node: no probe there."""
PROBES_KEY = "probes"
"""Of the ConfigMap: `off` takes the probes of all nodes off."""
NODES_KEY = "off-nodes"
"""Of the ConfigMap: names of nodes whose probes are off, apart by commas, spaces or lines."""

SHOWN = 64
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

Values = dict[str, str | None]
Reader = Callable[[str], bool]


class _Meta(msgspec.Struct):
    name: str = ""
    annotations: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta


class _Data(msgspec.Struct):
    probes: str | None = None
    off_nodes: str | None = msgspec.field(default=None, name=NODES_KEY)


class _ConfigMap(msgspec.Struct):
    metadata: _Meta
    data: _Data | None = None


def decode_node(data: bytes | msgspec.Raw) -> tuple[str, Values]:
    """Return the name of a node and what its annotation says.

    Raises:
        ForeignDataError: It is not JSON, or not a node.
    """
    meta = decode(data, _Node, "node").metadata
    return meta.name, {ANNOTATION: (meta.annotations or {}).get(ANNOTATION)}


def decode_config_map(data: bytes | msgspec.Raw) -> tuple[str, Values]:
    """Return the name of a ConfigMap and what its two keys say.

    Raises:
        ForeignDataError: It is not JSON, or not a ConfigMap.
    """
    found = decode(data, _ConfigMap, "ConfigMap")
    said = found.data or _Data()
    return found.metadata.name, {PROBES_KEY: said.probes, NODES_KEY: said.off_nodes}


def says_off(text: str) -> bool:
    """Return whether a word says off. YAML makes `false` of an `off` without quotes.

    Raises:
        ForeignDataError: It is no word for on or off.
    """
    word = text.strip().lower()
    if word not in TRUE + FALSE:
        raise ForeignDataError(f"{_shown(text)} is neither `on` nor `off`.")
    return word in FALSE


def names_node(text: str, node: str) -> bool:
    """Return whether a list of nodes names this one.

    Raises:
        ForeignDataError: A part of it cannot be the name of a node.
    """
    names = text.replace(",", " ").split()
    for name in names:
        if not _NAME.fullmatch(name):
            raise ForeignDataError(f"{_shown(name)} cannot be the name of a node.")
    return node in names


class OffSwitchSink:
    """Takes one object from a reflector, and keeps what it says."""

    def __init__(
        self,
        name: str,
        parse: Callable[[msgspec.Raw], tuple[str, Values]],
        readers: Mapping[str, Reader],
        changed: Callable[[], None],
    ) -> None:
        """Begin with nothing said, which is on.

        Args:
            name: Of the object; others are passed over.
            parse: From its JSON to the texts of its keys.
            readers: What each key's text says: True is off.
            changed: Called, from the reflector's thread, when off began or ended.
        """
        self._name = name
        self._parse = parse
        self._readers = readers
        self._changed = changed
        self._off = dict.fromkeys(readers, False)
        self._told: dict[str, str] = {}
        self._unread = False
        self.malformed = 0
        self.present = False
        """The object was there when it was last seen."""

    @property
    def off(self) -> bool:
        """Whether any key says off."""
        return any(self._off.values())

    def decode(self, data: msgspec.Raw) -> tuple[str, Values]:
        """Return the object's name and texts.

        Raises:
            ForeignDataError: It cannot be read; what it said before holds.
        """
        try:
            return self._parse(data)
        except ForeignDataError as error:
            self._unread = True
            if self._told.get("") is None:
                LOG.warning("the off switch is left as it was: %s", error)
            self._told[""] = ""
            self.malformed += 1
            raise

    def replace(self, items: list[tuple[str, Values]]) -> None:
        """Take a list: the object, or none where it is gone."""
        mine = [values for name, values in items if name == self._name]
        unread, self._unread = self._unread, False
        if mine:
            self._take(mine[0])
        elif not unread:
            self._gone()

    def put(self, item: tuple[str, Values]) -> None:
        """Take the object as it is now."""
        name, values = item
        if name == self._name:
            self._take(values)

    def remove(self, item: tuple[str, Values]) -> None:
        """Take that the object is gone: nothing is said, which is on."""
        if item[0] == self._name:
            self._gone()

    def _gone(self) -> None:
        self.present = False
        self._settle(dict.fromkeys(self._readers, False))

    def _take(self, values: Values) -> None:
        self.present = True
        self._told.pop("", None)
        after = dict(self._off)
        for key, says in self._readers.items():
            text = values.get(key)
            try:
                after[key] = says(text) if text is not None else False
                self._told.pop(key, None)
            except ForeignDataError as error:
                if self._told.get(key) != text:  # the same text is counted, and told, once
                    LOG.warning("the off switch is left as it was: %s: %s", key, error)
                    self._told[key] = text or ""
                    self.malformed += 1
        self._settle(after)

    def _settle(self, after: dict[str, bool]) -> None:
        before, self._off = self.off, after
        if self.off is not before:
            self._changed()


def _shown(text: str) -> str:
    cut = clean(text, SHOWN)
    return repr(cut if len(text) <= SHOWN else cut + "...")
