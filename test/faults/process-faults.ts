import { setTimeout as pause } from 'node:timers/promises'
import { processTree } from '../bench/process-usage.ts'
import { waitFor } from '../support/wait-for.ts'
import { openRedis, type ProxiedRedis } from './backends.ts'
import { callLatencies } from './call-latencies.ts'
import type { CaseOptions, FaultCase, FaultReport, GoalLine } from './fault-case.ts'
import { type Fleet, openFleet } from './fleet.ts'
import { okAnswer, overAnswer } from './load/answer.ts'
import { isLimited, limitedKey, type OutcomeCounts, planCalls, reachLimit } from './load/calls.ts'
import { type FaultLoad, type LoadRecord, withFaultLoad } from './load/fault-load.ts'

/** Processes of the service end in different ways while the others continue. */
interface ProcessFault {
  readonly name: string
  readonly title: string
  readonly processes: number
  readonly settings: Readonly<Record<string, string>>
  /** Ends processes; resolves with the violations. */
  inject(fleet: Fleet<ProxiedRedis>, load: FaultLoad): Promise<readonly string[]>
  /** The kernel distributes connections randomly: with this many, each worker has one. */
  readonly connections?: number
  /** The processes end gracefully with GOAWAY, and no call is lost. */
  readonly isGraceful: boolean
}

const drainDelayMs = 1_500
const limit = 500
const afterwardsMs = 500
const answersBefore = 100

function processFault(fault: ProcessFault): FaultCase {
  const { name, title } = fault
  return { name, title, needs: ['redis-server'], run: options => runFault(fault, options) }
}

async function runFault(fault: ProcessFault, options: CaseOptions): Promise<FaultReport> {
  const { processes, name } = fault
  const { seed, connections, callsPerSecond, warmUpMs } = options
  const settings = { BACKEND_DEADLINE: '5s', ...fault.settings }
  const fleet = await openFleet({ openBackend: openRedis, seed, processes, limit, settings })
  try {
    const ports = fleet.services.map(({ grpcPort }) => grpcPort)
    const plan = planCalls(name)
    const loadOptions = {
      ports,
      connections: fault.connections ?? connections,
      callsPerSecond,
      bodyOf: plan.bodyOf,
    }
    const measured = await withFaultLoad(loadOptions, async load => {
      await waitFor('answers before', () => (load.outcomes().get(okAnswer) ?? 0) >= answersBefore)
      await pause(warmUpMs)
      const injectedMs = performance.now()
      const violations = await fault.inject(fleet, load)
      const endedMs = performance.now()
      await pause(afterwardsMs)
      const record = await load.stop()
      return {
        record,
        injectedMs,
        endedMs,
        goAways: load.goAways,
        violations: [...violations, ...findViolations(record, fault, load)],
      }
    })
    const rest = await reachLimit(ports.at(-1) ?? 0, plan, limit)
    const counted = await fleet.backend.count(limitedKey(plan))
    const { counts, violations } = evaluateCounts(measured.record, rest, counted)
    return {
      ...figures(measured),
      counts,
      goAways: measured.goAways,
      violations: [...measured.violations, ...violations],
    }
  } finally {
    await fleet.close()
  }
}

/** Each call counts once, except for lost ones, each of which may have been counted or not. */
function evaluateCounts({ calls }: LoadRecord, rest: OutcomeCounts, counted: number) {
  const limited = calls.filter(({ call }) => isLimited(call))
  const admitted = limited.filter(({ outcome }) => outcome === okAnswer).length + rest.ok
  const sent = limited.length + rest.ok + rest.over + rest.failed
  const lost = limited.filter(({ outcome }) => outcome === 'lost').length
  const unanswered = counted - (sent - lost)
  const violations: string[] = []
  if (counted > sent || unanswered < 0) {
    violations.push(`${counted} hits were counted of ${sent} calls, ${lost} of which were lost`)
  }
  if (admitted > limit || admitted < limit - unanswered)
    violations.push(`${admitted} of ${limit} were admitted`)
  return { counts: { limit, admitted, unanswered: Math.max(0, unanswered) }, violations }
}

interface Measured {
  readonly record: LoadRecord
  readonly injectedMs: number
  readonly endedMs: number
}

