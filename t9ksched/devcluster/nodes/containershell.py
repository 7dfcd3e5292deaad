"""Commands in simulated containers: nothing runs on this machine. A few words of a shell answer from the pod itself, so
that what asks for a command (`kubectl exec`, `t9ksched exec`) can be tried: streams, exit codes, a terminal.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from t9ksched.model.names import GPU_INDEX_PREFIX
from t9ksched.model.whole import whole_number

Object = dict[str, Any]
Read = Callable[[], Awaitable[bytes]]
"""The next part of standard input; empty at its end."""
Write = Callable[[bytes], Awaitable[None]]

_SHELLS: Final = ("sh", "bash", "/bin/sh", "/bin/bash")
_INTERRUPT, _END_OF_INPUT = b"\x03", b"\x04"
_MOST_SECONDS: Final = 86_400


class NoSuchCommand(Exception):
    """The image has no program of that name."""


class Shell:
    """Answers commands in one container.

    Args:
        pod: the object.
        container: its name.
        read: reads standard input.
        write: writes standard output.
        complain: writes standard error.
        terminal: whether a person types: with a prompt and an echo.
    """

    def __init__(
        self, pod: Object, container: str, read: Read, write: Write, complain: Write, *, terminal: bool
    ) -> None:
        self._pod = pod
        self._container = next(one for one in pod["spec"]["containers"] if one["name"] == container)
        self._read = read
        self._write = write
        self._complain = complain
        self._terminal = terminal

    async def run(self, command: Sequence[str]) -> int:
        """The exit code of a command.

        Raises:
            NoSuchCommand: there is no such program.
        """
        name, *words = command
        if name in _SHELLS:
            return await self._shell(words)
        answer = await self._answer(name, words)
        if answer is None:
            raise NoSuchCommand(name)
        return answer

    async def _shell(self, words: Sequence[str]) -> int:
        """A shell: one line (`-c`), or lines from standard input."""
        if "-c" in words:
            rest = words[words.index("-c") + 1 :]
            return await self._line(rest[0]) if rest else 2
        if not self._terminal:
            code = 0
            for line in (await self._all()).decode(errors="replace").splitlines():
                if (left := _exits(line, code)) is not None:
                    return left
                code = await self._line(line)
            return code
        return await self._talk()

    async def _talk(self) -> int:
        """Lines that a person types, until `exit` or Ctrl-D."""
        code, typed = 0, b""
        await self._write(b"# ")
        while part := await self._read():
            for sign in (part[at : at + 1] for at in range(len(part))):
                if sign == _END_OF_INPUT and not typed:
                    await self._write(b"\r\n")
                    return code
                if sign == _INTERRUPT:
                    typed = b""
                    await self._write(b"^C\r\n# ")
                elif sign in (b"\x7f", b"\x08"):
                    if typed:
                        typed = typed[:-1]
                        await self._write(b"\x08 \x08")
                elif sign in (b"\r", b"\n"):
                    await self._write(b"\r\n")
                    line, typed = typed.decode(errors="replace"), b""
                    if (left := _exits(line, code)) is not None:
                        return left
                    code = await self._line(line)
                    await self._write(b"# ")
                else:
                    typed += sign
                    await self._write(sign)
        return code

    async def _line(self, line: str) -> int:
        """Commands with `;` and `&&` between them."""
        try:
            words = list(shlex.shlex(line, posix=True, punctuation_chars=";&"))
        except ValueError as error:
            await self._error(f"sh: {error}")
            return 2
        code, command, skip = 0, list[str](), False
        for word in [*words, ";"]:
            if word not in (";", "&&"):
                command.append(word)
                continue
            if command and not skip:
                if (left := _exits(shlex.join(command), code)) is not None:
                    return left
                found = await self._answer(command[0], command[1:])
                if found is None:
                    await self._error(f"sh: {command[0]}: not found")
                code = 127 if found is None else found
            skip = word == "&&" and code != 0
            command = []
        return code

    async def _answer(self, name: str, words: Sequence[str]) -> int | None:
        """The exit code of a program; None if there is none of that name."""
        match name:
            case "true":
                return 0
            case "false":
                return 1
            case "echo":
                await self._print(" ".join(words))
            case "hostname":
                await self._print(str(self._pod["metadata"]["name"]))
            case "env" | "printenv":
                await self._print("\n".join(f"{key}={value}" for key, value in self._environment().items()))
            case "pwd":
                await self._print(str(self._container.get("workingDir") or "/"))
            case "cat" if not words:
                while part := await self._read():
                    await self._write(part)
            case "nvidia-smi":
                await self._print("\n".join(f"GPU {index}: simulated" for index in self._cards()) or "No devices")
            case "sleep":
                seconds = whole_number(words[0]) if words else None
                if seconds is None or seconds > _MOST_SECONDS:
                    await self._error("sleep: a whole number of seconds is missing")
                    return 1
                await asyncio.sleep(seconds)
            case "exit":
                return _exits(shlex.join((name, *words)), 0)
            case _:
                return None
        return 0

    def _environment(self) -> dict[str, str]:
        given = {str(one["name"]): str(one.get("value", "")) for one in self._container.get("env") or ()}
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOSTNAME": self._pod["metadata"]["name"]} | given

    def _cards(self) -> list[str]:
        annotations = self._pod["metadata"].get("annotations") or {}
        return [one for one in annotations.get(GPU_INDEX_PREFIX + self._container["name"], "").split(",") if one]

    async def _all(self) -> bytes:
        parts = []
        while part := await self._read():
            parts.append(part)
        return b"".join(parts)

    async def _print(self, text: str) -> None:
        await self._write(self._ended(text))

    async def _error(self, text: str) -> None:
        await self._complain(self._ended(text))

    def _ended(self, text: str) -> bytes:
        end = "\r\n" if self._terminal else "\n"
        return (text.replace("\n", end) + end).encode()


def _exits(line: str, code: int) -> int | None:
    """The exit code of a line that ends the shell; None of any other."""
    name, _, rest = line.strip().partition(" ")
    if name != "exit":
        return None
    given = whole_number(rest.strip()) if rest.strip() else code
    return 2 if given is None else given & 255
