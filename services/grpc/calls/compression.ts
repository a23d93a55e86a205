import { gunzipSync } from 'node:zlib'
import { GrpcError } from '../status.ts'

/** The header that names the encodings of requests that this server accepts. */
export const acceptEncoding: readonly [string, string] = ['grpc-accept-encoding', 'identity,gzip']

export const isSupported = (encoding: string): boolean => encoding === 'gzip'

/**
 * The accepted encodings, for the answer to a request that names an encoding: its caller may compress. Other
 * callers do not need the bytes.
 */
export const acceptFields = (encoding: string): readonly (readonly [string, string])[] =>
  encoding === 'identity' ? [] : [acceptEncoding]

/**
 * Decompresses a message of gzip. It never holds more than `maxBytes` of the result.
 *
 * @throws GrpcError RESOURCE_EXHAUSTED for a longer message, INTERNAL for damaged data
 */
export function decompress(message: Uint8Array, maxBytes: number): Uint8Array {
  try {
    return gunzipSync(message, { maxOutputLength: Math.max(1, maxBytes) })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      const found = `the request message has more than ${maxBytes} bytes after decompression`
      throw new GrpcError('RESOURCE_EXHAUSTED', `${found}, which are all that are allowed`)
    }
    throw new GrpcError('INTERNAL', 'the compressed request message is damaged')
  }
}
