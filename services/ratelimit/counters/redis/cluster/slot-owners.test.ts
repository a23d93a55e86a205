import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cpuMsOf } from '../../../../../test/support/cpu-time.ts'
import { slotCount } from './hash-slot.ts'
import { SlotOwners } from './slot-owners.ts'

const slot = fc.integer({ min: 0, max: slotCount - 1 })
const node = fc.constantFrom('a', 'b', 'c')
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ slot, node }) },
  fc.array(fc.record({ first: slot, last: slot, master: node }), { maxLength: 3 }),
)

test('slots have the same owners as in a plain list, and a change of the masters calls back', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), steps => {
      let reported = ''
      const owners = new SlotOwners<string>(() => {
        reported = state()
      })
      const state = () => `${[...owners.masters].sort()} ${owners.missing}`
      const model: (string | undefined)[] = Array(slotCount).fill(undefined)
      for (const each of steps) {
        if (Array.isArray(each)) {
          owners.replace(each)
          model.fill(undefined)
          for (const { first, last, master } of each) if (first <= last) model.fill(master, first, last + 1)
        } else {
          owners.set(each.slot, each.node)
          model[each.slot] = each.node
          assert.equal(owners.of(each.slot), each.node)
        }
        const masters = new Set(model.filter(owner => owner !== undefined))
        const missing = model.filter(owner => owner === undefined).length
        assert.equal(state(), `${[...masters].sort()} ${missing}`)
        assert.equal(reported, state())
      }
      assert.deepEqual(
        model.map((_, each) => owners.of(each)),
        model,
      )
    }),
    { numRuns: 50 },
  )
})

test('moving a slot costs the same for any number of slots', () => {
  const all = [{ first: 0, last: slotCount - 1, master: 'a' }]
  let changes = 0
  const owners = new SlotOwners<string>(() => {
    changes += 1
  })
  // Replacing all owners takes one pass over the slots, so a pass for each slot would take thousands of times
  // as long.
  const allAtOnceMs = Math.max(...Array.from({ length: 20 }, () => cpuMsOf(() => owners.replace(all))))
  changes = 0
  const oneByOneMs = cpuMsOf(() => {
    for (let each = 0; each < slotCount; each += 1) owners.set(each, 'b')
  })
  assert.equal(changes, 2, 'b becomes a master, and a stops being one')
  assert.ok(oneByOneMs < 200 * allAtOnceMs, `${oneByOneMs} ms, and ${allAtOnceMs} ms for all at once`)
})
