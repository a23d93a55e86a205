/**
 * The calls of the AnimationDataService with the parts of its messages that this example uses, in plain Node, so
 * that the pods need no package. A program of your own uses a gRPC library with the service's .proto file.
 */
import { connect } from 'node:http2'

const service = '/neutral_ace.services.animation_data.v1.AnimationDataService'
export const statusCodes = ['SUCCESS', 'INFO', 'WARNING', 'ERROR']

/** `answer` resolves with the status of the broker. */
export function push(broker, token) {
  const { stream, messages } = call(broker, 'PushAnimationDataStream', token)
  return { write: part => stream.write(frameOf(part)), end: () => stream.end(), answer: first(messages) }
}

/** Yields the parts of the requests of a stream, until the connection ends. */
export async function* pull(broker, token, streamId) {
  const { stream, messages } = call(broker, 'PullAnimationDataStream', token)
  stream.end(frameOf(text(2, streamId)))
  for await (const message of messages) yield decodePart(message)
}

/** Each call has a connection of its own, so that it goes to any of the brokers. */
function call(broker, method, token) {
  const session = connect(broker)
  const stream = session.request({
    ':method': 'POST',
    ':path': `${service}/${method}`,
    'content-type': 'application/grpc',
    te: 'trailers',
    authorization: `Bearer ${token}`,
  })
  // The error of a session is also one of its stream, which is read below.
  session.on('error', () => {})
  return { stream, messages: messagesOf(session, stream) }
}

/** Yields the messages of a call; throws the status of the call if it failed. */
async function* messagesOf(session, stream) {
  let status
  const readStatus = headers => {
    if (headers['grpc-status'] !== undefined) status = headers
  }
  stream.on('response', readStatus)
  stream.on('trailers', readStatus)
  try {
    let rest = Buffer.alloc(0)
    for await (const chunk of stream) {
      rest = Buffer.concat([rest, chunk])
      while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
        const end = 5 + rest.readUInt32BE(1)
        yield rest.subarray(5, end)
        rest = rest.subarray(end)
      }
    }
  } finally {
    session.destroy()
  }
  const { 'grpc-status': code = 'none', 'grpc-message': message = '' } = status ?? {}
  if (code !== '0') throw new Error(`gRPC status ${code} ${decodeURIComponent(message)}`)
}

async function first(messages) {
  for await (const message of messages) return decodeStatus(message)
  throw new Error('the call ended without an answer')
}

// Messages: AnimationDataStream is one of header (1), data (2) and status (3).

export function header({ requestId, streamId, blendShapes, samplesPerSecond }) {
  const ids = [text(1, requestId), text(2, streamId)]
  const audio = [varint(2, 1), varint(3, samplesPerSecond), varint(4, 16)]
  const skeleton = blendShapes.map(name => text(1, name))
  const startSeconds = double(5, Date.now() / 1000)
  return group(1, group(1, ...ids), text(2, 'kiosk-producer'), group(3, ...audio), group(4, ...skeleton), startSeconds)
}

export function data({ timeCode, weights, samples }) {
  const values = Buffer.concat(weights.map(weight => floatOf(weight)))
  const face = group(1, double(1, timeCode), group(2, values))
  return group(2, group(1, face), group(2, double(1, timeCode), group(2, samples)))
}

export const status = (code, message) => group(3, varint(1, statusCodes.indexOf(code)), text(2, message))

function decodePart(message) {
  const part = fieldsOf(message)
  if (part[1] !== undefined) {
    const fields = fieldsOf(part[1])
    const { 1: requestId = '' } = fieldsOf(fields[1] ?? [])
    const { 3: samplesPerSecond = 0 } = fieldsOf(fields[3] ?? [])
    return { header: { requestId: `${requestId}`, samplesPerSecond } }
  }
  if (part[2] !== undefined) {
    const { 2: audio = [] } = fieldsOf(part[2])
    const { 2: samples = [] } = fieldsOf(audio)
    return { data: { sampleCount: samples.length / 2 } }
  }
  return { status: decodeStatus(part[3] ?? []) }
}

function decodeStatus(message) {
  const { 1: code = 0, 2: text = '' } = fieldsOf(message)
  return { code: statusCodes[code] ?? `${code}`, message: `${text}` }
}

// The encoding of Protocol Buffers.

function varintOf(value) {
  const bytes = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest])
    bytes.push((rest % 128) + 128)
  }
}

function floatOf(value) {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}

const varint = (number, value) => Buffer.concat([varintOf(number * 8), varintOf(value)])

function double(number, value) {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return Buffer.concat([varintOf(number * 8 + 1), bytes])
}

/** A message, bytes or packed numbers. */
function group(number, ...parts) {
  const bytes = Buffer.concat(parts)
  return Buffer.concat([varintOf(number * 8 + 2), varintOf(bytes.length), bytes])
}

const text = (number, value) => group(number, Buffer.from(value))

/** Returns the last value of each field, by its number: a number, or bytes. */
function fieldsOf(message) {
  const fields = {}
  let place = 0
  const readVarint = () => {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = message[place++]
      value += (byte % 128) * factor
      if (byte < 128) return value
    }
  }
  while (place < message.length) {
    const tag = readVarint()
    const [number, type] = [Math.floor(tag / 8), tag % 8]
    if (type === 0) fields[number] = readVarint()
    else {
      const length = type === 1 ? 8 : type === 5 ? 4 : readVarint()
      fields[number] = message.subarray(place, place + length)
      place += length
    }
  }
  return fields
}

/** The frame of an uncompressed message (gRPC over HTTP/2). */
function frameOf(message) {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}
