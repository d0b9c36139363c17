"""What a query sees, in pages and in slices."""
