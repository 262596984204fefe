"""Counts in, a `Partition` out: one file per method."""
