"""The wire edge of a node: the only room of a runtime that knows gRPC and the generated code of its contract."""
