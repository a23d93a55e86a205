import { setTimeout as pause } from 'node:timers/promises'
import { waitFor } from '../support/wait-for.ts'
import { openRedis, type ProxiedRedis } from './backends.ts'
import { callLatencies } from './call-latencies.ts'
import type { CaseOptions, FaultCase, FaultReport, GoalLine } from './fault-case.ts'
import { okAnswer } from './load/answer.ts'
import { planCalls } from './load/calls.ts'
import { type CallRecord, withFaultLoad } from './load/fault-load.ts'

interface StallPlan {
  readonly name: string
  readonly title: string
  readonly stallMs: number
  /** BACKEND_DEADLINE. Defaults to the service's default. */
  readonly deadlineMs?: number
}

const plans: readonly StallPlan[] = [
  { name: 'stall-20', title: 'Redis is paused for 20 ms, the default deadline', stallMs: 20 },
  { name: 'stall-50', title: 'Redis is paused for 50 ms, the default deadline', stallMs: 50 },
  {
    name: 'stall-20-brief',
    title: 'Redis is paused for 20 ms, a deadline of 15 ms',
    stallMs: 20,
    deadlineMs: 15,
  },
  {
    name: 'stall-50-brief',
    title: 'Redis is paused for 50 ms, a deadline of 15 ms',
    stallMs: 50,
    deadlineMs: 15,
  },
]

const defaultDeadlineMs = 100
/** The pause between two stalls, so that each of them meets a recovered service. */
const restMs = 250
const limit = 1_000_000_000
const expected = [
  /^2 the backend did not answer within \d+ ms$/,
  /^2 Redis owed replies and sent nothing for \d+ ms$/,
]

/** One stall as measured: a busy machine may make it longer. */
interface Stall {
  readonly beginMs: number
  readonly endMs: number
}

export const stallCases: readonly FaultCase[] = plans.map(plan => ({
  name: plan.name,
  title: plan.title,
  needs: ['redis-server'],
  run: options => runStalls(plan, options),
}))

async function runStalls(plan: StallPlan, options: CaseOptions): Promise<FaultReport> {
  const { callsPerSecond, connections, seed, setups } = options
  const isTest = options.deadlineMs > defaultDeadlineMs
  const { deadlineMs = defaultDeadlineMs } = plan
  // The short form also uses the documented default, not a longer deadline.
  const settings: Record<string, string> =
    plan.deadlineMs === undefined ? {} : { BACKEND_DEADLINE: `${plan.deadlineMs}ms` }
  const { backend, service } = await setups.open({ openBackend: openRedis, seed, limit, settings })
  const { bodyOf } = planCalls(plan.name)
  const loadOptions = { ports: [service.grpcPort], connections: 5 * connections, callsPerSecond, bodyOf }
  return withFaultLoad(loadOptions, async load => {
    await waitFor('answers before the stalls', () => (load.outcomes().get(okAnswer) ?? 0) >= 100)
    await pause(options.warmUpMs)
    const stalls: Stall[] = []
    for (let count = isTest ? 3 : 20; count > 0; count -= 1) {
      await pause(restMs)
      stalls.push(await stall(backend, plan.stallMs))
    }
    await pause(restMs)
    const { calls, sent } = await load.stop()
    return report(plan, deadlineMs, stalls, calls, sent)
  })
}

async function stall({ server }: ProxiedRedis, stallMs: number): Promise<Stall> {
  const beginMs = performance.now()
  await server.kill('SIGSTOP')
  await pause(stallMs)
  await server.kill('SIGCONT')
  return { beginMs, endMs: performance.now() }
}

function report(
  { stallMs }: StallPlan,
  deadlineMs: number,
  stalls: readonly Stall[],
  calls: readonly CallRecord[],
  sent: number,
): FaultReport {
  const first = stalls[0]?.beginMs ?? 0
  const measured = calls.filter(({ dueMs }) => dueMs >= first)
  const errors = measured.filter(({ outcome }) => outcome !== okAnswer)
  const overlapsStall = ({ dueMs, endedMs }: CallRecord) =>
    stalls.some(({ beginMs, endMs }) => dueMs <= endMs && endedMs >= beginMs)
  const outside = errors.filter(call => !overlapsStall(call))
  // A busy machine can stall longer than the deadline by itself, but not at each of these stalls.
  const costly = stalls.filter(({ beginMs }, index) => {
    const untilMs = stalls[index + 1]?.beginMs ?? Number.POSITIVE_INFINITY
    return errors.some(({ dueMs }) => dueMs >= beginMs - stallMs && dueMs < untilMs - stallMs)
  })
  const unexpected = errors.find(({ outcome }) => !expected.some(text => text.test(outcome)))
  const goals: GoalLine[] = [
    { what: 'errors of calls that met no stall', unit: 'calls', goal: { atMost: 0 }, figure: outside.length },
  ]
  const isShort = stallMs < deadlineMs
  if (isShort) goals.push({ what: 'errors', unit: 'calls', goal: { atMost: 0 }, figure: errors.length })
  return {
    answers: {
      ...callLatencies(measured),
      ok: measured.length - errors.length,
      over: 0,
      errors: errors.length,
      openP99Ms: undefined,
      messages: countOutcomes(errors),
    },
    goals,
    violations: [
      ...(calls.length === sent ? [] : [`${sent - calls.length} calls were never answered`]),
      ...(unexpected === undefined ? [] : [`an unexpected end of a call: ${unexpected.outcome}`]),
      ...(isShort && costly.length === stalls.length
        ? [`each stall of ${stallMs} ms cost errors, with a deadline of ${deadlineMs} ms`]
        : []),
    ],
    notes: [describe(stalls, measured, overlapsStall), `${sent} calls`],
  }
}

function describe(
  stalls: readonly Stall[],
  calls: readonly CallRecord[],
  overlapsStall: (call: CallRecord) => boolean,
): string {
  const longest = Math.max(...stalls.map(({ beginMs, endMs }) => endMs - beginMs))
  const overlapping = calls.filter(overlapsStall).length
  return `${stalls.length} stalls, at most ${longest.toFixed(0)} ms; ${overlapping} calls met one`
}

function countOutcomes(errors: readonly CallRecord[]): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>()
  for (const { outcome } of errors) counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
  return [...counts].sort((a, b) => b[1] - a[1])
}
