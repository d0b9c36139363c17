"""From decisions to the world: validation, packing into frames, and what the world made of them."""
