"""A command that runs until it is told to stop: SIGINT and SIGTERM end it in order, a second one at once."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from t9ksched.cli.failure import Failure
from t9ksched.scheduler.act import batching
from t9ksched.serving import descriptors


def run_until_stopped(main: Coroutine[Any, Any, int]) -> int:
    """Run `main`; its exit code, or 0 when a signal ended it and it stopped cleanly.

    Raises:
        Failure: the process may not open enough files to do its work.
    """
    try:
        descriptors.ensure()
    except descriptors.TooFewDescriptors as error:
        main.close()
        raise Failure(f"The start failed: {error.message}.", remedy=error.remedy) from None

    async def guarded() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(main)
        told = False

        def stop() -> None:
            nonlocal told
            told = True
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        try:
            return await task
        except asyncio.CancelledError:
            if not told:
                raise
            return 0

    return batching.run(guarded())
