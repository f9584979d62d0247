"""Hooks of the documentation site (mkdocs.yml): pages from elsewhere in the repository, links, offline check.

Each page is described to search engines by its first sentences, and llms.txt lists all pages with these.
A search for some words must find the right page first.

The README, CONTRIBUTING.md, CHANGELOG.md and the pages on speed are written for readers of the repository.
They become pages of the site unchanged except for their links, which lead to a page where the site has the
file, and to the repository otherwise.
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import griffe
from lunr import lunr
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
LOG = logging.getLogger("mkdocs.hooks.site")  # a warning fails a strict build
# Page or picture of the site -> file of the repository.
ELSEWHERE = {
    "overview.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks/README.md": "benchmarks/README.md",
    "benchmarks/results/losses.md": "benchmarks/results/losses.md",
    "benchmarks/results/loading.md": "benchmarks/results/loading.md",
    "benchmarks/results/scale.md": "benchmarks/results/scale.md",
    "benchmarks/results/lists.md": "benchmarks/results/lists.md",
    "benchmarks/results/wide.md": "benchmarks/results/wide.md",
    "benchmarks/results/local.md": "benchmarks/results/local.md",
    "benchmarks/results/where.md": "benchmarks/results/where.md",
    "benchmarks/results/long_tuning.md": "benchmarks/results/long_tuning.md",
    "benchmarks/results/gpu.md": "benchmarks/results/gpu.md",
    "benchmarks/results/correlation.md": "benchmarks/results/correlation.md",
    "benchmarks/results/smile.md": "benchmarks/results/smile.md",
    "benchmarks/results/faults.md": "benchmarks/results/faults.md",
    "benchmarks/results/export.md": "benchmarks/results/export.md",
    "benchmarks/results/serving.md": "benchmarks/results/serving.md",
    "benchmarks/results/labels.md": "benchmarks/results/labels.md",
    "benchmarks/results/decisions.md": "benchmarks/results/decisions.md",
    "benchmarks/results/story.md": "benchmarks/results/story.md",
    "benchmarks/results/natural.md": "benchmarks/results/natural.md",
    "benchmarks/results/audit_sample.md": "benchmarks/results/audit_sample.md",
    "benchmarks/results/loop.md": "benchmarks/results/loop.md",
    "benchmarks/results/loop.png": "benchmarks/results/loop.png",
}
# What a search must find first, the beginning of its address.
FOUND = {
    "quickstart": "quickstart.html",
    "tutorial": "tutorials/index.html",
    "glossary": "glossary.html",
    "heic": "faq.html#my-photos-are-heic",
    "local weights": "faq.html#can-it-work-without-the-network",
    "offline": "faq.html#can-it-work-without-the-network",
    "threshold": "decisions.html",
    "K": "faq.html#what-is-the-k-of-my-data",
    "gpu": "faq.html#does-it-need-a-gpu",
    "text": "text.html",
    "embedding": "text.html",
    "cite": "faq.html#how-do-i-cite-it",
}
# Words of the glossary whose first mention on a page is a link: those that people would not guess.
EXPLAINED = (
    "known positive", "known negative", "hidden label", "mean labels per sample", "uniform draw", "backbone",
    "auto head", "local evidence", "SP-score", "tie set", "oracle", "held-out scores", "out-of-fold",
    "audit sample",
)  # fmt: skip
_ENTRY = re.compile(r"<p><strong>(.*?)</strong>: ")
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^```.*?^```$", re.S | re.M)
_ASSET = re.compile(
    r"<(?:script|img|iframe)[^>]*\bsrc=[\"']?(?:https?:)?//"
    r"|<link(?! rel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//",
    re.I,
)


def on_config(config: Any) -> Any:
    """Add every method to the navigation. A site on its own has no other versions to choose from."""
    if not config.site_url:
        config.extra.pop("version")
    pages = sorted(path.name for path in (ROOT / "docs" / "methods").glob("*.md"))
    section = next(entry["Methods"] for entry in config.nav if "Methods" in entry)
    folder = ROOT / "docs" / "methods"
    titles = {name: (folder / name).read_text("utf-8").partition("\n")[0] for name in pages}
    section += [{titles[name].lstrip("# "): f"methods/{name}"} for name in pages if name != "README.md"]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages whose files lie outside of docs/, and each tutorial as a notebook."""
    for page, source in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for source in sorted((ROOT / "docs" / "tutorials").glob("*.py")):
        content = json.dumps(notebook_of(source.read_text(encoding="utf-8")), indent=1)
        files.append(File.generated(config, f"tutorials/{source.stem}.ipynb", content=content))
    return files


