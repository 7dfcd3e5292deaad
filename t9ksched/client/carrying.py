"""Carries out operations: sends what they yield and waits where they wait, blocking or on asyncio."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from t9ksched.client.calls import Answer, Call
from t9ksched.client.errors import ClientError, Unreachable
from t9ksched.client.logs import LogOperation, LogStream
from t9ksched.client.models import LogLine
from t9ksched.client.operations import Operation, T, resumed
from t9ksched.client.sending import Transport

if TYPE_CHECKING:
    from t9ksched.client.async_sending import AsyncTransport


def carry_out(transport: Transport, operation: Operation[T]) -> T:
    """The value of an operation."""
    try:
        step = next(operation)
        while True:
            step = resumed(operation, _done(transport, step))
    except StopIteration as end:
        result: T = end.value
        return result


def lines(transport: Transport, operation: LogOperation) -> Iterator[LogLine]:
    """The lines of a log, as they come."""
    try:
        step = next(operation)
        while True:
            if not isinstance(step, LogStream):
                step = resumed(operation, _done(transport, step))
                continue
            broken: ClientError | None = None
            try:
                for part in transport.stream(step.call):
                    yield from step.feed(part)
                yield from step.end()
            except ClientError as error:
                broken = error
            step = operation.send(broken)
    except StopIteration:
        return


async def carry_out_async(transport: "AsyncTransport", operation: Operation[T]) -> T:
    """The value of an operation."""
    try:
        step = next(operation)
        while True:
            step = resumed(operation, await _done_async(transport, step))
    except StopIteration as end:
        result: T = end.value
        return result


async def lines_async(transport: "AsyncTransport", operation: LogOperation) -> AsyncGenerator[LogLine, None]:
    """The lines of a log, as they come."""
    try:
        step = next(operation)
        while True:
            if not isinstance(step, LogStream):
                step = resumed(operation, await _done_async(transport, step))
                continue
            broken: ClientError | None = None
            try:
                async with aclosing(transport.stream(step.call)) as parts:
                    async for part in parts:
                        for line in step.feed(part):
                            yield line
                for line in step.end():
                    yield line
            except ClientError as error:
                broken = error
            step = operation.send(broken)
    except StopIteration:
        return


def _done(transport: Transport, step: Call | float) -> Answer | Unreachable | None:
    if not isinstance(step, Call):
        time.sleep(step)
        return None
    try:
        return transport.send(step)
    except Unreachable as error:
        return error


async def _done_async(transport: "AsyncTransport", step: Call | float) -> Answer | Unreachable | None:
    if not isinstance(step, Call):
        await asyncio.sleep(step)
        return None
    try:
        return await transport.send(step)
    except Unreachable as error:
        return error
