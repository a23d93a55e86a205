import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import type { Clock } from '@tollway/chassis/clock.ts'
import { accept, reject } from '../../domain/rejections.ts'
import type { IdempotentRequest } from '../idempotency/answers.ts'
import { Idempotency } from '../idempotency/idempotency.ts'
import { removeExpiredKeys } from '../idempotency/idempotency-keys.ts'
import { requestFingerprint } from '../idempotency/sealed-answer.ts'
import type { Storage, Tx } from '../storage.ts'
import { nowMs } from './payments-under-test.ts'

interface Bench {
  readonly storage: Storage
  readonly once: Idempotency
  /** Stands for another process with the same database. */
  readonly elsewhere: Idempotency
  readonly request: IdempotentRequest
  elapse(ms: number): void
}

const dayMs = 86_400_000

/** Registers the tests of `Idempotency`. The storage must be migrated. */
export function idempotencyContract(
  name: string,
  open: () => Promise<Storage>,
  skip: string | false = false,
): void {
  describe(`idempotency in ${name}`, { skip }, () => {
    let opened: Promise<Storage> | undefined
    for (const [rule, run] of Object.entries(rules)) {
      test(rule, async () => {
        opened ??= open()
        const storage = await opened
        await storage.transaction(tx => tx.script('CREATE TABLE IF NOT EXISTS effects (key text, n int)'))
        await run(benchOn(storage))
      })
    }
  })
}

function benchOn(storage: Storage): Bench {
  let elapsedMs = 0
  const clock: Clock = { nowMs: () => nowMs + elapsedMs, monotonicMs: () => performance.now() }
  const options = { storage, clock, random: Math.random, randomBytes }
  const key = randomBytes(24).toString('base64url')
  return {
    storage,
    once: new Idempotency(options),
    elsewhere: new Idempotency(options),
    request: { scope: 'app:1', key, fingerprint: requestFingerprint(key, ['POST', '/x', '{"a":1}']) },
    elapse(ms) {
      elapsedMs += ms
    },
  }
}

const kept = (body: string) => accept({ status: 201, body })
const inProgress = accept({ kind: 'in-progress', retryAfterMs: 1_000 })
const keyReused = accept({ kind: 'key-reused' })
const answered = (body: string, replayed: boolean) =>
  accept({ kind: 'answered', answer: { status: 201, body }, replayed })

function effect(key: string, n = 0) {
  return async (tx: Tx) => {
    await tx.query('INSERT INTO effects VALUES ($1, $2)', [key, n])
    return kept(`effect ${n}`)
  }
}

async function countEffects(storage: Storage, key: string): Promise<number> {
  return (await storage.transaction(tx => tx.query('SELECT n FROM effects WHERE key = $1', [key]))).length
}

/** The parts of `OutsideWork` for work that stores nothing before the effect. */
const unprepared = { prepare: async () => accept({}), discard: async () => {} }

const never = () => assert.fail('this must not run')

