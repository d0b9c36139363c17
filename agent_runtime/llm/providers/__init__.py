"""The models there are: `scripted` (a function), `openai` (any compatible endpoint), `local` (real, small, here)."""
