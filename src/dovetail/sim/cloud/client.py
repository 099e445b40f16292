"""The simulated cloud as one controller process reaches it: every call takes time and can fail.

Calls pass the gate of the cluster they are made beside, so that the same faults strike both: an error before the
effect, an error after it, a slow call, the death of the process. The gate sees calls of the kind `Instance`. What it
raises becomes a `CloudError`, as a provider raises it.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from dovetail.model.kube_object import Key
from dovetail.ports.errors import ApiError, CloudError
from dovetail.sim.cloud.instances import InstanceRecord, LaunchRequest
from dovetail.sim.cloud.service import SimulatedCloud

T = TypeVar("T")
INSTANCE = "Instance"


class CallGate(Protocol):
    """Where calls take their time and faults come in."""

    async def enter(self, operation: str, kind: object, key: Key | None) -> None:
        """Before the call has any effect."""
        ...

    async def leave(self, operation: str, kind: object, key: Key | None) -> None:
        """After its effect, before its answer."""
        ...


class CloudClient:
    """The API of the cloud for one process."""

    def __init__(self, cloud: SimulatedCloud, gate: CallGate) -> None:
        self._cloud = cloud
        self._gate = gate

    async def launch(self, request: LaunchRequest) -> InstanceRecord:
        """Launch an instance, or return the one launched with the token before, though it may have ended since."""
        return await self._write("launch", request.claim, lambda: self._cloud.launch(request))

    async def terminate(self, provider_id: str) -> None:
        """Begin to end an instance; `InstanceNotFound` once it is gone."""
        await self._write("terminate", provider_id, lambda: self._cloud.terminate(provider_id))

    async def describe(self, provider_id: str) -> InstanceRecord:
        """One instance that exists, or `InstanceNotFound`."""
        return await self._read("get", provider_id, lambda: self._cloud.describe(provider_id))

    async def find(self, token: str) -> InstanceRecord | None:
        """The instance launched with a token, though it may have ended since."""
        return await self._read("get", token, lambda: self._cloud.find(token))

    async def list(self) -> tuple[InstanceRecord, ...]:
        """Every instance that exists; the answer may be some time behind."""
        return await self._read("list", "", self._cloud.list)

    async def _read(self, operation: str, name: str, call: Callable[[], T]) -> T:
        await self._pass(self._gate.enter, operation, name)
        return call()

    async def _write(self, operation: str, name: str, call: Callable[[], T]) -> T:
        answer = await self._read(operation, name, call)
        await self._pass(self._gate.leave, operation, name)
        return answer

    async def _pass(
        self, side: Callable[[str, object, Key | None], Awaitable[None]], operation: str, name: str
    ) -> None:
        try:
            await side(operation, INSTANCE, Key("", name) if name else None)
        except ApiError as error:
            raise CloudError(f"{operation} {name or 'instances'}: {error}") from error
