"""The agent runtime: hosts agents, runs their turns, sends their actions to a world."""
