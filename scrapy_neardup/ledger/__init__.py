"""The decision ledger: what was decided about each URL and page, and why, in SQLite files.

schema  what a decision is, and the tables it is stored in
writer  adds decisions while a crawl runs, from a thread of its own
reader  reads them back, also while a crawl writes
undo    overrides: decisions that a person has undone
"""
