"""A moto server in a process of its own: AWS over HTTP, as far as moto plays it."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

PATIENCE_SECONDS = 30.0


@contextmanager
def moto_server():
    """The address of a server that lives until the end of the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
