/** The frames of HTTP/2 (RFC 9113) that a client of one unary method needs. */
export const frameTypes = {
  data: 0,
  headers: 1,
  resetStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
} as const
export const flags = { endStream: 1, ack: 1, endHeaders: 4 } as const
export const frameHeaderBytes = 9

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

export function frame(type: number, flagBits: number, streamId: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(frameHeaderBytes + payload.length)
  bytes.writeUIntBE(payload.length, 0, 3)
  bytes[3] = type
  bytes[4] = flagBits
  bytes.writeUInt32BE(streamId, 5)
  bytes.set(payload, frameHeaderBytes)
  return bytes
}

/**
 * Returns a function that encodes a unary request, HEADERS with this block and DATA, in one piece. Most bytes
 * are the same for every call, so they are copied.
 */
export function requestTemplate(block: Uint8Array): (streamId: number, body: Uint8Array) => Buffer {
  const headers = frame(frameTypes.headers, flags.endHeaders, 0, block)
  const dataHeader = frame(frameTypes.data, flags.endStream, 0, Buffer.alloc(0))
  const template = Buffer.concat([headers, dataHeader])
  return (streamId, body) => {
    const bytes = Buffer.allocUnsafe(template.length + body.length)
    bytes.set(template)
    bytes.set(body, template.length)
    bytes.writeUInt32BE(streamId, 5)
    bytes.writeUIntBE(body.length, headers.length, 3)
    bytes.writeUInt32BE(streamId, headers.length + 5)
    return bytes
  }
}

/** SETTINGS that let the server send without limit, and disable push. */
export const clientSettings = frame(
  frameTypes.settings,
  0,
  0,
  Buffer.from([0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff]),
)

export function windowUpdate(bytes: number): Buffer {
  const payload = Buffer.allocUnsafe(4)
  payload.writeUInt32BE(bytes)
  return frame(frameTypes.windowUpdate, 0, 0, payload)
}

/**
 * Encodes the request's headers. The first block of a connection adds each field to the table of HPACK (RFC
 * 7541), so that later blocks have one byte for each field, as with Envoy and other clients with persistent
 * connections.
 */
export function headerBlocks(
  path: string,
  authority: string,
): {
  readonly first: Buffer
  readonly later: Buffer
  /** Encodes the headers of a later request of another method, which do not change the table. */
  withPath(other: string): Buffer
} {
  const inserted: [number, string, string][] = [
    [4, '', path],
    [1, '', authority],
    [0, 'te', 'trailers'],
    [31, '', 'application/grpc'],
  ]
  const method = 0x83
  const scheme = 0x86
  const literals = inserted.map(([nameIndex, name, value]) =>
    Buffer.concat([Buffer.from([0x40 | nameIndex]), ...(nameIndex === 0 ? [text(name)] : []), text(value)]),
  )
  const first = Buffer.concat([Buffer.from([method, scheme]), ...literals])
  const newest = 62
  const indexes = inserted.map((_, place) => 0x80 | (newest + inserted.length - 1 - place))
  return {
    first,
    later: Buffer.from([method, scheme, ...indexes]),
    withPath: other =>
      Buffer.concat([Buffer.from([method, scheme, 4]), text(other), Buffer.from(indexes.slice(1))]),
  }
}

/** Encodes a text of HPACK without Huffman coding, shorter than 127 bytes. */
function text(value: string): Buffer {
  return Buffer.concat([Buffer.from([value.length]), Buffer.from(value, 'latin1')])
}
