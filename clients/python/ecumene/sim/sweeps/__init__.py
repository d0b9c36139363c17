"""Many runs of one spec: a grid, a list, replicates; each with a seed of its own and a directory of its own."""
