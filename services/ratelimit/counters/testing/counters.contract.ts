import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { LimitCheck, LimitOutcome } from '../admission/limit-check.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters.ts'

/** An empty backend, ready for use. */
export interface OpenedCounters {
  readonly counters: Counters
  /** The same counters as seen by another process; left out for a backend within the process. */
  readonly peer?: Counters
  /** Advances the backend's clock if the test controls it; left out if real time passes. */
  readonly elapse?: (seconds: number) => void
}

/**
 * Registers the tests that each implementation of `Counters` must pass.
 *
 * @param open called once for each test; the counters that it opened are closed after the test
 * @param skip the reason to skip the suite, or false
 */
export function countersContract(
  name: string,
  open: (t: TestContext) => Promise<OpenedCounters>,
  skip: string | false = false,
): void {
  describe(`${name} as counters`, { skip }, () => {
    const tests = {
      ...additionTests,
      ...concurrencyTests,
      ...holdTests,
      ...leaseTests,
      ...channelTests,
      ...lifeTests,
    }
    for (const [rule, run] of Object.entries(tests)) {
      test(rule, async t => run(await openFor(t, open), t))
    }
  })
}

async function openFor(
  t: TestContext,
  open: (t: TestContext) => Promise<OpenedCounters>,
): Promise<OpenedCounters> {
  const opened = await open(t)
  t.after(() => Promise.all([opened.counters.close(), opened.peer?.close()]))
  return opened
}

type ContractTest = (opened: OpenedCounters, t: TestContext) => Promise<void> | void

/** Parses `a=3 b=1`: three hits of the counter a, then one of b. All expire after a minute. */
function hitsOf(text: string): Hit[] {
  return text.split(' ').map(pair => {
    const [key = '', hits] = pair.split('=')
    return { key, hits: Number(hits), expirySeconds: 60, limit: maxCount }
  })
}

const additionTests: Record<string, ContractTest> = {
  'a counter of the longest window counts': async ({ counters }) => {
    const [hit] = hitsOf('long=1')
    assert.ok(hit)
    const longest = { ...hit, expirySeconds: 2 ** 31 - 1, jitterSeconds: 300 }
    assert.deepEqual(await counters.add([longest]), [1])
    assert.deepEqual(await counters.add([longest, longest]), [2, 3])
  },
  'values come in the order of the batch, equal keys in sequence': async ({ counters }) => {
    const table: readonly [string, readonly number[]][] = [
      ['a=1', [1]],
      ['a=1 b=5 c=2', [2, 5, 2]],
      ['c=1 a=1 b=1', [3, 3, 6]],
      ['a=1 b=1 a=2 a=3', [4, 7, 6, 9]],
      ['a=0 a=1 a=0', [9, 10, 10]],
    ]
    for (const [batch, values] of table) assert.deepEqual(await counters.add(hitsOf(batch)), values, batch)
  },

  'an empty batch has no values': async ({ counters }) => {
    assert.deepEqual(await counters.add([]), [])
  },

  'adding 0 reads and counts nothing': async ({ counters }) => {
    assert.deepEqual(await counters.add(hitsOf('a=0 b=0')), [0, 0])
    assert.deepEqual(await counters.add(hitsOf('a=2')), [2])
    assert.deepEqual(await counters.add(hitsOf('a=0')), [2])
    assert.deepEqual(await counters.add(hitsOf('a=1 b=1')), [3, 1])
  },

  'negative hits subtract from the counter': async ({ counters }) => {
    assert.deepEqual(await counters.add(hitsOf('a=10 b=3')), [10, 3])
    assert.deepEqual(await counters.add(hitsOf('a=-4 b=-3')), [6, 0])
    assert.deepEqual(await counters.add(hitsOf('a=1 b=1')), [7, 1])
  },

  'hits that are given back leave a counter at 0': async ({ counters }) => {
    const table: readonly [string, readonly number[]][] = [
      ['a=-1 b=2', [0, 2]],
      ['a=3 b=-5 a=-1', [3, 0, 2]],
      [`a=-${maxCount} b=1`, [0, 1]],
      ['b=0 a=0', [1, 0]],
    ]
    for (const [batch, values] of table) {
      const counted: number[] = []
      for (const hit of hitsOf(batch)) counted.push(...(await counters.add([hit])))
      assert.deepEqual(counted, values, batch)
    }
    assert.deepEqual(await counters.add(hitsOf('c=4')), [4])
    assert.deepEqual(await counters.add(hitsOf('d=1 c=-3 e=2')), [1, 1, 2])
  },

  'keys with any characters are distinct': async ({ counters }) => {
    const keys = [
      'a',
      'a ',
      'A',
      '__proto__',
      'constructor',
      'ä_\r\n$1\r\n',
      '\u0000',
      'x'.repeat(100_000),
      '',
    ]
    const batch = keys.map((key, index) => ({ key, hits: index + 1, expirySeconds: 60, limit: maxCount }))
    const expected = keys.map((_, index) => index + 1)
    assert.deepEqual(await counters.add(batch), expected)
    assert.deepEqual(
      await counters.add(batch),
      expected.map(value => 2 * value),
    )
  },

  'a counter is exact up to 2^53-1 and is reported as 2^53-1 beyond': async ({ counters }) => {
    const most = maxCount
    const table: readonly [string, readonly number[]][] = [
      [`a=${most - 2}`, [most - 2]],
      ['a=1 b=1', [most - 1, 1]],
      ['a=1 a=1 b=1 a=1', [most, most, 2, most]],
      ['a=0 b=0', [most, 2]],
      [`c=${most} c=${most} b=1`, [most, most, 3]],
      [`d=1 d=${most} d=${most} d=1`, [1, most, most, most]],
    ]
    for (const [batch, values] of table) assert.deepEqual(await counters.add(hitsOf(batch)), values, batch)
  },

  'a counter that overflows the integers of the backend stays at 2^53-1': async ({ counters }) => {
    const most = maxCount
    // The sum, 1,100 times 2^53, does not fit in 64 bits.
    const batch = hitsOf(Array(1_100).fill(`a=${most}`).join(' '))
    assert.deepEqual(await counters.add([...batch, ...hitsOf('b=1')]), [...batch.map(() => most), 1])
    assert.deepEqual(await counters.add(hitsOf('a=1 b=1 a=0')), [most, 2, most])
  },
}

