"""A headless Chromium driven over its debugging pipe, with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"),
    "--disable-dev-shm-usage",
)


def chromium() -> str | None:
    """Where Chromium is; None if it is not installed."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page. Messages are JSON objects that end in a zero byte, on file descriptors 3 and 4.

    Attributes:
        problems: what the console said of errors, exceptions, refused loads, and every address asked for.
    """

    def __init__(self, folder: Path, timeout: float = 60) -> None:
        self.timeout = timeout
        self.waiting = b""
        self.number = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        here, there = os.pipe(), os.pipe()  # to the browser, from the browser

        def plumb() -> None:
            # Out of the way of 3 and 4 first, which may be among them.
            a, b = os.dup(here[0]), os.dup(there[1])
            c, d = os.dup(a), os.dup(b)
            os.dup2(c, 3)
            os.dup2(d, 4)

        self.process = subprocess.Popen(
            [str(chromium()), *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=plumb,
        )
        os.close(here[0])
        os.close(there[1])
        self.out, self.back = here[1], there[0]
        self.session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: object) -> dict:
        """One command; returns its result."""
        self.number += 1
        message: dict[str, object] = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _read(self) -> dict:
        end = time.monotonic() + self.timeout
        while b"\0" not in self.waiting:
            ready, _, _ = select.select([self.back], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self.back, 1 << 16)
            assert part, "the browser ended"
            self.waiting += part
        text, _, self.waiting = self.waiting.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, details: dict) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(details["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(details["args"])[:500])
        elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.problems.append(details["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def size(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """The size of the window, the colours that the reader prefers, and whether it is a phone."""
        scale = 2 if phone else 1
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def open(self, path: Path) -> None:
        """Opens a file and waits until its script has run."""
        self.send("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + self.timeout
        while self.run("document.documentElement?.dataset.ready") != "yes":
            assert time.monotonic() < end, f"the page never was ready: {self.problems}"
            time.sleep(0.05)

    def run(self, expression: str) -> object:
        """The value of a JavaScript expression in the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def key(self, name: str, code: int) -> None:
        """Presses and lets go a key."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Types into what has the focus."""
        self.send("Input.insertText", text=text)

    def mouse(self, x: float, y: float, kind: str = "mouseMoved", **more: object) -> None:
        """Moves the mouse, in pixels of the window."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, path: Path, *, whole: bool = False, box: Sequence[float] | None = None) -> None:
        """A screenshot as PNG: of the window, the whole page, or a box (x, y, width, height) of the page."""
        clip = {}
        if box is not None:
            clip = {"clip": {**dict(zip(("x", "y", "width", "height"), box, strict=True)), "scale": 1}}
        found = self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole or bool(clip), **clip
        )
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """Ends the browser and everything it started."""
        self.session = None
        os.write(self.out, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.back)
