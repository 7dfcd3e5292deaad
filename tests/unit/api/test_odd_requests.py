"""Whatever is in an address, a query, a header or a body: the answer is a refusal in words, never a mistake of ours."""

import json
import random
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.api.world import World, pytorch

WORKLOADS, QUEUES, TOKENS = "/apis/v1/workloads", "/apis/v1/admin/queues", "/apis/v1/admin/tokens"
ODD = [
    "..",
    "a/b",
    "a b",
    "A_B",
    "-a",
    "x" * 300,
    "ü",
    "%2e%2e",
    "a\nb",
    "\x7f",
    "{}",
    "'--",
    "*",
    "a\\b",
    "?",
    "#",
    "．",
]


async def test_what_cannot_be_a_namespace(world: World) -> None:
    for space in ODD:
        asked = await world.user("GET", f"{WORKLOADS}?namespace={quote(space, safe='')}")
        assert (asked.status, asked.paths) == (422, ["query.namespace"]), space
        submitted = await world.user("POST", f"{WORKLOADS}?namespace={quote(space, safe='')}", pytorch())
        assert (submitted.status, submitted.paths) == (422, ["query.namespace"]), space
        in_the_object = await world.user("POST", WORKLOADS, pytorch(namespace=space))
        assert (in_the_object.status, in_the_object.paths) == (422, ["metadata.namespace"]), space
        assert world.kube.objects == {}, space


@pytest.mark.parametrize(
    "address",
    [
        "/apis/v1/workloads/default/pod/{}",
        "/apis/v1/workloads/{}/pod/p",
        "/apis/v1/workloads/default/pod/{}/explanation",
        "/apis/v1/workloads/default/{}/p/history",
        "/apis/v1/queues/{}",
        "/apis/v1/nodes/{}",
        "/apis/v1/admin/queues/{}/members",
    ],
)
async def test_what_cannot_be_a_name(world: World, address: str) -> None:
    for name in ODD:
        refused = await world.admin("GET", address.format(quote(name, safe="")))
        assert refused.status in (404, 422), (name, refused.body)


@pytest.mark.parametrize(
    "tag", ['"' + "9" * 5000 + '"', '"-1"', '"1.5"', "9" * 20, '"' + "9" * 19 + '"', "W/", '"', ",,,", '"٣"']
)
async def test_if_match(world: World, tag: str) -> None:
    made = await world.admin("POST", QUEUES, {"name": "q"})
    assert made.status == 201
    refused = await world.admin("PATCH", f"{QUEUES}/q", {"labels": {"a": "b"}}, If_Match=tag)
    assert (refused.status, refused.body["code"]) == (412, "PreconditionFailed")


@pytest.mark.parametrize("token", ["t9k_ü", "\xff\xfe", "t9k_" + "é" * 40, "x" * 100_000])
async def test_tokens_of_other_letters(world: World, token: str) -> None:
    try:
        refused = await world.nobody("GET", WORKLOADS, Authorization=f"Bearer {token}")
    except OSError:  # a header too long for the server: it hangs up
        return
    assert refused.status in (400, 401, 431)


BODIES = (
    "kind: !!timestamp foo",
    'kind: !!int ""',
    "metadata: !!set {a}",
    "kind: Pod\nmetadata: {name: !!binary '////'}",
    "kind: Pod\nmetadata: {name: 010, namespace: on}",
    "&a [*a]",
    "%YAML 9.9\n---\nkind: Pod",
    "%TAG ! x:\n---\nkind: !a Pod",
    "? {a: b}\n: c",
    "kind: Pod\nspec: !!python/object/apply:os.system [id]",
    "\x00",
    "kind: \x85\u2028\ufeff",
    "!<tag:yaml.org,2002:str> kind: Pod",
    "{kind: Pod, metadata: {name: p, labels: {a: 1.5, b: yes}}}",
)


@pytest.mark.parametrize("address", [WORKLOADS, QUEUES, TOKENS])
async def test_odd_yaml(world: World, address: str) -> None:
    for text in BODIES:
        refused = await world.admin("POST", address, text)
        assert 400 <= refused.status < 500, (text, refused.body)


async def test_requests_put_together_at_random(world: World) -> None:
    """Addresses, queries, media types, encodings and bodies at random, from one seed."""
    rng = random.Random(13)
    document = (await world.nobody("GET", "/openapi.json")).body
    routes = [(method.upper(), path) for path, item in document["paths"].items() for method in item]
    values: list[Any] = [None, True, 0, -1, 2**70, 1.5, "", "x" * 2000, [], {}, [[]], {"": None}, "\ud83d\ude00", *ODD]
    for _ in range(400):
        method, path = rng.choice(routes)
        for parameter in ("namespace", "kind", "name", "what"):
            path = path.replace(f"{{{parameter}}}", quote(rng.choice([*ODD, "default", "pod", "q"]), safe=""))
        if rng.random() < 0.5:
            key = rng.choice(["namespace", "queue", "priority", "timeLimit", "dryRun", "after", "limit", "since", "by"])
            path += f"?{key}={quote(str(rng.choice(values)).encode('utf-8', 'ignore'), safe='')}"
        keys = [
            "kind",
            "metadata",
            "spec",
            "name",
            "duration",
            "labels",
            "members",
            "role",
            "user",
            "priority",
            "items",
        ]
        body = {rng.choice(keys): rng.choice(values) for _ in range(rng.randrange(6))}
        text = rng.choice([json.dumps(body), *BODIES]).encode("utf-8", "surrogatepass")
        media = rng.choice(
            ["application/json", "application/yaml", "text/plain", "application/json; charset=utf-7", ""]
        )
        sent = None if method == "GET" else text
        answer = await world.admin(method, path, sent, Content_Type=media, If_Match=rng.choice(['"1"', "*", "?"]))
        assert answer.status < 500, (method, path, media, text, answer.body)


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip", "x" * 5000])
async def test_a_compressed_body(world: World, encoding: str) -> None:
    refused = await world.user("POST", WORKLOADS, pytorch(), Content_Encoding=encoding)
    assert (refused.status, refused.body["code"]) == (415, "Malformed")
    assert "without Content-Encoding" in refused.body["remedy"]
    assert world.kube.objects == {}


async def test_a_body_that_says_it_is_not_compressed(world: World) -> None:
    assert (await world.admin("POST", QUEUES, {"name": "q"}, Content_Encoding="identity")).status == 201
