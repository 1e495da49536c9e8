"""Benchmarks: `make bench` prints ratios measured in one run, never timed tests.

Each module measures one thing against a peer that does the same without us: Probot, procrastinate
alone, plain Git, plain processes. Both sides run in turn on the same machine in the same run, so
that whatever else the machine does weighs on both alike.
"""