const rules: Record<string, (bench: Bench) => Promise<void>> = {
  'a repeated request gets the first answer, for a day': async ({
    storage,
    once,
    elsewhere,
    request,
    elapse,
  }) => {
    assert.deepEqual(await once.runOnce(request, effect(request.key)), answered('effect 0', false))
    assert.deepEqual(await elsewhere.runOnce(request, never), answered('effect 0', true))
    elapse(dayMs - 1)
    assert.deepEqual(await once.runOnce(request, never), answered('effect 0', true))
    elapse(1)
    assert.deepEqual(await once.runOnce(request, effect(request.key, 1)), answered('effect 1', false))
    assert.equal(await countEffects(storage, request.key), 2)
  },

  'another request with the key is rejected, and another scope has its own keys': async ({
    once,
    request,
  }) => {
    await once.runOnce(request, effect(request.key))
    const fingerprint = requestFingerprint(request.key, ['POST', '/x', '{"a":2}'])
    assert.deepEqual(await once.runOnce({ ...request, fingerprint }, never), keyReused)
    const elsewhere = await once.runOnce({ ...request, scope: 'app:2', fingerprint }, effect(request.key, 2))
    assert.deepEqual(elsewhere, answered('effect 2', false))
  },

  'a hundred simultaneous requests have one effect, and all get its answer': async bench => {
    const { storage, once, elsewhere, request } = bench
    const call = async (index: number): Promise<string> => {
      for (;;) {
        const outcome = await (index % 2 === 0 ? once : elsewhere).runOnce(
          request,
          effect(request.key, index),
        )
        assert.ok(outcome.ok)
        if (outcome.value.kind === 'answered') return outcome.value.answer.body
        assert.equal(outcome.value.kind, 'in-progress')
      }
    }
    const answers = await Promise.all(Array.from({ length: 100 }, (_, index) => call(index)))
    assert.equal(new Set(answers).size, 1)
    assert.equal(await countEffects(storage, request.key), 1)
  },

  'an error stores nothing, and a rejection neither': async ({ storage, once, request }) => {
    const failing = once.runOnce(request, async tx => {
      await effect(request.key)(tx)
      throw new Error('own')
    })
    await assert.rejects(failing, /own/)
    const rejected = reject('conflict')
    const rejecting = async (tx: Tx) => {
      await effect(request.key)(tx)
      return rejected
    }
    assert.deepEqual(await once.runOnce(request, rejecting), rejected)
    assert.equal(await countEffects(storage, request.key), 0)
    assert.deepEqual(await once.runOnce(request, effect(request.key, 3)), answered('effect 3', false))
  },

  'a secret is stored so that only the key of the caller decrypts it': async ({ storage, once, request }) => {
    const secret = { ...request, secret: true }
    const work = async () => kept('{"key":"tollway_secret"}')
    const weak = { ...secret, key: 'order-1' }
    assert.deepEqual(await once.runOnce(weak, never), accept({ kind: 'weak-key' }))
    await once.runOnce(secret, work)
    assert.deepEqual(await once.runOnce(secret, never), answered('{"key":"tollway_secret"}', true))
    const rows = await storage.transaction(tx =>
      tx.query<{ text: string }>(
        "SELECT encode(body, 'escape') || encode(key_hash, 'escape') AS text FROM idempotency_keys",
      ),
    )
    for (const { text } of rows) {
      assert.ok(!text.includes('tollway_secret') && !text.includes(request.key), 'in the database as it is')
    }
  },

  'an external effect has one reference': async ({ once, elsewhere, request, storage }) => {
    const references: string[] = []
    const running = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    const first = once.runOnceOutside(request, {
      ...unprepared,
      perform: async reference => {
        references.push(reference)
        running.resolve()
        await finish.promise
        return 7
      },
      store: (tx, n) => effect(request.key, n)(tx),
    })
    await Promise.race([running.promise, first])
    const outside = { ...unprepared, perform: never, store: never }
    assert.deepEqual(await elsewhere.runOnceOutside(request, outside), inProgress)
    finish.resolve()
    assert.deepEqual(await first, answered('effect 7', false))
    assert.deepEqual(await elsewhere.runOnceOutside(request, outside), answered('effect 7', true))
    assert.equal(references.length, 1)
    assert.equal(await countEffects(storage, request.key), 1)
  },

  'a request of a crashed process is taken over when its lease expires': async bench => {
    const { once, elsewhere, request, elapse, storage } = bench
    const references: string[] = []
    const hanging = Promise.withResolvers<number>()
    const begun = Promise.withResolvers<void>()
    const crashed = once.runOnceOutside(request, {
      ...unprepared,
      perform: reference => {
        references.push(reference)
        begun.resolve()
        return hanging.promise
      },
      store: (tx, n) => effect(request.key, n)(tx),
    })
    await Promise.race([begun.promise, crashed])
    const takeOver = () =>
      elsewhere.runOnceOutside(request, {
        ...unprepared,
        perform: async reference => references.push(reference),
        store: (tx, n) => effect(request.key, n)(tx),
      })
    elapse(59_999)
    assert.deepEqual(await takeOver(), inProgress)
    elapse(1)
    assert.deepEqual(await takeOver(), answered('effect 2', false))
    // The first process was only slow. Its result comes too late, and it returns the answer of the other
    // process.
    hanging.resolve(9)
    assert.deepEqual(await crashed, answered('effect 2', true))
    assert.equal(references[0], references[1])
    assert.equal(await countEffects(storage, request.key), 1)
  },

  'after an external failure, or one of the storage, the request continues with its reference':
    async bench => {
      const { once, elsewhere, request, storage, elapse } = bench
      const references: string[] = []
      const perform = async (reference: string) => references.push(reference)
      const store = (tx: Tx, n: number) => effect(request.key, n)(tx)
      const work = { ...unprepared, perform, store }
      const failing = async (reference: string) => {
        await perform(reference)
        throw new Error('own')
      }
      await assert.rejects(once.runOnceOutside(request, { ...work, perform: failing }), /own/)
      const unstored = { ...work, store: (tx: Tx) => tx.query('SELECT broken').then(never) }
      await assert.rejects(elsewhere.runOnceOutside(request, unstored), { code: 'refused' })
      // Even after two days the key is not free, because the outcome is not stored.
      elapse(2 * dayMs)
      const other = { ...request, fingerprint: requestFingerprint(request.key, ['other']) }
      assert.deepEqual(await once.runOnceOutside(other, work), keyReused)
      assert.deepEqual(await once.runOnceOutside(request, work), answered('effect 3', false))
      assert.deepEqual([references.length, new Set(references).size], [3, 1])
      assert.equal(await countEffects(storage, request.key), 1)
    },

  'a rejection before or after the effect leaves the key unused': async ({ once, request, storage }) => {
    const rejected = reject('not_found')
    const references: string[] = []
    const work = {
      ...unprepared,
      perform: async (reference: string) => references.push(reference),
      store: (tx: Tx, n: number) => effect(request.key, n)(tx),
    }
    const rejecting = { ...work, prepare: async () => rejected, perform: never }
    assert.deepEqual(await once.runOnceOutside(request, rejecting), rejected)
    let discarded = ''
    const unsettled = {
      ...work,
      store: async (tx: Tx, n: number) => {
        await effect(request.key, n)(tx)
        return rejected
      },
      discard: async (_: Tx, reference: string) => {
        discarded = reference
      },
    }
    assert.deepEqual(await once.runOnceOutside(request, unsettled), rejected)
    assert.equal(discarded, references[0])
    assert.equal(await countEffects(storage, request.key), 0)
    assert.deepEqual(await once.runOnceOutside(request, work), answered('effect 2', false))
    assert.notEqual(references[0], references[1])
  },

  'expired keys are removed in parts': async ({ once, request, storage, elapse }) => {
    for (const n of [1, 2, 3]) await once.runOnce({ ...request, scope: `purge:${n}` }, effect(request.key, n))
    elapse(dayMs)
    const remove = () => storage.transaction(tx => removeExpiredKeys(tx, nowMs + dayMs, 2))
    assert.equal(await remove(), 2)
    while ((await remove()) > 0);
    const left = await storage.transaction(tx =>
      tx.query("SELECT FROM idempotency_keys WHERE scope LIKE 'purge:%'"),
    )
    assert.equal(left.length, 0)
  },
}
