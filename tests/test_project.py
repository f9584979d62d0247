"""The files of the project agree with each other: version, addresses, extras, make targets, links."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

import spml
from spml.common.errors import EXTRAS

ROOT = Path(__file__).resolve().parents[1]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_version_and_date_are_the_same_everywhere():
    citation = yaml.safe_load(text("CITATION.cff"))
    version, date = re.search(r"^## (\S+) - (\S+)$", text("CHANGELOG.md"), re.M).groups()
    assert version == citation["version"] == spml.__version__
    assert date == str(citation.get("date-released", "unreleased"))


def test_the_address_of_the_repository_is_the_same_everywhere():
    repository = yaml.safe_load(text("CITATION.cff"))["repository-code"]
    urls = re.findall(r'= "(https://.*)"', text("pyproject.toml").partition("[project.urls]")[2])
    assert len(urls) >= 3
    assert all(url.startswith(repository) for url in urls)
    assert f"repo_url: &repository {repository}\n" in text("mkdocs.yml")


def test_every_extra_is_on_the_page_on_installing():
    section = text("pyproject.toml").partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = re.findall(r"^(\w+) = ", section, re.M)
    assert {"bench", "tables", "ray", "docs", "dev", "all"} <= set(extras)
    assert re.findall(r"^\| `(\w+)` \|", text("docs/install.md").partition("## With make")[0], re.M) == [
        *(extra for extra in extras if extra not in ("all", "docs", "dev")), "all", "docs", "dev",
    ]  # fmt: skip


def test_messages_name_the_packages_of_an_extra():
    section = text("pyproject.toml").partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    for extra, packages in EXTRAS.items():
        (line,) = re.findall(rf"^{extra} = \[(.*)\]$", section, re.M)
        assert shlex.split(packages) == re.findall(r'"([^">]+)>=', line), extra


def test_nobody_is_told_to_install_the_other_project_of_this_name():
    assert 'name = "single-positive"' in text("pyproject.toml")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    told = [
        f"{path.name}: {line}"
        for path in [*pages, *(ROOT / "src").rglob("*.py")]
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"pip install [^`]*\bspml\b", line) and "Do not run" not in line
    ]
    assert not told


def test_the_plain_installation_has_no_package_of_an_extra():
    required = text("pyproject.toml").partition("\ndependencies = [")[2].partition("]\n")[0].lower()
    assert "torch" in required
    assert not [name for name in ("optuna", "sqlalchemy", "pandas", "pyarrow", "ray") if name in required]


def test_types_are_shipped():
    assert (Path(spml.__file__).parent / "py.typed").is_file()


def steps_of(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", ["ci", "faults", "release"])
def test_workflows_pin_their_actions_and_write_only_releases(name):
    workflow = yaml.safe_load(text(f".github/workflows/{name}.yml"))
    actions = [step["uses"] for step in steps_of(workflow) if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in actions)
    assert workflow["permissions"] == {"contents": "write" if name == "release" else "read"}


def test_every_search_for_faults_is_a_module():
    job = yaml.safe_load(text(".github/workflows/faults.yml"))["jobs"]["search"]
    modules = {search.split()[0] for search in job["strategy"]["matrix"]["search"]}
    assert modules == {"points", "flips", "fuzz"}
    assert all(importlib.util.find_spec(f"tests.hostile.{module}") for module in modules)


def test_the_workflow_calls_make():
    steps = steps_of(yaml.safe_load(text(".github/workflows/ci.yml")))
    targets = {match[1] for step in steps if (match := re.match(r"make ([a-z-]+)", step.get("run", "")))}
    assert targets == {"setup", "test", "test-all", "lint", "docs"}
    assert targets <= set(re.findall(r"^([a-z-]+):", text("Makefile"), re.M))


def test_make_help_lists_every_target():
    makefile = text("Makefile")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split()
    assert sorted(phony) == sorted(re.findall(r"^([a-z-]+):.*## ", makefile, re.M))


# -- the documentation site ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hooks():
    pytest.importorskip("mkdocs", reason="mkdocs, which builds the site, is not installed")
    return load("site_hooks")


def load(name):
    """A module of docs, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


API = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "api").glob("*.md")))


def test_every_public_class_and_function_of_a_room_is_on_one_page_of_the_api():
    names = [name.rpartition(".") for name in re.findall(r"^::: ([\w.]+\.\w+)$", API, re.M)]
    rooms = {room: importlib.import_module(room) for room, _, _ in names}
    documented = [getattr(rooms[room], name) for room, _, name in names]
    documented = [each for each in documented if inspect.isclass(each) or inspect.isfunction(each)]
    assert len(documented) == len(set(documented)), "documented twice"
    documented += spml.losses.LossModule.__subclasses__()  # as the functions that they call
    for room in rooms.values():
        missing = [each.__name__ for each in public(room) if each not in documented]
        assert not missing, f"add these names of {room.__name__} to a page of docs/api: {missing}"


def public(room):
    """The classes and functions that a package offers: `__all__`, or what a module without it defines."""
    offered = [getattr(room, name) for name in getattr(room, "__all__", ())] or [
        each
        for name, each in vars(room).items()
        if not name.startswith("_") and getattr(each, "__module__", "") == room.__name__
    ]
    return [each for each in offered if inspect.isclass(each) or inspect.isfunction(each)]


def test_every_public_attribute_of_a_run_is_on_the_page_of_the_api():
    entry = re.search(r"^::: spml\.Run\n    options:\n.*?members:\n((?: +- \w+\n)+)", API, re.M | re.S)[1]
    members = re.findall(r"- (\w+)", entry)
    assert sorted(members) == sorted(name for name in dir(spml.Run) if not name.startswith("_"))


PAGES = {"README.md": "index.md", "docs/data.md": "data.md", "docs/methods/an.md": "methods/an.md"}


@pytest.mark.parametrize(
    ("page", "source", "link", "expected"),
    [
        ("index.md", "README.md", "docs/data.md#csv", "data.md#csv"),
        ("methods/an.md", "docs/methods/an.md", "../../README.md", "../index.md"),
        ("data.md", "docs/data.md", "methods/an.md", "methods/an.md"),
        ("index.md", "README.md", "LICENSE", "https://host/repository/blob/main/LICENSE"),
        ("data.md", "docs/data.md", "../Makefile#x", "https://host/repository/blob/main/Makefile#x"),
        ("index.md", "README.md", "https://elsewhere/docs/data.md", "https://elsewhere/docs/data.md"),
        ("index.md", "README.md", "#install", "#install"),
    ],
)
def test_links_lead_to_pages_or_to_the_repository(hooks, page, source, link, expected):
    markdown = f"See [this]({link}).\n\n```\n[this]({link})\n```\n"
    rewritten = hooks.rewrite_links(markdown, page, source, PAGES, "https://host/repository")
    assert rewritten == markdown.replace(f"[this]({link}).", f"[this]({expected}).")


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("# T\n\n- a\n\nThe *first* [words](x.md),\nin 2<sup>9</sup>.\n\nMore.", "The first words, in 2^9."),
        ("# Title\n\n```\ncode\n```\n\n| a |\n\n![picture](a.png)\n", ""),
        ("word " * 60, "word " * 38 + "word ..."),
    ],
)  # fmt: skip
def test_pages_are_described_by_their_first_words(hooks, markdown, expected):
    assert hooks.describe(markdown) == expected


def test_a_link_to_a_file_that_does_not_exist_fails_the_build(hooks, caplog):
    hooks.rewrite_links("[this](docs/no_such_page.md)", "index.md", "README.md", PAGES, "https://host")
    assert "README.md links to docs/no_such_page.md, which does not exist" in caplog.text


