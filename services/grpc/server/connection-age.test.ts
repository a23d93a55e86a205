import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultLimits } from '../server.ts'
import { startAging } from './connection-age.ts'

const lifeOf100 = { maxConnectionAgeMs: 100 }
const lifeWithGrace = { maxConnectionAgeMs: 100, maxConnectionAgeGraceMs: 50 }

const cases: readonly [string, Partial<typeof defaultLimits>, number, readonly string[]][] = [
  ['without an age', {}, 0.5, []],
  ['the lowest draw is a tenth early', lifeOf100, 0, ['drain at 90']],
  ['the middle draw is the exact age', lifeOf100, 0.5, ['drain at 100']],
  ['the highest draw is a tenth late', lifeOf100, 0.99999, ['drain at 110']],
  ['running calls are aborted after the grace period', lifeWithGrace, 0.5, ['drain at 100', 'cut at 150']],
  ['a grace period without an age', { maxConnectionAgeGraceMs: 50 }, 0.5, []],
]
for (const [what, limits, drawn, expected] of cases) {
  test(`the age of a connection: ${what}`, t => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    let nowMs = 0
    const seen: string[] = []
    const say = (text: string) => () => void seen.push(`${text} at ${nowMs}`)
    const connection = { drain: say('drain'), cut: say('cut') }
    startAging({ ...defaultLimits, ...limits }, () => drawn, connection)
    for (; nowMs < 1000; t.mock.timers.tick(1)) nowMs += 1
    assert.deepEqual(seen, expected)
  })
}

test('a closed connection does not age, neither before its drain nor after', t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const seen: string[] = []
  const connection = { drain: () => void seen.push('drain'), cut: () => void seen.push('cut') }
  const age = () => startAging({ ...defaultLimits, ...lifeWithGrace }, () => 0.5, connection)
  age()()
  const stopLater = age()
  t.mock.timers.tick(120)
  stopLater()
  t.mock.timers.tick(1000)
  assert.deepEqual(seen, ['drain'])
})
