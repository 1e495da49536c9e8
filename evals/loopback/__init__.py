"""A GitHub that runs on loopback over real bare repositories."""