def test_tutorials_are_downloaded_as_notebooks(hooks):
    jupytext = pytest.importorskip("jupytext", reason="jupytext, which runs the tutorials, is not installed")
    sources = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
    assert sources
    for source in sources:
        made = hooks.notebook_of(source.read_text(encoding="utf-8"))
        expected = jupytext.read(source).cells
        found = [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]]
        assert found == [(cell.cell_type, cell.source) for cell in expected]


@pytest.mark.parametrize(
    ("html", "external"),
    [
        ('<script src="https://cdn.example/a.js">', True),
        ("<link rel=stylesheet href=//fonts.example/b.css>", True),
        ('<img alt="x" src="http://images.example/c.png">', True),
        ('<script src="assets/a.js"><a href="https://example.org">', False),
        ('<link rel="canonical" href="https://example.org/a.html">', False),
    ],
)
def test_pages_load_nothing_from_other_hosts(hooks, caplog, html, external):
    class Page:
        class file:
            src_uri = "index.md"

    assert hooks.on_post_page(html, Page, {}) == html
    assert ("from another host" in caplog.text) is external


def test_formulas_become_mathml():
    pytest.importorskip("latex2mathml", reason="latex2mathml, which converts formulas, is not installed")
    markdown = pytest.importorskip("markdown")
    formulas = load("site_math")
    html = markdown.markdown(r"With $`-p \log p`$, not `$x$`.", extensions=[formulas.Formulas()])
    space = '<mspace width="0.17em" />'
    assert f'<mo form="prefix">&#x02212;</mo><mi>p</mi>{space}<mi>log</mi>{space}<mi>p</mi>' in html
    assert "</math>, not <code>$x$</code>" in html
    assert formulas.block("x").count("<math") == 1


def test_the_page_for_what_does_not_exist_works_at_any_depth(hooks):
    class Config:
        site_url = "https://example.org/spml/0.1.0/"

    html = '<html><head><link href="/spml/0.1.0/a.css"></head><a href="/spml/0.1.0/faq.html"></html>'
    changed = hooks.on_post_template(html, "404.html", Config)
    assert changed.index('<base href="/spml/0.1.0/">') < changed.index('<link href="a.css">')
    assert '<a href="faq.html">' in changed
    assert hooks.on_post_template(html, "other.html", Config) == html


def test_versions_are_listed_from_the_newest(tmp_path):
    for version in ("0.9.0", "0.10.0", "0.10.0rc1"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "404.html").write_text(version)
    load("publish").list_versions(tmp_path)
    versions = json.loads((tmp_path / "versions.json").read_text())
    assert [entry["version"] for entry in versions] == ["0.10.0", "0.10.0rc1", "0.9.0"]
    assert [entry["aliases"] for entry in versions] == [["latest"], [], []]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "404.html").read_text() == "0.10.0"


def test_formulas_of_docstrings_are_typeset():
    pytest.importorskip("griffe", reason="griffe, which reads docstrings for the site, is not installed")
    formulas = load("docstring_formulas")
    written = formulas.typeset("weight_neg L- if\np <=\ntau and `p > tau`, else -log(1 - p) ^ 2")
    weight, tau = r"\text{weight}_{\text{neg}} \, L^-", r"p \leq \tau"
    assert written == f"$`{weight}`$ if\n$`{tau}`$ and `p > tau`, else $`- \\log ( 1 - p )`$ ^ 2"
    assert formulas.latex("p^gamma_neg z_i / k0") == r"p ^{\gamma_{\text{neg}}} z_{i} / k_{0}"
    losses = [inspect.getdoc(getattr(spml.losses, name)) or "" for name in spml.losses.__all__]
    text = " ".join(" ".join(losses).split())
    assert len(set(formulas.FORMULAS)) == len(formulas.FORMULAS)
    assert not [formula for formula in formulas.FORMULAS if formula not in text]
