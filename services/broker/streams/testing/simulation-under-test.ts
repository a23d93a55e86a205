import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Tracing } from '@tollway/chassis/tracing/tracing.ts'
import type { Metadata } from '@tollway/grpc/server.ts'
import { GrpcError, statusName } from '@tollway/grpc/status.ts'
import { BrokerStats } from '../../broker-stats.ts'
import { defaultRoute, type Route } from '../../routes/route.ts'
import { MemoryLog } from '../../stream-log/memory.ts'
import type { StreamLog } from '../../stream-log/stream-log.ts'
import { readMessage } from '../../wire/read-message.ts'
import { animationStatusCodes, encodeStatusMessage, type Status } from '../../wire/status.ts'
import { encodeData, encodeHeader } from '../../wire/testing/encode-messages.ts'
import { Broker } from '../broker.ts'
import type { BrokerOptions } from '../stream-context.ts'

/** The limits of a broker in tests. */
export const defaultBrokerLimits: BrokerOptions['limits'] = {
  maxPushes: 10_000,
  maxPulls: 20_000,
  pullIdleMs: 3_600_000,
  headerWaitMs: 30_000,
  maxWaitingRequests: 32,
  resumeGraceMs: 5000,
}

/** A broker in memory with simulated time, its producers and consumers. */
export interface Simulation {
  readonly broker: Broker
  readonly log: StreamLog
  readonly stats: BrokerStats
  /** Replaces the route of all requests from now on, and notifies the running ones. */
  changeRoute(changes: Partial<Route>): void
  produce(requestId: string, metadata?: Metadata): Producer
  consume(wanted: { readonly streamId?: string; readonly requestId?: string }, metadata?: Metadata): Consumer
  pass(ms: number): void
  /** Resolves when all pending work is done. */
  settle(): Promise<void>
  close(): Promise<void>
}

export interface Producer {
  /** Sends each message when the broker reads it; the texts are in the form of `decodeText`. */
  send(...texts: readonly string[]): void
  halfClose(): void
  cancel(): void
  /** Cuts the connection of the producer. */
  lose(): void
  /** The initial metadata of the response; undefined before they arrive. */
  readonly headers: Metadata | undefined
  /** The number of messages that the broker has not read yet. */
  readonly unsent: number
  /** `SUCCESS 3 messages`, or a gRPC code and its text; undefined while the call runs. */
  readonly answer: string | undefined
}

export interface Consumer {
  /** The received messages, in the form of `decodeText`. */
  readonly texts: readonly string[]
  /** Stops reading; the sink is full after a few messages. */
  stall(): void
  resume(): void
  cancel(): void
  /** `OK`, or a gRPC code and its text; undefined while the call runs. */
  readonly end: string | undefined
}

const stream = 's'
/** The sink of a stalled consumer is full with this many messages. */
const sinkMessages = 2

export function createSimulation(
  changes: Partial<Route> = {},
  limits: Partial<BrokerOptions['limits']> = {},
  tracing?: Tracing,
): Simulation {
  const time = { ms: 1_700_000_000_000 }
  const clock = { nowMs: () => time.ms, monotonicMs: () => time.ms }
  const sweeps = new Set<() => void>()
  const repeat = (_: number, work: () => void) => {
    sweeps.add(work)
    return () => sweeps.delete(work)
  }
  const routeListeners = new Set<() => void>()
  let requests = 0
  let route: Route = { ...defaultRoute, ...changes }
  const newKey = () => {
    requests += 1
    return String(requests)
  }
  const log = new MemoryLog({ clock, repeat, newKey })
  const stats = new BrokerStats()
  const broker = new Broker(
    {
      ...{ log, stats, clock, tracing, newTraceparent: () => '' },
      routes: {
        choose: () => route,
        onChange(listener) {
          routeListeners.add(listener)
          return () => routeListeners.delete(listener)
        },
      },
      limits: { ...defaultBrokerLimits, ...limits },
      onBegun() {},
    },
    repeat,
  )
  return {
    ...{ broker, log, stats },
    changeRoute(next) {
      route = { ...route, ...next }
      for (const listener of routeListeners) listener()
    },
    produce: (requestId, metadata = new Map()) => createProducer(broker, requestId, metadata),
    consume: (wanted, metadata = new Map()) => createConsumer(broker, wanted, metadata),
    pass(ms) {
      time.ms += ms
      for (const sweep of [...sweeps]) sweep()
    },
    async settle() {
      for (let turn = 0; turn < 4; turn += 1) await nextTurn()
    },
    close: () => broker.close(),
  }
}

