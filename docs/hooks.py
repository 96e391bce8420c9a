"""What the site has beyond docs/*.md: pages made from the code, linked files, typeset formulas.

Called by mkdocs (see .mkdocs.yml). A link such as `../reconstruct/errors.py` suits a checkout;
on the site it leads to a page that shows the file. A link to a file that is not there is left as
it is, and the strict build fails on it. Formulas become MathML, which browsers typeset themselves:
the site needs no script and no connection for them.
"""

from __future__ import annotations

import html
import re
import sys
import tomllib
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.reference import generated_pages, library  # noqa: E402
from reconstruct.version import __version__  # noqa: E402

LINK = re.compile(r"\]\(\.\./([^)#\s]+)")
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".md": "markdown"}
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', flags=re.DOTALL
)
HIDDEN = "---\nhide: [toc]\nsearch: { exclude: true }\n---\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The version in the header; links to the repository once pyproject.toml says where it is."""
    config.site_name = f"{config.site_name} {__version__}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if where := project.get("urls", {}).get("Repository"):
        config.repo_url, config.edit_uri = where, "edit/main/docs/"
        config.theme["features"].append("content.action.edit")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and one page for each file of the repository that is linked to."""
    for name, text in generated_pages().items():
        files.append(File.generated(config, f"{name}.md", content=text))
    written = [file.content_string for file in files.documentation_pages()]
    linked = {path for text in written for path in LINK.findall(text)}
    for path in sorted(linked):
        if (ROOT / path).is_file():
            files.append(File.generated(config, f"source/{path}.md", content=shown(path)))
    return files


def shown(path: str) -> str:
    """A page that shows a file of the repository."""
    source = ROOT / path
    language = LANGUAGES.get(source.suffix, "text")
    return f"{HIDDEN}# {path}\n\n~~~~{language}\n{source.read_text(encoding='utf-8')}\n~~~~\n"


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Describe the names that api.md lists; lead links to files to the pages that show them."""
    if page.file.src_uri == "api.md":
        markdown = library(markdown)
    return LINK.sub(_on_site, markdown)


def _on_site(found: re.Match[str]) -> str:
    path = found[1]
    return f"](source/{path}.md" if (ROOT / path).is_file() else found[0]


def on_page_content(content: str, **_: object) -> str:
    """Typeset the formulas."""
    return FORMULA.sub(_typeset, content)


def _typeset(found: re.Match[str]) -> str:
    display = "block" if found[1] == "div" else "inline"
    return str(convert(html.unescape(found[2]).strip(), display=display))