function figures({
  record,
  injectedMs,
  endedMs,
}: Measured): Pick<FaultReport, 'answers' | 'goals' | 'notes'> {
  const { calls, sent } = record
  const during = calls.filter(({ dueMs }) => dueMs >= injectedMs && dueMs < endedMs)
  const lost = calls.filter(({ outcome }) => outcome === 'lost')
  const lastLossMs = lost.reduce((last, { endedMs }) => Math.max(last, endedMs), injectedMs)
  const count = (outcome: string) => during.filter(one => one.outcome === outcome).length
  const goals: GoalLine[] =
    lost.length === 0
      ? []
      : [{ what: 'time of losses', unit: 'ms', goal: { atMost: 1_000 }, figure: lastLossMs - injectedMs }]
  return {
    answers: {
      ...callLatencies(during),
      openP99Ms: undefined,
      ok: count(okAnswer),
      over: count(overAnswer),
      errors: lost.length,
      messages: lost.length === 0 ? [] : [['the connection was lost', lost.length]],
    },
    goals,
    notes: [`${sent} calls, ${lost.length} lost`],
  }
}

/** Returns the violations in the outcomes of the calls. */
function findViolations(
  { calls, sent }: LoadRecord,
  { isGraceful }: ProcessFault,
  load: FaultLoad,
): string[] {
  const violations: string[] = []
  if (calls.length !== sent) violations.push(`${sent - calls.length} calls were never answered`)
  const expected = isGraceful ? [okAnswer, overAnswer] : [okAnswer, overAnswer, 'lost']
  const unexpected = calls.find(({ outcome }) => !expected.includes(outcome))
  if (unexpected !== undefined) violations.push(`an unexpected end of a call: ${unexpected.outcome}`)
  if (isGraceful && load.lostConnections > 0) violations.push(`${load.lostConnections} connections were lost`)
  if (isGraceful && load.goAways === 0) violations.push('no connection got GOAWAY')
  if (!isGraceful && load.lostConnections === 0) violations.push('no connection was lost')
  return violations
}

/** Stops two of three processes: each is unhealthy at once, and ends after the delay and its calls. */
async function drainTwo({ services }: Fleet<ProxiedRedis>): Promise<readonly string[]> {
  const violations = await Promise.all(
    services.slice(0, 2).map(async ({ program, health }) => {
      program.process.kill('SIGTERM')
      await waitFor('the process to be unhealthy before it ends', async () => (await health()) === 500)
      const code = await program.exited()
      return code === 0 ? [] : [`it ended with ${code}: ${program.output()}`]
    }),
  )
  return violations.flat()
}

async function killOne({ services }: Fleet<ProxiedRedis>, load: FaultLoad): Promise<readonly string[]> {
  await services[0]?.program.end('SIGKILL')
  await waitFor('callers to notice', () => load.lostConnections > 0)
  return []
}

/** Kills one of the workers of one service: it is replaced, and the service stays healthy. */
async function killWorker({ services }: Fleet<ProxiedRedis>, load: FaultLoad): Promise<readonly string[]> {
  const [service] = services
  if (service === undefined) return ['there is no service']
  const workers = () => processTree(service.program.pid).slice(1)
  const before = workers()
  const [victim = 0] = before
  process.kill(victim, 'SIGKILL')
  await waitFor('callers to notice', () => load.lostConnections > 0)
  // The connection of the health check may have been on the killed worker too.
  const health = await waitFor('an answer about its health', service.health)
  await waitFor('another worker', () => !workers().includes(victim) && workers().length === before.length)
  return health === 200 ? [] : [`/healthcheck said ${health}`]
}

export const processFaults: readonly FaultCase[] = [
  processFault({
    name: 'drain',
    title: 'two of three processes get SIGTERM',
    processes: 3,
    settings: { DRAIN_DELAY: `${drainDelayMs}ms` },
    inject: drainTwo,
    isGraceful: true,
  }),
  processFault({
    name: 'process-killed',
    title: 'one of three processes is killed',
    processes: 3,
    settings: {},
    inject: killOne,
    isGraceful: false,
  }),
  processFault({
    name: 'worker-killed',
    title: 'one of three workers of one service is killed',
    processes: 1,
    settings: { WORKERS: '3' },
    connections: 48,
    inject: killWorker,
    isGraceful: false,
  }),
]
