"""URLs, pages and items that several workers share on a Valkey or Redis server."""
