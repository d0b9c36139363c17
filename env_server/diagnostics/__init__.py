"""What helps to find out what a server does, and to make it fail where a test wants it to."""
