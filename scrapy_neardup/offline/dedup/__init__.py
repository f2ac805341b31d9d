"""Offline deduplication: files of pages through the same Detector as a crawl.

Two passes over the inputs. In the first, workers read records and the main process decides about
them in their order; a journal notes each chunk of records that is decided. In the second, workers
write what is kept. Chunks are cut by the input alone, so the result is the same for any number of
processes, and after any number of kills.

A process of its own cuts the inputs: a file that crashes its reader costs only the rest of itself.
"""
