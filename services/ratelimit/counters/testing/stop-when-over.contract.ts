import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { type Counters, type Hit, maxCount } from '../counters.ts'
import type { OpenedCounters } from './counters.contract.ts'

/**
 * Registers the tests of counters that stop counting over the limit, by the rule of envoyproxy/ratelimit: if
 * any key would exceed its limit, only the keys that would are incremented; otherwise all are.
 *
 * @param open called once for each test; the counters that it opened are closed after the test
 * @param skip the reason to skip the suite, or false
 */
export function stopWhenOverContract(
  name: string,
  open: (t: TestContext) => Promise<OpenedCounters>,
  skip: string | false = false,
): void {
  describe(`${name} as counters that stop when over the limit`, { skip }, () => {
    for (const [rule, run] of Object.entries(tests)) {
      test(rule, async t => {
        const { counters, peer } = await open(t)
        t.after(() => Promise.all([counters.close(), peer?.close()]))
        await run(counters, peer ?? counters)
      })
    }
  })
}

/**
 * Parses `a=3/5 b=1/2`: three hits of a, whose limit is 5, and one of b, whose limit is 2. All keys share a
 * hash tag.
 */
function hitsOf(text: string): Hit[] {
  return text.split(' ').map(item => {
    const [, key = '', hits, limit] = /^(\w+)=(-?\d+)\/(\d+)$/.exec(item) ?? []
    return { key: `{tag}${key}`, hits: Number(hits), limit: Number(limit), expirySeconds: 60 }
  })
}

const tests: Record<string, (counters: Counters, peer: Counters) => Promise<void>> = {
  'all count, or only those that exceed': async counters => {
    const table: readonly [string, readonly number[]][] = [
      ['a=1/2 b=1/5', [1, 1]],
      ['a=1/2 b=1/5', [2, 2]],
      // a exceeds its limit: b keeps its value.
      ['a=1/2 b=1/5', [3, 2]],
      ['b=1/5 a=1/2', [2, 4]],
      // A hit of 0 also exceeds the limit if the counter is already over it.
      ['a=0/2 b=1/5', [4, 2]],
      ['b=3/5', [5]],
      ['b=1/5 c=1/9', [6, 0]],
      ['d=7/5 c=1/9', [7, 0]],
      ['c=9/9 e=0/9', [9, 0]],
      // Each hit is compared with the value before the batch.
      ['f=1/1 f=1/1', [1, 2]],
      ['g=1/9 g=0/9 g=2/9', [1, 1, 3]],
      // A counter beyond 2^53-1 is reported as 2^53-1.
      [`h=${maxCount}/9 g=1/9`, [maxCount, 3]],
      ['h=1/9 g=1/9', [maxCount, 3]],
      ['h=1/9 h=0/9', [maxCount, maxCount]],
    ]
    for (const [batch, values] of table) assert.deepEqual(await counters.add(hitsOf(batch)), values, batch)
  },

  'hits are given back also if another key is over its limit': async counters => {
    assert.deepEqual(await counters.add(hitsOf('a=2/2 b=3/5')), [2, 3])
    assert.deepEqual(await counters.add(hitsOf('a=1/2 b=-1/5')), [3, 2])
    // What a counter has too much is given back too.
    assert.deepEqual(await counters.add(hitsOf('a=-2/1')), [1])
  },

  'calls of one turn are counted in their order': async counters => {
    const batches = ['a=1/9 b=2/9', 'a=1/9', 'b=3/9 a=2/9', 'a=0/9', 'c=1/9 a=1/9']
    const values = await Promise.all(batches.map(batch => counters.add(hitsOf(batch))))
    assert.deepEqual(values, [[1, 2], [2], [5, 4], [4], [1, 5]])
  },

  'concurrent calls never exceed a limit together': async (counters, peer) => {
    const limit = 50
    let admitted = 0
    async function work(some: Counters): Promise<void> {
      for (let round = 0; round < 20; round += 1) {
        const [both = 0] = await some.add(hitsOf(`shared=1/${limit} other=1/1000`))
        if (both <= limit) admitted += 1
      }
    }
    await Promise.all(Array.from({ length: 10 }, (_, worker) => work(worker % 2 === 0 ? counters : peer)))
    assert.equal(admitted, limit)
    const [other] = await counters.add(hitsOf('other=0/1000'))
    assert.equal(other, limit)
  },
}
