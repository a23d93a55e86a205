import { rssMiB } from '../bench/process-usage.ts'
import { waitFor } from '../support/wait-for.ts'
import { judgeFault, type Observed, type Round } from './backend-fault-report.ts'
import type { Backend, OpenBackend } from './backends.ts'
import type { Extent, FaultCase, FaultReport } from './fault-case.ts'
import { okAnswer, overAnswer } from './load/answer.ts'
import { type FaultLoad, withFaultLoad } from './load/fault-load.ts'
import { limitedKey, questions, reachLimit } from './load/questions.ts'
import type { Stage } from './stages.ts'

/** A fault of a backend: how it is made, how it is undone, and what is to come of it. */
export interface BackendFaultScript<B extends Backend> {
  readonly name: string
  readonly title: string
  readonly needs: readonly string[]
  readonly openBackend: OpenBackend<B>
  /** More settings of the service. */
  readonly settings?: Readonly<Record<string, string>>
  /** BACKEND_FAILURE_MODE; `error` when left out. */
  readonly mode?: 'error' | 'allow' | 'deny' | 'local'
  /** Resolves when the fault holds. */
  inject(backend: B, extent: Extent): Promise<unknown>
  /** Resolves when it is gone; for one that ends by itself, when it has ended. */
  remove(backend: B): Promise<unknown>
  /** It cannot be had a second time: `once`, or not even be held, since it ends by itself: `passes`. */
  readonly extent?: 'once' | 'passes'
  /** What the errors may say; none may come when it is empty. */
  readonly messages: readonly RegExp[]
  /** Perhaps no call fails at all. */
  readonly mayPassUnnoticed?: boolean
  /** The backend loses counters by it. */
  readonly losesCounters?: boolean
  /** How far the limit may be exceeded for the mode's sake, as a share of it. */
  readonly mayExceedBy?: number
  /** What `/healthcheck` says while it holds; 200 when left out. */
  readonly health?: 200 | 500
  /** In which time after its end answers are to come again. */
  readonly recoveryGoalMs?: number
}

/** The limit is reached in the first fault, when hits are counted then. */
const limitInWarmUps = 1.5
/** Half of the calls fall under the limit. */
const limitedShare = 0.5
const answersBeforeFault = 20
const settledMs = 300
/** A machine may be as slow as that. */
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
        // The fault may still hold there.
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
      'the fault to have held',
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

/** Waits until calls are answered and counted again, and no failure comes for a while. */
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