const concurrencyTests: Record<string, ContractTest> = {
  'calls of one turn are counted in their order': async ({ counters }) => {
    const batches = ['a=1 b=2', 'a=1', 'b=3 a=2', 'a=0', 'c=1 a=1']
    const values = await Promise.all(batches.map(batch => counters.add(hitsOf(batch))))
    assert.deepEqual(values, [[1, 2], [2], [5, 4], [4], [1, 5]])
  },

  'concurrent callers get each value exactly once': async opened => {
    await assertExact([opened.counters])
  },

  'concurrent callers of two processes get each value exactly once': async ({ counters, peer }, t) => {
    if (peer === undefined) t.skip('no other process can see these counters')
    else await assertExact([counters, peer])
  },

  'one process sees the counts of the other': async ({ counters, peer }, t) => {
    if (peer === undefined) {
      t.skip('no other process can see these counters')
      return
    }
    assert.deepEqual(await counters.add(hitsOf('a=3')), [3])
    assert.deepEqual(await peer.add(hitsOf('a=0 a=1')), [3, 4])
    assert.deepEqual(await counters.add(hitsOf('a=1')), [5])
  },
}

const holdTests: Record<string, ContractTest> = {
  'what runs at the same time in all processes stays within its limit': async ({ counters, peer }, t) => {
    if (counters.admit === undefined) {
      t.skip('the backend counts fixed windows only')
      return
    }
    const whole = { key: '{tag}held', limit: 3, burst: 3, shadow: false, countRejected: false }
    const lease = { windowTicks: 60_000_000, ticksPerSecond: 1_000_000, expirySeconds: 60 }
    const askFor = async (hits: number, some = counters) => {
      const [outcome] = (await some.admit?.([{ ...whole, ...lease, algorithm: 'Concurrency', hits }])) ?? []
      return outcome
    }
    const calls = await Promise.all(
      Array.from({ length: 10 }, (_, call) => askFor(1, call % 2 === 0 ? counters : peer)),
    )
    assert.equal(calls.filter(outcome => outcome?.admitted).length, 3)
    const waits = calls.flatMap(outcome => (outcome?.admitted ? [] : [outcome?.waitSeconds ?? 0]))
    assert.ok(
      waits.every(seconds => seconds > 30 && seconds <= 60),
      `${waits}`,
    )
    assert.equal((await askFor(-2, peer))?.remaining, 2)
    assert.equal((await askFor(3))?.admitted, false)
    assert.equal((await askFor(2, peer))?.admitted, true)
    assert.equal((await askFor(4))?.waitSeconds, undefined)
    assert.equal((await askFor(-maxCount))?.remaining, 3)
  },
}

