"""Who the agents are: from a spec to as many profiles as are wanted."""
