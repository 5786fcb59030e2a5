"""Sphinx builds the site from the Markdown that GitHub shows.

The source directory is the root of the repository, so that every relative link means the same in
both places. `tox run -e docs` builds the site strictly and without a network.
"""

import sys
from pathlib import Path

from pytest_failure_taxonomy import VERSION

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pytest-failure-taxonomy"
author = "the maintainers of pytest-failure-taxonomy"
copyright = author  # noqa: A001 - the name is Sphinx's
release = version = VERSION

extensions = ["from_code", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
    "changelog.d/README.md",
    "docs/*.md",
    "docs/*/*.md",
    "example_project/README.md",
    "tests/benchmarks/README.md",
]
exclude_patterns = [".*", "build", "dist"]  # not even looked into

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
add_module_names = False
# The types in signatures belong to Python, pydantic and modules that are not public.
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = f"{project} {release}"
templates_path = ["_templates"]
html_additional_pages = {"index": "redirect.html"}
html_copy_source = False
