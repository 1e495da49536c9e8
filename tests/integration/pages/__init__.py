"""The evidence pages over HTTP: a browser, a private repository on a loopback GitHub, real rows."""
