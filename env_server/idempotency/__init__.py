"""Who asked what before: outcomes kept for repetitions, by producer and by session frame."""
