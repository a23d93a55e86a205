import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startDeadlineMs, waitFor } from '../support/wait-for.ts'
import type { Backend, OpenBackend } from './backends.ts'

/** A backend, and a process of the service that counts in it. */
export interface Setup<B extends Backend> {
  readonly backend: B
  readonly service: RateLimitProcess
}

/** Opens setups, and keeps the last one for the next case with the same plan. */
export interface SetupPool {
  open<B extends Backend>(plan: SetupPlan<B>): Promise<Setup<B>>
  close(): Promise<void>
}

export interface SetupPlan<B extends Backend> {
  readonly openBackend: OpenBackend<B>
  readonly seed: number
  readonly settings: Readonly<Record<string, string>>
  /**
   * The limit of the descriptor `limited`, per year; the descriptor `open` has a limit that is never reached.
   */
  readonly limit: number
}

export const domain = 'faults'
const unlimited = 1_000_000_000

export function createSetupPool(): SetupPool {
  let current: { readonly key: string; readonly setup: Setup<Backend>; readonly close: Close } | undefined

  async function close(): Promise<void> {
    await current?.close()
    current = undefined
  }

  return {
    async open<B extends Backend>(plan: SetupPlan<B>) {
      const key = JSON.stringify([plan.openBackend.name, plan.settings, plan.limit])
      if (current?.key !== key) {
        await close()
        current = { key, ...(await openSetup(plan)) }
      }
      // The same opener created it, so it has the same type.
      return current.setup as Setup<B>
    },
    close,
  }
}

type Close = () => Promise<void>

async function openSetup<B extends Backend>(plan: SetupPlan<B>): Promise<{ setup: Setup<B>; close: Close }> {
  const ends: Close[] = []
  const close = async () => {
    for (const end of ends.reverse()) await end()
  }
  try {
    const backend = await plan.openBackend(plan.seed)
    ends.push(backend.stop)
    const settings = { ...backend.settings, ...plan.settings }
    const service = await startService({ after: end => ends.push(end) }, rules(plan.limit), settings)
    return { setup: { backend, service }, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Starts the service with a separate configuration, and waits until it is healthy. */
export async function startService(
  t: { after(end: Close): unknown },
  configuration: string,
  settings: Readonly<Record<string, string>>,
): Promise<RateLimitProcess> {
  const folder = temporaryFolder('faults')
  mkdirSync(join(folder, 'config'))
  writeFileSync(join(folder, 'config/faults.yaml'), configuration)
  const fixed = { RUNTIME_ROOT: folder, DISABLE_STATS: 'true', DRAIN_DELAY: '0s' }
  const service = await startRateLimit({ after: end => void t.after(end) }, { ...fixed, ...settings })
  await waitFor('the service to be healthy', () => isHealthy(service), startDeadlineMs)
  return service
}

async function isHealthy({ program, health }: RateLimitProcess): Promise<boolean> {
  const ended = program.process.exitCode !== null || program.process.signalCode !== null
  if (ended) throw new Error(`the service ended with the output: ${program.output()}`)
  return (await health()) === 200
}

/** Windows of a year, so that a run sees two of them only at the end of a year. */
export function rules(limit: number, unit: 'year' | 'hour' = 'year'): string {
  const descriptor = (key: string, requests: number) =>
    `- {key: ${key}, rate_limit: {unit: ${unit}, requests_per_unit: ${requests}}}\n`
  return `domain: ${domain}\ndescriptors:\n${descriptor('limited', limit)}${descriptor('open', unlimited)}`
}
