import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { newId } from '../../domain/ids.ts'
import { insertMail, markMailSent } from '../delivery/mails.ts'
import { createStoredJournal } from '../delivery/test-processor-stores.ts'
import {
  claimDueDeliveries,
  deliverAgain,
  giveUpDelivery,
  markDelivered,
} from '../delivery/webhook-deliveries.ts'
import {
  deleteWebhookEndpoint,
  disableWebhookEndpoint,
  insertWebhookEndpoint,
  insertWebhookEvent,
  listWebhookEvents,
} from '../delivery/webhooks.ts'
import { type prunables, prune } from '../pruning.ts'
import type { Storage } from '../storage.ts'
import { nowMs, openMerchant, someId } from './payments-under-test.ts'

const dayMs = 86_400_000

/** Registers the tests of `prune`. The storage must be migrated. */
export function pruningContract(
  name: string,
  open: () => Promise<Storage>,
  connections: 'one' | 'several',
): void {
  describe(`ended records are removed from ${name}`, () => {
    for (const [rule, run] of Object.entries(rules))
      test(rule, async () => run(await underTest(await open())))
    if (connections === 'one') return
    test('one process at a time removes ended records', async () => byOneAtATime(await open()))
  })
}

async function byOneAtATime(storage: Storage): Promise<void> {
  const { endpoint, tell, claim } = await underTest(storage)
  await endpoint()
  await tell()
  const [delivery] = await claim()
  assert.ok(delivery)
  await storage.transaction(tx => markDelivered(tx, delivery, nowMs))
  const options = { untilMs: nowMs, limit: 9 }
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const holding = storage.transaction(async tx => {
    await prune(tx, 'mails', options)
    first.resolve()
    await second.promise
  })
  await first.promise
  assert.equal(await storage.transaction(tx => prune(tx, 'webhook deliveries', options)), 0)
  second.resolve()
  await holding
  assert.equal(await storage.transaction(tx => prune(tx, 'webhook deliveries', options)), 1)
}

async function underTest(storage: Storage) {
  await storage.transaction(async tx => {
    await tx.query('DELETE FROM webhook_deliveries')
    await tx.query('DELETE FROM mails')
  })
  const { merchant } = await openMerchant(storage)
  const merchantId = merchant.id
  return {
    storage,
    merchantId,
    async endpoint(): Promise<string> {
      const id = someId()
      const endpoint = { id, merchantId, createdMs: nowMs, url: 'https://example.org', events: [] }
      await storage.transaction(tx =>
        insertWebhookEndpoint(tx, { ...endpoint, secrets: ['s'], disabledMs: null }),
      )
      return id
    },
    async tell(createdMs = nowMs): Promise<string> {
      const [id, subjectId] = [newId(createdMs, randomBytes), someId()]
      const event = { id, merchantId, createdMs, type: 'a', subjectId, body: 'a' }
      await storage.transaction(async tx => insertWebhookEvent(tx, event))
      return id
    },
    claim: () =>
      storage.transaction(tx => {
        const places = { limit: 100, perEndpoint: 100, without: [] }
        return claimDueDeliveries(tx, { nowMs, leaseUntilMs: nowMs + 1, ...places })
      }),
    prune: (what: (typeof prunables)[number], untilMs: number, limit = 100) =>
      storage.transaction(tx => prune(tx, what, { untilMs, limit })),
    async count(table: string): Promise<number> {
      const rows = await storage.transaction(tx => tx.query(`SELECT 1 AS one FROM ${table}`))
      return rows.length
    },
  }
}

