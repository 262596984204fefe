"""What was seen, and what is kept of it: groupings, trajectories, counts, triples."""
