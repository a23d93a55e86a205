import assert from 'node:assert/strict'
import { waitFor } from '../../../../test/support/wait-for.ts'
import {
  describeEnd,
  type LoggedRequest,
  type LogWriter,
  type RequestEnd,
  restartedEnd,
  type StreamLog,
} from '../stream-log.ts'
import {
  createOpening,
  createResumable,
  createResumption,
  createTokenHash,
  toBytes,
} from './log-under-test.ts'
import { type ContractTest, findRejectionReason, follow, until } from './stream-log.contract.ts'

const success = { how: 'completed' } as const
const lost: RequestEnd = { how: 'lost', status: { code: 'ERROR', message: 'the producer is gone' } }
/** A grace period that is longer than a test. */
const long = 60_000
/** A grace period whose end a test waits for. */
const short = 300

/** Appends numbered texts with their progress; the header has number 0. */
function append(writer: LogWriter, from: number, to: number): void {
  for (let number = from; number <= to; number += 1) {
    writer.append(toBytes(String(number)), { messages: number + 1 })
  }
}

const inLog = ({ key }: LoggedRequest, log: StreamLog) =>
  waitFor('the request', () => log.list().find(request => request.key === key))

const numbers = (to: number) => ['header', ...Array.from({ length: to }, (_, index) => String(index + 1))]

