import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '@tollway/chassis/clock.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type DomainShares,
  type DomainTotals,
  type Hello,
  type SessionReport,
  SessionReportSchema,
  SessionRequestSchema,
  type Totals,
} from '@tollway/proto/tollway/operator/v1/counters'
import { type AskedProcess, Followers } from '../pods/ask-processes.ts'
import type { OpenSession, ReceivingSession, SessionKind } from '../pods/session-table.ts'
import { type HitCounts, zeroHits } from './pod-sessions.ts'

/** One process of the rate limit service, for as long as its stream is open. */
export interface ProcessSession
  extends AskedProcess<ProcessSessionReport, ProcessSessionRequest>,
    OpenSession {
  readonly identity: Hello
  /** The state of the process as its latest reports describe it. */
  readonly state: ProcessState
  /** Sends a request that has no answer. */
  send(request: ProcessSessionRequest): void
}

interface ProcessState {
  readonly domains: ReadonlyMap<string, ReportedDomain>
  readonly lastReportMs: number
  readonly decisionsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly backendProblem: string
  readonly droppedReports: number
  /** What proxies share, by the last report; empty without rules of `delivery: Quota`. */
  readonly shares: readonly DomainShares[]
}

interface ReportedDomain {
  readonly limits: number
  readonly rules: ReadonlyMap<string, ReportedRule>
}

export interface ReportedRule extends HitCounts {
  /**
   * The hits in the interval of the last report with this rule; 0 if that is the first report of the process.
   */
  readonly last: HitCounts
  /** The length of the interval of `last` in milliseconds, at least 1. */
  readonly intervalMs: number
  /** When a report last had this rule, by the monotonic clock. */
  readonly changedMs: number
}

/**
 * A session with the functions for the owner of the stream, which passes reports to the session and closes
 * it.
 */
export interface OpenProcessSession extends ProcessSession, ReceivingSession<ProcessSessionReport> {}

/** How the sessions of rate limit processes are opened, and how their messages are encoded. */
export const processSessions = (
  clock: Clock,
): SessionKind<Hello, ProcessSessionReport, ProcessSessionRequest, OpenProcessSession> => ({
  path: processSessionPath,
  name: 'rate limit process',
  decode: decodeReport,
  encode: encodeRequest,
  readHello(first) {
    if (first.case === 'hello') return first.value
    throw new GrpcError('INVALID_ARGUMENT', 'the first message must be a Hello')
  },
  open: (hello, send) => openProcessSession(hello, send, clock),
})

/** At most this many rules, and as many domains, of one process are stored; others are ignored. */
const maxRules = 100_000
const maxDomains = 100_000

export function openProcessSession(
  identity: Hello,
  send: (request: ProcessSessionRequest) => void,
  clock: Clock,
): OpenProcessSession {
  const followers = new Followers<ProcessSessionReport, ProcessSessionRequest>(send)
  const domains = new Map<string, { limits: number; rules: Map<string, MutableRule> }>()
  const state = {
    domains,
    lastReportMs: clock.monotonicMs(),
    decisionsPerSecond: 0,
    p50Ms: 0,
    p99Ms: 0,
    backendProblem: '',
    droppedReports: 0,
    shares: [] as readonly DomainShares[],
  }
  let rules = 0
  let hasTotals = false

  function takeTotals(totals: Totals): void {
    const nowMs = Math.round(clock.monotonicMs())
    const intervalMs = Number(totals.intervalMs)
    const hasInterval = hasTotals && intervalMs > 0
    state.decisionsPerSecond = hasInterval ? Number(totals.decisions) / (intervalMs / 1000) : 0
    state.p50Ms = totals.p50Ms
    state.p99Ms = totals.p99Ms
    state.backendProblem = totals.backendProblem
    state.droppedReports = Number(totals.droppedReports)
    state.shares = totals.shares
    for (const name of totals.removedDomains) {
      rules -= domains.get(name)?.rules.size ?? 0
      domains.delete(name)
    }
    for (const reported of totals.domains) {
      const { domain, rules: limits, changed, whole } = reported
      if (!domains.has(domain) && domains.size >= maxDomains) continue
      const before = domains.get(domain)?.rules ?? new Map<string, MutableRule>()
      const after = whole ? new Map<string, MutableRule>() : before
      if (whole) rules -= before.size
      for (const [index, rule] of changed.entries()) {
        const known = after.get(rule)
        const current = known ?? before.get(rule) ?? newRule()
        if (known === undefined) {
          if (rules >= maxRules) continue
          rules += 1
          after.set(rule, current)
        }
        setCounts(current, reported, index, hasInterval)
        current.intervalMs = hasInterval ? intervalMs : 1
        current.changedMs = nowMs
      }
      domains.set(domain, { limits, rules: after })
    }
    hasTotals = true
  }

  return {
    id: `${identity.uid} ${identity.worker}`,
    uid: identity.uid,
    identity,
    state,
    send,
    follow: (id, request, onReport) => followers.follow(id, request, onReport),
    receive(report) {
      state.lastReportMs = clock.monotonicMs()
      if (report.case === 'totals') takeTotals(report.value)
      else if (report.case !== undefined && report.case !== 'hello') followers.pass(report.value.id, report)
    },
    close: () => followers.close(),
  }
}

