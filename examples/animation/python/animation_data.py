"""Pushes and pulls of the animation data streaming service, which continue when their connection is lost.

The contents of the messages are the published classes of the PyPI package nvidia-ace. It does not have the
messages around them and the service, which are described here.
"""

import queue
import re
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from nvidia_ace import animation_pb2, audio_pb2, status_pb2

PACKAGE = "neutral_ace.services.animation_data.v1"
Status = status_pb2.Status

Field = descriptor_pb2.FieldDescriptorProto

# The fields of each message, numbered from 1: the name, and the full name of the message's type or a scalar.
ENVELOPES = {
    "AnimationIds": [
        ("request_id", Field.TYPE_STRING),
        ("stream_id", Field.TYPE_STRING),
        ("target_object_id", Field.TYPE_STRING),
    ],
    "AnimationDataStreamHeader": [
        ("animation_ids", f"{PACKAGE}.AnimationIds"),
        ("source_service_id", Field.TYPE_STRING),
        ("audio_header", audio_pb2.AudioHeader.DESCRIPTOR.full_name),
        ("skel_animation_header", animation_pb2.SkelAnimationHeader.DESCRIPTOR.full_name),
        ("start_time_code_since_epoch", Field.TYPE_DOUBLE),
    ],
    "AnimationDataStream": [
        ("animation_data_stream_header", f"{PACKAGE}.AnimationDataStreamHeader"),
        ("animation_data", animation_pb2.AnimationData.DESCRIPTOR.full_name),
        ("status", Status.DESCRIPTOR.full_name),
    ],
}


def _describe():
    imports = [module.DESCRIPTOR.name for module in (animation_pb2, audio_pb2, status_pb2)]
    file = descriptor_pb2.FileDescriptorProto(
        name="animation_data.proto", package=PACKAGE, syntax="proto3", dependency=imports
    )
    for name, fields in ENVELOPES.items():
        message = file.message_type.add(name=name)
        for number, (field_name, kind) in enumerate(fields, start=1):
            field = message.field.add(name=field_name, number=number, label=Field.LABEL_OPTIONAL)
            if isinstance(kind, str):
                field.type, field.type_name = Field.TYPE_MESSAGE, f".{kind}"
            else:
                field.type = kind
    stream = file.message_type[-1]
    stream.oneof_decl.add(name="stream_part")
    for field in stream.field:
        field.oneof_index = 0
    return file


_pool = descriptor_pool.Default()
_pool.Add(_describe())


def _class_of(name):
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


AnimationIds = _class_of("AnimationIds")
AnimationDataStream = _class_of("AnimationDataStream")

# A broker waits 5 s for its producer by default.
RETRIES = 20
RETRY_SECONDS = 0.25
CHANNEL_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]


def open_channel(target):
    return grpc.insecure_channel(target, options=CHANNEL_OPTIONS)


def describe_status(status):
    return f'{Status.Code.Name(status.code)} "{status.message}"'


def metadata_of(token):
    """The metadata for a route that requires a bearer token."""
    return [("authorization", f"Bearer {token}")] if token else []


class Sent:
    """The messages of a push by their number. A push that continues may need any of them again."""

    def __init__(self, messages):
        self._source = iter(messages)
        self._read = []
        # The thread of a lost call can still wait for the next message.
        self._lock = threading.Lock()

    def since(self, number):
        while (message := self._get(number)) is not None:
            yield message
            number += 1

    def _get(self, number):
        with self._lock:
            if number == len(self._read):
                message = next(self._source, None)
                if message is None:
                    return None
                self._read.append(message)
            return self._read[number]


def push(channel, messages, metadata):
    """Sends the messages, and returns the broker's Status.

    When the connection is lost, it continues the request with the broker's resume token.
    """
    method = channel.stream_unary(
        f"/{PACKAGE}.AnimationDataService/PushAnimationDataStream",
        request_serializer=AnimationDataStream.SerializeToString,
        response_deserializer=Status.FromString,
    )
    sent, token = Sent(messages), None
    for attempt in range(RETRIES + 1):
        call, position = _push_once(method, sent, metadata, token)
        # Blocks until the broker has accepted the header or the token, or the call has ended.
        answered = dict(call.initial_metadata() or ())
        token = answered.get("tollway-resume", token)
        position.put(int(answered["tollway-next"]) if "tollway-next" in answered else None)
        try:
            return call.result()
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or token is None or attempt == RETRIES:
                raise
        time.sleep(RETRY_SECONDS)


def _push_once(method, sent, metadata, token):
    """Begins a call. With a token it sends nothing until the returned queue has the number of its first message."""
    position = queue.SimpleQueue()

    def requests():
        first = position.get() if token else 0
        if first is not None:
            yield from sent.since(first)

    resume = [("tollway-resume", token)] if token else []
    return method.future(requests(), metadata=metadata + resume), position


NAMED_RUN = re.compile(r"^run (\S+), the next is message \d+$")
NEXT_MESSAGE = re.compile(r"the next is message (\d+)$")


class Received:
    """The run that is received, and the number of its messages, by which a pull continues."""

    def __init__(self):
        self.run, self._count, self._last_status = None, 0, 0

    def metadata(self):
        return [("tollway-received", f"{self.run}={self._count}" if self.run else "none")]

    def take(self, message):
        """Counts a message of the run."""
        # A status is counted when another message follows: the broker repeats the last status of a request.
        self._count += self._last_status
        self._last_status = 0
        if message.WhichOneof("stream_part") != "status":
            self._count += 1
        elif found := NEXT_MESSAGE.search(message.status.message):
            self._count = int(found[1])
        else:
            self._last_status = 1

    def begin(self, message):
        """Takes the message after a header. Returns whether it names a run, and whether the header is a new one.

        A broker that does not know runs sends no name.
        """
        found = NAMED_RUN.search(message.status.message)
        run = found[1] if found else None
        is_new = run is None or run != self.run
        self.run, self._last_status = run, 0
        return found is not None, is_new


def pull(channel, ids, metadata):
    """Yields the messages of the matching requests. When the connection is lost, it resumes after the last one."""
    method = channel.unary_stream(
        f"/{PACKAGE}.AnimationDataService/PullAnimationDataStream",
        request_serializer=AnimationIds.SerializeToString,
        response_deserializer=AnimationDataStream.FromString,
    )
    received, failures = Received(), 0
    while True:
        header = None
        try:
            for message in method(ids, metadata=metadata + received.metadata()):
                failures = 0
                if message.WhichOneof("stream_part") == "animation_data_stream_header":
                    header = message
                    continue
                is_name = False
                if header is not None:
                    is_name, is_new = received.begin(message)
                    if is_new:
                        yield header
                    header = None
                received.take(message)
                if not is_name:
                    yield message
            return
        except grpc.RpcError as error:
            failures += 1
            if error.code() != grpc.StatusCode.UNAVAILABLE or failures > RETRIES:
                raise
        time.sleep(RETRY_SECONDS)
