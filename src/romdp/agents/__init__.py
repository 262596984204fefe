"""The agent, its planners and stopping rules, and the recipes."""
