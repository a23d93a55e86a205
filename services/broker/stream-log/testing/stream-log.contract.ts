import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { AnimationIds } from '../../wire/animation-ids.ts'
import { LogRejection, logEntryOverheadBytes, type StreamLog } from '../stream-log.ts'
import { endReportTests } from './end.contract.ts'
import { appendUntilFull, type Collected, collect, createOpening, toBytes, toText } from './log-under-test.ts'
import { resumeTests } from './resume.contract.ts'

/** Two logs that share their requests, like those of two processes. In memory both are the same log. */
export interface OpenedLogs {
  readonly producers: StreamLog
  readonly consumers: StreamLog
}

/**
 * Registers the tests that each implementation of `StreamLog` must pass.
 *
 * @param open called once per test, with an empty store; the logs are closed after the test
 * @param skip the reason to skip the whole suite, or false
 */
export function streamLogContract(
  name: string,
  open: (t: TestContext, options?: { readonly maxKeptBytes: number }) => Promise<OpenedLogs>,
  skip: string | false = false,
): void {
  describe(`${name} as a stream log`, { skip }, () => {
    const tests = {
      ...readingTests,
      ...boundTests,
      ...watchTests,
      ...endTests,
      ...endReportTests,
      ...resumeTests,
    }
    const groups = [
      { tests, options: undefined },
      { tests: budgetTests, options: { maxKeptBytes } },
    ]
    for (const { tests, options } of groups) {
      for (const [rule, run] of Object.entries(tests)) {
        test(rule, async t => {
          const logs = await open(t, options)
          t.after(() => Promise.all([logs.producers.close(), logs.consumers.close()]))
          await run(logs)
        })
      }
    }
  })
}

export type ContractTest = (logs: OpenedLogs) => Promise<void>

const success = { how: 'completed' } as const
const lost = { how: 'lost', status: { code: 'ERROR', message: 'the producer is gone' } } as const

/** Reads the first request that matches these ids. */
export async function follow(log: StreamLog, wanted: Partial<AnimationIds>): Promise<Collected> {
  const ids = { requestId: '', streamId: '', targetObjectId: '', ...wanted }
  return await collect(await firstRequest(log, ids))
}

function firstRequest(log: StreamLog, ids: AnimationIds) {
  const requests: Parameters<Parameters<StreamLog['watch']>[1]>[0][] = []
  const stop = log.watch(ids, request => requests.push(request))
  return waitFor('a request to be reported', () => requests[0]).finally(stop)
}

export const until = (reader: Collected, texts: readonly string[]) =>
  waitFor(
    `${texts.join(' ')}, got ${reader.texts.join(' ')}`,
    () => reader.texts.length >= texts.length,
  ).then(() => assert.deepEqual(reader.texts, texts))

export async function findRejectionReason(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => 'no rejection',
    (reason: unknown) => reason,
  )
  return error instanceof LogRejection ? error.reason : String(error)
}

