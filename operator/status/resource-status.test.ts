import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deriveConditions, type StatusFacts } from './resource-status.ts'

const right: StatusFacts = {
  problems: [],
  denial: undefined,
  paused: false,
  inForce: 'present',
  unpublished: undefined,
  unmet: undefined,
  running: 2,
  enforcing: 2,
  rejections: [],
}
const taken = {
  reason: 'DomainConflict',
  path: 'spec.domain',
  message: '"checkout" belongs to shop/other, which is older; name another',
  owner: 'shop/other',
}
const unmet = { reason: 'SecretMissing', message: 'the Secret shop/tokens does not exist' }
const problems = [{ path: 'spec.domain', message: 'is missing' }]

/**
 * Each row: a name, the facts, and the expected status and reason of Accepted, Programmed, Enforced and
 * Ready.
 */
const table: readonly [string, Partial<StatusFacts>, string][] = [
  ['enforced by all', {}, 'True Valid, True InFeed, True Enforced, True Enforced'],
  ['pending', { enforcing: 1 }, 'True Valid, True InFeed, False Pending, False Pending'],
  [
    'a disabled service',
    { running: 0, enforcing: 0, switchedOff: 'broker.enabled is false' },
    'True Valid, True InFeed, False SwitchedOff, False SwitchedOff',
  ],
  ['no process', { running: 0, enforcing: 0 }, 'True Valid, True InFeed, False NoProcess, False NoProcess'],
  [
    'rejected by one of two',
    { enforcing: 1, rejections: [{ pod: 'ratelimit-1', message: 'no' }] },
    'True Valid, False Refused, False Pending, False Refused',
  ],
  [
    'invalid from the start',
    { problems, inForce: 'nothing', enforcing: 0 },
    'False Invalid, False NotAccepted, False NotAccepted, False Invalid',
  ],
  [
    'invalid after a valid version',
    { problems, inForce: 'last-good' },
    'False Invalid, False LastGoodInForce, False LastGoodInForce, False Invalid',
  ],
  [
    'a domain in use',
    { denial: taken, inForce: 'nothing', enforcing: 0 },
    'False DomainConflict, False NotAccepted, False NotAccepted, False DomainConflict',
  ],
  [
    'changed to a domain in use',
    { denial: taken, inForce: 'last-good' },
    'False DomainConflict, False LastGoodInForce, False LastGoodInForce, False DomainConflict',
  ],
  ['a missing dependency', { unmet }, 'True Valid, False SecretMissing, True Enforced, False SecretMissing'],
  [
    'invalid, with a missing dependency',
    { unmet, problems, inForce: 'last-good' },
    'False Invalid, False LastGoodInForce, False LastGoodInForce, False Invalid',
  ],
  [
    'beyond the limit of the feed',
    { unpublished: 'too large', enforcing: 0 },
    'True Valid, False NotPublished, False Pending, False NotPublished',
  ],
]

for (const [name, facts, expected] of table) {
  test(name, () => {
    const conditions = deriveConditions({ ...right, ...facts })
    const steps = conditions.slice(0, 4)
    assert.deepEqual(
      steps.map(({ type }) => type),
      ['Accepted', 'Programmed', 'Enforced', 'Ready'],
    )
    assert.equal(steps.map(({ status, reason }) => `${status} ${reason}`).join(', '), expected)
  })
}

const messageOf = (facts: Partial<StatusFacts>, type: string) =>
  deriveConditions({ ...right, ...facts }).find(condition => condition.type === type)?.message

test('the messages contain the fix and what stays in force', () => {
  assert.equal(
    messageOf({ problems, inForce: 'last-good' }, 'Accepted'),
    'spec.domain: is missing. The last good version stays in force',
  )
  assert.equal(
    messageOf({ denial: taken, inForce: 'nothing' }, 'Ready'),
    'spec.domain: "checkout" belongs to shop/other, which is older; name another',
  )
  assert.equal(messageOf({ enforcing: 1 }, 'Ready'), '1 of 2 processes enforce it')
  assert.equal(
    messageOf({ rejections: [{ pod: 'ratelimit-1', message: 'too deep' }] }, 'Programmed'),
    'ratelimit-1 rejected it: too deep',
  )
  assert.match(messageOf({ unpublished: 'too large' }, 'Programmed') ?? '', /feed is unchanged.*: too large/)
})

test('a condition shows the first problems, and the number of the others', () => {
  const many = Array.from({ length: 8 }, (_, index) => ({ path: `spec.a${index}`, message: 'is wrong' }))
  const message = messageOf({ problems: many, inForce: 'nothing' }, 'Accepted') ?? ''
  assert.match(message, /^spec\.a0: is wrong; .*spec\.a4: is wrong; 3 more problems$/)
})

test('the conditions that kstatus reads exist only while they are true', () => {
  const others = (facts: Partial<StatusFacts>) =>
    deriveConditions({ ...right, ...facts })
      .slice(4)
      .map(({ type, status, reason }) => `${type} ${status} ${reason}`)
  assert.deepEqual(others({}), [])
  assert.deepEqual(others({ enforcing: 1 }), ['Reconciling True Pending'])
  assert.deepEqual(others({ problems, inForce: 'last-good' }), ['Stalled True Invalid'])
  assert.deepEqual(others({ unmet }), ['Stalled True SecretMissing'])
  const unknown = { reason: 'SecretUnknown', message: 'not read yet' }
  assert.deepEqual(others({ unmet: unknown }), ['Reconciling True SecretUnknown'])
  assert.deepEqual(others({ paused: true }), ['Paused True Annotated'])
})
