import type { Clock } from '@tollway/chassis/clock.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Hello, Totals } from '@tollway/proto/tollway/operator/v1/counters'
import { type AskedProcess, Followers } from '../xds/sessions/followers.ts'
import type { OpenSession } from '../xds/sessions/session-registry.ts'
import type { ReceivingSession, SessionKind } from '../xds/sessions/session-table.ts'
import type { HitCounts } from './pod-sessions.ts'
import { decodeReport, encodeRequest, type Report, type Request, sessionPath } from './session-codec.ts'

/** One process of the rate limit service, for as long as its stream is open. */
export interface ProcessSession extends AskedProcess<Report, Request>, OpenSession {
  readonly identity: Hello
  /** The latest report. */
  readonly state: ProcessState
  /** Sends a request that has no answer. */
  send(request: Request): void
}

export interface ProcessState {
  readonly domains: ReadonlyMap<string, ReportedDomain>
  readonly lastReportMs: number
  readonly decisionsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly backendProblem: string
  readonly droppedReports: number
}

export interface ReportedDomain {
  readonly limits: number
  readonly rules: ReadonlyMap<string, ReportedRule>
}

export interface ReportedRule extends HitCounts {
  /** Hits in the last interval, as rates. */
  readonly perSecond: HitCounts
  /** When it changed last, by the monotonic clock. */
  readonly changedMs: number
}

/** The session, for the owner of the stream. */
export interface OpenProcessSession extends ProcessSession, ReceivingSession<Report> {}

/** The sessions of rate limit processes. */
export const processSessions = (clock: Clock): SessionKind<Hello, Report, Request, OpenProcessSession> => ({
  path: sessionPath,
  name: 'rate limit process',
  decode: decodeReport,
  encode: encodeRequest,
  helloOf(first) {
    if (first.case === 'hello') return first.value
    throw new GrpcError('INVALID_ARGUMENT', 'the first message must be a Hello')
  },
  open: (hello, send) => openProcessSession(hello, send, clock),
})

/** The most rules and domains of one process that are kept. */
const maxRules = 100_000
const maxDomains = 100_000

export function openProcessSession(
  identity: Hello,
  send: (request: Request) => void,
  clock: Clock,
): OpenProcessSession {
  const followers = new Followers<Report, Request>(send)
  const domains = new Map<string, { limits: number; rules: Map<string, KeptRule> }>()
  const state = {
    domains,
    lastReportMs: clock.monotonicMs(),
    decisionsPerSecond: 0,
    p50Ms: 0,
    p99Ms: 0,
    backendProblem: '',
    droppedReports: 0,
  }
  let rules = 0
  let hasTotals = false

  function takeTotals(totals: Totals): void {
    const nowMs = clock.monotonicMs()
    const seconds = Number(totals.intervalMs) / 1000
    const rateOf = (count: number) => (seconds > 0 && hasTotals ? Math.max(0, count) / seconds : 0)
    state.decisionsPerSecond = rateOf(Number(totals.decisions))
    state.p50Ms = totals.p50Ms
    state.p99Ms = totals.p99Ms
    state.backendProblem = totals.backendProblem
    state.droppedReports = Number(totals.droppedReports)
    for (const name of totals.removedDomains) {
      rules -= domains.get(name)?.rules.size ?? 0
      domains.delete(name)
    }
    for (const { domain, rules: limits, changed, whole } of totals.domains) {
      if (!domains.has(domain) && domains.size >= maxDomains) continue
      const before = domains.get(domain)?.rules ?? new Map<string, KeptRule>()
      const after = whole ? new Map<string, KeptRule>() : before
      if (whole) rules -= before.size
      for (const { rule, ...hits } of changed) {
        if (!after.has(rule)) {
          if (rules >= maxRules) continue
          rules += 1
        }
        const kept = before.get(rule) ?? newRule()
        const counts = countsOf(hits)
        for (const name of ['allowed', 'refused', 'near', 'shadow'] as const) {
          kept.perSecond[name] = rateOf(counts[name] - kept[name])
          kept[name] = counts[name]
        }
        kept.changedMs = nowMs
        after.set(rule, kept)
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
 * A rule is changed in place: 100 processes report thousands of rules a second, and new objects would stay
 * until the next collection of the whole heap.
 */
type Kept<Type> = { -readonly [Name in keyof Type]: Type[Name] }
type KeptRule = Kept<Omit<ReportedRule, 'perSecond'>> & { readonly perSecond: Kept<HitCounts> }

const noHits = (): Kept<HitCounts> => ({ allowed: 0, refused: 0, near: 0, shadow: 0 })
const newRule = (): KeptRule => ({ ...noHits(), perSecond: noHits(), changedMs: 0 })

type WireCounts = { readonly [Name in keyof HitCounts]: bigint }

export function countsOf({ allowed, refused, near, shadow }: WireCounts): HitCounts {
  return {
    allowed: Number(allowed),
    refused: Number(refused),
    near: Number(near),
    shadow: Number(shadow),
  }
}

/** Returns whether the process reports hashes instead of the values of descriptors. */
export const hashesValues = ({ identity }: Pick<ProcessSession, 'identity'>) =>
  identity.features.includes('hashed-keys')

/** Returns the sessions of the processes that enforce the domain. */
export const enforcing = (sessions: readonly ProcessSession[], domain: string): readonly ProcessSession[] =>
  sessions.filter(({ state }) => state.domains.has(domain))
