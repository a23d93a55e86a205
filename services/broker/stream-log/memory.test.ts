import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { systemClock } from '@tollway/chassis/clock.ts'
import { MemoryLog } from './memory.ts'
import { logEntryOverheadBytes } from './stream-log.ts'
import { collect, createOpening, createResumable, toBytes } from './testing/log-under-test.ts'
import { streamLogContract } from './testing/stream-log.contract.ts'

function open(options: Partial<ConstructorParameters<typeof MemoryLog>[0]> = {}) {
  let requests = 0
  return new MemoryLog({
    clock: systemClock,
    repeat: (_everyMs, work) => {
      const timer = setInterval(work, 10)
      return () => clearInterval(timer)
    },
    newKey: () => {
      requests += 1
      return String(requests)
    },
    ...options,
  })
}

const createEntry = (bytes: number) => toBytes('x'.repeat(bytes - logEntryOverheadBytes))

streamLogContract('memory', async (_, options) => {
  const log = open(options)
  return { producers: log, consumers: log }
})

test('the oldest ended requests are forgotten if there are too many or they are too large', async t => {
  const log = open({ maxEnded: 3, maxKeptBytes: 60_000 })
  t.after(() => log.close())
  const push = async (id: string, bytes: number) => {
    const writer = await log.open(createOpening(id))
    writer.append(toBytes('x'.repeat(bytes)))
    await writer.end({ how: 'completed' })
  }
  for (const id of ['a', 'b', 'c', 'd', 'e']) await push(id, 10)
  assert.deepEqual(
    log.list().map(({ ids }) => ids.requestId),
    ['c', 'd', 'e'],
  )
  await push('f', 9300)
  assert.deepEqual(
    log.list().map(({ ids }) => ids.requestId),
    ['e', 'f'],
  )
})

test('a reader of a forgotten request continues to read', async t => {
  const log = open({ maxEnded: 0 })
  t.after(() => log.close())
  const writer = await log.open(createOpening('a'))
  writer.append(toBytes('x'))
  const cursor = await writer.request.read({ onReadable() {} })
  cursor.next()
  await writer.end({ how: 'completed' })
  assert.equal(log.list().length, 0)
  assert.equal(cursor.next()?.position, 1)
  assert.deepEqual(cursor.end, { how: 'completed' })
})

test('entries that all readers have taken are dropped first over the total limit', async t => {
  const log = open({ maxKeptBytes: 60_000 })
  t.after(() => log.close())
  const writers = await Promise.all(['a', 'b', 'c'].map(id => log.open(createOpening(id))))
  const [unread, ...read] = writers
  const stalled = await unread?.request.read({ onReadable() {} })
  stalled?.next()
  const readers = await Promise.all(read.map(({ request }) => collect(request)))
  for (let count = 0; count < 15; count += 1) unread?.append(createEntry(1000))
  for (let count = 0; count < 40; count += 1) for (const writer of read) writer.append(createEntry(1000))
  assert.deepEqual(
    readers.map(({ texts, cursor }) => [texts.length, cursor.takeGap()]),
    [
      [41, 0],
      [41, 0],
    ],
  )
  readers[1]?.cursor.seek('oldest')
  assert.ok((readers[1]?.cursor.position ?? 0) > 15)
  assert.deepEqual([stalled?.takeGap(), stalled?.next()?.position], [0, 1])
})

test('an ended request costs at most 4 KiB besides its messages, whatever its progress has been', async t => {
  const log = open({ repeat: () => () => {} })
  t.after(() => log.close())
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  const createProgress = (size: number) => ({ warnings: Array.from({ length: size }, (_, at) => ({ at })) })
  const pushAll = async (name: string, count: number) => {
    for (let at = 0; at < count; at += 1) {
      const writer = await log.open({
        ...createResumable(`${name}-${at}`, 5_000),
        progress: createProgress(100),
      })
      writer.append(toBytes('x'), createProgress(100))
      await writer.end({ how: 'completed' })
    }
  }
  const measureHeap = async () => {
    collectGarbage()
    // Array buffers are freed in another thread after a collection. The second collection waits for that.
    await new Promise(setImmediate)
    collectGarbage()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  await pushAll('first', 500)
  const before = await measureHeap()
  const count = 4_000
  await pushAll('later', count)
  const bytes = ((await measureHeap()) - before) / count
  assert.equal(log.list().length, 500 + count)
  assert.ok(bytes < 4_096, `${Math.round(bytes)} bytes a request`)
})
