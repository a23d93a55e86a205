import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeGoal, type Goal, judge } from './goals.ts'
import { isBelowHalf, verdictOf } from './report.ts'

const verdicts: readonly [Goal, number, string][] = [
  [{ atMost: 1 / 6 }, 1 / 6, 'met'],
  [{ atMost: 1 / 6 }, 0.17, 'missed'],
  [{ atMost: 1 / 6 }, 2 / 6, 'missed'],
  [{ atMost: 1 / 6 }, 0.34, 'below half'],
  [{ atLeast: 6 }, 6, 'met'],
  [{ atLeast: 6 }, 3, 'missed'],
  [{ atLeast: 6 }, 2.9, 'below half'],
  [{ atMost: 1 / 3, bearable: 1 }, 0.3, 'met'],
  [{ atMost: 1 / 3, bearable: 1 }, 0.9, 'missed'],
  [{ atMost: 1 / 3, bearable: 1 }, 1.1, 'below half'],
  [{ atMost: 120 }, 0, 'met'],
  [{ atMost: 120 }, Number.NaN, 'below half'],
]

test('a goal is met, missed, or missed by more than half', () => {
  for (const [goal, figure, verdict] of verdicts) {
    assert.equal(judge(goal, figure), verdict, `${JSON.stringify(goal)} and ${figure}`)
  }
})

const row = { what: '', unit: '', goal: { atLeast: 6 }, compared: '' }

test('the median of the rounds is compared, and an excuse applies only to missed goals', () => {
  assert.equal(verdictOf({ ...row, figures: [1, 6, 9] }), 'met')
  assert.equal(verdictOf({ ...row, figures: [1, 2, 9] }), 'below half')
  assert.equal(verdictOf({ ...row, figures: [1, 2, 9], excuse: 'why' }), 'not judged: why')
  assert.equal(verdictOf({ ...row, figures: [6], excuse: 'why' }), 'met')
  assert.equal(verdictOf({ ...row, figures: [1], goal: undefined }), '')
  assert.equal(isBelowHalf({ ...row, figures: [1, 2, 9] }), true)
  assert.equal(isBelowHalf({ ...row, figures: [1, 2, 9], excuse: 'why' }), false)
})

test('the short form compares the best round, for a higher or a lower figure', () => {
  const best = { ...row, judgedBy: 'best' } as const
  assert.equal(verdictOf({ ...best, figures: [1, 2, 9] }), 'met by the best round')
  assert.equal(isBelowHalf({ ...best, figures: [1, 2] }), true)
  assert.equal(isBelowHalf({ ...best, goal: { atMost: 1 }, figures: [1.5, 9] }), false)
})

test('goals are written as in the documentation', () => {
  assert.equal(describeGoal({ atMost: 1 / 15 }, ''), '≤ 1/15')
  assert.equal(describeGoal({ atMost: 1.1 }, ''), '≤ 1.1')
  assert.equal(describeGoal({ atMost: 0.1 }, 'commands'), '≤ 0.1 commands')
  assert.equal(describeGoal({ atLeast: 3 }, ''), '≥ 3')
})
