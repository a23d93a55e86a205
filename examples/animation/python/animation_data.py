"""The messages and calls of the animation data streaming service, without a compiler of .proto files."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "neutral_ace.services.animation_data.v1"

# A message a line, its fields numbered from 1. `*` is repeated. Fields that are left out here are passed over.
MESSAGES = """
AnimationIds: string request_id, string stream_id, string target_object_id
AudioHeader: uint32 audio_format, uint32 channel_count, uint32 samples_per_second, uint32 bits_per_sample
SkelAnimationHeader: string* blend_shapes, string* joints
AnimationDataStreamHeader: AnimationIds animation_ids, string source_service_id, AudioHeader audio_header, \
SkelAnimationHeader skel_animation_header, double start_time_code_since_epoch
Float3: float x, float y, float z
QuatF: float real, float i, float j, float k
FloatArrayWithTimeCode: double time_code, float* values
Float3ArrayWithTimeCode: double time_code, Float3* values
QuatFArrayWithTimeCode: double time_code, QuatF* values
SkelAnimation: FloatArrayWithTimeCode* blend_shape_weights, Float3ArrayWithTimeCode* translations, \
QuatFArrayWithTimeCode* rotations, Float3ArrayWithTimeCode* scales
AudioWithTimeCode: double time_code, bytes audio_buffer
AnimationData: SkelAnimation skel_animation, AudioWithTimeCode audio
Status: uint32 code, string message
AnimationDataStream: AnimationDataStreamHeader animation_data_stream_header, AnimationData animation_data, \
Status status
"""

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "bytes": Field.TYPE_BYTES,
    "double": Field.TYPE_DOUBLE,
    "float": Field.TYPE_FLOAT,
    "string": Field.TYPE_STRING,
    # An enum is a number on the wire.
    "uint32": Field.TYPE_UINT32,
}


def _describe():
    file = descriptor_pb2.FileDescriptorProto(name="animation_data.proto", package=PACKAGE, syntax="proto3")
    for line in MESSAGES.strip().splitlines():
        name, fields = line.split(":")
        message = file.message_type.add(name=name)
        for number, words in enumerate(fields.split(","), start=1):
            kind, field_name = words.split()
            label = Field.LABEL_REPEATED if kind.endswith("*") else Field.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            kind = kind.rstrip("*")
            if kind in SCALARS:
                field.type = SCALARS[kind]
            else:
                field.type, field.type_name = Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    stream = file.message_type[-1]
    stream.oneof_decl.add(name="stream_part")
    for field in stream.field:
        field.oneof_index = 0
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_describe())


def _class_of(name):
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


AnimationIds = _class_of("AnimationIds")
AnimationDataStream = _class_of("AnimationDataStream")
Status = _class_of("Status")

STATUS_CODES = ["SUCCESS", "INFO", "WARNING", "ERROR"]


def describe_status(status):
    return f'{STATUS_CODES[status.code]} "{status.message}"'


def push_method(channel):
    """Called with an iterator of AnimationDataStream; answers a Status."""
    return channel.stream_unary(
        f"/{PACKAGE}.AnimationDataService/PushAnimationDataStream",
        request_serializer=AnimationDataStream.SerializeToString,
        response_deserializer=Status.FromString,
    )


def pull_method(channel):
    """Called with AnimationIds; answers an iterator of AnimationDataStream."""
    return channel.unary_stream(
        f"/{PACKAGE}.AnimationDataService/PullAnimationDataStream",
        request_serializer=AnimationIds.SerializeToString,
        response_deserializer=AnimationDataStream.FromString,
    )


def metadata_of(token):
    """What a route with a token asks for."""
    return [("authorization", f"Bearer {token}")] if token else []
