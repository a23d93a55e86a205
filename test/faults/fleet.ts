import type { RateLimitProcess } from '../support/rate-limit-process.ts'
import type { Backend, OpenBackend } from './backends.ts'
import { rules, startService } from './stages.ts'

/** Several processes of the service that count in one backend. */
export interface Fleet<B extends Backend> {
  readonly backend: B
  readonly services: readonly RateLimitProcess[]
  close(): Promise<void>
}

export interface FleetPlan<B extends Backend> {
  readonly openBackend: OpenBackend<B>
  readonly seed: number
  readonly processes: number
  /** Of the descriptor `limited`, a year. */
  readonly limit: number
  readonly settings: Readonly<Record<string, string>>
}

/** So many start at a time: each takes a core for half a second. */
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
      // Each must have left what ends it before any failure is told.
      await Promise.allSettled(starts)
      services.push(...(await Promise.all(starts)))
    }
    return { backend, services, close }
  } catch (error) {
    await close()
    throw error
  }
}
