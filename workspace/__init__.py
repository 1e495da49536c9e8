"""The workshop and the notary: files, Git, sandboxes, suites, digests, promotion. Facts only."""
