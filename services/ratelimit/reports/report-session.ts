import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { type HistogramReading, histogramBuckets, quantileMs } from '@tollway/chassis/metrics/histogram.ts'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { FeedConnection } from '@tollway/discovery/feed-connection.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { flag, hasFlag, recordCount } from '../rules/domain-table.ts'
import type { Stats } from '../stats/registry/stats.ts'
import { OutgoingReports } from './outgoing-reports.ts'
import { type Request, sessionCodec, sessionPath, totalsMessage } from './report-codec.ts'
import { createTotalsReport } from './rule-totals.ts'
import { createRequestHandler, type RequestParts } from './session-requests.ts'

/** Reports decisions to the operator of the feed, and answers its requests. */
export interface ReportSession {
  start(): void
  /** Ends the stream. Call it before the connection is closed. */
  stop(): Promise<void>
}

export interface ReportSessionOptions extends RequestParts {
  /** The connection of the feed, which closes it. */
  readonly connection: FeedConnection
  readonly identity: Identity
  readonly stats: Pick<Stats, 'histogram' | 'histograms'>
  /** The times of the calls of `/json`. */
  readonly jsonTimes: Pick<HistogramReading, 'counts'>
  /** Returns the cause of a failure of the backend; empty if it answers. */
  readonly backendProblem: () => string
  /** Adds a listener that is called after each change of the rules. */
  readonly onRules: (listener: () => void) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
  readonly timing?: Partial<ReportTiming>
}

/** How the operator knows this process, as the node of the feed. */
export interface Identity {
  readonly uid: string
  readonly pod: string
  readonly namespace: string
  readonly nodeId: string
  /** 0 of 0 for a process without workers. */
  readonly worker: number
  readonly workers: number
  /** The parts that are switched on. */
  readonly features: readonly string[]
  readonly backend: string
}

export interface ReportTiming {
  /** The time between two reports of the totals. */
  readonly intervalMs: number
  readonly backoff: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
  /** The delay after a management server that does not know the method. */
  readonly unsupportedMs: number
}

export const defaultReportTiming: ReportTiming = {
  intervalMs: 5_000,
  backoff: { initialMs: 200, maxMs: 5_000 },
  unsupportedMs: 60_000,
}

export function createReportSession(options: ReportSessionOptions): ReportSession {
  const timing = { ...defaultReportTiming, ...options.timing }
  const { unsupportedMs, backoff: waits } = timing
  const { clock, log, random } = options
  const backoff = createBackoff({ ...waits, factor: 2, jitter: 0.5, random })
  const stopped = new AbortController()
  const { signal } = stopped
  const reportOnce = createReporter(options, timing.intervalMs, signal)
  let running: Promise<void> = Promise.resolve()
  let lastReason = ''

  /** Returns the delay before the next stream. */
  function delayAfter(error: unknown, lastedMs: number): number {
    const { message: reason } = error as Error
    const isUnsupported = error instanceof GrpcError && error.code === statusCodes.UNIMPLEMENTED
    // The feed has the same connection and reports its failures.
    const isNew =
      error instanceof GrpcError && error.code !== statusCodes.UNAVAILABLE && reason !== lastReason
    lastReason = reason
    log[isNew && !isUnsupported ? 'warn' : 'debug']('report decisions: failed', { reason })
    if (isUnsupported) return unsupportedMs
    if (lastedMs > waits.maxMs) backoff.reset()
    return backoff.nextMs()
  }

  async function run(): Promise<void> {
    const between = createWakeablePause()
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs()
      const error: unknown = await reportOnce().catch((reason: unknown) => reason)
      if (!signal.aborted) await between.wait(delayAfter(error, clock.monotonicMs() - beganMs), signal)
    }
  }

  return {
    start() {
      running = run()
    },
    async stop() {
      stopped.abort()
      await running
    },
  }
}

/**
 * Returns a function that reports through one stream: the totals at each interval and after each change of
 * the rules, and the answers to requests. It rejects when the stream ends.
 */
function createReporter(options: ReportSessionOptions, intervalMs: number, signal: AbortSignal) {
  const { connection, clock, onRules, identity, rules, backendProblem } = options
  const pause = createWakeablePause()
  const decisions = createDurations(options)
  const outgoing = new OutgoingReports()
  const handler = createRequestHandler(options, (report, isOptional) => outgoing.send(report, isOptional))
  onRules(pause.wake)

  async function sendTotals(hasEnded: () => boolean): Promise<void> {
    const totals = createTotalsReport(rules, countLimits)
    let beforeMs = clock.monotonicMs()
    while (!hasEnded() && !signal.aborted) {
      const nowMs = clock.monotonicMs()
      if (outgoing.hasRoom()) {
        const state = { backendProblem: backendProblem(), droppedReports: outgoing.dropped() }
        const sinceLast = { ...decisions(), intervalMs: nowMs - beforeMs }
        outgoing.send(totalsMessage(totals(), { ...state, ...sinceLast }), false)
        beforeMs = nowMs
      }
      await pause.wait(intervalMs, signal)
    }
  }

  return async (): Promise<void> => {
    const call = connection.client().bidi(sessionPath, sessionCodec, { signal })
    let hasEnded = false
    outgoing.open(call)
    const ended = readRequests(call.messages, handler.handle).finally(() => {
      hasEnded = true
      pause.wake()
    })
    // Awaited below, after the last report.
    ended.catch(() => {})
    outgoing.send({ case: 'hello', value: { ...identity, features: [...identity.features] } }, false)
    await sendTotals(() => hasEnded)
    outgoing.close()
    handler.close()
    await ended
  }
}

async function readRequests(
  messages: AsyncIterable<Request>,
  handle: (request: Request) => void,
): Promise<never> {
  for await (const request of messages) handle(request)
  throw new Error('the operator ended the stream')
}

function countLimits({ table }: { readonly table: Parameters<typeof recordCount>[0] }): number {
  let limits = 0
  for (let record = 0; record < recordCount(table); record++) {
    if (hasFlag(table, record, flag.hasLimit)) limits += 1
  }
  return limits
}

/** Returns a function that returns the decisions since its last call, and their quantiles. */
function createDurations({ stats, jsonTimes }: Pick<ReportSessionOptions, 'stats' | 'jsonTimes'>) {
  const name = 'ratelimit_server.ShouldRateLimit.response_time'
  stats.histogram(name)
  let before = new Float64Array(histogramBuckets)
  return () => {
    const ofGrpc = stats.histograms.find(histogram => histogram.name === name)?.counts
    const counts = jsonTimes.counts.map((count, bucket) => count + (ofGrpc?.[bucket] ?? 0))
    const added = counts.map((count, bucket) => count - (before[bucket] ?? 0))
    before = counts
    const decisions = added.reduce((sum, count) => sum + count, 0)
    return { decisions, p50Ms: quantileMs(added, 0.5), p99Ms: quantileMs(added, 0.99) }
  }
}
