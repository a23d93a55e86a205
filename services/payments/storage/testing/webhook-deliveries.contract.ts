import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  claimDueDeliveries,
  deliverAgain,
  giveUpDelivery,
  markDelivered,
  postponeDelivery,
  retryUndelivered,
  type WebhookDelivery,
  waitingAt,
} from '../delivery/webhook-deliveries.ts'
import {
  deleteWebhookEndpoint,
  disableWebhookEndpoint,
  findWebhookEndpoint,
  insertWebhookEndpoint,
  insertWebhookEvent,
  listWebhookEndpoints,
  listWebhookEvents,
  type WebhookEvent,
} from '../delivery/webhooks.ts'
import type { Storage } from '../storage.ts'
import { nowMs, openMerchant, someId } from './payments-under-test.ts'

const leaseMs = 60_000

/** Registers the tests of events and their deliveries. The storage must be migrated. */
export function webhookDeliveriesContract(
  name: string,
  open: () => Promise<Storage>,
  skip: string | false = false,
): void {
  describe(`webhooks in ${name}`, { skip }, () => {
    let opened: Promise<Storage> | undefined
    for (const [rule, run] of Object.entries(rules)) {
      test(rule, async () => {
        opened ??= open()
        await run(await merchantUnderTest(await opened))
      })
    }
  })
}

type MerchantUnderTest = Awaited<ReturnType<typeof merchantUnderTest>>

async function merchantUnderTest(storage: Storage) {
  const { merchant } = await openMerchant(storage)
  // Gives up the deliveries of earlier tests, which would be due too.
  await storage.transaction(tx => tx.query('UPDATE webhook_deliveries SET given_up = now()'))
  return {
    storage,
    merchant,
    async endpoint(events: readonly string[] = []): Promise<string> {
      const id = someId()
      const endpoint = { id, merchantId: merchant.id, createdMs: nowMs, url: 'https://example.org', events }
      await storage.transaction(tx =>
        insertWebhookEndpoint(tx, { ...endpoint, secrets: ['s2', 's1'], disabledMs: null }),
      )
      return id
    },
    async tell(type: string, subjectId: string): Promise<WebhookEvent> {
      const event = { id: someId(), merchantId: merchant.id, createdMs: nowMs, type, subjectId, body: type }
      await storage.transaction(async tx => insertWebhookEvent(tx, event))
      return event
    },
    claim(
      atMs: number,
      options: Partial<Parameters<typeof claimDueDeliveries>[1]> = {},
    ): Promise<readonly WebhookDelivery[]> {
      const claim = { nowMs: atMs, leaseUntilMs: atMs + leaseMs, limit: 10, perEndpoint: 10, without: [] }
      return storage.transaction(tx => claimDueDeliveries(tx, { ...claim, ...options }))
    },
  }
}

const keysOf = (due: readonly WebhookDelivery[]) => due.map(one => `${one.endpointId} ${one.eventId}`).sort()

