"""Reports on a decision ledger: totals for a terminal, a page for a browser."""
