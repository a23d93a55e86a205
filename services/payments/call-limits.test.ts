import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import { rateLimitFiles } from '../../test/support/rate-limit-files.ts'
import { type RateLimitProcess, startRateLimit } from '../../test/support/rate-limit-process.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { CallGuard } from './call-guard.ts'
import { type CallLimits, callRules, createLocalCallLimits } from './call-limits.ts'
import { createServiceCallLimits } from './service-call-limits.ts'

type CallRule = (typeof callRules)[number]

const perMinute = { address: 5, key: 3, failed_key: 2 }
function ofRule(rule: CallRule): string {
  return `  - {key: ${rule}, rate_limit: {unit: year, requests_per_unit: ${perMinute[rule]}}}`
}

/** Limits whose windows do not end during a test, and the limit `short`, whose window is one second. */
const configuration = `
domain: tollway-payments-api
descriptors:
${callRules.map(ofRule).join('\n')}
  - {key: key, value: short, rate_limit: {unit: second, requests_per_unit: 1}}
`

let service: RateLimitProcess
const failures: string[] = []
const opened: CallLimits[] = []
const cleanups: (() => Promise<void>)[] = []
before(async () => {
  const t = { after: (cleanup: () => Promise<void>) => void cleanups.push(cleanup) }
  service = await startRateLimit(t, { BACKEND_TYPE: 'memory', ...rateLimitFiles(configuration).env })
  await service.serves()
})
after(async () => {
  for (const limits of opened) limits.close()
  for (const cleanup of cleanups) await cleanup()
})

/** Creates the limits of the service. The timeout is long, because tests run on loaded machines. */
function ofService({ timeoutMs = 5_000, domain = 'tollway-payments-api' } = {}): CallLimits {
  const limits = createServiceCallLimits({
    address: `127.0.0.1:${service.grpcPort}`,
    domain,
    timeoutMs,
    clock: systemClock,
    local: createLocalCallLimits(perMinute, systemClock),
    onFailure: reason => failures.push(reason),
  })
  opened.push(limits)
  return limits
}

const stopped = { nowMs: () => 0, monotonicMs: () => 0 }
let names = 0
function someone(): string {
  names += 1
  return `someone ${names}`
}

for (const [name, open] of Object.entries({
  'in the process': () => createLocalCallLimits(perMinute, stopped),
  'by the rate limit service': () => ofService(),
})) {
  describe(`limits of calls ${name}`, () => {
    const takeTimes = async (limits: CallLimits, rule: CallRule, value: string, times: number) => {
      const taken = []
      for (let time = 0; time < times; time += 1) taken.push(await limits.take([{ rule, value }]))
      return taken
    }

    for (const rule of callRules) {
      test(`a ${rule} has its own limit, and the rejection has the time to wait`, async () => {
        const limits = open()
        const [value, other] = [someone(), someone()]
        const taken = await takeTimes(limits, rule, value, perMinute[rule] + 1)
        assert.deepEqual(taken.slice(0, -1), Array(perMinute[rule]).fill(null))
        const last = taken.at(-1)
        assert.ok(last && last.rule === rule && last.waitMs > 0, JSON.stringify(taken))
        assert.deepEqual(await takeTimes(limits, rule, other, 1), [null])
      })
    }

    test('a call counts for its address and its key, and the exceeded limit rejects it', async () => {
      const limits = open()
      const address = someone()
      const call = (key: string) =>
        limits.take([
          { rule: 'address', value: address },
          { rule: 'key', value: key },
        ])
      const [first, second] = [someone(), someone()]
      const rules: (CallRule | undefined)[] = []
      for (const key of [first, first, first, first, second, second]) rules.push((await call(key))?.rule)
      assert.deepEqual(rules.slice(0, 4), [undefined, undefined, undefined, 'key'])
      assert.equal(rules.at(-1), 'address')
    })

    test('simultaneous calls are not admitted beyond the limit', async () => {
      const limits = open()
      const value = someone()
      const taken = await Promise.all(Array.from({ length: 20 }, () => limits.take([{ rule: 'key', value }])))
      assert.equal(taken.filter(rejection => rejection === null).length, perMinute.key)
    })

    test('an address that tries keys is rejected before its next key is looked up', async () => {
      const guard = new CallGuard(open(), systemClock)
      const [address, other] = ['203.0.113.7', '203.0.113.8']
      const tries = []
      for (let time = 0; time < 3; time += 1) tries.push(await guard.countFailedKey(address))
      assert.deepEqual([tries[0], tries[1], tries[2]?.rule], [null, null, 'failed_key'])
      assert.equal((await guard.admit(address, 'any key'))?.rule, 'failed_key')
      assert.equal(await guard.admit(other, 'any key'), null)
    })
  })
}

test('the next call is admitted after the time to wait', async () => {
  const limits = ofService()
  const short = [{ rule: 'key', value: 'short' }] as const
  let rejection = await limits.take(short)
  while (rejection === null) rejection = await limits.take(short)
  assert.ok(rejection.waitMs <= 1_000, JSON.stringify(rejection))
  await pause(rejection.waitMs)
  assert.equal(await limits.take(short), null)
})

test('a rule without a limit in the service is limited by the process', async () => {
  const limits = ofService({ domain: 'another' })
  const hits = [{ rule: 'failed_key', value: someone() }] as const
  const waits = []
  for (let time = 0; time < 3; time += 1) waits.push((await limits.take(hits))?.rule)
  assert.deepEqual(waits, [undefined, undefined, 'failed_key'])
})

test('while the service does not answer the process limits by itself, and asks once a second', async () => {
  const limits = ofService({ timeoutMs: 50 })
  const hits = [{ rule: 'key', value: someone() }] as const
  // Repeats the call until the service answers: the first call opens the connection, and for one second after
  // a failure the service is not called.
  let failedMs = Number.NEGATIVE_INFINITY
  await waitFor('an answer of the service', async () => {
    const before = failures.length
    await limits.take([{ rule: 'key', value: someone() }])
    if (failures.length > before) failedMs = performance.now()
    return performance.now() - failedMs > 1_000
  })
  failures.length = 0
  service.program.process.kill('SIGSTOP')
  try {
    const startMs = performance.now()
    const taken = []
    for (let time = 0; time < 200; time += 1) taken.push((await limits.take(hits))?.rule)
    assert.deepEqual(taken.slice(0, 4), [undefined, undefined, undefined, 'key'])
    const elapsedMs = performance.now() - startMs
    assert.ok(failures.length >= 1 && failures.length <= 1 + elapsedMs / 1_000, `${failures.length} failures`)
  } finally {
    service.program.process.kill('SIGCONT')
  }
})