def notebook_of(text: str) -> dict[str, Any]:
    """A tutorial in the percent format of jupytext as a notebook without outputs."""
    cells = []
    for number, part in enumerate(re.split(r"^# %%", text, flags=re.M)[1:]):
        kind, _, source = part.partition("\n")
        prose = "[markdown]" in kind
        source = re.sub(r"^# ?", "", source, flags=re.M) if prose else source
        cell = {"id": f"cell-{number}", "cell_type": "markdown" if prose else "code", "metadata": {}}
        cell["source"] = source.strip().splitlines(keepends=True)
        cells.append(cell if prose else {**cell, "execution_count": None, "outputs": []})
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Describe a page, and rewrite its links."""
    path = page.file.src_uri
    # Guides come before what is looked up in them, and questions before guides.
    first, looked_up = path in ("faq.md", "tutorials/index.md"), "/" in path and "tutorials" not in path
    boost = 4.0 if first else 0.5 if looked_up else 2.0
    page.meta |= {"description": describe(markdown), "search": {"boost": boost}}
    if path.startswith("api/"):
        markdown = add_summary(markdown)
    if path.startswith("tutorials/") and path != "tutorials/index.md":
        name = posixpath.basename(path).replace(".md", ".ipynb")
        button = f'<a class="md-button" href="{name}" download>Download the notebook (.ipynb)</a>'
        markdown = re.sub(r"(^# .*\n)", rf"\1\n{button}\n", markdown, count=1, flags=re.M)
    source = ELSEWHERE.get(path, f"docs/{path}")
    pages = {
        ELSEWHERE.get(file.src_uri, f"docs/{file.src_uri}"): file.src_uri
        for file in files
        if not file.inclusion.is_excluded()
    }
    return rewrite_links(markdown, path, source, pages, config.repo_url)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Make the entries of the glossary places to link to, and link its words where a page first has them."""
    path = page.file.src_uri
    if path == "glossary.md":
        return _ENTRY.sub(lambda entry: f'<p id="{_slug(entry[1])}"><strong>{entry[1]}</strong>: ', content)
    if path.startswith(("api/", "changelog", "contributing")):
        return content
    return link_words(content, posixpath.relpath("glossary.html", posixpath.dirname(page.url) or "."))


def link_words(content: str, glossary: str) -> str:
    """Link the first mention of each explained word in text that is no heading, code, or link itself."""
    entries = re.findall(
        r"^\*\*(.+?)\*\*: ", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M
    )
    left = {word: next(entry for entry in entries if word.lower() in entry.lower()) for word in EXPLAINED}
    parts, inside = re.split(r"(<[^>]*>)", content), 0
    for number, part in enumerate(parts):
        if tag := re.match(r"<(/?)(?:a|code|pre|h\d|th|summary|math)\b", part):
            inside += -1 if tag[1] else 1
        elif not inside and not part.startswith("<"):
            for word in [word for word in left if word.lower() in part.lower()]:
                link = rf'<a class="explained" href="{glossary}#{_slug(left[word])}">\1</a>'
                part, found = re.subn(rf"(?<![\w-])({word}s?)(?![\w-])", link, part, count=1, flags=re.I)
                if found:
                    del left[word]
            parts[number] = part
    return "".join(parts)


def _slug(entry: str) -> str:
    """Anchor of an entry of the glossary: its first word."""
    return re.sub(r"\W+", "-", re.sub(r"<[^>]*>", "", entry).partition(",")[0].lower()).strip("-")


