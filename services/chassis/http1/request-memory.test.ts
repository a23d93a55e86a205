import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RequestMemory } from '../request-memory.ts'
import { startServer, until } from './testing/start-server.ts'

const maxBytes = 1024 * 1024
const unfinished: readonly (readonly [string, string, string])[] = [
  ['bodies', `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20001\r\n\r\n${'x'.repeat(20_000)}`, 'x'],
  [
    'bodies in chunks',
    `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4e20\r\n${'x'.repeat(19_999)}`,
    'x\r\n0\r\n\r\n',
  ],
  ['heads', `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(10_000)}`, '\r\n\r\n'],
]

for (const [what, begin, end] of unfinished) {
  test(`unfinished ${what} beyond the limit get 503, the newest first; the oldest is answered`, async t => {
    const memory = new RequestMemory(maxBytes)
    const { connect } = await startServer(t, { memory })
    const oldest = connect()
    oldest.send(begin)
    await until(() => memory.bytes > 0)
    let refused = 0
    while (refused === 0) {
      const client = connect()
      client.send(begin)
      const before = memory.bytes
      await until(() => memory.bytes > before || client.ended())
      assert.ok(memory.bytes <= maxBytes)
      if (client.ended()) {
        assert.match(client.received(), /^HTTP\/1.1 503 Service Unavailable\r\n/)
        refused += 1
      }
    }
    const short = connect()
    short.send('GET / HTTP/1.1\r\nHost: x\r\n')
    short.send('\r\n')
    assert.match((await short.answers(1))[0]?.head ?? '', /200 OK/)
    oldest.send(end)
    assert.match((await oldest.answers(1))[0]?.head ?? '', /200 OK/)
  })
}
