import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deriveConditions, type Facts } from './resource-status.ts'

const right: Facts = {
  problems: [],
  domainOwner: undefined,
  inForce: 'present',
  unpublished: undefined,
  domain: 'checkout',
  running: 2,
  enforcing: 2,
  refusals: [],
}
const problems = [{ path: 'spec.domain', message: 'is missing' }]

/** What is known, and then Accepted, Programmed, Enforced and Ready, each as its status and reason. */
const table: readonly [string, Partial<Facts>, string][] = [
  ['all is right', {}, 'True Valid, True InFeed, True Enforced, True Enforced'],
  ['on its way', { enforcing: 1 }, 'True Valid, True InFeed, False Pending, False Pending'],
  ['no process', { running: 0, enforcing: 0 }, 'True Valid, True InFeed, False NoProcess, False NoProcess'],
  [
    'refused by one of two',
    { enforcing: 1, refusals: [{ pod: 'ratelimit-1', message: 'no' }] },
    'True Valid, False Refused, False Pending, False Refused',
  ],
  [
    'wrong from the start',
    { problems, inForce: 'nothing', enforcing: 0 },
    'False Invalid, False NotAccepted, False NotAccepted, False Invalid',
  ],
  [
    'wrong after it was right',
    { problems, inForce: 'last-good' },
    'False Invalid, False LastGoodInForce, False LastGoodInForce, False Invalid',
  ],
  [
    'the domain is taken',
    { domainOwner: 'shop/other', inForce: 'nothing', enforcing: 0 },
    'False DomainConflict, False NotAccepted, False NotAccepted, False DomainConflict',
  ],
  [
    'moved to a domain that is taken',
    { domainOwner: 'shop/other', inForce: 'last-good' },
    'False DomainConflict, False LastGoodInForce, False LastGoodInForce, False DomainConflict',
  ],
  [
    'too much for the feed',
    { unpublished: 'too large', enforcing: 0 },
    'True Valid, False NotPublished, False Pending, False NotPublished',
  ],
]

for (const [name, facts, expected] of table) {
  test(name, () => {
    const conditions = deriveConditions({ ...right, ...facts })
    assert.deepEqual(
      conditions.map(({ type }) => type),
      ['Accepted', 'Programmed', 'Enforced', 'Ready'],
    )
    assert.equal(conditions.map(({ status, reason }) => `${status} ${reason}`).join(', '), expected)
  })
}

const messageOf = (facts: Partial<Facts>, type: string) =>
  deriveConditions({ ...right, ...facts }).find(condition => condition.type === type)?.message

test('the messages say what to do, and what stays', () => {
  assert.equal(
    messageOf({ problems, inForce: 'last-good' }, 'Accepted'),
    'spec.domain: is missing. The last good version stays in force',
  )
  assert.equal(
    messageOf({ domainOwner: 'shop/other', inForce: 'nothing' }, 'Ready'),
    'spec.domain: "checkout" belongs to shop/other, which is older; name another',
  )
  assert.equal(messageOf({ enforcing: 1 }, 'Ready'), '1 of 2 processes enforce it')
  assert.equal(
    messageOf({ refusals: [{ pod: 'ratelimit-1', message: 'too deep' }] }, 'Programmed'),
    'ratelimit-1 refused it: too deep',
  )
  assert.match(messageOf({ unpublished: 'too large' }, 'Programmed') ?? '', /goes on as it was.*: too large/)
})

test('a condition shows the first problems, and how many more there are', () => {
  const many = Array.from({ length: 8 }, (_, index) => ({ path: `spec.a${index}`, message: 'is wrong' }))
  const message = messageOf({ problems: many, inForce: 'nothing' }, 'Accepted') ?? ''
  assert.match(message, /^spec\.a0: is wrong; .*spec\.a4: is wrong; 3 problems more$/)
})
