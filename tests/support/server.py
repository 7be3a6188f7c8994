"""A web server on this machine whose answers a test can spoil."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Serves files from memory.

    Attributes:
        files: path -> content.
        asked: the path of every request.
        stop_after: bytes after which the connection breaks, once; None for whole answers.
        says_length: whether answers have a Content-Length.
        length: the Content-Length, if it is not the true one.
        reason: why a file is not there.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.stop_after: int | None = None
        self.says_length = True
        self.length: str | None = None
        self.reason = "Not Found"
        self.redirects: dict[str, str] = {}
        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.httpd.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.httpd.server_port}/{path}"

    def close(self) -> None:
        self.httpd.shutdown()
        self.httpd.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.lstrip("/")
        self.asked.append(path)
        if path in self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects[path])
            request.end_headers()
            return
        if path not in self.files:
            request.send_error(404, self.reason)
            return
        content = self.files[path]
        request.send_response(200)
        if self.says_length:
            request.send_header("Content-Length", self.length or str(len(content)))
        request.end_headers()
        if self.stop_after is not None:
            content, self.stop_after = content[: self.stop_after], None
        request.wfile.write(content)
