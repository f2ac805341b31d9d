"""The handbook, as Sphinx builds it: `sphinx-build -W -b html docs OUT`."""

project = "scrapy_neardup"
html_title = "scrapy_neardup"
copyright = "MIT licence"
extensions = ["myst_parser"]
html_theme = "furo"
myst_heading_anchors = 3
# Indented blocks are commands; Python says so itself.
highlight_language = "sh"
# The page on URL filters is written apart from these; once it is here, the list of contents in
# index.md takes it in and this line goes.
suppress_warnings = ["toc.not_included"]
