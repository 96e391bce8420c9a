"""A headless Chromium for tests: what it logs about a page, and what it makes of it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--v=0",
)


def chromium() -> str | None:
    """The browser's path, or None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def browse(page: Path, *arguments: str) -> tuple[str, list[str]]:
    """What the browser prints, and the lines that the page left in its console."""
    program = chromium()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [program, *FLAGS, f"--user-data-dir={profile}", *arguments, page.as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
