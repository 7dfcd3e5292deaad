"""YAML is read as kubectl reads it, and no text costs more than its length.

The tables were read off `kubectl annotate --local -o json` (v1.32), value for value.
"""

import math
from typing import Any

import pytest
import yaml

from t9ksched.model.text import Limits, YamlFault, compose, read, read_all

BIG = 1.2345678901234568e29
SCALARS: dict[str, Any] = {
    "010": 8, "00": 0, "0777": 511, "-010": -8, "0_7": 7, "09": 9, "0o10": 8, "0O17": 15, "-0o17": -15,
    "0x1F": 31, "0X1F": 31, "-0x1f": -31, "+0x10": 16, "0x1_F": 31, "0xB0B": 0xB0B, "0x": "0x", "0x1g": "0x1g",
    "0b11": 3, "0B11": 3, "-0b11": -3, "+0b1": 1, "0b": "0b", "0b12": "0b12",
    "1_000": 1000, "1__0": 10, "1_": 1, "_1": "_1", "1_0.5": 10.5, "1_e3": 1000, "1e3_0": 1e30, "._5": "._5",
    "+1": 1, "-0": 0, "--1": "--1", "+": "+", "1 000": "1 000",
    "9223372036854775807": 2**63 - 1, "9223372036854775808": 2.0**63, "-9223372036854775808": -(2**63),
    "18446744073709551616": 2.0**64, "123456789012345678901234567890": BIG,
    "1e3": 1000, "1E3": 1000, "1e+3": 1000, "1.5": 1.5, ".5": 0.5, "+.5": 0.5, "-.5": -0.5, ".5e3": 500, "1.": 1,
    "0.": 0, "0.0": 0, "3.0": 3, "1e": "1e", "1e400": "1e400", "1e21": 1e21, ".": ".", "..": "..",
    "190:20:30": "190:20:30", "1:30": "1:30", "2024-01-01": "2024-01-01",
    "2024-01-01T00:00:00Z": "2024-01-01T00:00:00Z",
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **dict.fromkeys(("~", "null", "Null", "NULL", ""), None),
    "yEs": "yEs", "tRue": "tRue", "oFF": "oFF", "nUll": "nUll", "=": "=", "'1'": "1", '"yes"': "yes", '"~"': "~",
    "! 1": "1", "!foo 1": "1", "!!str 1": "1", "!!str": "", '!!int "7"': 7, '!!int "0b1"': 1, "!!int 0x1F": 31,
    "!!float 3": 3, '!!bool "yes"': True, '!!bool "y"': True, '!!null ""': None, "!!binary aGk=": "hi",
    "!!timestamp 2024-01-01": "2024-01-01", "!!python/none x": "x", "[1,2,]": [1, 2],
    "!!set {a, b}": {"a": None, "b": None},
    "!!omap [a: 1]": [{"a": 1}], "{<<: {a: 2}, a: 1}": {"a": 1}, "{a: 1, <<: {a: 2}}": {"a": 2},
    "{<<: [{a: 2}, {a: 3, b: 4}]}": {"a": 2, "b": 4}, '{"<<": {a: 1}}': {"<<": {"a": 1}},
    "{1: a, yes: b, 017: c}": {"1": "a", "true": "b", "15": "c"}, "{2024-01-01: a}": {"2024-01-01": "a"},
}  # fmt: skip


@pytest.mark.parametrize("text", SCALARS)
def test_scalars_as_kubectl_reads_them(text: str) -> None:
    found = read(f"a: {text}\n")["a"]
    assert (type(found), found) == (type(SCALARS[text]), SCALARS[text])


