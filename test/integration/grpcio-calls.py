"""Calls a gRPC server by grpcio, and says what it did not do as gRPC promises.

The arguments are a JSON object: `plain`, `secure`, `unix` and `young` are targets (the connections of the
last one grow old fast), `ca`, `cert` and `key` are PEM.
"""

import concurrent.futures
import json
import sys
import threading
import time

import grpc
from grpc_status import rpc_status
from google.rpc import status_pb2

arguments = json.loads(sys.argv[1])
ECHO = "/test.Test/Echo"


def as_is(message):
    return message


def unary(channel, path=ECHO):
    return channel.unary_unary(path, as_is, as_is)


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def fails(code, channel, path, message=b"", **options):
    """The error of one call, which has this status."""
    return expect_status(code, lambda: unary(channel, path)(message, timeout=10, **options))


def expect_status(code, call):
    try:
        call()
    except grpc.RpcError as error:
        expect(error.code() == code, f"{error.code()} instead of {code}: {error.details()}")
        return error
    raise AssertionError(f"no error instead of {code}")


def messages_of_every_size(channel):
    for size in [0, 1, 16_379, 16_380, 65_535, 1_000_000]:
        body = b"x" * size
        expect(unary(channel)(body, timeout=10) == body, f"{size} bytes")
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, channel, ECHO, b"x" * 5_000_000)


def metadata_both_ways(channel):
    every_byte = bytes(range(256))
    sent = (("x-text", "text"), ("x-text", "again"), ("x-bytes-bin", every_byte), ("x-long", "x" * 5000))
    answer, call = unary(channel, "/test.Test/Mirror").with_call(b"", metadata=sent, timeout=10)
    for where in [call.initial_metadata(), call.trailing_metadata()]:
        received = [(key, value) for key, value in where if key.startswith("x-")]
        texts = [part for key, value in received if key == "x-text" for part in value.split(", ")]
        expect(texts == ["text", "again"], f"x-text is {texts}")
        expect(dict(received)["x-bytes-bin"] == every_byte, "x-bytes-bin")
        expect(dict(received)["x-long"] == "x" * 5000, "x-long")


def more_metadata_than_is_taken(channel):
    metadata = [(f"x-{index}", "x" * 100) for index in range(150)]
    for _ in range(3):
        fails(grpc.StatusCode.RESOURCE_EXHAUSTED, channel, ECHO, metadata=metadata)
    expect(unary(channel)(b"next", timeout=10) == b"next", "the next call")


def errors_with_details(channel):
    error = fails(grpc.StatusCode.NOT_FOUND, channel, "/test.Test/Fail")
    expect(error.details() == "nöt here: 100%\n", repr(error.details()))
    rich = rpc_status.from_call(error)
    expect(rich is not None and rich.message == error.details(), "grpc-status-details-bin")
    expect(rich == status_pb2.Status(code=5, message=error.details()), str(rich))
    fails(grpc.StatusCode.INTERNAL, channel, "/test.Test/Defect")
    fails(grpc.StatusCode.UNIMPLEMENTED, channel, "/test.Test/Nothing")


def compressed_messages_are_accepted(channel):
    message = b"x" * 10_000
    answer = unary(channel)(message, timeout=10, compression=grpc.Compression.Gzip)
    expect(answer == message, "a message that is compressed with gzip")
    deflate = grpc.Compression.Deflate
    fails(grpc.StatusCode.UNIMPLEMENTED, channel, ECHO, message, compression=deflate)
    expect(unary(channel)(b"next", timeout=10) == b"next", "the next call")


def deadlines(channel):
    began = time.monotonic()
    endless = unary(channel, "/test.Test/Endless")
    expect_status(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: endless(b"", timeout=0.05))
    expect(time.monotonic() - began < 5, "the deadline is late")


def cancellations(channel):
    endless = unary(channel, "/test.Test/Endless")
    for _ in range(20):
        futures = [endless.future(b"") for _ in range(50)]
        for future in futures:
            future.cancel()
        expect(all(future.cancelled() for future in futures), "cancelled")
    expect(unary(channel)(b"next", timeout=10) == b"next", "the next call")