const readingTests: Record<string, ContractTest> = {
  'each reader gets the appended entries in order, as the same bytes': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening('r1'))
    const early = await follow(consumers, { streamId: 's' })
    for (const text of ['a', '', 'ä\u0000\r\n', 'x'.repeat(100_000)]) writer.append(toBytes(text))
    const texts = ['header', 'a', '', 'ä\u0000\r\n', 'x'.repeat(100_000)]
    await until(early, texts)
    const late = await follow(consumers, { requestId: 'r1' })
    await until(late, texts)
    assert.deepEqual(early.positions, [0, 1, 2, 3, 4])
    assert.equal(early.cursor.position, 5)
    assert.equal(late.cursor.end, undefined)
    await writer.end(success)
    await waitFor('the end', () => early.cursor.end && late.cursor.end)
    assert.deepEqual([early.cursor.end, late.cursor.end], [success, success])
    assert.deepEqual([early.cursor.takeGap(), late.cursor.takeGap()], [0, 0])
  },

  'a request has the ids and the trace of its opening': async ({ producers, consumers }) => {
    const opening = {
      ...createOpening('r1'),
      traceparent: 'trace',
      sourceServiceId: 'a2f',
      route: 'ns/route',
    }
    const writer = await producers.open(opening)
    const request = await firstRequest(consumers, opening.ids)
    const { ids, traceparent, sourceServiceId, route, ended, key } = request
    assert.deepEqual(
      { ids, traceparent, sourceServiceId, route, ended },
      {
        ids: opening.ids,
        traceparent: 'trace',
        sourceServiceId: 'a2f',
        route: 'ns/route',
        ended: false,
      },
    )
    assert.equal(key, writer.request.key)
    assert.ok(Math.abs(request.openedMs - Date.now()) < 60_000)
  },

  'a cursor moves to any kept position': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening('r1'))
    for (const text of ['a', 'b', 'c', 'd']) writer.append(toBytes(text))
    const reader = await follow(consumers, { streamId: 's' })
    await until(reader, ['header', 'a', 'b', 'c', 'd'])
    const { cursor } = reader
    const readFrom = (to: Parameters<typeof cursor.seek>[0]) => {
      cursor.seek(to)
      const texts: string[] = []
      for (let entry = cursor.next(); entry; entry = cursor.next()) texts.push(toText(entry.bytes))
      return texts.join(' ')
    }
    assert.equal(readFrom('oldest'), 'a b c d')
    assert.equal(readFrom('newest'), '')
    assert.equal(readFrom(0), 'header a b c d')
    assert.equal(readFrom(3), 'c d')
    assert.equal(readFrom(99), '')
    assert.equal(readFrom({ lastMs: 60_000 }), 'a b c d')
    cursor.seek(3)
    assert.deepEqual(cursor.behind, { entries: 2, bytes: 2 + 2 * logEntryOverheadBytes })
    assert.equal(cursor.takeGap(), 0)
  },

  'a cursor beyond the newest entry continues at its position': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening('r1'))
    for (const text of ['a', 'b']) writer.append(toBytes(text))
    const reader = await follow(consumers, { streamId: 's' })
    await until(reader, ['header', 'a', 'b'])
    const other = await (await firstRequest(consumers, writer.request.ids)).read({ onReadable() {} })
    other.seek(5)
    assert.equal(other.next(), undefined)
    assert.deepEqual(other.behind, { entries: 0, bytes: 0 })
    for (const text of ['c', 'd', 'e', 'f']) writer.append(toBytes(text))
    await until(reader, ['header', 'a', 'b', 'c', 'd', 'e', 'f'])
    assert.deepEqual([other.next()?.position, other.next()?.position, other.next()], [5, 6, undefined])
    assert.equal(other.takeGap(), 0)
    other.seek(99)
    await writer.end(success)
    assert.deepEqual(await waitFor('the end', () => other.end), success)
    other.seek('last')
    assert.equal(other.next()?.position, 6)
  },

  'a closed cursor returns no more entries': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening('r1'))
    const reader = await follow(consumers, { streamId: 's' })
    const other = await follow(consumers, { streamId: 's' })
    reader.cursor.close()
    writer.append(toBytes('a'))
    await until(other, ['header', 'a'])
    assert.deepEqual(reader.texts, ['header'])
    assert.equal(reader.cursor.next(), undefined)
  },
}

const createEntry = (bytes: number) => toBytes('x'.repeat(bytes - logEntryOverheadBytes))