/** Tests of a log with a producer that continues its request with a resume token. */
export const resumeTests: Record<string, ContractTest> = {
  'a producer continues at another log, and readers get each entry once': async logs => {
    const { producers: one, consumers: two } = logs
    const old = await one.open(createResumable('r1', long))
    const readers = [await follow(one, { requestId: 'r1' }), await follow(two, { requestId: 'r1' })]
    append(old, 1, 5)
    for (const reader of readers) await until(reader, numbers(5))
    old.suspend(lost)
    const { writer, progress, header, uses } = await two.resume(createResumption(old.request))
    assert.deepEqual([progress, Buffer.from(header).toString(), uses], [{ messages: 6 }, 'header', 1])
    assert.equal(writer.request.key, old.request.key)
    await waitFor('the end of the old writer', () => old.endedBy?.how === 'continued')
    append(old, 6, 9)
    await old.ready()
    append(writer, 6, 10)
    for (const reader of readers) await until(reader, numbers(10))
    const back = await one.resume(createResumption(old.request, 1))
    assert.deepEqual([back.progress, back.uses], [{ messages: 11 }, 2])
    append(back.writer, 11, 12)
    await back.writer.end(success)
    for (const reader of readers) {
      await until(reader, numbers(12))
      assert.deepEqual(await waitFor('the end', () => reader.cursor.end), success)
      assert.equal(reader.cursor.takeGap(), 0)
    }
    const late = await follow(two, { requestId: 'r1' })
    await until(late, numbers(12))
  },

  'a producer continues before its old call has ended, and later entries of that call are ignored':
    async logs => {
      const old = await logs.producers.open(createResumable('r1', long))
      const reader = await follow(logs.producers, { requestId: 'r1' })
      append(old, 1, 3)
      await until(await follow(logs.consumers, { requestId: 'r1' }), numbers(3))
      const { writer, progress } = await logs.consumers.resume(createResumption(old.request))
      assert.deepEqual(progress, { messages: 4 })
      // The producer repeats its messages: those that the old call appends after the resumption are ignored.
      append(old, 4, 6)
      append(writer, 4, 8)
      await until(reader, numbers(8))
      await until(await follow(logs.consumers, { requestId: 'r1' }), numbers(8))
      await old.end(lost).catch(() => {})
      await writer.end(success)
      assert.deepEqual(await waitFor('the end', () => reader.cursor.end), success)
    },

  'a request waits for its producer during the grace, then it ends': async ({ producers, consumers }) => {
    const writer = await producers.open(createResumable('r1', short))
    const reader = await follow(consumers, { requestId: 'r1' })
    const ends: string[] = []
    writer.onEnded(({ how }) => ends.push(how))
    append(writer, 1, 2)
    const beganMs = performance.now()
    writer.suspend(lost)
    assert.equal(await findRejectionReason(producers.open(createOpening('r1'))), 'exists')
    assert.equal(reader.cursor.end, undefined)
    assert.deepEqual(await waitFor('the end', () => reader.cursor.end), lost)
    assert.ok(performance.now() - beganMs >= short * 0.9, 'the end came before the grace was over')
    assert.deepEqual(reader.texts, numbers(2))
    await waitFor('the end of the writer', () => ends.length > 0)
    assert.deepEqual(ends, ['lost'])
    assert.equal(await findRejectionReason(producers.resume(createResumption(writer.request))), 'ended')
    await waitFor('the end at the other log', () => consumers.list().every(({ ended }) => ended))
    assert.equal(await findRejectionReason(consumers.resume(createResumption(writer.request))), 'ended')
    await producers.open(createOpening('r1'))
  },

  'a request whose producer has returned does not end after the grace': async logs => {
    const old = await logs.producers.open(createResumable('r1', 2 * short))
    const reader = await follow(logs.consumers, { requestId: 'r1' })
    old.suspend(lost)
    const { writer } = await logs.producers.resume(createResumption(old.request))
    const other = await logs.producers.open(createResumable('r2', 2 * short))
    other.suspend(lost)
    const ends = await follow(logs.consumers, { requestId: 'r2' })
    await waitFor('the end of the one that did not', () => ends.cursor.end)
    append(writer, 1, 2)
    await until(reader, numbers(2))
    assert.equal(reader.cursor.end, undefined)
  },

  'a token of another request is rejected, and changes nothing': async ({ producers, consumers }) => {
    const writer = await producers.open(createResumable('r1', long))
    const closed = await producers.open(createOpening('r2'))
    await inLog(closed.request, consumers)
    const right = createResumption(writer.request)
    assert.equal(
      await findRejectionReason(consumers.resume({ ...right, tokenHash: createTokenHash(7) })),
      'forged',
    )
    assert.equal(await findRejectionReason(consumers.resume({ ...right, tokenHash: '' })), 'forged')
    assert.equal(
      await findRejectionReason(consumers.resume({ ...right, tokenHash: createTokenHash(7), uses: 9 })),
      'forged',
    )
    assert.equal(await findRejectionReason(consumers.resume(createResumption(closed.request))), 'forged')
    assert.equal(await findRejectionReason(consumers.resume({ ...right, run: 'none' })), 'expired')
    append(writer, 1, 2)
    await until(await follow(consumers, { requestId: 'r1' }), numbers(2))
    assert.equal(writer.endedBy, undefined)
  },

  'a token is valid once, and again until the first entry after its use': async ({
    producers,
    consumers,
  }) => {
    const { request } = await producers.open(createResumable('r1', long))
    await inLog(request, consumers)
    const first = createResumption(request)
    await producers.resume(first)
    // The response was lost with the connection, so the producer still has the previous token.
    const again = { ...first, nextTokenHash: createTokenHash(5) }
    const { writer } = await consumers.resume(again)
    assert.equal(await findRejectionReason(consumers.resume(createResumption(request, 1))), 'spent')
    append(writer, 1, 1)
    const reader = await follow(producers, { requestId: 'r1' })
    await until(reader, numbers(1))
    assert.equal(await findRejectionReason(producers.resume(first)), 'spent')
    await producers.resume({ ...first, uses: 2, tokenHash: createTokenHash(5) })
  },

  'a lost producer begins its request again at any log, with the same bearer token': async logs => {
    for (const [first, second] of [
      [logs.producers, logs.consumers],
      [logs.consumers, logs.producers],
      [logs.producers, logs.producers],
    ] as const) {
      const ends: string[] = []
      const both = [...new Set([logs.producers, logs.consumers])]
      const stops = both.map(log => log.onEnd(({ key }, end) => void ends.push(`${key} ${describeEnd(end)}`)))
      const opening = { ...createResumable('r1', long), bearerHash: 'a' }
      const old = await first.open(opening)
      const readers = [await follow(first, { requestId: 'r1' }), await follow(second, { requestId: 'r1' })]
      append(old, 1, 3)
      assert.equal(await second.endLost(opening), false)
      assert.equal(await findRejectionReason(second.open(opening)), 'exists')
      old.suspend(lost)
      assert.equal(await second.endLost({ ...opening, bearerHash: 'b' }), false)
      assert.equal(await second.endLost({ ...opening, bearerHash: '' }), false)
      assert.equal(await second.endLost(opening), true)
      const next = await second.open(opening)
      assert.notEqual(next.request.key, old.request.key)
      for (const reader of readers) {
        assert.deepEqual(await waitFor('the end', () => reader.cursor.end), restartedEnd)
        assert.deepEqual(reader.texts, numbers(3))
      }
      assert.deepEqual(ends, [`${old.request.key} ${describeEnd(restartedEnd)}`])
      assert.equal(await findRejectionReason(first.resume(createResumption(old.request))), 'ended')
      append(next, 1, 2)
      await next.end(success)
      for (const stop of stops) stop()
    }
  },

  'a producer that has continued is not lost': async ({ producers, consumers }) => {
    const opening = { ...createResumable('r1', long), bearerHash: 'a' }
    const old = await producers.open(opening)
    await inLog(old.request, consumers)
    old.suspend(lost)
    const { writer } = await consumers.resume(createResumption(old.request))
    for (const log of [producers, consumers]) assert.equal(await log.endLost(opening), false)
    writer.suspend(lost)
    const again = await producers.resume(createResumption(old.request, 1))
    for (const log of [producers, consumers]) assert.equal(await log.endLost(opening), false)
    append(again.writer, 1, 2)
    await until(await follow(consumers, { requestId: 'r1' }), numbers(2))
  },

  'only one of a continuation and a new begin at the same time succeeds': async ({
    producers,
    consumers,
  }) => {
    for (let round = 0; round < 20; round += 1) {
      const requestId = `r${round}`
      const opening = { ...createResumable(requestId, long), bearerHash: 'a' }
      const old = await producers.open(opening)
      await inLog(old.request, consumers)
      old.suspend(lost)
      const [one, two] = round % 2 === 0 ? [producers, consumers] : [consumers, producers]
      const resumed = one.resume(createResumption(old.request)).then(
        () => true,
        () => false,
      )
      const outcomes = await Promise.all([resumed, two.endLost(opening)])
      assert.deepEqual(outcomes.toSorted(), [false, true], `${outcomes} in round ${round}`)
    }
  },

  'a request can be interrupted while it waits for its producer': async ({ producers, consumers }) => {
    const writer = await producers.open(createResumable('r1', long))
    const reader = await follow(consumers, { requestId: 'r1' })
    writer.suspend(lost)
    assert.equal(await consumers.interrupt('s', 'r1'), 1)
    assert.equal((await waitFor('the end', () => reader.cursor.end)).how, 'interrupted')
    assert.equal(await findRejectionReason(consumers.resume(createResumption(writer.request))), 'ended')
  },

  'a producer that continues waits for the slowest reader at any log': async ({ producers, consumers }) => {
    const old = await producers.open(createResumable('r1', long, { bytes: 4000, whenFull: 'wait' }))
    const slow = await (await inLog(old.request, consumers)).read({ onReadable() {} })
    const slowHere = await old.request.read({ onReadable() {} })
    slow.next()
    slowHere.next()
    append(old, 1, 3)
    await waitFor('the entries', () => slow.behind.entries === 3)
    const { writer } = await consumers.resume(createResumption(old.request))
    const text = toBytes('x'.repeat(500))
    await waitFor('the producer to be held', () => !writer.append(text, {}))
    for (const cursor of [slow, slowHere]) {
      for (let position = 1; position <= 4; position += 1) {
        assert.equal((await waitFor('an entry', () => cursor.next())).position, position)
      }
    }
    await waitFor('room', () => {
      slow.next()
      slowHere.next()
      return Promise.race([writer.ready().then(() => true), Promise.resolve().then(() => false)])
    })
    assert.deepEqual([slow.takeGap(), slowHere.takeGap()], [0, 0])
  },
}
