import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { generateScenario, runScenario, type ScenarioEvent } from './engine/world.ts'
import { worlds } from './worlds/worlds.ts'

/** That each world runs. `make simulate` runs more seeds, and finds the planted defects. */
const seeds = 8

for (const world of worlds) {
  describe(`the world ${world.name}`, () => {
    test(`keeps its invariants with ${seeds} seeds`, async () => {
      for (let seed = 1; seed <= seeds; seed++) {
        const { violation } = await runScenario(world, seed, generateScenario(world, seed))
        assert.equal(violation, undefined, `make simulate WORLD=${world.name} SEED=${seed}`)
      }
    })

    test('runs twice alike', async () => {
      const events = generateScenario<ScenarioEvent>(world, 3)
      const [one, other] = [await runScenario(world, 3, events), await runScenario(world, 3, events)]
      assert.deepEqual(one, other)
    })
  })
}