const leaseTests: Record<string, ContractTest> = {
  'leases of all processes together have the whole limit and no more': async ({ counters, peer }, t) => {
    if (counters.admit === undefined) {
      t.skip('the backend counts fixed windows only')
      return
    }
    const whole = { hits: 6, limit: 20, burst: 20, shadow: false, countRejected: false, leased: true }
    const day = { windowTicks: 86_400_000, ticksPerSecond: 1_000, expirySeconds: 60 }
    const window = { ...whole, ...day, key: '{tag}window', algorithm: 'FixedWindow' } as const
    const tokens = { ...whole, ...day, key: '{tag}tokens', algorithm: 'TokenBucket', limit: 1 } as const
    const first = { atLeast: 1, holds: 0, replaced: 0, sinceMicros: 0 }
    const ask = async (changes: Partial<LimitCheck>, some = counters) =>
      (await some.admit?.([window, tokens].map(check => ({ ...check, ...changes })))) ?? []
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, (_, call) => ask({ lease: first }, call % 2 === 0 ? counters : peer)),
    )
    for (const limit of [0, 1]) {
      const granted = outcomes.map(each => each[limit]?.granted ?? -1)
      assert.deepEqual(granted.toSorted(), [0, 0, 2, 6, 6, 6])
    }
    const remainingOf = (outcomes: readonly LimitOutcome[]) => outcomes.map(({ remaining }) => remaining)
    assert.deepEqual(remainingOf(await ask({ hits: 0 }, peer)), [0, 0])
    const [{ atMicros = 0 } = {}] = outcomes[0] ?? []
    const ended = { atLeast: 0, holds: 0, replaced: 6, sinceMicros: atMicros }
    assert.deepEqual(remainingOf(await ask({ hits: -4, lease: ended })), [4, 4])
    assert.deepEqual(remainingOf(await ask({ hits: 1 }, peer)), [3, 3])
    const last = await ask({ hits: 5, lease: { ...first, atLeast: 4 } })
    assert.deepEqual(
      last.map(({ admitted, granted }) => [admitted, granted]),
      [
        [false, 0],
        [false, 0],
      ],
    )
    assert.deepEqual(remainingOf(await ask({ hits: 5, lease: first }, peer)), [0, 0])
  },
}

const channelTests: Record<string, ContractTest> = {
  'a message on a channel reaches every process': async ({ counters, peer }, t) => {
    if (counters.openChannel === undefined || peer?.openChannel === undefined) {
      t.skip('the backend has no channels')
      return
    }
    const received: string[] = []
    const channels = [counters, peer].map((each, index) => {
      const listener = {
        onMessage: (message: string) => void received.push(`${index} ${message}`),
        onGap: () => void received.push(`${index} open`),
      }
      return each.openChannel?.('changes', listener)
    })
    await waitFor('both subscriptions', () => received.length === 2)
    channels[0]?.publish(['a', 'b_{c}'])
    await waitFor('all messages', () => received.length >= 6)
    assert.deepEqual(received.slice(2).sort(), ['0 a', '0 b_{c}', '1 a', '1 b_{c}'])
    assert.deepEqual(await counters.add(hitsOf('a=1')), [1])
  },
}