const boundTests: Record<string, ContractTest> = {
  'the oldest entries are dropped, and slow cursors report their number as a gap': async logs => {
    const writer = await logs.producers.open(createOpening('r1', { bytes: 4000, whenFull: 'trim' }))
    const stalled = await (await firstRequest(logs.consumers, writer.request.ids)).read({ onReadable() {} })
    const reader = await follow(logs.consumers, { streamId: 's' })
    for (let count = 0; count < 10; count += 1) assert.equal(writer.append(createEntry(1000)), true)
    await waitFor('the last entry', () => reader.cursor.position === 11)
    assert.equal(stalled.next()?.position, 0)
    const first = await waitFor('an entry', () => stalled.next())
    assert.equal(stalled.takeGap(), first.position - 1)
    assert.ok(first.position >= 7, `the first entry that is kept is ${first.position}`)
    assert.equal(stalled.takeGap(), 0)
    assert.equal(stalled.next()?.position, first.position + 1)
  },

  'a ring always has room for one entry': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening('r1', { bytes: 10, whenFull: 'trim' }))
    const reader = await follow(consumers, { streamId: 's' })
    writer.append(toBytes('x'.repeat(5000)))
    await until(reader, ['header', 'x'.repeat(5000)])
    assert.equal(reader.cursor.takeGap(), 0)
  },

  'a producer waits for the slowest reader, and continues when that has read': async logs => {
    const writer = await logs.producers.open(createOpening('r1', { bytes: 4000, whenFull: 'wait' }))
    const slow = await (await firstRequest(logs.consumers, writer.request.ids)).read({ onReadable() {} })
    const fast = await follow(logs.consumers, { streamId: 's' })
    const total = await appendUntilFull(writer, createEntry(1000))
    await waitFor('the fast one', () => fast.positions.length === total + 1)
    let isReady = false
    const ready = writer.ready().then(() => {
      isReady = true
    })
    assert.equal(slow.next()?.position, 0)
    assert.equal(isReady, false)
    const taken: number[] = []
    while (!isReady && taken.length < total) {
      const entry = await waitFor('an entry', () => slow.next())
      taken.push(entry.position)
      await new Promise(resolve => setTimeout(resolve, 1))
    }
    await Promise.race([ready, waitFor('room', () => isReady)])
    assert.equal(slow.takeGap(), 0)
    assert.deepEqual(
      taken,
      taken.map((_, index) => index + 1),
    )
  },

  'a waiting reader holds no entry, and has a gap of those that were dropped': async logs => {
    const writer = await logs.producers.open(createOpening('r1', { bytes: 4000, whenFull: 'wait' }))
    const request = await firstRequest(logs.consumers, writer.request.ids)
    const waiting = await request.read({ onReadable() {}, waiting: true })
    assert.equal(waiting.next()?.position, 0)
    const reader = await follow(logs.consumers, { streamId: 's' })
    for (let count = 1; count <= 30; count += 1) {
      if (!writer.append(createEntry(1000))) await writer.ready()
      await waitFor('the reader', () => reader.positions.length === count + 1)
    }
    waiting.hold()
    const first = await waitFor('an entry', () => waiting.next())
    assert.ok(first.position >= 26, `the first entry that is kept is ${first.position}`)
    assert.equal(waiting.takeGap(), first.position - 1)
    await appendUntilFull(writer, createEntry(1000))
    const position = first.position + 1
    assert.equal(waiting.next()?.position, position)
    assert.equal(waiting.takeGap(), 0)
  },

  'a waiting reader gets the last entry and the end of a forgotten request': async logs => {
    const writer = await logs.producers.open(createOpening('r1', { keepMs: 1500 }))
    const request = await firstRequest(logs.consumers, writer.request.ids)
    const waiting = await request.read({ onReadable() {}, waiting: true })
    for (const text of ['a', 'b', 'c']) writer.append(toBytes(text))
    await waitFor('the entries', () => waiting.behind.entries === 3)
    await writer.end(success)
    await waitFor('it to be forgotten', () => logs.consumers.list().length === 0)
    await waitFor('its entries to be dropped', () => waiting.behind.entries === 1)
    waiting.hold()
    assert.equal(waiting.next()?.position, 0)
    assert.equal(toText((await waitFor('an entry', () => waiting.next())).bytes), 'c')
    assert.equal(waiting.takeGap(), 2)
    assert.deepEqual(waiting.end, success)
  },

  'a producer does not wait for closed readers, or without readers': async logs => {
    const writer = await logs.producers.open(createOpening('r1', { bytes: 4000, whenFull: 'wait' }))
    for (let count = 0; count < 10; count += 1) {
      if (!writer.append(createEntry(1000))) await writer.ready()
    }
    const slow = await (await firstRequest(logs.consumers, writer.request.ids)).read({ onReadable() {} })
    slow.next()
    await appendUntilFull(writer, createEntry(1000))
    slow.close()
    await writer.ready()
  },
}

/** The limit of a log in the tests of the budget. */
const maxKeptBytes = 100_000

