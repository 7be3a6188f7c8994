"""Ranks in two network namespaces, which have nothing but a cable between them, as two machines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import environment
from .test_sharing import run, write_text

NAMES = f"alignkit{os.getpid()}a", f"alignkit{os.getpid()}b"
ADDRESSES = "10.213.77.1", "10.213.77.2"
CABLE = "akcable0", "akcable1"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


@pytest.fixture
def networks() -> Iterator[tuple[str, str]]:
    """Two namespaces with an address each; skips the test where the system does not allow them."""
    if shutil.which("ip") is None:
        pytest.skip("needs the program ip to make network namespaces")
    try:
        try:
            for name in NAMES:
                ip("netns", "add", name)
            ends = [part for name, end in zip(NAMES, CABLE, strict=True) for part in (end, name)]
            ip("link", "add", ends[0], "netns", ends[1], "type", "veth", "peer", "name", ends[2], "netns", ends[3])
            for name, end, address in zip(NAMES, CABLE, ADDRESSES, strict=True):
                ip("-n", name, "address", "add", f"{address}/24", "dev", end)
                ip("-n", name, "link", "set", end, "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not allowed here: {error.stderr.decode().strip()}")
        yield NAMES
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30, check=False)


def test_two_networks_find_the_bytes_of_one_process(networks: tuple[str, str], tmp_path: Path) -> None:
    source, target = write_text(tmp_path, 60)
    program = ["-m", "alignkit", "ibm1", "--symmetrize", "grow-diag", str(source), str(target)]
    wanted = run(sys.executable, *program).stdout
    launch = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--master-port", "29512"]
    launch += ["--master-addr", ADDRESSES[0]]
    nodes = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, *launch, "--node-rank", str(node), *program],
            env={**environment(), "GLOO_SOCKET_IFNAME": end},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for node, (name, end) in enumerate(zip(networks, CABLE, strict=True))
    ]
    try:
        found = [node.communicate(timeout=120) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    assert [node.returncode for node in nodes] == [0, 0], found
    assert found[0][0] == wanted
    assert found[1][0] == b""
