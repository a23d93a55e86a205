import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { waitFor } from '../../test/support/wait-for.ts'
import { serveApi } from '../testing/serve-api.ts'

const slowReaderMs = 300

test('a client that stops reading is disconnected after a while, and its stream ends', async t => {
  const { port, pods } = await serveApi(t, { limits: { slowReaderMs } })
  const decision = {
    atMs: 0,
    pod: 'pod-a',
    rule: 'checkout.user',
    over: false,
    reason: 'r'.repeat(100_000),
    hits: 1,
    limit: 1,
    remaining: 0,
    entries: [],
  }
  let batches = 0
  let open = 0
  pods.tap = async function* (_, signal) {
    open += 1
    try {
      // This is far more than the buffers of both sockets hold, so the server has to wait.
      for (; !signal.aborted && batches < 10_000; batches++)
        yield { decisions: [decision], skipped: 0, hashed: false }
    } finally {
      open -= 1
    }
  }
  const client = connect(port, '127.0.0.1')
  t.after(() => client.destroy())
  client.write('GET /api/v1/tap?domain=checkout HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await once(client, 'readable')
  const startMs = performance.now()
  await waitFor('the stream to end at the pods', () => open === 0 && batches > 0)
  assert.ok(performance.now() - startMs >= slowReaderMs / 2, 'it ended at once')
  assert.ok(batches < 1_000, `${batches} batches were sent to a client that reads nothing`)
  let text = ''
  client.setEncoding('utf8').on('data', piece => {
    text += piece
  })
  client.on('error', () => {})
  await once(client, 'close')
  assert.doesNotMatch(text, /event: end/)
})

test('a client that reads gets all events, and their end', async t => {
  const { url, pods } = await serveApi(t, { limits: { slowReaderMs: 60_000 } })
  const batches = 200
  pods.tap = async function* () {
    const decision = {
      atMs: 0,
      pod: 'pod-a',
      rule: '',
      over: false,
      reason: 'r'.repeat(50_000),
      hits: 1,
      limit: 1,
      remaining: 0,
      entries: [],
    }
    for (let batch = 0; batch < batches; batch++) yield { decisions: [decision], skipped: 0, hashed: false }
  }
  const text = await (await fetch(`${url}/tap?domain=checkout`)).text()
  assert.equal(text.match(/event: decisions/g)?.length, batches)
  assert.match(text, /event: end\ndata: {"reason":"finished"}\n\n$/)
})

test('streams beyond the maximum are rejected, and the end of one admits another', async t => {
  const { url, pods } = await serveApi(t, { limits: { maxStreams: 2 } })
  const ends = [new AbortController(), new AbortController()]
  for (const { signal } of ends) await fetch(`${url}/series?domain=checkout`, { signal })
  const rejected = await fetch(`${url}/series?domain=checkout`)
  assert.equal(rejected.status, 429)
  assert.equal(rejected.headers.get('retry-after'), '1')
  ends[0]?.abort()
  await waitFor('the stream to end', async () => pods.open === 1)
  const again = await fetch(`${url}/series?domain=checkout`, ends[1] && { signal: ends[1].signal })
  assert.equal(again.status, 200)
  ends[1]?.abort()
})

describe('a stream ends with an event', () => {
  test('when the operator stops', async t => {
    const { url, api } = await serveApi(t)
    const response = await fetch(`${url}/series?domain=checkout`)
    api.close()
    assert.match(await response.text(), /event: end\ndata: {"reason":"stopping"}\n\n$/)
    assert.equal((await fetch(`${url}/domains`)).status, 503)
  })

  test('after the maximum duration, so that the next one checks the rights again', async t => {
    const { url } = await serveApi(t, { limits: { maxStreamMs: 50 } })
    const text = await (await fetch(`${url}/series?domain=checkout`)).text()
    assert.match(text, /^retry: 1000\n\nevent: point\n.*event: end\ndata: {"reason":"renew"}\n\n$/s)
  })
})