def add_summary(markdown: str) -> str:
    """Put a table of the documented objects, with the first line of each, before the first section."""
    rows = [
        f"| [`{name.rpartition('.')[2]}`][{name}] | {_first_line(name)} |"
        for name in re.findall(r"^::: ([\w.]+)$(?!\n    options: \{members: false)", markdown, re.M)
    ]
    intro, section, rest = markdown.partition("\n## ")
    return "\n".join([intro, "| name | what it is |", "|---|---|", *rows, section]) + rest


def _first_line(name: str) -> str:
    """The first line of a docstring, for a cell of a table."""
    documented = _package()[name.removeprefix("spml.")]
    return documented.docstring.value.partition("\n")[0].replace("|", "\\|")


@cache
def _package() -> Any:
    extensions = griffe.load_extensions(str(ROOT / "docs" / "docstring_formulas.py"))
    return griffe.load("spml", search_paths=[ROOT / "src"], extensions=extensions, resolve_aliases=True)


def describe(markdown: str) -> str:
    """The first sentences of a page that are prose, as plain text of at most 200 characters."""
    for block in re.split(r"\n\s*\n", _FENCE.sub("", markdown)):
        text = " ".join(re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block).split())
        if text and block[0] not in "#-|<!:":
            sentences = re.sub(r"<[^>]*>|[*`\"<>&]", "", text.replace("<sup>", "^"))
            return sentences if len(sentences) <= 200 else sentences[:197].rpartition(" ")[0] + " ..."
    return ""


def on_env(env: Any, config: Any, files: Any) -> None:
    """Write llms.txt, a list of all pages for programs that read them."""
    pages = [file.page for file in files.documentation_pages() if file.page and file.page.title]
    lines = [f"- [{page.title}]({page.url}): {page.meta['description']}".rstrip(": ") for page in pages]
    Path(config.site_dir).mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"# {config.site_name}", "", f"> {config.site_description}", "", *lines, ""])
    (Path(config.site_dir) / "llms.txt").write_text(text, encoding="utf-8")


def on_post_build(config: Any) -> None:
    """Search as the site does, and check what is found first."""
    entries = json.loads((Path(config.site_dir) / "search" / "search_index.json").read_text())["docs"]
    documents = [(entry, {"boost": entry.get("boost", 1)}) for entry in entries]
    fields = [{"field_name": "title", "boost": 1000}, "text"]
    index = lunr(ref="location", fields=fields, documents=documents)
    for words, expected in FOUND.items():
        found = [hit["ref"] for hit in index.search(words)[:1]]
        if not found or not found[0].startswith(expected):
            LOG.warning("a search for %r leads to %s, not to %s", words, found, expected)


def rewrite_links(markdown: str, page: str, source: str, pages: dict[str, str], repository: str) -> str:
    """Make the relative links of a file of the repository work on its page; code blocks stay as they are.

    Args:
        markdown: Text of the file.
        page: Path of the page, relative to the site.
        source: Path of the file, relative to the repository.
        pages: Page of the site for each file of the repository that has one.
        repository: Address of the repository.
    """

    def rewrite(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        if target in pages:
            return posixpath.relpath(pages[target], posixpath.dirname(page) or ".") + (match[2] or "")
        if not (ROOT / target).exists():
            LOG.warning("%s links to %s, which does not exist", source, target)
        return f"{repository}/blob/main/{target}{match[2] or ''}"

    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(rewrite, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(rewrite, markdown[end:])])


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Make the page for what does not exist work at any depth of a server, and from disk."""
    address = config.site_url or "/"
    if template_name == "sitemap.xml":
        # The selector of versions keeps to the page only if the sitemap has the address of the folder.
        return output_content.replace(f"<loc>{address}index.html<", f"<loc>{address}<", 1)
    if template_name != "404.html":
        return output_content
    base = urlsplit(address).path
    head = f'''<head><base href="{base}">
    <script>location.protocol === "file:" && document.querySelector("base").remove()</script>'''
    return output_content.replace(f'="{base}', '="').replace("<head>", head, 1)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Refuse pages that load scripts, styles or images from elsewhere: the site works offline."""
    if match := _ASSET.search(output):
        LOG.warning("%s loads %s... from another host", page.file.src_uri, match[0])
    return output
