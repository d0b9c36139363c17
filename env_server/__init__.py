"""The environment service: ordered, durable worlds behind gRPC."""
