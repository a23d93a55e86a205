import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eventTypes } from '@tollway/payments/operations/events.ts'
import { merchantEvents } from '../merchant.ts'
import { readCases } from '../testing/read-cases.ts'
import { validateMerchant } from './validate-merchant.ts'

describe('all problems of a Merchant are reported', () => {
  for (const { name, resource, problems } of readCases('merchants.yaml', 'Merchant')) {
    it(name, () => {
      const judged = validateMerchant(resource)
      const found = 'problems' in judged ? judged.problems : []
      assert.deepEqual(
        found.map(({ path, message }) => `${path}: ${message}`),
        problems,
      )
    })
  }
})

it('webhooks can subscribe to exactly the events of the payments service', () => {
  assert.deepEqual([...merchantEvents], [...eventTypes])
})