REFUSED = {
    ".inf": "is not a finite number",
    "-.INF": "is not a finite number",
    ".nan": "is not a finite number",
    "!!timestamp foo": "is no time, as !!timestamp says",
    '!!int ""': "is not a value that !!int can have",
    "!!int 1.5": "is not a value that !!int can have",
    "!!bool 1": "is not a value that !!bool can have",
    "!!null x": "is not a value that !!null can have",
    '!!binary "%%"': "is not text in base64, as !!binary says",
    "!!binary /w==": "is not text in base64, as !!binary says",
    "{~: 1}": "has None as a key: put it in quotes if it is a text",
    "{1.5: 1}": "has 1.5 as a key: put it in quotes if it is a text",
    "{[1]: 1}": "has a mapping or list as a key",
    "{? {b: 1} : 1}": "has a mapping or list as a key",
    "{b: 1, b: 2}": "has the key 'b' twice",
    "{1: 1, '1': 2}": "has the key '1' twice",
    "{<<: 3}": "merges something else than mappings",
    "{<<: [3]}": "merges something else than mappings",
    "&x {y: *x}": "repeats *x, which is not there before",
    "*x": "repeats *x, which is not there before",
    "1" * 500: "is a number of more than 400 characters: put it in quotes if it is a text",
    '"\\0"': "holds a character that is not allowed",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_jsons_kind_of_data(text: str) -> None:
    with pytest.raises(YamlFault) as caught:
        read(f"spec:\n  a:\n  - {text}\n")
    assert (caught.value.problem, caught.value.line) == (REFUSED[text], 3)
    assert caught.value.path.startswith("spec.a[0]")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"\xff\xfe a", "is not UTF-8: byte 0 cannot be read"),
        ("a: \ud800", "holds a character that is not allowed"),
        ("a: [1\n", "did not find expected ',' or ']'"),
        ("a: 1\n  b: 2\n", "mapping values are not allowed in this context"),
        ("%TAG ! tag:long,2000:\n--- !a 1\n", "%TAG directives are not read"),
        ("a: \x01", "control characters are not allowed"),
        ("- 1\n---\n- 2\n", "has several documents, and one is expected"),
    ],
)
def test_what_is_no_yaml(text: str | bytes, problem: str) -> None:
    with pytest.raises(YamlFault, match=problem.replace("[", r"\[").replace("]", r"\]")):
        read(text)


def test_documents() -> None:
    assert read_all("---\na: 1\n---\n---\nb: 2\n") == [{"a": 1}, None, {"b": 2}]
    assert read_all(b"\xef\xbb\xbfa: \xc3\xbc") == [{"a": "ü"}]
    assert (read(""), read("# nothing\n")) == (None, None)
    with pytest.raises(YamlFault, match="not there before"):
        read_all("a: &x 1\n---\nb: *x\n")


def laughs(levels: int) -> str:
    """A small text whose aliases make 10 to the power of `levels` values."""
    lines = ["a0: &a0 x"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


def merges(levels: int) -> str:
    """A small text whose merge keys double their work on each level."""
    lines = ["a0: &a0 {k: x}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: *a{n - 1}}}" for n in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("- " * 200_000, id="lists"),
        pytest.param("[" * 200_000, id="brackets"),
        pytest.param("{a: " * 100_000, id="braces"),
        pytest.param("a: &a [1]\nb: &b [*a]\n" + "".join(f"c{n}: &b [*b]\n" for n in range(100)), id="aliases"),
    ],
)
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(YamlFault, match="is nested deeper than 64 levels"):
        read_all(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(laughs(9), id="a billion laughs"),
        pytest.param(merges(30), id="merge keys"),
        pytest.param("[" + "1," * 200_001 + "]", id="values"),
        pytest.param("---\n" * 200_001, id="documents"),
    ],
)
def test_values_are_bounded(text: str) -> None:
    with pytest.raises(YamlFault, match="goes beyond 200000 values"):
        read_all(text)


def test_scalars_are_bounded() -> None:
    assert read("a: " + "x" * 100, Limits(scalar=100))
    with pytest.raises(YamlFault, match="is longer than 100 characters"):
        read("a: " + "x" * 101, Limits(scalar=100))


def test_what_is_repeated_is_a_copy() -> None:
    found = read("a: &a {x: [1]}\nb: *a\nc: {<<: *a}\nd: [*a, *a]\n")
    found["b"]["x"].append(2)
    assert found == {"a": {"x": [1]}, "b": {"x": [1, 2]}, "c": {"x": [1]}, "d": [{"x": [1]}, {"x": [1]}]}


def test_the_last_of_equal_keys_counts_where_that_is_wanted() -> None:
    assert read("a: 1\na: 2\n", repeated=True) == {"a": 2}


def test_nodes_know_their_lines() -> None:
    node = compose("a: 1\nb:\n- x\n")
    assert isinstance(node, yaml.MappingNode)
    assert [key.start_mark.line for key, _ in node.value] == [0, 1]
    assert compose("") is None
    with pytest.raises(YamlFault, match="nested deeper"):
        compose("[" * 1000)
    with pytest.raises(YamlFault, match="goes beyond"):
        compose(laughs(9))


def test_no_value_is_infinite() -> None:
    for text, value in SCALARS.items():
        assert not isinstance(value, float) or math.isfinite(value), text