const rules: Record<string, (under: MerchantUnderTest) => Promise<void>> = {
  'events go to the endpoints that subscribe to them, and stay in the log': async ({
    storage,
    merchant,
    ...under
  }) => {
    const wide = await under.endpoint()
    const narrow = await under.endpoint(['b'])
    const first = await under.tell('a', someId())
    const second = await under.tell('b', someId())
    const expected = [`${narrow} ${second.id}`, `${wide} ${first.id}`, `${wide} ${second.id}`]
    assert.deepEqual(keysOf(await under.claim(nowMs)), expected.sort())
    const listed = await storage.transaction(tx => listWebhookEvents(tx, merchant.id, { limit: 9 }))
    assert.deepEqual(listed, { items: [second, first] })
    const ofType = await storage.transaction(tx =>
      listWebhookEvents(tx, merchant.id, { limit: 9 }, { type: 'a' }),
    )
    assert.deepEqual(ofType, { items: [first] })
  },

  'a claim has the data of an attempt, and ends with its lease': async under => {
    const endpointId = await under.endpoint()
    const { id: eventId } = await under.tell('a', someId())
    const what = { url: 'https://example.org', secrets: ['s2', 's1'], body: 'a', attempts: 1 }
    assert.deepEqual(await under.claim(nowMs), [{ endpointId, eventId, ...what }])
    assert.deepEqual(await under.claim(nowMs + leaseMs - 1), [])
    assert.deepEqual(await under.claim(nowMs + leaseMs), [{ endpointId, eventId, ...what, attempts: 2 }])
  },

  'events of one subject are delivered in order, and others do not wait': async ({ storage, ...under }) => {
    const endpointId = await under.endpoint()
    const subject = someId()
    const [first, second] = [await under.tell('a', subject), await under.tell('b', subject)]
    const other = await under.tell('c', someId())
    const due = await under.claim(nowMs)
    assert.deepEqual(keysOf(due), [`${endpointId} ${first.id}`, `${endpointId} ${other.id}`].sort())
    const tried = { endpointId, eventId: first.id, attempts: 1 }
    await storage.transaction(tx => postponeDelivery(tx, tried, { error: '500', dueMs: nowMs + 9 }))
    assert.deepEqual(await under.claim(nowMs + 8), [])
    assert.deepEqual(await storage.transaction(tx => waitingAt(tx, endpointId)), {
      count: 3n,
      lastError: '500',
    })
    const [again] = await under.claim(nowMs + 9)
    assert.deepEqual([again?.eventId, again?.attempts], [first.id, 2])
    await storage.transaction(tx => giveUpDelivery(tx, { ...tried, attempts: 2 }, { error: '', atMs: nowMs }))
    assert.deepEqual(keysOf(await under.claim(nowMs + 9)), [`${endpointId} ${second.id}`])
  },

  'the outcome of an attempt that another process has taken over is ignored': async ({
    storage,
    ...under
  }) => {
    const endpointId = await under.endpoint()
    const { id: eventId } = await under.tell('a', someId())
    await under.claim(nowMs)
    await under.claim(nowMs + leaseMs)
    const late = { endpointId, eventId, attempts: 1 }
    await storage.transaction(tx => giveUpDelivery(tx, late, { error: '500', atMs: nowMs }))
    assert.equal((await storage.transaction(tx => waitingAt(tx, endpointId))).count, 1n)
    await storage.transaction(tx => markDelivered(tx, { ...late, attempts: 2 }, nowMs))
    assert.deepEqual(await under.claim(nowMs + 9 * leaseMs), [])
  },

  'no endpoint uses all places': async under => {
    const [busy, quiet, left] = [await under.endpoint(['a']), await under.endpoint(['b']), someId()]
    for (let count = 0; count < 5; count += 1) await under.tell('a', someId())
    await under.tell('b', someId())
    const endpoints = (due: readonly WebhookDelivery[]) => due.map(one => one.endpointId).sort()
    const due = await under.claim(nowMs, { perEndpoint: 2 })
    assert.deepEqual(endpoints(due), [busy, busy, quiet].sort())
    assert.deepEqual(await under.claim(nowMs, { without: [busy, left] }), [])
    assert.deepEqual(endpoints(await under.claim(nowMs, { limit: 1 })), [busy])
  },

  'an endpoint that is disabled or deleted gets no events': async ({ storage, merchant, ...under }) => {
    const [disabled, deleted] = [await under.endpoint(), await under.endpoint()]
    await under.tell('a', someId())
    await storage.transaction(async tx => {
      await disableWebhookEndpoint(tx, disabled, nowMs + 1)
      await disableWebhookEndpoint(tx, disabled, nowMs + 2)
      await deleteWebhookEndpoint(tx, deleted, nowMs + 3)
      assert.equal((await findWebhookEndpoint(tx, disabled))?.disabledMs, nowMs + 1)
      assert.equal(await findWebhookEndpoint(tx, deleted), undefined)
      const listed = await listWebhookEndpoints(tx, merchant.id, { limit: 9 })
      assert.deepEqual('items' in listed && listed.items.map(one => one.id), [disabled])
    })
    await under.tell('a', someId())
    assert.deepEqual(await under.claim(nowMs + 9), [])
  },

  'an event that was given up or delivered can be delivered again': async ({ storage, ...under }) => {
    const endpointId = await under.endpoint(['a'])
    const [lost, done] = [await under.tell('a', someId()), await under.tell('a', someId())]
    const unwanted = await under.tell('b', someId())
    await under.claim(nowMs)
    await storage.transaction(async tx => {
      const tried = { endpointId, attempts: 1 }
      await giveUpDelivery(tx, { ...tried, eventId: lost.id }, { error: '500', atMs: nowMs })
      await markDelivered(tx, { ...tried, eventId: done.id }, nowMs)
      await retryUndelivered(tx, endpointId, nowMs)
    })
    assert.deepEqual(keysOf(await under.claim(nowMs)), [`${endpointId} ${lost.id}`])
    await storage.transaction(async tx => {
      for (const { id } of [done, unwanted]) await deliverAgain(tx, endpointId, id, nowMs)
    })
    const due = await under.claim(nowMs)
    assert.deepEqual(due.map(one => one.eventId).sort(), [done.id, unwanted.id].sort())
    assert.deepEqual(new Set(due.map(one => one.attempts)), new Set([1]))
  },
}
