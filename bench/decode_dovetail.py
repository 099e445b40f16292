"""Dovetail's side of the comparison in decode.py: the client's own code, from bytes to pods."""

from pathlib import Path

import podcorpus
from decode_measure import Meter, chunks, run
from dovetail.kube.decode import LineReader, ListPages, change_of
from dovetail.kube.requests import ApiRequest
from dovetail.kube.transport import DEFAULT_LIMITS
from dovetail.manifest.codec import Interner
from dovetail.model.kinds import POD

WATCH = ApiRequest(method="GET", path="/api/v1/pods")


def measure_list(corpus: Path) -> dict[str, float]:
    meter, gathered = Meter(), ListPages(POD, Interner())
    for page in podcorpus.pages(corpus):
        meter.clocked(gathered.add, page.read_bytes())
    return meter.reading(len(gathered.items))


def measure_watch(corpus: Path) -> dict[str, float]:
    meter, lines, sharing, pods = Meter(), LineReader(DEFAULT_LIMITS.most_bytes), Interner(), list[object]()

    def feed(chunk: bytes) -> None:
        pods.extend(change_of(POD, line, WATCH, sharing).object for line in lines.feed(chunk))

    for chunk in chunks(podcorpus.watch(corpus)):
        meter.clocked(feed, chunk)
    return meter.reading(len(pods))


if __name__ == "__main__":
    run({"list": measure_list, "watch": measure_watch})
