"""The wire edge: protobuf and gRPC outside, the model's columns inside. Nothing else of the server knows either.

services, session   the calls and the stream, as they come in
decode, encode      messages to model, model to messages
edge                what a caller learns when something fails
streams             all that live, to be told and ended
service             registers all of it with a server
"""
