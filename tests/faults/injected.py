"""What an API server, or something on the way to it, can do wrong."""

import asyncio

from aiohttp import web

from dovetail.model.kinds import POD
from faults.server import Fault

DEEP = b"[" * 5_000 + b"]" * 5_000


class Silent(Fault):
    """Watches of pods stay open and say nothing, until the fault is over and all that was held back comes."""

    def __init__(self):
        self._over = asyncio.Event()
        self.end = self._over.set

    async def told(self, ask, line, _due_at):
        if ask.kind == POD:
            await self._over.wait()
        return line


class Dead(Fault):
    """Watches of every kind stay open and never say anything again."""

    async def told(self, _ask, _line, _due_at):
        await asyncio.Event().wait()


class Late(Fault):
    """Watches of pods say everything, and bookmarks, 25 seconds late."""

    async def told(self, ask, line, due_at):
        if ask.kind == POD:
            await asyncio.sleep(max(0.0, due_at + 25.0 - asyncio.get_running_loop().time()))
        return line


class Mangled(Fault):
    """The first place like this in all that is read, and in each line of a watch, has bytes put after it."""

    def __init__(self, place, put, kind=None):
        self._place, self._put, self._kind = place, put, kind

    def _mangle(self, ask, data):
        hit = self._kind in (None, ask.kind)
        return data.replace(self._place, self._place + self._put, 1) if hit else data

    def answered(self, ask, body):
        return self._mangle(ask, body) if ask.verb in {"list", "get"} else body

    async def told(self, ask, line, _due_at):
        return self._mangle(ask, line)


class Endless(Fault):
    """Each watch of pods sends a line that does not end."""

    async def told(self, ask, line, _due_at):
        return b'{"type":"ADDED","object":{"x":"' + b"x" * (17 << 20) if ask.kind == POD else line


class Refused(Fault):
    """Every call is answered like this, and every watch is cut as soon as it has something to say."""

    def __init__(self, status, headers=None):
        self._status, self._headers = status, headers

    async def refuse(self, _ask):
        return web.json_response({"kind": "Status", "code": self._status}, status=self._status, headers=self._headers)

    async def told(self, _ask, _line, _due_at):
        raise ConnectionResetError("cut by the fault")


class Truncated(Fault):
    """Every answer and every line of a watch ends in the middle."""

    def answered(self, _ask, body):
        return body[: len(body) // 2]

    async def told(self, _ask, line, _due_at):
        return line[: len(line) // 2] + b"\n"


class Garbage(Fault):
    """Every answer and every line of a watch is something else."""

    def __init__(self, text):
        self._text = text

    def answered(self, _ask, _body):
        return self._text

    async def told(self, _ask, _line, _due_at):
        return self._text + b"\n"
