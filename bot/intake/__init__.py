"""From a delivery to a decision: who asked for what, whether they may, which run it concerns."""
