import { gunzipSync } from 'node:zlib'
import { GrpcError } from '../status.ts'

/** The encodings that the server accepts. */
export const acceptEncoding: readonly [string, string] = ['grpc-accept-encoding', 'identity,gzip']

export const isSupported = (encoding: string): boolean => encoding === 'gzip'

/** Only callers that name an encoding need this header: others do not compress. */
export const acceptFields = (encoding: string): readonly (readonly [string, string])[] =>
  encoding === 'identity' ? [] : [acceptEncoding]

/**
 * Decompresses a message. Never uses more memory than `maxBytes` for the result.
 *
 * @throws GrpcError RESOURCE_EXHAUSTED for a longer result, INTERNAL for damaged data
 */
export function decompress(message: Uint8Array, maxBytes: number): Uint8Array {
  try {
    return gunzipSync(message, { maxOutputLength: Math.max(1, maxBytes) })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      const problem = `the request message is longer than the allowed ${maxBytes} bytes after decompression`
      throw new GrpcError('RESOURCE_EXHAUSTED', problem)
    }
    throw new GrpcError('INTERNAL', 'the compressed request message is damaged')
  }
}
