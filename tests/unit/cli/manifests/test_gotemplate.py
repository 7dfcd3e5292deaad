"""What templates say is done as Go and Helm do it, and what is not known is refused."""

from typing import Any

import pytest

from t9ksched.cli.manifests.functions import FUNCTIONS
from t9ksched.cli.manifests.gotemplate import TemplateError, Templates

DATA: dict[str, Any] = {
    "a": {"b": "x", "on": True, "off": False, "none": None, "n": 3, "list": ["p", "q"], "map": {"k2": "w", "k1": "v"}},
    "Files": {"Get": lambda path: f"<{path}>"},
}


def rendered(source: str) -> str:
    return Templates({"t": source}, FUNCTIONS).render("t", DATA)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("plain { } }} text", "plain { } }} text"),
        ("{{ .a.b }} {{.a.n}} {{ .a.on }} {{ .a.none }}|{{ .a.missing }}|", "x 3 true ||"),
        ("1 {{- /* said by nobody */ -}} 2", "12"),
        ("1 \n{{- .a.b -}}\n 2", "1x2"),
        ("{{ if .a.off }}1{{ else if .a.on }}2{{ else }}3{{ end }}", "2"),
        ("{{ if and .a.on (not .a.off) }}1{{ end }}{{ if or .a.off .a.none }}2{{ end }}", "1"),
        ('{{ if eq .a.b "y" `x` }}1{{ end }}{{ if ne .a.n 3 }}2{{ end }}', "1"),
        ("{{ range .a.list }}{{ . }}-{{ $.a.n }} {{ end }}", "p-3 q-3 "),
        ("{{ range $at, $one := .a.list }}{{ $at }}{{ $one }} {{ end }}", "0p 1q "),
        ("{{ range $k, $v := .a.map }}{{ $k }}={{ $v }} {{ end }}", "k1=v k2=w "),
        ("{{ range .a.none }}1{{ else }}2{{ end }}", "2"),
        ("{{ with .a.map }}{{ .k1 }}{{ end }}{{ with .a.none }}1{{ else }}{{ .a.b }}{{ end }}", "vx"),
        ('{{ $x := .a.n | default 5 }}{{ with .a.map }}{{ $x }}{{ end }}{{ .a.none | default "d" }}', "3d"),
        ('{{ define "d" }}<{{ .k }}>{{ end }}{{ include "d" (dict "k" .a.b) }}', "<x>"),
        ("m: {{ toYaml .a.map | nindent 2 }}", "m: \n  k1: v\n  k2: w"),
        ('{{ quote .a.n }} {{ "a\\"b" | quote }} {{ indent 1 "z" }}', '"3" "a\\"b"  z'),
        ('{{ .Files.Get (printf "f/%s-%d" .a.b 7) }}', "<f/x-7>"),
        ("{{ and .a.off .a.b | default .a.n }}", "3"),
    ],
)
def test_a_template_does(source: str, expected: str) -> None:
    assert rendered(source) == expected


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ .a.b.c }}", "there is no 'c'"),
        ("{{ lookup `v1` }}", "'lookup' is not known"),
        ("{{ if .a }}", "an end is missing"),
        ("{{ end }}", "is not expected here"),
        ("{{ (.a.b }}", "')' is missing"),
        ("{{ .a ; .b }}", "not understood"),
        ("{{ $y }}", "no variable $y"),
        ("{{ .a.b .a.n }}", "no function"),
        ('{{ include "nobody" . }}', "no template 'nobody'"),
        ('{{ fail "told so" }}', "t: told so"),
    ],
)
def test_what_is_not_known_is_refused(source: str, said: str) -> None:
    with pytest.raises(TemplateError, match="t: ") as caught:
        rendered(source)
    assert said in str(caught.value)
