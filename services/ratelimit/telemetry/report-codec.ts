import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import {
  CounterAnswer_Outcome,
  CounterCall_Action,
  SessionReportSchema,
  type SessionRequest,
  SessionRequestSchema,
  Subscribe_What,
} from '@tollway/proto/tollway/operator/v1/counters'
import type { CounterAction, CounterResult, ReservedAmounts } from './counter-calls.ts'
import type { ShowEntries } from './hide-values.ts'
import type { DomainShares } from './quota-reports.ts'
import type { ReplayResult } from './recording/replay.ts'
import type { HitTotals, TotalsReport } from './rule-totals.ts'
import type { SubscriptionRequest, WatchReport } from './watches.ts'

export const counterSessionPath = '/tollway.operator.v1.CounterService/Session'

export type ProcessReport = NonNullable<MessageInitShape<typeof SessionReportSchema>['report']>
export type OperatorRequest = SessionRequest['request']

export const counterSessionCodec = {
  encode: (report: ProcessReport) => toBinary(SessionReportSchema, create(SessionReportSchema, { report })),
  decode: (bytes: Uint8Array): OperatorRequest => fromBinary(SessionRequestSchema, bytes).request,
}

/** Rounds to a whole number of at least 0, for fields of unsigned integers. */
const toWholeNumber = (value: number) => BigInt(Math.max(0, Math.round(value)))

function toHitsMessage({ calls, allowed, refused, near, shadow }: HitTotals) {
  return {
    calls: toWholeNumber(calls),
    allowed: toWholeNumber(allowed),
    refused: toWholeNumber(refused),
    near: toWholeNumber(near),
    shadow: toWholeNumber(shadow),
  }
}

interface ProcessState {
  readonly decisions: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly backendProblem: string
  readonly droppedReports: number
  readonly intervalMs: number
  readonly shares: readonly DomainShares[]
}

export function toTotalsMessage(
  { domains, removedDomains }: TotalsReport,
  state: ProcessState,
): ProcessReport {
  const { decisions, droppedReports, intervalMs, shares, ...same } = state
  return {
    case: 'totals',
    value: {
      ...same,
      domains: domains.map(({ domain, rules, isWhole, changed }) => ({
        domain,
        rules,
        whole: isWhole,
        changed: changed.map(({ rule }) => rule),
        calls: changed.map(({ calls }) => calls),
        allowed: changed.map(({ allowed }) => Math.round(allowed)),
        refused: changed.map(({ refused }) => Math.round(refused)),
        near: changed.map(({ near }) => Math.round(near)),
        shadow: changed.map(({ shadow }) => Math.round(shadow)),
      })),
      removedDomains: [...removedDomains],
      decisions: toWholeNumber(decisions),
      droppedReports: toWholeNumber(droppedReports),
      intervalMs: toWholeNumber(intervalMs),
      shares: shares.map(({ domain, members, rules }) => ({
        domain,
        members,
        rules: rules.map(({ tokens, maxTokens, sketch, ...numbers }) => ({
          ...numbers,
          tokens: BigInt(tokens),
          maxTokens: BigInt(maxTokens),
          sketch: [...sketch],
        })),
      })),
    },
  }
}

export function toWatchMessage(report: WatchReport): ProcessReport {
  const { id } = report
  if (report.what === 'series') return { case: 'series', value: { id, ...toHitsMessage(report) } }
  if (report.what === 'top') {
    const { keys, sinceMs, missingAtMost } = report
    return {
      case: 'top',
      value: {
        id,
        keys: keys.map(({ item, count, error }) => ({
          entries: [...item],
          count: toWholeNumber(count),
          error: toWholeNumber(error),
        })),
        sinceMs: toWholeNumber(sinceMs),
        missingAtMost: toWholeNumber(missingAtMost),
      },
    }
  }
  const decisions = report.decisions.map(({ atMs, hits, limit, remaining, entries, ...same }) => ({
    ...same,
    entries: [...entries],
    atMs: toWholeNumber(atMs),
    hits: toWholeNumber(hits),
    limit: toWholeNumber(limit),
    remaining: toWholeNumber(remaining),
  }))
  return { case: 'tap', value: { id, decisions, skipped: toWholeNumber(report.skipped) } }
}

/** A raise may grant at most this many hits, as a limit has 32 bits. */
const maxRaise = 0xffffffffn

const watchKinds = {
  [Subscribe_What.SERIES]: 'series',
  [Subscribe_What.TOP]: 'top',
  [Subscribe_What.TAP]: 'tap',
  [Subscribe_What.WHAT_UNSPECIFIED]: undefined,
} as const

