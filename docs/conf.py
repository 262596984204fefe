"""How `make docs` builds these pages: Sphinx, MyST markdown, furo; nothing from the network."""

import sys
from pathlib import Path

import romdp

sys.path.append(str(Path(__file__).parent / "reference"))  # for command_help

project = "romdp"
author = "The romdp developers"
version = release = romdp.__version__
language = "en"

extensions = [
    "myst_nb",  # Markdown and notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "command_help",
]
exclude_patterns = ["_build"]
highlight_language = "text"  # an indented block is no program
default_role = "py:obj"  # `romdp.play` in a docstring is a link where there is a page for it

# Formulas are written as text: a renderer for `$...$` would be fetched from the network.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Notebooks are stored without their output: every build runs them, and an error fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds; a fresh clone compiles kernels meanwhile
nb_execution_show_tb = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the text says what each argument is
napoleon_attr_annotations = False
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"romdp {release}"
html_static_path = ["_static"]
html_css_files = ["romdp.css"]
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def setup(app):
    """Leave out what scikit-learn gives to its estimators: its words refer to its own pages."""
    app.connect(
        "autodoc-skip-member",
        lambda app, what, name, member, skip, options: (
            True if str(getattr(member, "__module__", "")).startswith("sklearn.") else None
        ),
    )
