"""An OTLP/HTTP receiver on loopback. It decodes the protobuf messages with the classes of the OTLP specification."""

import gzip
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as a collector sees it. `children` are filled once all spans are known."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    began: int  # nanoseconds since 1970
    ended: int
    attributes: dict
    links: tuple  # of trace and span id
    error: str  # empty: no error


@dataclass
class Received:
    """What the receiver got; `status` is what it answers."""

    url: str = ""
    status: int = 200
    requests: list = field(default_factory=list)  # path and content type
    resources: list = field(default_factory=list)
    spans: list = field(default_factory=list)

    def named(self, name):
        return [each for each in self.spans if each.name == name]

    def one(self, name, **attributes):
        (found,) = [each for each in self.named(name) if attributes.items() <= each.attributes.items()]
        return found

    def children(self, span):
        return [each for each in self.spans if (each.trace_id, each.parent_id) == (span.trace_id, span.span_id)]

    def tree(self, span):
        """The names below a span, in the order of their beginning."""
        below = sorted(self.children(span), key=lambda each: each.began)
        return {span.name: [self.tree(each) if self.children(each) else each.name for each in below]}


def _value(value):
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def _attributes(pairs):
    return {each.key: _value(each.value) for each in pairs}


def _spans(message):
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            for each in scope.spans:
                yield ReceivedSpan(
                    name=each.name,
                    trace_id=each.trace_id.hex(),
                    span_id=each.span_id.hex(),
                    parent_id=each.parent_span_id.hex(),
                    began=each.start_time_unix_nano,
                    ended=each.end_time_unix_nano,
                    attributes=_attributes(each.attributes),
                    links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in each.links),
                    error=each.status.message if each.status.code == each.status.STATUS_CODE_ERROR else "",
                )


@contextmanager
def otlp_receiver():
    """Run a receiver; yield what it receives."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.requests.append((self.path, self.headers["Content-Type"]))
            if received.status == 200:
                message = ExportTraceServiceRequest.FromString(body)
                received.resources += [_attributes(each.resource.attributes) for each in message.resource_spans]
                received.spans += _spans(message)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(received.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()
