import type { AnyMethod, Call, Codec, Method } from '../server.ts'
import { GrpcError } from '../status.ts'

/** `grpc.health.v1.HealthCheckRequest`. */
interface HealthRequest {
  readonly service: string
}

/** `grpc.health.v1.HealthCheckResponse`: one of `servingStatus`, or 0 for UNKNOWN. */
interface HealthResponse {
  readonly status: number
}

/** `grpc.health.v1.HealthCheckResponse.ServingStatus`. */
export const servingStatus = { SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const

export const healthCheckPath = '/grpc.health.v1.Health/Check'
export const healthWatchPath = '/grpc.health.v1.Health/Watch'

/**
 * The health of each service for grpc.health.v1. The name `''` stands for the whole server; every name is
 * unknown until it is set.
 */
export class HealthTable {
  readonly #serving = new Map<string, boolean>()
  readonly #subscriptions = new Set<{ readonly listener: () => void }>()
  #isDraining = false

  /** Returns whether a service is serving; undefined for an unknown name. */
  get(service: string): boolean | undefined {
    return this.#serving.get(service)
  }

  set(service: string, wanted: boolean): void {
    const value = wanted && !this.#isDraining
    if (this.#serving.get(service) === value) return
    this.#serving.set(service, value)
    this.#notify()
  }

  /** Adds a listener for changes, until the returned function is called. */
  subscribe(listener: () => void): () => void {
    const subscription = { listener }
    this.#subscriptions.add(subscription)
    return () => this.#subscriptions.delete(subscription)
  }

  /** Sets every service to not serving, for good: `set` cannot change that. */
  drain(): void {
    this.#isDraining = true
    for (const service of this.#serving.keys()) this.#serving.set(service, false)
    this.#notify()
  }

  #notify(): void {
    for (const { listener } of this.#subscriptions) listener()
  }
}

/**
 * Creates the methods of grpc.health.v1.Health, which answer from the table.
 *
 * @param onCheck called after each Check with its duration in milliseconds
 */
export function healthMethods(
  table: HealthTable,
  onCheck: (tookMs: number) => void = () => {},
): readonly AnyMethod[] {
  const check: Method<HealthRequest, HealthResponse> = {
    ...healthServerCodec,
    path: healthCheckPath,
    kind: 'unary',
    handle({ service }) {
      const startedMs = performance.now()
      const status = readStatus(table, service)
      onCheck(performance.now() - startedMs)
      if (status !== servingStatus.SERVICE_UNKNOWN) return { status }
      throw new GrpcError('NOT_FOUND', `service ${JSON.stringify(service)}: unknown`)
    },
  }
  const watch: Method<HealthRequest, HealthResponse> = {
    ...healthServerCodec,
    path: healthWatchPath,
    kind: 'server-stream',
    handle: ({ service }, call) => watchStatus(table, service, call),
  }
  return [check, watch]
}

/**
 * Yields the current status and each change. A slow reader may miss statuses in between, but never the
 * latest.
 */
async function* watchStatus(table: HealthTable, service: string, call: Call): AsyncGenerator<HealthResponse> {
  let sent: number | undefined
  let wake = () => {}
  const unsubscribe = table.subscribe(() => wake())
  const onAbort = () => wake()
  call.signal.addEventListener('abort', onAbort)
  try {
    while (!call.signal.aborted) {
      const status = readStatus(table, service)
      if (status === sent) {
        const { promise, resolve } = Promise.withResolvers<void>()
        wake = resolve
        await promise
      } else {
        sent = status
        yield { status }
      }
    }
  } finally {
    unsubscribe()
    call.signal.removeEventListener('abort', onAbort)
  }
}

function readStatus(table: HealthTable, service: string): number {
  const serving = table.get(service)
  if (serving === undefined) return servingStatus.SERVICE_UNKNOWN
  return serving ? servingStatus.SERVING : servingStatus.NOT_SERVING
}

const healthServerCodec: Codec<HealthRequest, HealthResponse> = {
  decode: bytes => ({ service: decodeText(fieldOne(bytes, wireTypes.LENGTH)) }),
  encode: ({ status }) => Uint8Array.of(0x08, status),
}

/** The codec of a client, which encodes requests and decodes answers. */
export const healthClientCodec: Codec<HealthResponse, HealthRequest> = {
  decode(bytes) {
    const status = fieldOne(bytes, wireTypes.VARINT)
    return { status: typeof status === 'number' ? status : 0 }
  },
  encode({ service }) {
    const text = new TextEncoder().encode(service)
    if (text.length > maxServiceBytes) {
      throw new RangeError(`service: ${text.length} bytes, at most ${maxServiceBytes} are allowed`)
    }
    return text.length === 0 ? text : Uint8Array.of(0x0a, text.length, ...text)
  },
}

/** The longest name of a service in a request: its length fits into a varint of one byte. */
const maxServiceBytes = 127

const wireTypes = { VARINT: 0, FIXED64: 1, LENGTH: 2, FIXED32: 5 } as const

/**
 * Returns the last value of field 1, the only field in health checks; skips unknown fields, as protobuf
 * requires. Throws for malformed bytes.
 */
function fieldOne(bytes: Uint8Array, wireType: number): Uint8Array | number | undefined {
  let found: Uint8Array | number | undefined
  let offset = 0
  while (offset < bytes.length) {
    const tag = varint()
    const value = fieldValue(tag & 7)
    if (tag === ((1 << 3) | wireType)) found = value
  }
  return found

  function fieldValue(type: number): Uint8Array | number {
    if (type === wireTypes.VARINT) return varint()
    if (type === wireTypes.LENGTH) return take(varint())
    if (type === wireTypes.FIXED64) return take(8)
    if (type === wireTypes.FIXED32) return take(4)
    throw new Error(`byte ${offset}: wire type ${type} is not one of 0, 1, 2, 5`)
  }

  function varint(): number {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = take(1)[0] ?? 0
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return value
    }
    throw new Error(`byte ${offset}: a varint has at most 10 bytes`)
  }

  function take(length: number): Uint8Array {
    if (offset + length > bytes.length) {
      throw new Error(`byte ${offset}: ${length} bytes expected, ${bytes.length - offset} found`)
    }
    offset += length
    return bytes.subarray(offset - length, offset)
  }
}

function decodeText(value: Uint8Array | number | undefined): string {
  return value instanceof Uint8Array ? new TextDecoder('utf-8', { fatal: true }).decode(value) : ''
}
