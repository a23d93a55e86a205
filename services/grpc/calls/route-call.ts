import type { OpenStream } from '../http2/connection-options.ts'
import { encodeHeaderBlock } from '../http2/hpack/hpack-encoder.ts'
import type { RequestHead } from '../http2/request.ts'
import type { Stream, StreamListener } from '../http2/streams/stream.ts'
import type { AnyMethod } from '../server.ts'
import { GrpcError } from '../status.ts'
import type { CallContext, CallHead } from './call-context.ts'
import { beginStreamingCall } from './streaming-call.ts'
import { UnaryCall } from './unary-call.ts'
import { decodeMetadata, encodeTrailersOnly, metadataBytes } from './wire-metadata.ts'

/** Routes streams with this request head to a call of the method, or to an error. */
export function routeCall(
  methods: ReadonlyMap<string, AnyMethod>,
  context: CallContext,
  request: RequestHead,
): OpenStream {
  const fields = firstValues(request.fields)
  if (!request.truncated) {
    if (request.method !== 'POST') return rejectHttp('405', 'only POST is allowed', [['allow', 'POST']])
    if (!isGrpc(fields.get('content-type'))) return rejectHttp('415', 'only application/grpc is served', [])
  }
  try {
    const method = checkedMethod(methods, context, request)
    const head: CallHead = {
      method,
      metadata: decodeMetadata(request.fields),
      metadataBytes: metadataBytes(request.fields),
      timeoutMs: timeoutMs(fields.get('grpc-timeout')),
      compression: fields.get('grpc-encoding') ?? 'identity',
    }
    if (method.kind === 'unary') return stream => new UnaryCall(context, head, stream)
    return stream => beginStreamingCall(context, head, stream)
  } catch (error) {
    if (error instanceof GrpcError) return rejectCall(error)
    throw error
  }
}

function firstValues(fields: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>()
  for (let index = fields.length - 2; index >= 0; index -= 2) {
    values.set(fields[index] ?? '', fields[index + 1] ?? '')
  }
  return values
}

/** `application/grpc`, alone or followed by a subtype or parameters. */
function isGrpc(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/grpc([+;]|$)/i.test(contentType)
}

function checkedMethod(
  methods: ReadonlyMap<string, AnyMethod>,
  { limits }: CallContext,
  request: RequestHead,
): AnyMethod {
  const bytes = metadataBytes(request.fields)
  if (request.truncated || bytes > limits.maxMetadataBytes) {
    const found = request.truncated ? `more than ${limits.maxMetadataBytes}` : String(bytes)
    const allowed = `at most ${limits.maxMetadataBytes} are allowed`
    throw new GrpcError('RESOURCE_EXHAUSTED', `the metadata has ${found} bytes, ${allowed}`)
  }
  const method = methods.get(request.path)
  if (!method) throw new GrpcError('UNIMPLEMENTED', `the server does not serve ${request.path}`)
  return method
}

const unitMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 }

/**
 * Reads grpc-timeout, rounded up to whole milliseconds, the resolution of timers.
 *
 * @throws GrpcError INTERNAL for an invalid value
 */
function timeoutMs(value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(value) ?? []
  if (digits === undefined || unit === undefined) {
    const found = JSON.stringify(value.slice(0, 20))
    throw new GrpcError(
      'INTERNAL',
      `grpc-timeout: expected 1 to 8 digits and one of H, M, S, m, u, n, got ${found}`,
    )
  }
  return Math.ceil(Number(digits) * (unitMs[unit] ?? 1))
}

function rejectCall({ code, message }: GrpcError): OpenStream {
  const block = encodeTrailersOnly({ code, message })
  return stream => {
    stream.release()
    stream.end(block)
    return usingAll(stream, () => {})
  }
}

/** Answers requests that are not gRPC with an HTTP status and a text when they have arrived. */
function rejectHttp(status: string, text: string, more: readonly (readonly [string, string])[]): OpenStream {
  const body = Buffer.from(`${text}\n`)
  const length = String(body.length)
  const block = encodeHeaderBlock([
    [':status', status],
    ['content-type', 'text/plain'],
    ['content-length', length],
    ...more,
  ])
  return stream => {
    stream.release()
    return usingAll(stream, () => {
      stream.sendHeaders(block)
      stream.sendData(body)
      stream.end(undefined)
    })
  }
}

function usingAll(stream: Stream, onEnd: () => void): StreamListener {
  return {
    onData: (_, start, end) => stream.credit(end - start),
    onEnd,
    onTaken() {},
    onReset() {},
    onTurnEnd() {},
  }
}
