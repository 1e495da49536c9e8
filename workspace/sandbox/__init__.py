"""Sandboxes: one small interface, backends behind it, and a self-test that tries to break them."""
