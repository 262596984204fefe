"""What every package builds on: errors, checks, seeds, files, and the decorator of kernels."""
