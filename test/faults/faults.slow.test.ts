import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { requireProgram } from '../support/require-server.ts'
import { cases } from './cases.ts'
import type { CaseOptions } from './fault-case.ts'
import { createSetupPool } from './setups.ts'

const soak = process.env['SOAK'] === '1'
const seed = Number(process.env['FAULT_SEED'] ?? (Date.now() % 2 ** 31) + 1)

/** Deadlines and durations for busy machines; `make faults` measures the latencies. */
const options: Omit<CaseOptions, 'setups'> = soak
  ? {
      seed,
      callsPerSecond: 2_000,
      connections: 20,
      warmUpMs: 2_000,
      holdsMs: [20_000, 2_100, 3_300],
      deadlineMs: 250,
      exactness: { processes: 16, connections: 1_000, limit: 20_000 },
    }
  : {
      seed,
      callsPerSecond: 500,
      connections: 5,
      warmUpMs: 200,
      holdsMs: [600],
      deadlineMs: 250,
      exactness: { processes: 3, connections: 30, limit: 600 },
    }

/**
 * The most demanding cases of each kind of fault, for every run of the tests: a connection that ends, hangs
 * and sends garbage; a backend that rejects, loses data, is killed and moves; processes that end; a clock
 * that jumps. The other cases are variations, and part of the long form and of `make faults`.
 */
const essential: ReadonlySet<string> = new Set([
  'refused',
  'black-hole',
  'garbage',
  'read-only',
  'killed',
  'random',
  'mode-local',
  'stall-50',
  'sentinel-killed',
  'cluster-reshard',
  'cluster-killed',
  'memcached-black-hole',
  'memcached-killed',
  'exact-redis',
  'exact-memcached',
  'exact-algorithms',
  'leases',
  'leases-windows',
  'drain',
  'worker-killed',
  'clock-steps',
])
const chosenCases = cases.filter(({ name }) => soak || essential.has(name))

/** A case mostly waits, so several run in parallel. Cases with the same setup are in one lane. */
const laneCount = soak ? 1 : 3
const lanes = Array.from({ length: laneCount }, (_, lane) =>
  chosenCases.slice(
    Math.round((lane * chosenCases.length) / laneCount),
    Math.round(((lane + 1) * chosenCases.length) / laneCount),
  ),
)

describe(`faults, by the seed FAULT_SEED=${seed}`, { concurrency: laneCount }, () => {
  for (const [lane, chosen] of lanes.entries()) {
    describe(`lane ${lane + 1}`, { concurrency: 1 }, () => {
      const setups = createSetupPool()
      after(() => setups.close())
      for (const { name, title, needs, run } of chosen) {
        test(`the guarantees hold in ${name}: ${title}`, async t => {
          for (const program of needs) if (requireProgram(t, program) === false) return
          const { violations } = await run({ ...options, setups })
          assert.deepEqual(violations, [])
        })
      }
    })
  }
})
