"""``alignkit serve``."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from alignkit.errors import AlignkitError
from alignkit_cli import shared
from alignkit_cli.parameter_types import COUNT, InputPath


@shared.command("serve", "alignkit serve m.npz --port 8765")
@shared.argument("models", "MODEL...", nargs=-1, type=InputPath(folder=True))
@click.option("--port", type=click.IntRange(0, 65535), default=8765)
@click.option("--host", default="127.0.0.1")
@click.option("--token-file", type=InputPath())
@click.option("--max-bytes", type=COUNT, default=1 << 20)
@click.option("--max-seconds", type=COUNT, default=30)
@shared.work_options
def serve_command(models: tuple[str, ...], port: int, host: str, **options: Any) -> None:
    """Keep saved models in memory, and answer requests in JSON.

    POST /align, /project, /omissions and /score take {"source": ..., "target": ...}, each a sentence or a list of
    sentences, and may name a "model"; /docs describes them. Requests that wait are answered together. No request
    can name a file. Ctrl-C or SIGTERM ends the server after the requests that it has.

    Args:
        MODEL: Saved models or runs of `alignkit train`. Requests name one by its file name without the ending; the
            first is the default.
        --port: The port; 0 takes any that is free.
        --host: The address to listen on. One that other machines reach needs --token-file.
        --token-file: A file whose first line every request must send as `Authorization: Bearer LINE`.
        --max-bytes: The largest request.
        --max-seconds: The longest time of a request.
    """
    from alignkit.support.packages import need

    need("fastapi", "uvicorn")
    import uvicorn

    from alignkit.aligner import load_aligner
    from alignkit.uses.server import LOCAL, application

    token, token_file = None, options["token_file"]
    if token_file is not None:
        token = next(iter(Path(token_file).read_text(encoding="utf-8").splitlines()), "").strip()
        if not token:
            raise click.UsageError(f"{token_file}: has no token in its first line.")
    if token is None and not is_loopback(host):
        raise click.UsageError(f"--host {host} can be reached by other machines; give --token-file, too.")
    named: dict[str, Any] = {}
    for path in models:
        name = Path(path).name if Path(path).is_dir() else Path(path).stem
        if name in named:
            raise click.UsageError(f"Two models have the name {name!r}.")
        named[name] = load_aligner(path, options["threads"])
        named[name].align_batch(["a"], ["a"])  # which loads the kernels
    limits = options["max_bytes"], options["max_seconds"]
    app = application(named, token, *limits, LOCAL if is_loopback(host) else None)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise AlignkitError(f"cannot listen on {host}, port {port}: {error.strerror}; choose another") from error
    # Connections inherit it; asyncio sets it only where it made the socket, and each answer would wait for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    shown = f"[{host}]" if ":" in host else host
    place = f"http://{shown}:{listener.getsockname()[1]}"
    shared.note(f"listening on {place}, models: {', '.join(named)}", options["quiet"])
    with suppress(KeyboardInterrupt):  # uvicorn has ended by the signal, and sends it again
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listener])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
