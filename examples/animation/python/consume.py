"""Writes what it receives as WAV and CSV."""

import argparse
import csv
import pathlib
import wave

import grpc

from animation_data import AnimationIds, Status, describe_status, metadata_of, open_channel, pull


def receive(messages):
    """The header, the arrays of weights, and the sound of the request that comes first."""
    header, weights, sound = None, [], bytearray()
    for message in messages:
        part = message.WhichOneof("stream_part")
        if part == "animation_data_stream_header":
            if header is not None:
                break
            header = message.animation_data_stream_header
            print(f"{header.animation_ids.stream_id} / {header.animation_ids.request_id} of {header.source_service_id}")
        elif part == "animation_data":
            weights.extend(message.animation_data.skel_animation.blend_shape_weights)
            sound += message.animation_data.audio.audio_buffer
        elif part == "status":
            print(describe_status(message.status))
            if is_last(message.status):
                break
    return header, weights, bytes(sound)


def is_last(status):
    """Whether a request ends with this status. Other statuses of the broker are followed by further messages."""
    interrupted = status.code == Status.INFO and status.message == "interrupted"
    return status.code in (Status.SUCCESS, Status.ERROR) or interrupted


def write(out, header, weights, sound):
    out.mkdir(parents=True, exist_ok=True)
    with wave.open(str(out / "received.wav"), "wb") as file:
        file.setnchannels(header.audio_header.channel_count or 1)
        file.setsampwidth((header.audio_header.bits_per_sample or 16) // 8)
        file.setframerate(header.audio_header.samples_per_second or 16000)
        file.writeframes(sound)
    with open(out / "received.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time_code", *header.skel_animation_header.blend_shapes])
        rows.writerows([array.time_code, *array.values] for array in weights)
    print(f"wrote {out / 'received.wav'} and {out / 'received.csv'}: {len(weights)} frames")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="127.0.0.1:8082")
    parser.add_argument("--token")
    parser.add_argument("--stream", default="demo")
    parser.add_argument("--request", default="", help="without it the next request of the stream")
    parser.add_argument("--object", default="")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/animation-python"))
    options = parser.parse_args()

    ids = AnimationIds(
        request_id=options.request, stream_id=options.stream, target_object_id=options.object
    )
    with open_channel(options.target) as channel:
        try:
            received = receive(pull(channel, ids, metadata_of(options.token)))
        except grpc.RpcError as error:
            raise SystemExit(f"{error.code().name}: {error.details()}")
    if received[0] is None:
        raise SystemExit("nothing came")
    write(options.out, *received)


if __name__ == "__main__":
    main()
