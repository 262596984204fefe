"""The commands of ``romdp``, one file for each group of them."""
