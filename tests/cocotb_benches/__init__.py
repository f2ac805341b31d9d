"""Benches that cocotb runs inside a simulator; tests/test_rtl_bus.py starts them."""
