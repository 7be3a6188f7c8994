"""The lifeline between ranks: a rank that dies, however suddenly, ends all others with a line that names it.

Every rank holds a connection to rank 0 on which nothing is said until it ends. The kernel closes the connections
of a process that is killed, and keepalive probes notice a machine or a network that is gone, so that no rank waits
in vain for another. A rank says before it leaves whether it is done.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from alignkit.distributed.launch import Launch
from alignkit.errors import AlignkitError

PATIENCE = 30.0  #: seconds that files are given to be finished before a process ends
_IDLE, _BETWEEN, _PROBES = 10, 5, 4  # keepalive: seconds before the first probe and between probes; their number
_SILENCE = _IDLE + _BETWEEN * (_PROBES + 1)  # seconds after which a machine that is gone is noticed
_TOKEN = 32  # bytes that a connection begins with, so that nobody else's is taken for a rank's
_DONE, _FAILED, _DIED = "done", "failed", "died"


class Lifeline:
    """The watch of one rank over the others.

    Attributes:
        launch: of this process.
        remedy: advice at the end of the line that names a lost rank.
    """

    def __init__(self, launch: Launch, remedy: str = "") -> None:
        self.launch, self.remedy = launch, remedy
        self._names: dict[int, str] = {}
        self._links: dict[int, socket.socket] = {}
        self._files = threading.RLock()
        self._done: set[int] = set()
        self._all_done = threading.Event()
        self._leaving = self._lost = False

    def listen(self) -> dict[str, Any]:
        """At rank 0: open a port for the others; returns what they need for :meth:`connect`."""
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._server = socket.create_server(
            ("", 0), family=family, backlog=self.launch.world_size, dualstack_ipv6=both
        )
        self._token = secrets.token_bytes(_TOKEN)
        return {"port": self._server.getsockname()[1], "token": self._token.hex(), "name": _own_name()}

    def accept(self) -> None:
        """At rank 0: wait for all others, and start to watch.

        Raises:
            AlignkitError: one does not come.
        """
        self._server.settimeout(60)
        try:
            while len(self._links) < self.launch.world_size - 1:
                link, _ = self._server.accept()
                link.settimeout(60)
                with suppress(OSError, ValueError, KeyError):
                    stream = link.makefile("rb")
                    if hmac.compare_digest(stream.read(_TOKEN), self._token):
                        hello = json.loads(stream.readline(4096))
                        self._names[hello["rank"]] = str(hello["name"])
                        self._links[hello["rank"]] = link
        except TimeoutError:
            missing = sorted({*range(1, self.launch.world_size)} - {*self._links})
            raise AlignkitError(f"rank {missing[0]} did not connect to rank 0 within a minute") from None
        finally:
            self._server.close()
        self._watch()

    def connect(self, found: dict[str, Any]) -> None:
        """At any other rank: connect to rank 0, and start to watch.

        Raises:
            AlignkitError: it cannot be reached.
        """
        place = (self.launch.address, found["port"])
        try:
            link = socket.create_connection(place, timeout=60)
        except OSError as error:
            raise AlignkitError(f"cannot connect to rank 0 at {place[0]}:{place[1]}: {error.strerror}") from error
        hello = json.dumps({"rank": self.launch.rank, "name": _own_name()})
        link.sendall(bytes.fromhex(found["token"]) + hello.encode() + b"\n")
        self._links, self._names = {0: link}, {0: found["name"]}
        self._watch()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within the block files are written: if a rank is lost, this process ends only after the block."""
        with self._files:
            yield

    def await_verdict(self) -> None:
        """After a connection between ranks has failed: if the reason is a lost rank, this does not return."""
        time.sleep(2 * PATIENCE if self._lost else _SILENCE)
        if self._lost:
            time.sleep(2 * PATIENCE)

    def leave(self, failed: bool) -> None:
        """The watch ends: when all ranks are done; or at once, if this one has failed and said why.

        Does not return if a rank was lost and the process is being ended for it.
        """
        if self._lost:
            time.sleep(2 * PATIENCE)
        if failed:
            self._leaving = True
            self._say_to_all(_FAILED)
        elif self.launch.rank == 0:
            self._all_done.wait()
            self._leaving = True
            self._say_to_all(_DONE)
        else:
            self._say_to_all(_DONE)
            self._all_done.wait()

    def _say_to_all(self, how: str) -> None:
        for link in self._links.values():
            with suppress(OSError):
                _say(link, how, self.launch.rank)
                link.shutdown(socket.SHUT_WR)

    def _watch(self) -> None:
        for link in self._links.values():
            link.settimeout(None)
            _keep_alive(link)
        threading.Thread(target=self._listen_to_all, name="lifeline", daemon=True).start()

    def _listen_to_all(self) -> None:
        heard: dict[int, bytes] = dict.fromkeys(self._links, b"")
        with selectors.DefaultSelector() as selector:
            for rank, link in self._links.items():
                selector.register(link, selectors.EVENT_READ, rank)
            while selector.get_map():
                for key, _ in selector.select():
                    rank, link = key.data, self._links[key.data]
                    try:
                        part = link.recv(4096)
                    except OSError:
                        part = b""
                    heard[rank] += part
                    if part and not part.endswith(b"\n"):
                        continue
                    selector.unregister(link)
                    self._judge(rank, heard[rank])

    def _judge(self, rank: int, heard: bytes) -> None:
        """End this process if what a rank last said is not that it is done."""
        said: dict[str, Any] = json.loads(heard) if heard.endswith(b"\n") else {"how": _DIED, "rank": rank}
        if said["how"] == _DONE:
            self._done.add(rank)
            if self._done == {*self._links}:
                self._all_done.set()
        if said["how"] == _DONE or self._leaving:
            return
        self._lost = True
        lost = said["rank"]
        said.setdefault("name", self._names.get(lost, ""))
        for other, link in self._links.items():
            if other != rank:
                with suppress(OSError):
                    _say(link, said["how"], lost, said["name"])
        self._end(lost, said["how"], said["name"])

    def _end(self, lost: int, how: str, name: str) -> NoReturn:
        # The line comes at once: torchrun ends all processes of its machine within a second.
        if self._speaks(lost, how):
            remedy = f"; {self.remedy}" if self.remedy else ""
            line = f"rank {lost} ({name}) {how}, so the other ranks stop{remedy}"
            with suppress(OSError):
                start = "\n" if sys.stderr.isatty() else ""  # a progress bar may be on the line
                print(f"{start}alignkit: error: {line}", file=sys.stderr, flush=True)
        self._files.acquire(timeout=PATIENCE)
        os._exit(2)

    def _speaks(self, lost: int, how: str) -> bool:
        """True if this process is the one of its machine that tells of a lost rank.

        It is the machine's first, or its second if the first is lost. A rank that failed has said why itself.
        """
        mine, first = self.launch.local_rank, self.launch.rank - self.launch.local_rank
        here = first <= lost < first + self.launch.local_world_size
        return (mine == 0 or (mine == 1 and lost == first)) and not (here and how == _FAILED)


def _own_name() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _say(link: socket.socket, how: str, rank: int, name: str | None = None) -> None:
    said = {"how": how, "rank": rank} | ({} if name is None else {"name": name})
    link.sendall(json.dumps(said).encode() + b"\n")


def _keep_alive(link: socket.socket) -> None:
    """Have the kernel probe the other side, and close the connection if there is no answer."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": _IDLE, "TCP_KEEPINTVL": _BETWEEN, "TCP_KEEPCNT": _PROBES}
    for option, value in options.items():
        if hasattr(socket, option):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
