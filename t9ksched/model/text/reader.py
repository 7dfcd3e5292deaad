"""Reads YAML into plain data in one pass over its events, without recursion, and stops at a limit.

libyaml makes the events; nothing is built from them but the values themselves. Directives are refused: a `%TAG` makes
each tag as long as its prefix, which no limit on values bounds.
"""

from collections.abc import Hashable, Iterator
from typing import Any, Final, NamedTuple, cast

import yaml

from t9ksched.model.text.limits import DEFAULT, Limits, YamlFault
from t9ksched.model.text.scalars import plain, tagged

LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it."""
_LONGEST_PATH: Final = 200
_MERGE: Final = "tag:yaml.org,2002:merge"


def read_all(text: str | bytes, limits: Limits = DEFAULT, *, repeated: bool = False) -> list[Any]:
    """The documents of a text as JSON values; bytes are UTF-8. With `repeated` the last of equal keys counts.

    Raises:
        YamlFault: it is not YAML, not JSON's kind of data, names a key twice, or passes a limit.
    """
    builder = _Builder(limits, repeated=repeated)
    for event in events(text):
        builder.take(event)
    return builder.documents


def read(text: str | bytes, limits: Limits = DEFAULT, *, repeated: bool = False) -> Any:
    """The only document of a text; None when it is empty.

    Raises:
        YamlFault: as `read_all`, or there are several documents.
    """
    documents = read_all(text, limits, repeated=repeated)
    if len(documents) > 1:
        raise YamlFault("has several documents, and one is expected")
    return documents[0] if documents else None


def events(text: str | bytes) -> Iterator[yaml.Event]:
    """The events of a text.

    Raises:
        YamlFault: it is not YAML.
    """
    decoded = ""
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
        for event in yaml.parse(decoded, Loader=LOADER):
            if isinstance(event, yaml.DocumentStartEvent) and event.tags:
                raise _fault("%TAG directives are not read", event)
            yield event
    except UnicodeDecodeError as error:
        raise YamlFault(f"is not UTF-8: byte {error.start} cannot be read") from None
    except UnicodeEncodeError:
        raise YamlFault("holds a character that is not allowed") from None
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        line, column = (place.line + 1, place.column + 1) if place else (0, 0)
        last = decoded.rstrip().count("\n") + 1  # the end of the text is no line of it
        raise YamlFault(str(error.problem or error.context), min(line, last), column) from None
    except yaml.YAMLError as error:
        raise YamlFault(" ".join(str(error).split())) from None


class _Anchored(NamedTuple):
    """A value that may be repeated: how many values it holds, itself included, and how many levels it is deep."""

    value: Any
    size: int
    height: int


class _Frame:
    """A mapping or list that is being filled."""

    __slots__ = ("anchor", "before", "height", "keys", "merging", "pending", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, before: int) -> None:
        self.value = value
        self.anchor = anchor
        self.before = before
        self.height = 1
        self.pending: str | None = None
        """The key whose value comes next."""
        self.merging = False
        self.keys: set[str] = set()
        """Keys that are written here, other than by a merge key."""


class _Builder:
    """Takes events and builds documents."""

    def __init__(self, limits: Limits, *, repeated: bool) -> None:
        self.documents: list[Any] = []
        self._limits = limits
        self._repeated = repeated
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin({}, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin([], event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            frame = self._frames.pop()
            found = _Anchored(frame.value, self._count - frame.before, frame.height)
            if frame.anchor is not None:
                self._anchors[frame.anchor] = found
            self._put(found, event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentEndEvent):
            self._anchors.clear()

    def _begin(self, value: dict[str, Any] | list[Any], event: yaml.NodeEvent) -> None:
        if self._awaits_key():
            raise self._fault("has a mapping or list as a key", event)
        before = self._count
        self._add(1, event)
        self._frames.append(_Frame(value, event.anchor, before))
        self._deep(0, event)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        text = event.value
        if len(text) > self._limits.scalar:
            raise self._fault(f"is longer than {self._limits.scalar} characters", event)
        try:
            if event.tag is None:
                value = plain(text) if event.implicit[0] and not event.style else text
            else:
                value = tagged(text, event.tag)
        except ValueError as error:
            raise self._fault(str(error), event) from None
        if isinstance(value, str) and "\x00" in value:
            raise self._fault("holds a character that is not allowed", event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0)
        if self._awaits_key():
            merge = event.tag == _MERGE or (text == "<<" and event.tag is None and not event.style)
            self._key(value, event, merge=merge)
            return
        self._add(1, event)
        self._put(_Anchored(value, 1, 0), event)

    def _alias(self, event: yaml.AliasEvent) -> None:
        found = self._anchors.get(event.anchor or "")
        if found is None:
            raise self._fault(f"repeats *{event.anchor}, which is not there before", event)
        if self._awaits_key():
            self._key(found.value, event, merge=False)
            return
        self._add(found.size, event)
        self._deep(found.height, event)
        self._put(found._replace(value=_copy(found.value)), event)

    def _awaits_key(self) -> bool:
        frame = self._frames[-1] if self._frames else None
        return frame is not None and isinstance(frame.value, dict) and frame.pending is None and not frame.merging

    def _key(self, value: Any, event: yaml.Event, *, merge: bool) -> None:
        frame = self._frames[-1]
        if merge:
            frame.merging = True
            return
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int):
            value = str(value)
        if not isinstance(value, str):
            shown = f"{value!r} as" if isinstance(value, Hashable) else "a mapping or list as"
            raise self._fault(f"has {shown} a key: put it in quotes if it is a text", event)
        if value in frame.keys and not self._repeated:
            raise self._fault(f"has the key {value[:100]!r} twice", event)
        frame.keys.add(value)
        frame.pending = value

    def _put(self, found: _Anchored, event: yaml.Event) -> None:
        """A value is whole: put it where it belongs."""
        if not self._frames:
            self.documents.append(found.value)
            return
        frame = self._frames[-1]
        frame.height = max(frame.height, found.height + 1)
        if isinstance(frame.value, list):
            frame.value.append(found.value)
        elif frame.merging:
            frame.merging = False
            self._merge(frame.value, found.value, event)
        else:
            frame.value[cast(str, frame.pending)] = found.value
            frame.pending = None

    def _merge(self, into: dict[str, Any], value: Any, event: yaml.Event) -> None:
        """Take over the pairs of a mapping, or of several, of which the first that has a key gives its value. What was
        counted and copied when the value was read is not used again, so no pair is shared.
        """
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in several):
            raise self._fault("merges something else than mappings", event)
        for one in reversed(several):
            into.update(one)

    def _add(self, size: int, event: yaml.Event) -> None:
        self._count += size
        if self._count > self._limits.values:
            raise self._fault(f"goes beyond {self._limits.values} values, the most that one text may hold", event)

    def _deep(self, height: int, event: yaml.Event) -> None:
        if len(self._frames) + height > self._limits.depth:
            raise self._fault(f"is nested deeper than {self._limits.depth} levels", event)

    def _fault(self, problem: str, event: yaml.Event) -> YamlFault:
        return _fault(problem, event, _path(self._frames))


def _fault(problem: str, event: yaml.Event, path: str = "") -> YamlFault:
    mark = event.start_mark
    return YamlFault(problem, mark.line + 1 if mark else 0, mark.column + 1 if mark else 0, path)


def _path(frames: list[_Frame]) -> str:
    """Where the next value of these frames belongs."""
    path = ""
    for frame in frames:
        if isinstance(frame.value, list):
            path += f"[{len(frame.value)}]"
        elif frame.pending is not None or frame.merging:
            key = "<<" if frame.pending is None else frame.pending[:100]
            path += f".{key}" if path else key
    return path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…"


def _copy(value: Any) -> Any:
    """A copy that shares nothing; the depth is bounded before."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
