"""Sandboxes: one small interface, backends behind it, and a self-test that tries to break them.

A caller needs `backend` (the words) and `choice` (which sandbox runs here). One command under
bubblewrap passes through four processes:

    bot                bubblewrap.py   sends an order, reads the output, says when it is too much
     └ launcher        launcher.py     one per bot: forks keepers, clears up
        └ keeper       keeper.py       one per command: user, control group, mounts, files, report
           └ bwrap     running.py      forked ahead, in its group, as its user

Each ends when the one above it does, so nothing outlives the bot. What makes it safe is in one
place each: `view` (what a command sees), `layers` and `writeback` (what it can write, and how
that comes back), `seccomp` (which system calls), `cgroup` (how much), `slots` (as whom),
`running` (until when).

Files: the workspace is never shown to a command itself. It is the lower layer of an overlay whose
upper layer lies, with /tmp, /dev/shm, home and /out, in one tmpfs of the command's own size;
after the command, when all its processes are dead, what it wrote is copied back entry by entry.
So one cap holds for everything, a killed command leaves the workspace as it was, and files keep
their owner on the host: an ID-mapped mount shows them as the command's. Two things differ from a
plain folder: renaming a folder that was there before fails with EXDEV, as between file systems
(`mv` copies instead), and what a command writes counts as its memory until it ends.

tests/integration/sandbox/test_guards.py lists every guard with the attack that succeeds without
it.
"""
