"""A moto server in a separate process: AWS over HTTP, as far as moto supports it."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

PATIENCE_SECONDS = 30.0
QUIETLY = "import logging; logging.getLogger('werkzeug').setLevel(logging.ERROR); from moto.server import main; main()"
"""Disables the access log, which takes a fifth of the time."""


@contextmanager
def moto_server(bare=False):
    """The address of a server that runs until the end of the block; a bare one has no predefined images."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", QUIETLY, "-H", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, "MOTO_EC2_LOAD_DEFAULT_AMIS": str(not bare).lower()}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        _await_answer(f"{address}/moto-api/data.json", process)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:  # a question of a queue may still stand
            process.kill()
            process.wait()


def forget(address):
    """Reset the server to its initial state."""
    asked = urllib.request.Request(f"{address}/moto-api/reset", method="POST")  # noqa: S310 - our own server
    urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS).close()  # noqa: S310 - our own server


def _await_answer(url, process):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - our own server
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
