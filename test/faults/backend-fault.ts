import { rssMiB } from '../bench/process-usage.ts'
import { waitFor } from '../support/wait-for.ts'
import { judgeFault, type Observed, type Round } from './backend-fault-report.ts'
import type { Backend, OpenBackend } from './backends.ts'
import type { Extent, FaultCase, FaultReport } from './fault-case.ts'
import { okAnswer, overAnswer } from './load/answer.ts'
import { type FaultLoad, withFaultLoad } from './load/fault-load.ts'
import { limitedKey, questions, reachLimit } from './load/questions.ts'
import type { Stage } from './stages.ts'

/** A fault of a backend: how it is injected and removed, and the expected effects. */
export interface BackendFaultScript<B extends Backend> {
  readonly name: string
  readonly title: string
  readonly needs: readonly string[]
  readonly openBackend: OpenBackend<B>
  /** Additional settings of the service. */
  readonly settings?: Readonly<Record<string, string>>
  /** BACKEND_FAILURE_MODE. Defaults to `error`. */
  readonly mode?: 'error' | 'allow' | 'deny' | 'local'
  /** Resolves when the fault is active. */
  inject(backend: B, extent: Extent): Promise<unknown>
  /** Resolves when the fault is removed; for a fault that ends by itself, when it has ended. */
  remove(backend: B): Promise<unknown>
  /** `once`: the fault cannot be repeated. `passes`: it ends by itself, so its duration cannot be chosen. */
  readonly extent?: 'once' | 'passes'
  /** The expected error texts; empty if no errors are expected. */
  readonly messages: readonly RegExp[]
  /** The fault may cause no errors at all. */
  readonly mayPassUnnoticed?: boolean
  /** The fault loses counters of the backend. */
  readonly losesCounters?: boolean
  /** How far the failure mode may exceed the limit, as a share of it. */
  readonly mayExceedBy?: number
  /** The status of `/healthcheck` during the fault. Defaults to 200. */
  readonly health?: 200 | 500
  /** The time after the end of the fault within which calls must be answered again. */
  readonly recoveryGoalMs?: number
}

/** The limit is reached during the first fault, if hits are counted then. */
const limitInWarmUps = 1.5
/** Half of the calls count against the limit. */
const limitedShare = 0.5
const answersBeforeFault = 20
const settledMs = 300
/** A generous deadline for slow machines. */
const recoveryDeadlineMs = 30_000

export function backendFault<B extends Backend>(script: BackendFaultScript<B>): FaultCase {
  const { name, title, needs } = script
  return {
    name,
    title,
    needs,
    async run(extent) {
      try {
        return await runFault(script, extent)
      } catch (error) {
        // The fault may still be active there.
        await extent.stages.close()
        throw error
      }
    },
  }
}

async function runFault<B extends Backend>(
  script: BackendFaultScript<B>,
  extent: Extent,
): Promise<FaultReport> {
  const { callsPerSecond, warmUpMs, deadlineMs, seed } = extent
  const limit = Math.round((limitInWarmUps * limitedShare * callsPerSecond * warmUpMs) / 1000)
  const stage = await extent.stages.open({
    openBackend: script.openBackend,
    seed,
    limit,
    settings: {
      BACKEND_DEADLINE: `${deadlineMs}ms`,
      BACKEND_FAILURE_MODE: script.mode ?? 'error',
      ...script.settings,
    },
  })
  const asked = questions(script.name)
  const before = await stage.service.stats()
  const { connections } = extent
  const options = { ports: [stage.service.grpcPort], connections, callsPerSecond, bodyOf: asked.bodyOf }
  const struck = await withFaultLoad(options, load => strike(script, stage, extent, load))
  const rest = await reachLimit(stage.service.grpcPort, asked, limit)
  const after = await stage.service.stats()
  const observed: Observed = {
    script,
    extent,
    limit,
    ...struck,
    rest,
    counted: await stage.backend.count(limitedKey(asked)),
    grown: name => (after[name] ?? 0) - (before[name] ?? 0),
    output: stage.service.program.output(),
  }
  return judgeFault(observed)
}

async function strike<B extends Backend>(
  script: BackendFaultScript<B>,
  stage: Stage<B>,
  extent: Extent,
  load: FaultLoad,
): Promise<Pick<Observed, 'rounds' | 'record' | 'goAways' | 'lostConnections'>> {
  const startedMs = performance.now()
  const answered = () => load.outcomes().get(okAnswer) ?? 0
  await waitFor('answers before the fault', () => {
    return performance.now() - startedMs >= extent.warmUpMs && answered() >= answersBeforeFault
  })
  const rounds = await runRounds(script, stage, extent, load)
  const record = await load.stop()
  const { goAways, lostConnections } = load
  return { rounds, record, goAways, lostConnections }
}

async function runRounds<B extends Backend>(
  script: BackendFaultScript<B>,
  stage: Stage<B>,
  extent: Extent,
  load: FaultLoad,
): Promise<readonly Round[]> {
  const { backend, service } = stage
  const rounds: Round[] = []
  const [firstMs = 0] = extent.holdsMs
  const holdsMs = { once: [firstMs], passes: [0] }
  for (const holdMs of script.extent === undefined ? extent.holdsMs : holdsMs[script.extent]) {
    const rssBeforeMiB = rssMiB(service.program.pid)
    await script.inject(backend, extent)
    const injectedMs = performance.now()
    await waitFor(
      'the duration of the fault to pass',
      () => performance.now() - injectedMs >= holdMs,
      2 * holdMs + 1_000,
    )
    const health = await service.health()
    const rssGrowthMiB = rssMiB(service.program.pid) - rssBeforeMiB
    const removalMs = performance.now()
    await script.remove(backend)
    const goneMs = performance.now()
    await recovered(stage, load)
    rounds.push({ injectedMs, removalMs, goneMs, health, rssGrowthMiB })
  }
  return rounds
}

/** Waits until calls are answered and counted again, and no error occurs for a while. */
async function recovered({ service }: Stage<Backend>, load: FaultLoad): Promise<void> {
  let failures = Number.NaN
  let sinceMs = performance.now()
  let answeredThen = 0
  const answered = () => (load.outcomes().get(okAnswer) ?? 0) + (load.outcomes().get(overAnswer) ?? 0)
  await waitFor(
    'the service to count again',
    async () => {
      const { 'ratelimit.service.call.should_rate_limit.redis_error': now = 0 } = await service.stats()
      if (now !== failures) {
        failures = now
        sinceMs = performance.now()
        answeredThen = answered()
      }
      return performance.now() - sinceMs >= settledMs && answered() - answeredThen >= answersBeforeFault
    },
    recoveryDeadlineMs,
  )
}
