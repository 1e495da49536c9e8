"""The REST faces, one module per chapter of GitHub's reference: they parse, ask, answer."""
