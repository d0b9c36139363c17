"""Fences from the wire."""

from env_api.v1 import fences_pb2

from env_server.model.names import ROOT
from env_server.model.operations import Precondition, Test


def decode_fence(message: fences_pb2.Fence) -> Precondition:
    """The entry that has to be the one created at a revision."""
    return Precondition(Test.CREATED_REVISION, message.created_revision, message.path or ROOT, message.key)
