"""DescribeKind: what kinds of environments a server offers, for foreign clients and models' tools."""

from collections.abc import Callable

from env_api.v1 import environment_service_pb2 as service_pb2
from env_api.v1 import events_pb2

from env_server.behaviours.description import KindDescription
from env_server.rpc.edge import Context, Handler, parse

Describe = Callable[[str], list[KindDescription]]


def serve_descriptions(describe: Describe) -> Handler:
    """The handler of DescribeKind; `describe("")` gives all kinds, and raises NotFound for one that is not there."""

    async def handle(request: bytes, context: Context) -> bytes:
        asked = parse(service_pb2.DescribeKindRequest, request)
        kinds = [_encode(found) for found in describe(asked.kind)]
        return service_pb2.DescribeKindResponse(kinds=kinds).SerializeToString()

    return handle


def _encode(found: KindDescription) -> service_pb2.KindDescription:
    return service_pb2.KindDescription(
        kind=found.kind,
        description=found.description,
        operations=[
            service_pb2.OperationDescription(
                name=one.name,
                description=one.description,
                args_schema_json=one.arguments.text,
                result_schema_json=b"" if one.result is None else one.result.text,
                exclusive=one.exclusive,
                timeout_ms=0 if one.timeout_s is None else round(one.timeout_s * 1000),
                reads_only=one.reads_only,
            )
            for one in found.operations
        ],
        listeners=[
            service_pb2.ListenerDescription(
                name=one.name,
                description=one.description,
                filter=events_pb2.EventFilter(
                    path_glob=one.path,
                    key_glob=one.key,
                    types=one.types,  # type: ignore[arg-type]  # plain ints of the same enum
                ),
            )
            for one in found.listeners
        ],
        concurrency_max=found.concurrency_max,
    )