/**
 * A rule is changed in place: 100 processes report thousands of rules per second, and new objects would stay
 * until the next collection of the whole heap. For the same reason the numbers of a rule are whole: V8
 * allocates an object for each fraction.
 */
type Mutable<Type> = { -readonly [Name in keyof Type]: Type[Name] }
type MutableRule = Mutable<Omit<ReportedRule, 'last'>> & { readonly last: Mutable<HitCounts> }

const newRule = (): MutableRule => ({ ...zeroHits(), last: zeroHits(), intervalMs: 1, changedMs: 0 })

/**
 * Sets the counts of a rule to the counts of a report, and `last` to the difference from the earlier counts.
 */
function setCounts(rule: MutableRule, reported: DomainTotals, index: number, hasInterval: boolean): void {
  const calls = countAt(reported.calls, index)
  const allowed = countAt(reported.allowed, index)
  const refused = countAt(reported.refused, index)
  const near = countAt(reported.near, index)
  const shadow = countAt(reported.shadow, index)
  const since = (count: number, before: number) => (hasInterval ? Math.max(0, count - before) : 0)
  rule.last.calls = since(calls, rule.calls)
  rule.last.allowed = since(allowed, rule.allowed)
  rule.last.refused = since(refused, rule.refused)
  rule.last.near = since(near, rule.near)
  rule.last.shadow = since(shadow, rule.shadow)
  rule.calls = calls
  rule.allowed = allowed
  rule.refused = refused
  rule.near = near
  rule.shadow = shadow
}

/** Returns the count; 0 for a fraction, a negative number, or one beyond 2^53, which no process counts. */
function countAt(counts: readonly number[], index: number): number {
  const count = counts[index] ?? 0
  return Number.isSafeInteger(count) && count > 0 ? count : 0
}

/** Returns whether the process reports hashes instead of the values of descriptors. */
export const hashesValues = ({ identity }: Pick<ProcessSession, 'identity'>) =>
  identity.features.includes('hashed-keys')

export const sessionsEnforcing = (
  sessions: readonly ProcessSession[],
  domain: string,
): readonly ProcessSession[] => sessions.filter(({ state }) => state.domains.has(domain))

export const processSessionPath = '/tollway.operator.v1.CounterService/Session'

/** A report of a process. `case` is undefined for a kind of report that this version does not know. */
export type ProcessSessionReport = SessionReport['report']
export type ProcessSessionRequest = NonNullable<MessageInitShape<typeof SessionRequestSchema>['request']>

/** @throws GrpcError INVALID_ARGUMENT */
function decodeReport(bytes: Uint8Array): ProcessSessionReport {
  try {
    return fromBinary(SessionReportSchema, bytes).report
  } catch (error) {
    throw new GrpcError('INVALID_ARGUMENT', `decode a report: ${(error as Error).message}`)
  }
}

function encodeRequest(request: ProcessSessionRequest): Uint8Array {
  return toBinary(SessionRequestSchema, create(SessionRequestSchema, { request }))
}
