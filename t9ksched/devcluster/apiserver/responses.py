"""Answers over HTTP: JSON or YAML bodies, Status objects, warnings."""

from typing import Any

import msgspec
from aiohttp import web

from t9ksched.devcluster.apiserver import options, render
from t9ksched.devcluster.apiserver.media import Form
from t9ksched.devcluster.apiserver.status import StatusError
from t9ksched.model.text import write

Object = dict[str, Any]


def json_response(body: Object, status: int = 200) -> web.Response:
    """A body as JSON."""
    return web.Response(status=status, body=render.encode(body), headers={"Content-Type": "application/json"})


def body_response(raw: bytes, status: int, form: Form) -> web.Response:
    """A body that is JSON already, as JSON or YAML."""
    if form.yaml:
        text = write(msgspec.json.decode(raw)).encode()
        return web.Response(status=status, body=text, headers={"Content-Type": "application/yaml"})
    return web.Response(status=status, body=raw, headers={"Content-Type": "application/json"})


def status_response(error: StatusError) -> web.Response:
    """A refusal as a Status object."""
    response = json_response(error.to_dict(), error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if error.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def warned(response: web.Response, opts: options.WriteOptions) -> web.Response:
    """The response with the warnings of a write."""
    for text in opts.warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response
