import type { BackendFaultScript } from './backend-fault.ts'
import type { Backend } from './backends.ts'
import { callLatencies } from './call-latencies.ts'
import type { AnswerFigures, CaseOptions, CountFigures, FaultReport, GoalLine } from './fault-case.ts'
import { okAnswer, overAnswer } from './load/answer.ts'
import { isLimited, type OutcomeCounts } from './load/calls.ts'
import type { CallRecord, LoadRecord } from './load/fault-load.ts'

/** One injection of a fault; times are those of `performance.now()`. */
export interface Round {
  readonly injectedMs: number
  readonly removalMs: number
  readonly removedMs: number
  /** The status of `/healthcheck` before the end. */
  readonly health: number
  readonly rssGrowthMiB: number
}

export interface Observed {
  readonly script: Pick<
    BackendFaultScript<Backend>,
    | 'mode'
    | 'messages'
    | 'mayPassUnnoticed'
    | 'losesCounters'
    | 'mayExceedBy'
    | 'health'
    | 'recoveryGoalMs'
    | 'duration'
  >
  readonly options: CaseOptions
  readonly limit: number
  readonly rounds: readonly Round[]
  readonly record: LoadRecord
  /** The calls after the load, until the limit was reached. */
  readonly rest: OutcomeCounts
  /** The backend's count of hits under the limit. */
  readonly counted: number
  /** Returns the increase of a statistic. */
  readonly grown: (name: string) => number
  readonly goAways: number
  readonly lostConnections: number
  /** The log of the service. */
  readonly output: string
}

/** A breaker opens after 100 ms without an answer, or after the deadline if that is longer. */
const breakerMs = 300
/**
 * The errors of calls while a backend, or a busy machine, is late: at their deadline, or from an open
 * breaker.
 */
const lateTexts = [
  /^2 the backend did not answer within \d+ ms$/,
  /^2 (?:(?:memcached )?[\d.]+:\d+: )?\w+ owed replies and sent nothing for \d+ ms$/,
]
const rssGoalMiB = 64
const rssBoundMiB = 256

const isAnswer = ({ outcome }: CallRecord) => outcome === okAnswer || outcome === overAnswer
const isError = (record: CallRecord) => !isAnswer(record)

/** Returns the figures of the fault, and the violations. */
export function evaluateFault(observed: Observed): FaultReport {
  const { script, rounds, record, goAways, options } = observed
  const [first] = rounds
  if (first === undefined) throw new Error('the fault was never injected')
  const answers = answerFigures(record.calls, first)
  const counts = countFigures(observed)
  const reportsErrors = (script.mode ?? 'error') === 'error' && script.messages.length > 0
  const recoveriesMs = reportsErrors ? rounds.map(round => recoveryMs(record.calls, round)) : undefined
  const notes =
    script.duration === 'passes' ? [`it took ${seconds(first.removedMs - first.injectedMs)} s`] : []
  return {
    answers,
    counts,
    ...(recoveriesMs === undefined ? {} : { recoveriesMs }),
    rssGrowthMiB: first.rssGrowthMiB,
    goAways,
    goals: collectGoals(observed, answers, recoveriesMs ?? []),
    violations: [
      ...answerViolations(observed),
      ...countViolations(observed, counts),
      ...processViolations(observed),
    ],
    notes: [...notes, `${record.sent} calls, ${options.callsPerSecond} a second`],
  }
}

function answerFigures(
  calls: readonly CallRecord[],
  { injectedMs, removalMs, removedMs }: Round,
): AnswerFigures {
  // A fault that ends by itself has no removal before its end.
  const endMs = removalMs - injectedMs < breakerMs ? removedMs : removalMs
  const held = calls.filter(({ dueMs }) => dueMs >= injectedMs && dueMs < endMs)
  const open = held.filter(({ dueMs }) => dueMs >= injectedMs + breakerMs)
  const messages = new Map<string, number>()
  for (const { outcome } of calls.filter(isError)) messages.set(outcome, (messages.get(outcome) ?? 0) + 1)
  return {
    ...callLatencies(held),
    openP99Ms: open.length === 0 ? undefined : callLatencies(open).p99Ms,
    ok: held.filter(({ outcome }) => outcome === okAnswer).length,
    over: held.filter(({ outcome }) => outcome === overAnswer).length,
    errors: held.filter(isError).length,
    messages: [...messages].sort((a, b) => b[1] - a[1]),
  }
}

function countFigures({ limit, record, rest, counted }: Observed): CountFigures {
  const limited = record.calls.filter(({ call }) => isLimited(call))
  const admitted = limited.filter(({ outcome }) => outcome === okAnswer).length + rest.ok
  const answered = limited.filter(isAnswer).length + rest.ok + rest.over
  return { limit, admitted, unanswered: Math.max(0, counted - answered) }
}

/**
 * Returns the time from the end to the last error among the calls that were due after it, or else to the
 * first answer.
 */
