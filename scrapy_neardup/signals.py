"""Signals by which a pipeline or feed of the user's says what it holds back and what it has stored.

Needed only by sinks that return from process_item before the item is stored:

    self.batch = object()
    crawler.signals.send_catch_log(items_held, batch=self.batch)  # before its first item
    ...
    crawler.signals.send_catch_log(items_delivered, batch=self.batch)  # when all are stored

batch: any hashable value that tells this batch from all others. Pages whose items leave the
pipelines between the two signals count as known to later crawls only after the second.
"""

items_held = object()
items_delivered = object()
