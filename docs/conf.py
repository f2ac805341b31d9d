"""The handbook, as Sphinx builds it: `sphinx-build -W -b html docs OUT`."""

project = "scrapy_neardup"
html_title = "scrapy_neardup"
copyright = "MIT licence"
extensions = ["myst_parser"]
html_theme = "furo"
myst_heading_anchors = 3
# Indented blocks are commands; Python says so itself.
highlight_language = "sh"
