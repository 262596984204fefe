"""Exact facts about a known model: chains, hitting times, MDPs, ROMDPs, assumptions."""
