"""The page in a real browser: no console message, nothing loaded, nothing too wide."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from reconstruct.cli import main
from reconstruct.reports.page import write_page
from tests.reports.browser import browse, chromium
from tests.reports.conftest import EVIL, run_in_memory, small_target, write_folder

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)

ACAS = Path(__file__).parents[3] / "shared/targets/acasxu/ACASXU_run2a_1_1_batch_2000.onnx"


def test_the_page_is_silent_and_a_layer_name_is_text(tmp_path: Path) -> None:
    write_folder(tmp_path, *run_in_memory(small_target(EVIL)))
    write_page(tmp_path)
    shown, console = browse(tmp_path / "report.html", "--dump-dom")
    assert console == []
    assert "<script" not in shown and "&lt;script&gt;alert(1)&lt;/script&gt;" in shown


def test_whatever_would_be_loaded_or_run_is_blocked_and_heard(paged: Path) -> None:
    page = paged / "report.html"
    bad = '<main><script>document.title = "run"</script><img src="http://192.0.2.1/x.png">'
    page.write_text(page.read_text(encoding="utf-8").replace("<main>", bad), encoding="utf-8")
    shown, console = browse(page, "--dump-dom")
    assert len(console) >= 2 and "<title>run" not in shown


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(paged: Path, width: int) -> None:
    """The page in a frame of that width reports its own width through a script of the test."""
    text = (paged / "report.html").read_text(encoding="utf-8")
    policy = text[text.index("<meta http-equiv") :]
    text = text.replace(policy[: policy.index(">") + 1], "")  # so that the probe may run
    probe = "<script>document.title = document.documentElement.scrollWidth</script></body>"
    (paged / "probe.html").write_text(text.replace("</body>", probe), encoding="utf-8")
    (paged / "frame.html").write_text(
        f'<iframe src="probe.html" style="width:{width}px;height:800px;border:0"></iframe>'
        "<script>onload = () => document.title = frames[0].document.title</script>"
    )
    shown, _ = browse(paged / "frame.html", "--dump-dom", "--allow-file-access-from-files")
    found = shown.partition("<title>")[2].partition("</title>")[0]
    assert 0 < int(found) <= width


def test_screenshots_can_be_taken(paged: Path, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    browse(paged / "report.html", f"--screenshot={picture}", "--window-size=1100,1400")
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1100, 1400)


@pytest.mark.skipif(not ACAS.exists(), reason="needs ../shared/targets/acasxu")
def test_page_of_an_acas_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["run", str(ACAS), "-o", str(out), "--domain", "-0.5,0.5", "--samples", "500"]
    with pytest.MonkeyPatch.context() as patch:  # drawn once, below
        patch.setattr("reconstruct.cli.commands._draw_page", lambda output: None)
        assert main([*command, "--bounds", "crown", "--quiet"]) == 0
    start = time.process_time()
    write_page(out)
    assert time.process_time() - start < 5
    page = out / "report.html"
    assert page.stat().st_size < 2_000_000
    shown, console = browse(page, "--dump-dom")
    assert console == [] and "Certified: the two networks agree" in shown
