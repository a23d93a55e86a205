import type { RateLimitProcess } from '../support/rate-limit-process.ts'
import type { Backend, OpenBackend } from './backends.ts'
import { rules, startService } from './setups.ts'

/** Several processes of the service with one backend. */
export interface Fleet<B extends Backend> {
  readonly backend: B
  readonly services: readonly RateLimitProcess[]
  close(): Promise<void>
}

export interface FleetPlan<B extends Backend> {
  readonly openBackend: OpenBackend<B>
  readonly seed: number
  readonly processes: number
  /** The limit of the descriptor `limited`, per year. */
  readonly limit: number
  readonly settings: Readonly<Record<string, string>>
}

/** The number of concurrent starts: each takes a core for half a second. */
const startsAtOnce = 2

export async function openFleet<B extends Backend>(plan: FleetPlan<B>): Promise<Fleet<B>> {
  const ends: (() => Promise<void>)[] = []
  const close = async () => {
    for (const end of ends.reverse()) await end()
  }
  try {
    const backend = await plan.openBackend(plan.seed)
    ends.push(backend.stop)
    const settings = { ...backend.settings, ...plan.settings }
    const t = { after: (end: () => Promise<void>) => ends.push(end) }
    const services: RateLimitProcess[] = []
    while (services.length < plan.processes) {
      const count = Math.min(startsAtOnce, plan.processes - services.length)
      const starts = Array.from({ length: count }, () => startService(t, rules(plan.limit), settings))
      // Each start must have registered its cleanup before an error is thrown.
      await Promise.allSettled(starts)
      services.push(...(await Promise.all(starts)))
    }
    return { backend, services, close }
  } catch (error) {
    await close()
    throw error
  }
}
