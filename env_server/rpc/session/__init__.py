"""The Session rpc: one reader, one writer, and the watches between them."""
