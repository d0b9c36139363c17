"""The wire edge: protobuf and gRPC outside, the model's columns inside. Nothing else of the server knows either.

unary, monitor, session, world_service   the calls, as they come in
decode_*, encode_*                       messages to model, model to messages
errors, edge                             what a caller learns when something fails
service                                  registers all of it with a server
"""