function createProducer(broker: Broker, requestId: string, metadata: Metadata): Producer {
  let answer: string | undefined
  let headers: Metadata | undefined
  function sendHeaders(sent: Metadata): void {
    headers = sent
  }
  const push = beginOrReport(
    () => broker.push({ metadata, peer: 'producer', sendHeaders }),
    told => (answer = told),
  )
  push?.done.then(
    ({ code, message }) => (answer = `${code} ${message}`.trimEnd()),
    error => (answer = describeError(error)),
  )
  const unsent: string[] = []
  let sending = false
  let halfClosed = false

  async function sendAll(): Promise<void> {
    if (sending) return
    sending = true
    while (push !== undefined && !push.over && unsent.length > 0) {
      const room = push.take(encodeText(unsent.shift() ?? '', requestId))
      if (room !== undefined) await room
    }
    sending = false
    if (halfClosed) push?.halfClose()
  }

  return {
    send(...texts) {
      unsent.push(...texts)
      sendAll()
    },
    halfClose() {
      halfClosed = true
      sendAll()
    },
    cancel() {
      unsent.length = 0
      push?.close(new GrpcError('CANCELLED', 'the caller is gone'))
    },
    lose() {
      unsent.length = 0
      push?.close(new GrpcError('UNAVAILABLE', 'the connection is lost'))
    },
    get headers() {
      return headers
    },
    get unsent() {
      return unsent.length
    },
    get answer() {
      return answer
    },
  }
}

function createConsumer(
  broker: Broker,
  { streamId = '', requestId = '' }: { readonly streamId?: string; readonly requestId?: string },
  metadata: Metadata,
): Consumer {
  const texts: string[] = []
  let queued: Uint8Array[] = []
  let stalled = false
  let end: string | undefined
  let onReady = () => {}
  let emptied = Promise.withResolvers<void>()

  function empty(): void {
    queued = []
    emptied.resolve()
    emptied = Promise.withResolvers()
  }

  function take(): void {
    const wasFull = queued.length >= sinkMessages
    for (const bytes of queued) texts.push(decodeText(bytes))
    empty()
    if (wasFull && end === undefined) onReady()
  }

  const sink = {
    write(bytes: Uint8Array) {
      if (end !== undefined) return false
      if (queued.length >= sinkMessages) texts.push('written to a full sink')
      queued.push(bytes)
      if (!stalled) take()
      return queued.length < sinkMessages
    },
    onReady(listener: () => void) {
      onReady = listener
    },
    get queuedBytes() {
      return queued.length
    },
    discard: empty,
    async flush() {
      if (queued.length > 0) await emptied.promise
    },
  }
  const wanted = { streamId, requestId, targetObjectId: '' }
  const pull = beginOrReport(
    () => broker.pull(wanted, { metadata, peer: 'consumer' }, sink),
    told => (end = told),
  )
  pull?.done.then(
    () => (end = 'OK'),
    error => (end = describeError(error)),
  )
  return {
    texts,
    stall() {
      stalled = true
    },
    resume() {
      stalled = false
      take()
    },
    cancel: () => pull?.close(new GrpcError('CANCELLED', 'the caller is gone')),
    get end() {
      return end
    },
  }
}

function beginOrReport<T>(begin: () => T, tell: (outcome: string) => void): T | undefined {
  try {
    return begin()
  } catch (error) {
    tell(describeError(error))
    return undefined
  }
}

const describeError = (error: unknown) =>
  error instanceof GrpcError ? `${statusName(error.code)} ${error.message}` : String(error)

/**
 * Encodes a message: `header`, a number for data with that time code, `SUCCESS` or another status, or `junk`.
 */
export function encodeText(text: string, requestId = ''): Uint8Array {
  if (text === 'header') {
    const animationIds = { streamId: stream, requestId, targetObjectId: 'avatar' }
    return encodeHeader({ animationIds, sourceServiceId: 'source' })
  }
  if (text === 'no-ids') return encodeHeader({})
  if (text === 'junk') return Buffer.from([0xff])
  if (text.startsWith('big:')) return Buffer.alloc(Number(text.slice(4)), encodeText('1'))
  const code = animationStatusCodes.find(known => known === text)
  if (code !== undefined) return encodeStatusMessage({ code, message: '' })
  return encodeData({ camera: { focalLength: [{ timeCode: Number(text), value: 35 }] } })
}

export function decodeText(bytes: Uint8Array): string {
  const message = readMessage(bytes)
  if (message.part === 'header') return `header ${message.ids.requestId}`
  if (message.part === 'data') return String(message.camera?.earliest)
  if (message.part === 'status') return statusText(message.status)
  return 'nothing'
}

const statusText = ({ code, message }: Status) => `${code} ${message}`.trimEnd()
