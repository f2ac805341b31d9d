"""Request → key, and the filters that say which keys were seen."""
