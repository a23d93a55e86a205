import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { callRateLimit, type RateLimitProcess } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { openRedis } from './backends.ts'
import type { FaultCase } from './fault-case.ts'
import { domain, rules, startService } from './setups.ts'

const limit = 5
const hourMs = 3_600_000

/**
 * The positions of the clock, in milliseconds from the middle of this hour, and the expected number of
 * admitted calls.
 */
const steps: readonly (readonly [what: string, offsetMs: number, admitted: number])[] = [
  ['the middle of this hour', 0, limit],
  ['an hour later: the next window', hourMs, limit],
  ['back again: the same window as before', 0, 0],
  ['an hour earlier: a new window', -hourMs, limit],
  ['the last second of this hour: still the same window', hourMs / 2 - 1_000, 0],
  ['the first second of the next hour: the window of the second step', hourMs / 2 + 1, 0],
  ['two hours later: another window', 2 * hourMs, limit],
]

/** The clock of the service is set forward and back and across the bounds of windows. */
export const clockStepsCase: FaultCase = {
  name: 'clock-steps',
  title: 'the clock is set by an hour, forward and back, and across the bounds of windows',
  needs: ['redis-server'],
  async run({ seed }) {
    const ends: (() => Promise<void>)[] = []
    const t = { after: (end: () => Promise<void>) => void ends.push(end) }
    try {
      const backend = await openRedis(seed)
      t.after(backend.stop)
      const folder = temporaryFolder('clock')
      const file = join(folder, 'offset')
      writeFileSync(file, '0')
      const settings = {
        ...backend.settings,
        BACKEND_DEADLINE: '5s',
        CLOCK_OFFSET_FILE: file,
        NODE_OPTIONS: `--import ${join(root, 'test/faults/settable-clock.ts')}`,
      }
      const service = await startService(t, rules(limit, 'hour'), settings)
      const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
      const setClock = createClockSetter(service, file)
      const violations: string[] = []
      for (const [what, offsetMs, expected] of steps) {
        await setClock(offsetMs)
        const { admitted, resets } = await exhaust(shouldRateLimit)
        if (admitted !== expected)
          violations.push(`${what}: expected ${expected} admitted calls, got ${admitted}`)
        const wrong = resets.find(seconds => seconds < 1 || seconds > hourMs / 1000)
        if (wrong !== undefined) violations.push(`${what}: the window is reported to end in ${wrong} s`)
      }
      return { goals: [], violations, notes: [`${steps.length} settings of the clock`] }
    } finally {
      for (const end of ends.reverse()) await end()
    }
  },
}

/**
 * Returns a function that sets the clock relative to the middle of this hour; resolves when the service uses
 * it.
 */
function createClockSetter({ program }: RateLimitProcess, file: string): (offsetMs: number) => Promise<void> {
  const nowMs = Date.now()
  const middleMs = nowMs - (nowMs % hourMs) + hourMs / 2
  let count = 0
  return async offsetMs => {
    count += 1
    writeFileSync(file, `${middleMs + offsetMs - Date.now()}`)
    program.process.kill('SIGUSR2')
    await program.said(new RegExp(`(clock is set[^]*){${count}}`))
  }
}

/**
 * Calls until the limit is certainly reached; returns how many calls were admitted, and all times to the
 * reset.
 */
async function exhaust(
  shouldRateLimit: ReturnType<typeof callRateLimit>['shouldRateLimit'],
): Promise<{ admitted: number; resets: readonly number[] }> {
  const descriptors = [{ entries: [{ key: 'limited', value: 'clock' }] }]
  const resets: number[] = []
  let admitted = 0
  for (let call = 0; call < 2 * limit; call += 1) {
    const { overallCode, statuses } = await shouldRateLimit({ domain, descriptors })
    if (overallCode === Code.OK) admitted += 1
    resets.push(Number(statuses[0]?.durationUntilReset?.seconds ?? Number.NaN))
  }
  return { admitted, resets }
}
