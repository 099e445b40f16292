"""The official Python client's side of the comparison in decode.py: its deserialisation and its watch, as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes import client as official
from kubernetes import watch as watching

import podcorpus
from decode_measure import Meter, chunks, run

api: Any = official.ApiClient()
lines_of: Any = watching.watch.iter_resp_lines
watch: Any = watching.Watch  # typed as Any: the package has no types of its own


def read_page(data: bytes) -> Any:
    return api.deserialize(data.decode(), official.V1PodList, "application/json").items


def measure_list(corpus: Path) -> dict[str, float]:
    read_page(b'{"items":[]}')  # its models are made on first use
    meter, pods = Meter(), []
    for page in podcorpus.pages(corpus):
        pods += meter.clocked(read_page, page.read_bytes())
    return meter.reading(len(pods))


class Response:
    """As much of a response as the watch asks for."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def stream(self, **_: object) -> Iterator[bytes]:
        """The body, in pieces."""
        return chunks(self._file)


def measure_watch(corpus: Path) -> dict[str, float]:
    read_page(b'{"items":[]}')
    meter, watcher, pods = Meter(), watch(), []
    lines = lines_of(Response(podcorpus.watch(corpus)))

    def read_event() -> Any:
        line = next(lines, None)
        return line and watcher.unmarshal_event(line, official.V1Pod)["object"]

    while pod := meter.clocked(read_event):
        pods.append(pod)
    return meter.reading(len(pods))


if __name__ == "__main__":
    run({"list": measure_list, "watch": measure_watch})
