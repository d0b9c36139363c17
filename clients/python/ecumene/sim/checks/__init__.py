"""What is wrong with a spec that its fields alone do not show: files, classes, keys, budgets."""