function recoveryMs(calls: readonly CallRecord[], { removedMs }: Round): number {
  const later = calls.filter(({ dueMs }) => dueMs >= removedMs).sort((a, b) => a.dueMs - b.dueMs)
  const first = later.find(isAnswer)
  if (first === undefined) return Number.POSITIVE_INFINITY
  const failures = later.slice(0, later.indexOf(first))
  return Math.max(...[first, ...failures].map(({ endedMs }) => endedMs)) - removedMs
}

function collectGoals(
  { script, options, rounds }: Observed,
  answers: AnswerFigures,
  recoveriesMs: readonly number[],
): readonly GoalLine[] {
  const { p999Ms, openP99Ms } = answers
  const lines: GoalLine[] = []
  const within = (what: string, unit: string, atMost: number, figure: number) =>
    lines.push({ what, unit, goal: { atMost }, figure })
  within('p99.9', 'ms', options.deadlineMs, p999Ms)
  if (answers.errors > 0 && openP99Ms !== undefined && script.duration === undefined) {
    within('p99 with the breaker open', 'ms', 1, openP99Ms)
  }
  for (const ms of recoveriesMs) within('recovery', 'ms', script.recoveryGoalMs ?? 1_000, ms)
  within('growth of memory', 'MiB', rssGoalMiB, Math.max(0, rounds[0]?.rssGrowthMiB ?? 0))
  return lines
}

function answerViolations({ script, record, rest, grown }: Observed): readonly string[] {
  const { messages, mode = 'error' } = script
  const violations: string[] = []
  const errors = record.calls.filter(isError)
  if (record.calls.length !== record.sent) {
    violations.push(`${record.sent - record.calls.length} calls were never answered`)
  }
  const expected = mode === 'error' ? [...messages.map(withCode), ...lateTexts] : []
  const unexpected = errors.find(({ outcome }) => !expected.some(text => text.test(outcome)))
  if (unexpected !== undefined) violations.push(`an unexpected end of a call: ${unexpected.outcome}`)
  if (messages.length === 0 && unexpected !== undefined) violations.push(`${errors.length} errors`)
  const mustFail = mode === 'error' && messages.length > 0 && !script.mayPassUnnoticed
  if (mustFail && errors.length === 0) violations.push('no call failed')
  const redisErrors = grown('ratelimit.service.call.should_rate_limit.redis_error')
  const failed = errors.length + rest.failed
  if (mode === 'error' && redisErrors !== failed) {
    violations.push(`redis_error grew by ${redisErrors} at ${failed} errors`)
  }
  if (mode !== 'error' && redisErrors === 0) violations.push('redis_error did not grow')
  const serviceErrors = grown('ratelimit.service.call.should_rate_limit.service_error')
  if (serviceErrors > 0) violations.push(`service_error grew by ${serviceErrors}`)
  return violations
}

/** Matches a call that ended with the status UNKNOWN, as with the reference. */
function withCode({ source, flags }: RegExp): RegExp {
  return new RegExp(`^2 (?:${source})$`, flags)
}

function countViolations(
  observed: Observed,
  { limit, admitted, unanswered }: CountFigures,
): readonly string[] {
  const { script, record, rest, counted } = observed
  const { mode = 'error', losesCounters = false, mayExceedBy = 0 } = script
  const limited = record.calls.filter(({ call }) => isLimited(call))
  const answered = limited.filter(isAnswer).length + rest.ok + rest.over
  const sent = limited.length + rest.ok + rest.over + rest.failed
  const violations: string[] = []
  const mixedUp = record.calls.filter(({ call, outcome }) => !isLimited(call) && outcome === overAnswer)
  if (mixedUp.length > 0 && mode !== 'deny')
    violations.push(`${mixedUp.length} calls without a limit were over it`)
  if (counted > sent) violations.push(`${counted} hits were counted of ${sent} calls: some counted twice`)
  // Lost counters start again from 0, once.
  const most = limit * (1 + mayExceedBy + (losesCounters ? 1 : 0))
  if (admitted > most) violations.push(`${admitted} calls were admitted, and at most ${most} may be`)
  if (losesCounters || mode !== 'error') return violations
  if (counted < answered) violations.push(`${counted} hits are counted of ${answered} that were decided`)
  if (admitted < limit - unanswered) {
    violations.push(
      `only ${admitted} calls of ${limit} were admitted, with ${unanswered} counted without an answer`,
    )
  }
  return violations
}

function processViolations({
  script,
  rounds,
  goAways,
  lostConnections,
  output,
}: Observed): readonly string[] {
  const { health = 200 } = script
  const violations: string[] = []
  if (goAways > 0) violations.push(`${goAways} connections got GOAWAY`)
  if (lostConnections > 0) violations.push(`${lostConnections} connections of callers were lost`)
  for (const round of rounds) {
    if (round.health !== health)
      violations.push(`expected the status ${health} of /healthcheck, got ${round.health}`)
    if (round.rssGrowthMiB > rssBoundMiB)
      violations.push(`memory grew by ${Math.round(round.rssGrowthMiB)} MiB`)
  }
  const defect = /^.*(defect|unhandled).*$/im.exec(output)?.[0]
  if (defect !== undefined) violations.push(defect)
  return violations
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(2)
}
