"""GitHub: the port decisions speak to, the client behind it, what is published, every sentence."""
