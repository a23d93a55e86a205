import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ShadowFeed, startShadowProcess } from './shadow-feed.ts'

async function start(t: TestContext) {
  const child = startShadowProcess({
    candidate: { name: 'candidate', host: '127.0.0.1', port: 1, tls: undefined },
    sharedCounters: false,
    timeoutMs: 100,
    compared: { remaining: false, reset: false },
  })
  t.after(() => child.kill('SIGKILL'))
  const defects: string[] = []
  const feed = await ShadowFeed.start(child, error => defects.push(`${error}`))
  return { child, feed, defects }
}

/** Returns the preface of HTTP/2 and frames without an effect. */
function emptySettings(mebi: number): Uint8Array {
  const bytes = Buffer.alloc(mebi * 1024 * 1024)
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  preface.copy(bytes)
  const frame = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
  for (let at = preface.length; at + frame.length <= bytes.length; at += frame.length) frame.copy(bytes, at)
  return bytes
}

const mebibytes = (count: number) => new Uint8Array(count * 1024 * 1024)

test('the report counts the bytes that a connection forwards after they exceed the memory', async t => {
  const { feed, defects } = await start(t)
  const [full, other] = [feed.open(), feed.open()]
  // All calls are in one turn of the event loop, so that no byte counts as read by the process in between.
  full.add('request', emptySettings(32))
  full.add('request', mebibytes(1))
  full.add('answer', mebibytes(2))
  other.add('request', new Uint8Array(1))
  other.add('answer', new Uint8Array(2))
  assert.equal(defects.length, 2)
  assert.match(defects[0] ?? '', /^compare calls of a connection: stopped, 33554432 bytes wait/)
  full.end()
  const { unread } = await feed.report()
  assert.deepEqual(unread, { connections: 2, bytes: 3 * 1024 * 1024 + 3, calls: 0 })
})

test('the report counts the bytes of a connection that is not HTTP/2', async t => {
  const { feed, defects } = await start(t)
  const connection = feed.open()
  connection.add('request', Buffer.from('GET / HTTP/1.1\r\nHost: shop\r\n\r\n'))
  connection.add('request', Buffer.from('more'))
  connection.end()
  const { unread } = await feed.close(0)
  assert.deepEqual(unread, { connections: 1, bytes: 34, calls: 0 })
  assert.equal(defects.length, 1)
})

test('the end of the process rejects pending reports, and connections stay open', async t => {
  const { child, feed, defects } = await start(t)
  const connection = feed.open()
  child.kill('SIGKILL')
  await assert.rejects(
    feed.report(),
    /^Error: the comparison has failed: its process has ended with SIGKILL$/,
  )
  connection.add('request', new Uint8Array(1))
  connection.end()
  await assert.rejects(feed.report(), /the comparison has failed/)
  await assert.rejects(feed.close(1_000), /the comparison has failed/)
  assert.deepEqual(defects, [
    'the comparison has failed: its process has ended with SIGKILL; calls still go to the reference',
  ])
})
