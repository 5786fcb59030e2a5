# What protoc 3.6 made of hello.proto, shortened.
from google.protobuf import descriptor as _descriptor

DESCRIPTOR = _descriptor.FileDescriptor(
    name="hello.proto",
    package="hello",
    syntax="proto3",
    serialized_options=None,
    serialized_pb=b'\n\x0bhello.proto\x12\x05hello"\x1a\n\nHelloReply\x12\x0c\n\x04text\x18\x01 \x01(\tb\x06proto3',
)

_HELLOREPLY = _descriptor.Descriptor(
    name="HelloReply",
    full_name="hello.HelloReply",
    filename=None,
    file=DESCRIPTOR,
    containing_type=None,
    fields=[
        _descriptor.FieldDescriptor(
            name="text",
            full_name="hello.HelloReply.text",
            index=0,
            number=1,
            type=9,
            cpp_type=9,
            label=1,
            has_default_value=False,
            default_value="",
            message_type=None,
            enum_type=None,
            containing_type=None,
            is_extension=False,
            extension_scope=None,
            serialized_options=None,
            file=DESCRIPTOR,
        ),
    ],
    extensions=[],
    nested_types=[],
    enum_types=[],
    serialized_options=None,
    is_extendable=False,
    syntax="proto3",
    extension_ranges=[],
    oneofs=[],
    serialized_start=22,
    serialized_end=48,
)
