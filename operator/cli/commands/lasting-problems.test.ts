import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SourceProblem } from '../../sources/source.ts'
import { lastingProblems } from './lasting-problems.ts'

const problem = (obstacle?: SourceProblem['obstacle']): SourceProblem => ({
  origin: 'payments',
  message: 'there is no Secret',
  ...(obstacle && { obstacle }),
})
const failed = problem({ attempt: 'failed' })
const waiting = problem({ attempt: 'waiting' })

/** The problem in each report by its second, and the first second at which it has lasted for 15 s. */
const histories: readonly (readonly [
  what: string,
  at: (second: number) => SourceProblem | undefined,
  lasts: number | undefined,
])[] = [
  ['a problem that may end by itself', () => problem(), undefined],
  ['an obstacle from the start', () => problem({}), 15],
  ['an obstacle that ends in time', second => (second < 14 ? problem({}) : undefined), undefined],
  ['a container that runs for a moment', second => (second % 10 < 7 ? problem({}) : undefined), 15],
  [
    'an obstacle that was gone for longer',
    second => (second < 3 || second > 10 ? problem({}) : undefined),
    26,
  ],
  ['a second attempt that takes long', second => (second < 10 ? failed : waiting), undefined],
  ['a second attempt that fails', second => (second < 10 || second > 28 ? failed : waiting), 29],
]

for (const [what, at, lasts] of histories) {
  test(`${what} lasts ${lasts === undefined ? 'never' : `after ${lasts} s`}`, () => {
    const lasting = lastingProblems(15_000)
    const seconds = Array.from({ length: 60 }, (_, second) => second)
    const found = seconds.find(second => {
      const present = at(second)
      return lasting(present === undefined ? [] : [present], second * 1000).length > 0
    })
    assert.equal(found, lasts)
  })
}

test('nothing lasts without a grace', () => {
  const lasting = lastingProblems(undefined)
  assert.deepEqual(
    [0, 60_000].flatMap(nowMs => lasting([problem({})], nowMs)),
    [],
  )
})
