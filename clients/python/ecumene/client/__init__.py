"""The SDK: connections, environment handles, frames, monitors."""
