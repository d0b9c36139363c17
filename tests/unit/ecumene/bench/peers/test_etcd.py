"""The message that is put together by hand is the one that protobuf would make."""

from __future__ import annotations

from ecumene.bench.peers.etcd import encode_put
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def test_a_put_is_a_protobuf_message_with_key_and_value() -> None:
    bytes_type, optional = (
        descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
        descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    )
    file = descriptor_pb2.FileDescriptorProto(name="put.proto", package="peer", syntax="proto3")
    put = file.message_type.add(name="Put")
    for number, name in enumerate(("key", "value"), 1):
        put.field.add(name=name, number=number, type=bytes_type, label=optional)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message_type = message_factory.GetMessageClass(pool.FindMessageTypeByName("peer.Put"))
    assert encode_put("a17", "12.5") == message_type(key=b"a17", value=b"12.5").SerializeToString()
