"""Requests: what is asked for, and which pages they were found on."""
