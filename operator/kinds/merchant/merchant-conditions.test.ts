import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deriveMerchantConditions, type MerchantFacts, pausedConditions } from './merchant-conditions.ts'

const done: MerchantFacts = { problems: [], obstacle: undefined, synced: true }
const obstacle = { step: 'Synced', reason: 'Refused', message: 'spec.currency: no', stalled: true } as const
const foreign = { ...obstacle, step: 'CredentialsReady', reason: 'SecretForeign' } as const

/**
 * Each row: a name, the facts, and the expected reasons of Accepted, Synced, CredentialsReady and Ready, then
 * the types of further conditions.
 */
const table: readonly [string, Partial<MerchantFacts>, string][] = [
  ['all is done', {}, 'Valid Provisioned Written Provisioned'],
  ['not begun yet', { synced: false }, 'Valid Pending NotSynced Pending Reconciling'],
  [
    'an invalid spec',
    { problems: [{ path: 'spec.email', message: 'is missing' }], synced: false },
    'Invalid NotAccepted NotAccepted Invalid Stalled',
  ],
  ['refused', { obstacle, synced: false }, 'Valid Refused NotSynced Refused Stalled'],
  [
    'the service does not answer',
    { obstacle: { ...obstacle, reason: 'PaymentsUnreachable', stalled: false }, synced: false },
    'Valid PaymentsUnreachable NotSynced PaymentsUnreachable Reconciling',
  ],
  [
    'changed in a field that is fixed',
    { obstacle: { ...obstacle, reason: 'ImmutableFieldChanged' }, synced: false },
    'Valid ImmutableFieldChanged NotSynced ImmutableFieldChanged Stalled ImmutableFieldChanged',
  ],
  [
    'a foreign Secret from the start',
    { obstacle: foreign, synced: false },
    'Valid Pending SecretForeign SecretForeign Stalled',
  ],
  ['a foreign Secret later', { obstacle: foreign }, 'Valid Provisioned SecretForeign SecretForeign Stalled'],
]

for (const [name, facts, expected] of table) {
  test(name, () => {
    const conditions = deriveMerchantConditions({ ...done, ...facts })
    const [steps, others] = [conditions.slice(0, 4), conditions.slice(4)]
    assert.deepEqual(
      steps.map(({ type }) => type),
      ['Accepted', 'Synced', 'CredentialsReady', 'Ready'],
    )
    const found = [...steps.map(({ reason }) => reason), ...others.map(({ type }) => type)]
    assert.equal(found.join(' '), expected)
    const isReady = steps.every(({ status }) => status === 'True')
    assert.equal(isReady, name === 'all is done')
  })
}

test('a paused Merchant keeps its conditions', () => {
  const types = (conditions: readonly { type: string }[]) => conditions.map(({ type }) => type).join(' ')
  const paused = pausedConditions(deriveMerchantConditions(done))
  assert.equal(types(paused), 'Accepted Synced CredentialsReady Ready Paused')
  assert.deepEqual(pausedConditions(paused), paused)
})