const budgetTests: Record<string, ContractTest> = {
  'consumers that keep up have no gap beyond the limit of all requests': async logs => {
    const names = Array.from({ length: 20 }, (_, index) => `r${index}`)
    const writers = await Promise.all(names.map(name => logs.producers.open(createOpening(name))))
    const readers = await Promise.all(names.map(requestId => follow(logs.consumers, { requestId })))
    for (let count = 1; count <= 60; count += 1) {
      for (const writer of writers) if (!writer.append(createEntry(1000))) await writer.ready()
      await waitFor('the readers', () => readers.every(({ texts }) => texts.length === count + 1))
    }
    assert.deepEqual(new Set(readers.map(({ cursor }) => cursor.takeGap())), new Set([0]))
    const late = await follow(logs.consumers, { requestId: 'r0' })
    assert.ok(late.texts.length < 30, `a late reader finds ${late.texts.length} messages`)
  },

  'a request with slow readers gets its share of the limit, and the others continue': async logs => {
    const limits = { whenFull: 'wait' } as const
    const [slow, fast] = [
      await logs.producers.open(createOpening('slow', limits)),
      await logs.producers.open(createOpening('fast', limits)),
    ]
    const stalled = await firstRequest(logs.consumers, slow.request.ids)
    const cursor = await stalled.read({ onReadable() {} })
    const reader = await follow(logs.consumers, { requestId: 'fast' })
    const appended = await appendUntilFull(slow, createEntry(1000), 10)
    assert.ok(appended >= 50 && appended <= 250, `${appended} were appended`)
    for (let count = 1; count <= 150; count += 1) {
      if (!fast.append(createEntry(1000))) await fast.ready()
      if (count % 20 === 0) await waitFor('the reader', () => reader.texts.length === count + 1)
    }
    await fast.end(success)
    await waitFor('the end', () => reader.cursor.end)
    assert.equal(reader.texts.length, 151)
    const positions: number[] = []
    await waitFor('all of the slow one', () => {
      for (let entry = cursor.next(); entry; entry = cursor.next()) positions.push(entry.position)
      return positions.length === appended + 1
    })
    assert.equal(cursor.takeGap(), 0)
    await slow.ready()
  },

  'the oldest ended requests are forgotten beyond their limit': async logs => {
    for (const requestId of ['r1', 'r2', 'r3', 'r4']) {
      const writer = await logs.producers.open(createOpening(requestId))
      for (let count = 0; count < 20; count += 1) {
        if (!writer.append(createEntry(1000))) await writer.ready()
      }
      await writer.end(success)
    }
    const left = () => logs.producers.list().map(({ ids }) => ids.requestId)
    await waitFor('the oldest to be forgotten', () => left().length <= 2)
    assert.ok(left().includes('r4'))
    assert.equal(await findRejectionReason(waitForGone(logs.consumers)), 'expired')
  },
}

/** Reads the oldest request repeatedly, until none of its entries is kept. */
async function waitForGone(log: StreamLog): Promise<void> {
  const known = new Map(log.list().map(request => [request.ids.requestId, request]))
  const oldest = known.get('r1')
  if (oldest === undefined) throw new LogRejection('expired', 'it is not in the list')
  for (;;) {
    const cursor = await oldest.read({ onReadable() {} })
    cursor.close()
  }
}

const watchTests: Record<string, ContractTest> = {
  'matching requests are reported to watchers once each, the oldest first': async ({
    producers,
    consumers,
  }) => {
    const all: string[] = []
    const some: string[] = []
    await producers.open(createOpening('r1'))
    await producers.open(createOpening('r2'))
    const none = { requestId: '', targetObjectId: '' }
    const stop = consumers.watch({ ...none, streamId: 's' }, ({ ids }) => all.push(ids.requestId))
    consumers.watch({ ...none, streamId: 's', requestId: 'r3' }, ({ ids }) => some.push(ids.requestId))
    await waitFor('two requests', () => all.length === 2)
    await producers.open(createOpening('r3'))
    await waitFor('the third', () => all.length === 3 && some.length === 1)
    stop()
    await producers.open(createOpening('r4'))
    await waitFor('four in the list', () => consumers.list().length === 4)
    assert.deepEqual(all, ['r1', 'r2', 'r3'])
    assert.deepEqual(some, ['r3'])
    const listed = consumers.list().map(({ ids }) => ids.requestId)
    assert.deepEqual(listed, ['r1', 'r2', 'r3', 'r4'])
  },

  'a request has one producer at a time; the next push of its ids is another request': async logs => {
    const [one, two] = [logs.producers, logs.consumers]
    const writer = await one.open(createOpening('r1'))
    assert.equal(await findRejectionReason(two.open(createOpening('r1'))), 'exists')
    assert.equal(await findRejectionReason(one.open(createOpening('r1'))), 'exists')
    await two.open({ ...createOpening('r1'), ids: { ...writer.request.ids, targetObjectId: 'other' } })
    await writer.end(success)
    const again = await waitFor('the ids to be free', () => two.open(createOpening('r1')))
    assert.notEqual(again.request.key, writer.request.key)
  },

  'an ended request is kept for a while, and can be read completely': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening('r1', { keepMs: 1500 }))
    writer.append(toBytes('a'))
    await writer.end(lost)
    const reader = await follow(consumers, { streamId: 's' })
    await until(reader, ['header', 'a'])
    assert.deepEqual(await waitFor('the end', () => reader.cursor.end), lost)
    const [request] = consumers.list()
    assert.equal(request?.ended, true)
    await waitFor('it to be forgotten', () => consumers.list().length === 0)
    assert.equal(await findRejectionReason(request.read({ onReadable() {} })), 'expired')
  },
}

