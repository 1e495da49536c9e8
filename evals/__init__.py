"""The stage: a loopback GitHub, a scripted model, the demo, and the comparison of systems."""