/** The characters of domain and rule together, which are kept while the subscription runs. */
const maxWatchedChars = 65_536

/** Undefined for an unknown kind of subscription, and if its names are too long. */
export function toWatch(
  message: (OperatorRequest & { case: 'subscribe' })['value'],
): SubscriptionRequest | undefined {
  const { id, domain, rule, byRefused, maxTapped } = message
  const what = domain.length + rule.length > maxWatchedChars ? undefined : watchKinds[message.what]
  return what && { id, what, domain, rule, byRefused, maxTapped: maxTapped || Number.POSITIVE_INFINITY }
}

/** Returns the action; undefined if it is unknown, and for a raise by more than `maxRaise`. */
export function toAction(
  message: (OperatorRequest & { case: 'counter' })['value'],
): CounterAction | undefined {
  if (message.action === CounterCall_Action.READ) return { do: 'read' }
  if (message.action === CounterCall_Action.RESET) return { do: 'reset' }
  const isRaise = message.action === CounterCall_Action.RAISE && message.by <= maxRaise
  return isRaise ? { do: 'raise', by: Number(message.by) } : undefined
}

const outcomes: Readonly<Record<CounterResult['outcome'], CounterAnswer_Outcome>> = {
  ok: CounterAnswer_Outcome.OK,
  'unknown-domain': CounterAnswer_Outcome.UNKNOWN_DOMAIN,
  'no-rule': CounterAnswer_Outcome.NO_RULE,
  unlimited: CounterAnswer_Outcome.UNLIMITED,
  'backend-failed': CounterAnswer_Outcome.BACKEND_FAILED,
  'not-supported': CounterAnswer_Outcome.NOT_SUPPORTED,
}

export function toCounterMessage(id: bigint, result: CounterResult): ProcessReport {
  const isOk = result.outcome === 'ok'
  const counters = isOk ? result.counters : []
  const reservations = isOk ? result.reservations : undefined
  return {
    case: 'counter',
    value: {
      id,
      outcome: outcomes[result.outcome],
      problem: 'problem' in result ? result.problem : '',
      counters: counters.map(({ value, limit, resetSeconds, ...same }) => ({
        ...same,
        value: BigInt(value),
        limit: toWholeNumber(limit),
        resetSeconds: toWholeNumber(resetSeconds),
      })),
      ...(reservations && { reservations: toReservationsMessage(reservations) }),
      reservationsProblem: isOk ? result.reservationsProblem : '',
      shared: isOk && result.isShared,
    },
  }
}

/** Rounds times up, as `Reserve` does. */
function toReservationsMessage({ count, summed, amount, nextExpiryMs = 0, first }: ReservedAmounts) {
  return {
    count: toWholeNumber(count),
    summed: toWholeNumber(summed),
    amount: toWholeNumber(amount),
    nextExpiryMs: toWholeNumber(Math.ceil(nextExpiryMs)),
    first: first.map(({ id, amount, expiresAtMs }) => ({
      id,
      amount: toWholeNumber(amount),
      expiresAtMs: toWholeNumber(Math.ceil(expiresAtMs)),
    })),
  }
}

export function toReplayMessage(
  id: bigint,
  { now, proposed, keys, coverage }: ReplayResult,
  show: ShowEntries,
): ProcessReport {
  const { recorded, earlier, share, firstMs } = coverage
  const rules = (list: ReplayResult['now']) =>
    list.map(({ rule, allowed, refused, refusedAtLeast, refusedAtMost }) => ({
      rule,
      allowed: toWholeNumber(allowed),
      refused: toWholeNumber(refused),
      refusedAtLeast: toWholeNumber(refusedAtLeast),
      refusedAtMost: toWholeNumber(refusedAtMost),
    }))
  return {
    case: 'replay',
    value: {
      id,
      progress: 1,
      done: true,
      now: rules(now),
      proposed: rules(proposed),
      keys: keys.map(({ entries, hits, refusedNow, refusedProposed }) => ({
        entries: [...show(entries)],
        hits: toWholeNumber(hits),
        refusedNow: toWholeNumber(refusedNow),
        refusedProposed: toWholeNumber(refusedProposed),
      })),
      recordedCalls: toWholeNumber(recorded),
      earlierCalls: toWholeNumber(earlier),
      share,
      firstMs: toWholeNumber(firstMs ?? 0),
    },
  }
}
