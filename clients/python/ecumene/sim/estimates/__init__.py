"""What a spec will take: turns, calls, tokens, money, time."""
