"""What is known exactly of a known model: chains, hitting times, MDPs, ROMDPs, assumptions."""
