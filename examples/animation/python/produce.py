"""Plays a WAV file, or a tone, with one blend shape to it: the mouth opens when it is loud."""

import argparse
import array
import math
import secrets
import sys
import time
import wave

import grpc

from animation_data import AnimationDataStream, describe_status, metadata_of, open_channel, push

FRAMES_PER_SECOND = 30


def tone(seconds, rate=16000):
    """A tone that swells twice a second; samples of 16 bits."""
    count = int(seconds * rate)
    loudness = (abs(math.sin(2 * math.pi * index / rate)) for index in range(count))
    values = (int(12000 * loud * math.sin(2 * math.pi * 220 * index / rate)) for index, loud in enumerate(loudness))
    return 1, rate, array.array("h", values)


def read_wav(path):
    with wave.open(path) as file:
        if file.getsampwidth() != 2:
            raise SystemExit(f"{path}: {8 * file.getsampwidth()} bits are found, only 16 are played")
        samples = array.array("h", file.readframes(file.getnframes()))
        return file.getnchannels(), file.getframerate(), samples


def little_endian(samples):
    if sys.byteorder == "big":
        samples = samples[:]
        samples.byteswap()
    return samples.tobytes()


def header_of(options, channels, rate, start):
    message = AnimationDataStream()
    header = message.animation_data_stream_header
    header.animation_ids.request_id = options.request
    header.animation_ids.stream_id = options.stream
    header.animation_ids.target_object_id = options.object
    header.source_service_id = "example-producer-python"
    header.audio_header.channel_count = channels
    header.audio_header.samples_per_second = rate
    header.audio_header.bits_per_sample = 16
    header.skel_animation_header.blend_shapes.append("JawOpen")
    header.start_time_code_since_epoch = start
    return message


def data_of(piece, time_code):
    message = AnimationDataStream()
    loudness = math.sqrt(sum(value * value for value in piece) / max(1, len(piece))) / 0x8000
    message.animation_data.skel_animation.blend_shape_weights.add(
        time_code=time_code, values=[min(1.0, 4 * loudness)]
    )
    message.animation_data.audio.time_code = time_code
    message.animation_data.audio.audio_buffer = little_endian(piece)
    return message


def messages(options, channels, rate, samples):
    """A header, then each frame when its time has come, then a status."""
    start = time.time()
    yield header_of(options, channels, rate, start)
    frame = 0
    while (first := round(frame * rate / FRAMES_PER_SECOND) * channels) < len(samples):
        time_code = frame / FRAMES_PER_SECOND
        if options.speed > 0:
            time.sleep(max(0, start + time_code / options.speed - time.time()))
        end = round((frame + 1) * rate / FRAMES_PER_SECOND) * channels
        yield data_of(samples[first:end], time_code)
        frame += 1
    last = AnimationDataStream()
    last.status.message = "all is said"
    yield last


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="127.0.0.1:8082")
    parser.add_argument("--token")
    parser.add_argument("--stream", default="demo")
    parser.add_argument("--request", default=f"utterance-{secrets.token_hex(4)}", help="new in each run")
    parser.add_argument("--object", default="claire")
    parser.add_argument("--wav")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--speed", type=float, default=1, help="0 does not wait at all")
    options = parser.parse_args()

    channels, rate, samples = read_wav(options.wav) if options.wav else tone(options.seconds)
    with open_channel(options.target) as channel:
        try:
            sent = messages(options, channels, rate, samples)
            status = push(channel, sent, metadata_of(options.token))
        except grpc.RpcError as error:
            raise SystemExit(f"{error.code().name}: {error.details()}")
    print(f"the broker answered {describe_status(status)}")


if __name__ == "__main__":
    main()
