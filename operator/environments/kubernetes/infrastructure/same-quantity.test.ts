import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sameQuantity } from './same-quantity.ts'

test('quantities are compared by their values, not their spellings', () => {
  const table = `
    0.5      500m       equal
    1        1000m      equal
    .25Gi    256Mi      equal
    1e3      1k         equal
    1E3      1k         equal
    1E       1000P      equal
    100u     0.0001     equal
    1Ki      1024       equal
    1k       1Ki        different
    500m     501m       different
    1        1Gi        different
    cpu      cpu        equal
    cpu      memory     different
    1x       1          different
    1Ki      1Kii       different
  `
  for (const [a = '', b = '', outcome] of table
    .trim()
    .split('\n')
    .map(line => line.trim().split(/\s+/))) {
    assert.equal(sameQuantity(a, b) ? 'equal' : 'different', outcome, `${a} and ${b}`)
    assert.equal(sameQuantity(b, a) ? 'equal' : 'different', outcome, `${b} and ${a}`)
  }
  assert.ok(sameQuantity(2, '2'))
  assert.ok(!sameQuantity(undefined, '0'))
})