def streams_of_each_kind(channel):
    parts = [b"x" * 70_000, b"", b"y" * 30_000]
    joined = channel.stream_unary("/test.Test/Join", as_is, as_is)(iter(parts), timeout=10)
    expect(joined == b"".join(parts), "a stream of requests")
    repeated = list(channel.unary_stream("/test.Test/Repeat", as_is, as_is)(b"z" * 50_000, timeout=10))
    expect(repeated == [b"z" * 50_000] * 100, "a stream of answers")
    echoed = list(channel.stream_stream("/test.Test/EchoEach", as_is, as_is)(iter(parts), timeout=10))
    expect(echoed == parts, "both")


def ping_pong(channel):
    answered = threading.Semaphore(1)

    def requests():
        for index in range(100):
            answered.acquire()
            yield str(index).encode()

    answers = channel.stream_stream("/test.Test/EchoEach", as_is, as_is)(requests(), timeout=10)
    for index, answer in enumerate(answers):
        expect(answer == str(index).encode(), f"answer {index}")
        answered.release()


def a_stream_that_is_left(channel):
    for _ in range(20):
        stream = channel.unary_stream("/test.Test/Forever", as_is, as_is)(b"x" * 10_000)
        next(stream)
        stream.cancel()
    expect(unary(channel)(b"next", timeout=10) == b"next", "the next call")


def many_calls_at_once(channel):
    call = unary(channel)
    bodies = [str(index).encode() for index in range(2000)]
    futures = [call.future(body, timeout=30) for body in bodies]
    expect([future.result() for future in futures] == bodies, "each its own answer")


def health(channel):
    check = unary(channel, "/grpc.health.v1.Health/Check")
    expect(check(b"", timeout=10) == b"\x08\x01", "SERVING")
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch", as_is, as_is)(b"")
    expect(next(watch) == b"\x08\x01", "SERVING")
    watch.cancel()


def connections_that_grow_old(_channel):
    """No call fails because its connection is told to go."""
    with grpc.insecure_channel(arguments["young"]) as channel:
        call = unary(channel)
        end = time.monotonic() + 1
        with concurrent.futures.ThreadPoolExecutor(4) as pool:

            def keep_calling(_):
                calls = 0
                while time.monotonic() < end:
                    expect(call(b"body", timeout=10) == b"body", "an answer")
                    calls += 1
                return calls

            expect(sum(pool.map(keep_calling, range(4))) > 0, "calls")


def secure_channel(with_identity):
    pem = {name: arguments[name].encode() for name in ["ca", "cert", "key"]}
    identity = {"private_key": pem["key"], "certificate_chain": pem["cert"]} if with_identity else {}
    credentials = grpc.ssl_channel_credentials(root_certificates=pem["ca"], **identity)
    options = [("grpc.ssl_target_name_override", "server.test")]
    return grpc.secure_channel(arguments["secure"], credentials, options=options)


def only_callers_with_a_certificate(_channel):
    with secure_channel(with_identity=False) as channel:
        fails(grpc.StatusCode.UNAVAILABLE, channel, ECHO)


CHECKS = [
    messages_of_every_size,
    metadata_both_ways,
    more_metadata_than_is_taken,
    errors_with_details,
    compressed_messages_are_accepted,
    deadlines,
    cancellations,
    streams_of_each_kind,
    ping_pong,
    a_stream_that_is_left,
    many_calls_at_once,
    health,
]


def main():
    failed = 0
    channels = {
        "plain": grpc.insecure_channel(arguments["plain"]),
        "unix": grpc.insecure_channel(arguments["unix"]),
        "secure": secure_channel(with_identity=True),
    }
    checks = [(name, check) for name in channels for check in CHECKS]
    checks += [("plain", connections_that_grow_old), ("secure", only_callers_with_a_certificate)]
    for name, check in checks:
        try:
            began = time.monotonic()
            check(channels[name])
            print(f"ok {name} {check.__name__} in {1000 * (time.monotonic() - began):.0f} ms")
        except Exception as error:
            failed += 1
            print(f"FAILED {name} {check.__name__}: {type(error).__name__}: {error}")
    for channel in channels.values():
        channel.close()
    sys.exit(1 if failed else 0)


main()
