"""What several workers remember together, on a Valkey or Redis server."""
