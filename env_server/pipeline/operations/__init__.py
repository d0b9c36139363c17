"""Operations of behaviours: their keys, their slot, their method, one revision."""
