"""`make audit` says so when it cannot audit anything, and does not blame a package."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@contextmanager
def index(status, body):
    """A package index on loopback that gives one answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/pypi/requests/2.19.0/json"
        finally:
            server.shutdown()
            thread.join()


def check(url):
    script = str(ROOT / "requirements" / "check_database.py")
    return subprocess.run([sys.executable, script, url], capture_output=True, text=True, check=False)


def test_a_database_with_vulnerabilities_is_usable():
    with index(200, json.dumps({"vulnerabilities": [{"id": "PYSEC-2018-28"}]}).encode()) as url:
        done = check(url)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"", "it answers 404 Not Found"),
        (200, b'{"vulnerabilities": []}', "a mirror without them"),
        (200, b"[]", "'list' object"),
        (200, b"<html>", "Expecting value"),
    ],
)
def test_another_answer_is_an_error_that_says_what_to_do(status, body, words):
    with index(status, body) as url:
        done = check(url)
    assert done.returncode == 2
    assert words in done.stderr
    assert "nothing was audited" in done.stderr
    assert "make sbom" in done.stderr


def test_no_network_is_an_error_that_says_what_to_do():
    done = check("http://127.0.0.1:1/")
    assert done.returncode == 2
    assert "refused" in done.stderr


def test_make_audit_checks_the_database_first():
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile[makefile.index("\naudit:") : makefile.index("\nclean:")]
    assert recipe.index("requirements/check_database.py") < recipe.index("pip-audit --strict")