const rules: Record<string, (under: Awaited<ReturnType<typeof underTest>>) => Promise<void>> = {
  'ended deliveries are removed, and not their events': async ({ storage, merchantId, ...under }) => {
    const endpoint = await under.endpoint()
    const events = [await under.tell(), await under.tell(), await under.tell(), await under.tell()]
    const [first, second, third] = await under.claim()
    assert.ok(first && second && third)
    await storage.transaction(tx => markDelivered(tx, first, nowMs))
    await storage.transaction(tx => markDelivered(tx, second, nowMs + dayMs))
    await storage.transaction(tx => giveUpDelivery(tx, third, { error: 'no', atMs: nowMs }))
    assert.equal(await under.prune('webhook deliveries', nowMs - 1), 0)
    assert.equal(await under.prune('webhook deliveries', nowMs), 2)
    assert.equal(await under.count('webhook_deliveries'), 2)
    const log = await storage.transaction(tx => listWebhookEvents(tx, merchantId, { limit: 9 }))
    assert.deepEqual('items' in log && log.items.map(({ id }) => id).sort(), [...events].sort())
    // An event can be delivered again although its deliveries were deleted.
    await storage.transaction(tx => deliverAgain(tx, endpoint, first.eventId, nowMs))
    assert.ok((await under.claim()).some(({ eventId }) => eventId === first.eventId))
  },

  'deliveries to an endpoint that was disabled long ago are removed, and a deleted endpoint': async under => {
    const { storage } = under
    // Earlier than the deletions of all other tests.
    const longAgoMs = nowMs - 100 * dayMs
    const [gone, off, on] = [await under.endpoint(), await under.endpoint(), await under.endpoint()]
    await under.tell()
    await storage.transaction(tx => disableWebhookEndpoint(tx, off, longAgoMs + dayMs))
    await storage.transaction(tx => deleteWebhookEndpoint(tx, gone, longAgoMs))
    assert.equal(await under.prune('deleted webhook endpoints', longAgoMs), 0)
    assert.equal(await under.prune('webhook deliveries to disabled endpoints', longAgoMs), 1)
    assert.equal(await under.prune('deleted webhook endpoints', longAgoMs), 1)
    assert.equal(await under.prune('webhook deliveries to disabled endpoints', longAgoMs + dayMs), 1)
    assert.equal(await under.prune('deleted webhook endpoints', longAgoMs + dayMs), 0)
    assert.deepEqual(
      (await under.claim()).map(({ endpointId }) => endpointId),
      [on],
    )
  },

  'mail that was sent is removed in parts': async ({ storage, ...under }) => {
    const ids = [someId(), someId(), someId(), someId()]
    for (const id of ids) {
      const mail = { id, createdMs: nowMs, template: 't', recipient: 'a@example.org', content: {} }
      await storage.transaction(tx => insertMail(tx, mail))
    }
    for (const id of ids.slice(1)) await storage.transaction(tx => markMailSent(tx, id, nowMs))
    assert.deepEqual([await under.prune('mails', nowMs, 2), await under.prune('mails', nowMs, 2)], [2, 1])
    assert.equal(await under.count('mails'), 1)
  },

  'old events are removed in parts, once none of their deliveries waits': async ({
    merchantId,
    ...under
  }) => {
    const { storage } = under
    const longAgoMs = nowMs - 1_000 * dayMs
    const times = [longAgoMs - 2, longAgoMs - 1, longAgoMs, longAgoMs + 1]
    const events: string[] = []
    for (const atMs of times) events.push(await under.tell(atMs))
    await under.endpoint()
    const waiting = await under.tell(longAgoMs)
    assert.deepEqual(
      [await under.prune('events', longAgoMs, 2), await under.prune('events', longAgoMs, 2)],
      [2, 1],
    )
    const left = await storage.transaction(tx => listWebhookEvents(tx, merchantId, { limit: 9 }))
    assert.deepEqual('items' in left && left.items.map(({ id }) => id), [waiting, events[3]])
    const [delivery] = await under.claim()
    assert.equal(delivery?.eventId, waiting)
    await storage.transaction(tx => markDelivered(tx, delivery, nowMs - 900 * dayMs))
    await under.prune('webhook deliveries', nowMs - 900 * dayMs)
    assert.equal(await under.prune('events', longAgoMs), 1)
  },

  'acknowledged events of the test processor are removed': async ({ storage, ...under }) => {
    const journal = createStoredJournal(storage)
    const fraud = (id: string) =>
      ({ id, kind: 'fraud', reference: 'r', occurredMs: nowMs, reason: null }) as const
    const [told, untold] = [someId(), someId()]
    await journal.append([told, untold].map(id => ({ dueMs: nowMs, event: fraud(id) })))
    await journal.remove([told])
    assert.equal(await under.prune('events of the test processor', nowMs), 1)
    assert.deepEqual(
      (await journal.due(nowMs, 100)).map(({ id }) => id).filter(id => id === told || id === untold),
      [untold],
    )
    await journal.remove([untold])
  },
}
