import type { Log } from '@tollway/chassis/log/log.ts'
import { type Histogram, histogramBuckets, quantileMs } from '@tollway/chassis/metrics/histogram.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { BidiCall } from '@tollway/grpc/client/client.ts'
import { type ReconnectingCall, receiveAll } from '@tollway/grpc/client/reconnecting-call.ts'
import { createFeedCall, type FeedCallTiming } from '@tollway/xds-client/feed-call.ts'
import type { FeedConnection } from '@tollway/xds-client/feed-connection.ts'
import type { QuotaBuckets } from '../quota/quota-buckets.ts'
import { hasFlag, recordCount, ruleFlag } from '../rules/domain-table.ts'
import type { Stats } from '../stats/stats.ts'
import { sumShares } from './quota-reports.ts'
import {
  counterSessionCodec,
  counterSessionPath,
  type OperatorRequest,
  type ProcessReport,
  toTotalsMessage,
} from './report-codec.ts'
import { createTotalsReport } from './rule-totals.ts'
import { createRequestHandler, type RequestParts } from './session-requests.ts'

interface ReportSessionOptions extends RequestParts, DecisionTimesParts {
  readonly connection: FeedConnection
  readonly identity: ProcessIdentity
  readonly backendProblem: () => string
  readonly quota: Pick<QuotaBuckets, 'list' | 'countMembers' | 'read'>
  readonly onRules: (listener: () => void) => void
  readonly random: () => number
  readonly log: Log
  readonly timing?: Partial<ReportTiming>
}

/** How the operator identifies this process; `nodeId` is its node in the feed. */
export interface ProcessIdentity {
  readonly uid: string
  readonly pod: string
  readonly namespace: string
  readonly nodeId: string
  /** The index of the worker. For a process without workers, `worker` and `workers` are 0. */
  readonly worker: number
  readonly workers: number
  readonly features: readonly string[]
  readonly backend: string
}

interface ReportTiming extends FeedCallTiming {
  readonly intervalMs: number
}

const defaultReportTiming: ReportTiming = {
  intervalMs: 5_000,
  backoff: { initialMs: 200, maxMs: 5_000 },
  unsupportedMs: 60_000,
}

export function createReportSession(options: ReportSessionOptions): ReconnectingCall {
  const timing = { ...defaultReportTiming, ...options.timing }
  const callOnce = createReporter(options, timing.intervalMs)
  return createFeedCall({ ...options, what: 'report decisions', timing, callOnce })
}

/**
 * Returns a function that reports through one stream, until it ends: the totals at each interval and after
 * each change of the rules, and the answers to requests. It rejects when the stream ends with an error.
 */
function createReporter(options: ReportSessionOptions, intervalMs: number) {
  const { connection, clock, onRules, identity, rules, quota, backendProblem } = options
  const pause = new WakeablePause()
  const decisions = createDecisionTimes(options)
  const outgoing = new OutgoingReports()
  const handler = createRequestHandler(options, (report, isOptional) => outgoing.send(report, isOptional))
  onRules(pause.wake)

  async function sendTotals(hasEnded: () => boolean, signal: AbortSignal): Promise<void> {
    const totals = createTotalsReport(rules, countLimits)
    let beforeMs = clock.monotonicMs()
    while (!hasEnded() && !signal.aborted) {
      const nowMs = clock.monotonicMs()
      if (outgoing.hasRoom()) {
        const state = { backendProblem: backendProblem(), droppedReports: outgoing.dropped() }
        const sinceLast = { ...decisions(), intervalMs: nowMs - beforeMs }
        const shares = sumShares(quota.list(), quota.countMembers())
        outgoing.send(toTotalsMessage(totals(), { ...state, ...sinceLast, shares }), false)
        beforeMs = nowMs
      }
      await pause.wait(intervalMs, signal)
    }
  }

  return async (signal: AbortSignal): Promise<void> => {
    const call = connection.client().bidi(counterSessionPath, counterSessionCodec, { signal })
    let hasEnded = false
    outgoing.open(call)
    const ended = receiveAll(call.messages, handler.handle).finally(() => {
      hasEnded = true
      pause.wake()
    })
    // Errors are awaited below, after the last report.
    ended.catch(() => {})
    outgoing.send({ case: 'hello', value: { ...identity, features: [...identity.features] } }, false)
    await sendTotals(() => hasEnded, signal)
    outgoing.close()
    handler.close()
    await ended
  }
}

function countLimits({ table }: { readonly table: Parameters<typeof recordCount>[0] }): number {
  let limits = 0
  for (let record = 0; record < recordCount(table); record++) {
    if (hasFlag(table, record, ruleFlag.hasLimit)) limits += 1
  }
  return limits
}

/** While this many reports wait to be sent, further ones that a later report replaces are dropped. */
const maxWaiting = 32
/** While this many reports wait, answers are dropped as well: the operator does not read. */
const maxWaitingAnswers = 1_000

/** Sends reports through the open stream. Without an open stream they are dropped. */
class OutgoingReports {
  #call: BidiCall<ProcessReport, OperatorRequest> | undefined
  #waiting = 0
  #dropped = 0

  open(call: BidiCall<ProcessReport, OperatorRequest>): void {
    this.#call = call
    this.#waiting = 0
  }

  close(): void {
    this.#call = undefined
  }

  hasRoom(): boolean {
    return this.#waiting < maxWaiting
  }

  /** Returns the number of reports that were dropped because the operator did not read. */
  dropped(): number {
    return this.#dropped
  }

  /** Sends a report. If the operator does not read, an `isOptional` one is dropped earlier than others. */
  send(report: ProcessReport, isOptional: boolean): void {
    const call = this.#call
    if (call === undefined) return
    if (this.#waiting >= (isOptional ? maxWaiting : maxWaitingAnswers)) {
      this.#dropped += 1
      return
    }
    this.#waiting += 1
    void call.write(report).then(() => {
      if (this.#call === call) this.#waiting -= 1
    })
  }
}

interface DecisionTimesParts {
  readonly stats: Pick<Stats, 'histogram' | 'histograms'>
  /** The durations of calls of `/json`, which the statistics do not have. */
  readonly jsonTimes: Pick<Histogram, 'counts'>
}

/**
 * Counts the decisions since the last call of the returned function, and the quantiles of their durations.
 */
export function createDecisionTimes({ stats, jsonTimes }: DecisionTimesParts) {
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
