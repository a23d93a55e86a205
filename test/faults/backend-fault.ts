import { rssMiB } from '../bench/process-usage.ts'
import { waitFor } from '../support/wait-for.ts'
import { evaluateFault, type Observed, type Round } from './backend-fault-report.ts'
import type { Backend, OpenBackend } from './backends.ts'
import type { CaseOptions, FaultCase, FaultReport } from './fault-case.ts'
import { okAnswer, overAnswer } from './load/answer.ts'
import { limitedKey, planCalls, reachLimit } from './load/calls.ts'
import { type FaultLoad, withFaultLoad } from './load/fault-load.ts'
import type { Setup } from './setups.ts'

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
  inject(backend: B, options: CaseOptions): Promise<unknown>
  /** Resolves when the fault is removed; for a fault that ends by itself, when it has ended. */
  remove(backend: B): Promise<unknown>
  /** `once`: the fault is injected once. `passes`: it ends by itself, so its duration cannot be chosen. */
  readonly duration?: 'once' | 'passes'
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
    async run(options) {
      try {
        return await runFault(script, options)
      } catch (error) {
        // The fault may still be active there.
        await options.setups.close()
        throw error
      }
    },
  }
}

async function runFault<B extends Backend>(
  script: BackendFaultScript<B>,
  options: CaseOptions,
): Promise<FaultReport> {
  const { callsPerSecond, warmUpMs, deadlineMs, seed } = options
  const limit = Math.round((limitInWarmUps * limitedShare * callsPerSecond * warmUpMs) / 1000)
  const setup = await options.setups.open({
    openBackend: script.openBackend,
    seed,
    limit,
    settings: {
      BACKEND_DEADLINE: `${deadlineMs}ms`,
      BACKEND_FAILURE_MODE: script.mode ?? 'error',
      ...script.settings,
    },
  })
  const plan = planCalls(script.name)
  const before = await setup.service.stats()
  const { connections } = options
  const loadOptions = { ports: [setup.service.grpcPort], connections, callsPerSecond, bodyOf: plan.bodyOf }
  const measured = await withFaultLoad(loadOptions, load => runUnderLoad(script, setup, options, load))
  const rest = await reachLimit(setup.service.grpcPort, plan, limit)
  const after = await setup.service.stats()
  const observed: Observed = {
    script,
    options,
    limit,
    ...measured,
    rest,
    counted: await setup.backend.count(limitedKey(plan)),
    grown: name => (after[name] ?? 0) - (before[name] ?? 0),
    output: setup.service.program.output(),
  }
  return evaluateFault(observed)
}

async function runUnderLoad<B extends Backend>(
  script: BackendFaultScript<B>,
  setup: Setup<B>,
  options: CaseOptions,
  load: FaultLoad,
): Promise<Pick<Observed, 'rounds' | 'record' | 'goAways' | 'lostConnections'>> {
  const startedMs = performance.now()
  const answered = () => load.outcomes().get(okAnswer) ?? 0
  await waitFor('answers before the fault', () => {
    return performance.now() - startedMs >= options.warmUpMs && answered() >= answersBeforeFault
  })
  const rounds = await runRounds(script, setup, options, load)
  const record = await load.stop()
  const { goAways, lostConnections } = load
  return { rounds, record, goAways, lostConnections }
}

async function runRounds<B extends Backend>(
  script: BackendFaultScript<B>,
  setup: Setup<B>,
  options: CaseOptions,
  load: FaultLoad,
): Promise<readonly Round[]> {
  const { backend, service } = setup
  const rounds: Round[] = []
  const [firstMs = 0] = options.holdsMs
  const holdsMs = { once: [firstMs], passes: [0] }
  for (const holdMs of script.duration === undefined ? options.holdsMs : holdsMs[script.duration]) {
    const rssBeforeMiB = rssMiB(service.program.pid)
    await script.inject(backend, options)
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
    const removedMs = performance.now()
    await waitForRecovery(setup, load)
    rounds.push({ injectedMs, removalMs, removedMs, health, rssGrowthMiB })
  }
  return rounds
}

/** Waits until calls are answered and counted again, and no error occurs for a while. */
async function waitForRecovery({ service }: Setup<Backend>, load: FaultLoad): Promise<void> {
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