const endTests: Record<string, ContractTest> = {
  'readers get each entry that was appended before the end': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening('r1'))
    const reader = await follow(consumers, { streamId: 's' })
    for (let count = 0; count < 100; count += 1) writer.append(toBytes(`${count}`))
    await writer.end(lost)
    await waitFor('the end', () => reader.cursor.end)
    assert.equal(reader.texts.length, 101)
  },

  'an interruption ends the request for its producer and its readers, and rejects later pushes of it':
    async logs => {
      const writer = await logs.producers.open(createOpening('r1'))
      const other = await logs.producers.open(createOpening('r2'))
      const reader = await follow(logs.consumers, { requestId: 'r1' })
      const ends: string[] = []
      writer.onEnded(({ how }) => ends.push(how))
      await waitFor('the request to be known', () => logs.consumers.list().length === 2)
      assert.equal(await logs.consumers.interrupt('s', 'r1'), 1)
      const end = await waitFor('the end', () => reader.cursor.end)
      assert.deepEqual(end, { how: 'interrupted', status: { code: 'INFO', message: 'interrupted' } })
      await waitFor('the producer to know', () => writer.endedBy)
      assert.deepEqual(ends, ['interrupted'])
      writer.append(toBytes('late'))
      await writer.ready()
      assert.equal(await findRejectionReason(logs.producers.open(createOpening('r1'))), 'interrupted')
      assert.equal(other.endedBy, undefined)
      assert.deepEqual(reader.texts, ['header'])
      assert.equal(await logs.consumers.interrupt('s', 'r1'), 0)
      assert.equal(await logs.consumers.interrupt('none', ''), 0)
    },

  'a producer that waits for room is notified of the end': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening('r1', { bytes: 4000, whenFull: 'wait' }))
    const slow = await (await firstRequest(consumers, writer.request.ids)).read({ onReadable() {} })
    slow.next()
    await appendUntilFull(writer, createEntry(1000))
    const ready = writer.ready()
    await consumers.interrupt('s', 'r1')
    await ready
    await waitFor('the end', () => writer.endedBy)
  },

  'a whole stream can be interrupted, and its next requests are accepted': async logs => {
    const writers = [
      await logs.producers.open(createOpening('r1')),
      await logs.producers.open(createOpening('r2')),
    ]
    await waitFor('the requests to be known', () => logs.consumers.list().length === 2)
    assert.equal(await logs.consumers.interrupt('s', ''), 2)
    await waitFor('both ends', () => writers.every(writer => writer.endedBy?.how === 'interrupted'))
    assert.equal(await findRejectionReason(logs.producers.open(createOpening('r2'))), 'interrupted')
    await logs.producers.open(createOpening('r3'))
  },

  'a request without an id is never rejected after an interruption': async ({ producers, consumers }) => {
    const writer = await producers.open(createOpening(''))
    await waitFor('the request to be known', () => consumers.list().length === 1)
    assert.equal(await consumers.interrupt('s', ''), 1)
    await waitFor('the end', () => writer.endedBy?.how === 'interrupted')
    await producers.open(createOpening(''))
  },

  'a request without a stream id can be interrupted': async ({ producers, consumers }) => {
    const ids = { ...createOpening('r1').ids, streamId: '' }
    const writer = await producers.open({ ...createOpening('r1'), ids })
    const other = await producers.open(createOpening('r1'))
    await waitFor('the requests to be known', () => consumers.list().length === 2)
    assert.equal(await consumers.interrupt('', 'r1'), 1)
    await waitFor('the end', () => writer.endedBy?.how === 'interrupted')
    assert.equal(await findRejectionReason(producers.open({ ...createOpening('r1'), ids })), 'interrupted')
    assert.equal(other.endedBy, undefined)
  },

  'a request can be interrupted before it begins': async ({ producers, consumers }) => {
    assert.equal(await consumers.interrupt('s', 'r1'), 0)
    assert.equal(await findRejectionReason(producers.open(createOpening('r1'))), 'interrupted')
    await producers.open(createOpening('r2'))
  },

  'requests of a log that closes end with an error, and it accepts no more': async logs => {
    const writer = await logs.producers.open(createOpening('r1'))
    const reader = await follow(logs.consumers, { streamId: 's' })
    writer.append(toBytes('a'))
    await logs.producers.close()
    const end = await waitFor('the end', () => reader.cursor.end)
    assert.deepEqual(end, { how: 'lost', status: { code: 'ERROR', message: 'shutting down' } })
    assert.deepEqual(reader.texts, ['header', 'a'])
    assert.equal(writer.endedBy?.how, 'lost')
    assert.equal(await findRejectionReason(logs.producers.open(createOpening('r2'))), 'unavailable')
    await logs.producers.close()
  },

  'a healthy log has no problem': async ({ producers }) => {
    await waitFor('health', () => producers.healthy)
    assert.equal(producers.problem, '')
  },
}