/** Checks that the values are 1 to N, once each, when many workers add 1 to one key at the same time. */
async function assertExact(processes: readonly Counters[]): Promise<void> {
  const workers = 20
  const rounds = 50
  const values: number[] = []
  async function work(counters: Counters, worker: number): Promise<void> {
    for (let round = 0; round < rounds; round += 1) {
      const [own = 0, shared = 0] = await counters.add(hitsOf(`own-${worker}=1 shared=1`))
      assert.equal(own, round + 1)
      values.push(shared)
    }
  }
  const all = processes.flatMap((counters, index) =>
    Array.from({ length: workers }, (_, worker) => work(counters, index * workers + worker)),
  )
  await Promise.all(all)
  values.sort((a, b) => a - b)
  assert.deepEqual(
    values,
    Array.from({ length: processes.length * workers * rounds }, (_, index) => index + 1),
  )
}

const lifeTests: Record<string, ContractTest> = {
  'a healthy backend has no problem': ({ counters }) => {
    assert.equal(counters.healthy, true)
    assert.equal(counters.problem, '')
  },

  'a counter expires independently of others': async ({ counters, elapse }) => {
    const brief = { key: 'brief', hits: 3, expirySeconds: 1, limit: maxCount }
    const long = { key: 'long', hits: 3, expirySeconds: 60, limit: maxCount }
    // The unit of a rule may change within the window of a counter.
    const changed = { ...brief, key: 'changed' }
    assert.deepEqual(await counters.add([changed]), [3])
    assert.deepEqual(await counters.add([{ ...changed, expirySeconds: 60 }]), [6])
    assert.deepEqual(await counters.add([changed]), [9])
    assert.deepEqual(await counters.add([brief, long]), [3, 3])
    assert.deepEqual(await counters.add([{ ...brief, hits: 0 }]), [3])
    await waitFor('the counter to expire', async () => {
      elapse?.(0.5)
      const [value] = await counters.add([{ ...brief, hits: 0 }])
      return value === 0
    })
    assert.deepEqual(await counters.add([brief, { ...long, hits: 0 }]), [3, 3])
    assert.deepEqual(await counters.add([{ ...changed, hits: 0 }]), [9], 'the longer unit is kept')
  },

  'an admission with a longer unit keeps a counter for that unit, even if it is rejected': async (
    { counters, elapse },
    t,
  ) => {
    const { admit } = counters
    if (admit === undefined) {
      t.skip('the backend counts fixed windows only')
      return
    }
    const window = { windowTicks: 60_000, ticksPerSecond: 1_000, shadow: false, countRejected: false }
    const brief = { ...window, algorithm: 'FixedWindow', limit: 9, burst: 9, expirySeconds: 1 } as const
    const ask = async (key: string, hits: number, expirySeconds: number) =>
      (await admit.call(counters, [{ ...brief, key, hits, expirySeconds }]))[0]?.remaining
    for (const key of ['brief', 'added', 'full', 'looked at']) assert.equal(await ask(key, 3, 1), 6)
    assert.equal(await ask('added', 3, 60), 3)
    assert.equal(await ask('full', 7, 60), 6)
    assert.equal(await ask('looked at', 0, 60), 6)
    await waitFor('the brief counter to expire', async () => {
      elapse?.(0.5)
      return (await ask('brief', 0, 60)) === 9
    })
    await waitFor('the counter that was only looked at to expire', async () => {
      return (await ask('looked at', 0, 60)) === 9
    })
    assert.equal(await ask('added', 0, 60), 3)
    assert.equal(await ask('full', 0, 60), 6)
  },

  'a closed backend rejects running and later calls': async ({ counters }) => {
    const running = Promise.resolve(counters.add(hitsOf('a=1'))).catch((error: unknown) => error)
    await counters.close()
    assert.equal(counters.problem === '', counters.healthy)
    // The call may already have been answered.
    const outcome = await running
    assert.ok(Array.isArray(outcome) || outcome instanceof CountersError, String(outcome))
    // `add` returns a promise that rejects; it does not throw.
    const [one, look] = [counters.add(hitsOf('a=1')), counters.add(hitsOf('a=0'))]
    await assert.rejects(Promise.resolve(one), CountersError)
    await assert.rejects(Promise.resolve(look), /closed/)
    await counters.close()
  },
}
