import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { startFeed } from '../../services/xds-client/testing/start-feed.ts'
import { missingGoFeedServer, startGoFeedServer } from '../support/go-feed-server.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { waitByTurns, waitFor } from '../support/wait-for.ts'

const typeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

/** A policy that closes a connection at its third excess ping, as in a reported issue. */
const permits = (minTime: string) => ['-enforce', `-min-time=${minTime}`, '-permit-without-stream']

describe('a feed from a server on grpc-go and go-control-plane', { skip: missingGoFeedServer() }, () => {
  test('the default sends no ping in an hour', async t => {
    const server = await startGoFeedServer(t, permits('80s'))
    server.publish('1', 'HOUR', 10)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { warnings } = startFeed(t, server.address, { typeUrl, load: async () => [] })
    await waitByTurns('the acknowledgement', () => server.events('request')[1])
    for (let minute = 0; minute < 60; minute++) {
      t.mock.timers.tick(60_000)
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
    }
    // The requests of that hour have arrived when the server has answered this one.
    server.publish('2', 'HOUR', 10)
    await waitByTurns('the second acknowledgement', () => server.events('request')[2])
    assert.deepEqual(
      server.events().map(({ event }) => event),
      ['listening', 'connected', 'request', 'response', 'request', 'response', 'request'],
    )
    assert.deepEqual(warnings, [])
  })

  test('a server that permits fewer pings gets fewer, and the feed reconnects', async t => {
    const server = await startGoFeedServer(t, permits('350ms'))
    server.publish('1', 'HOUR', 10)
    const lines: string[] = []
    const say: Log['warn'] = (message, fields) =>
      void lines.push(`${message}: ${fields?.['reason'] ?? fields?.['text']}`)
    const keepaliveMs = 100
    startFeed(t, server.address, {
      typeUrl,
      load: async () => [],
      log: { ...silentLog, warn: say, info: say },
      keepaliveMs,
      backoff: { initialMs: 10, maxMs: 10, factor: 1, jitter: 0 },
    })
    const goaways = [await server.event('goaway', 0), await server.event('goaway', 1)]
    await waitFor('pings that are permitted', () => {
      const last = server.events('connected')[2]
      return last && server.events('ping').filter(({ atMs }) => atMs > last.atMs).length === 5
    })
    assert.equal(server.events('goaway').length, 2, 'at 400 ms the server permits the pings')
    for (const { text } of goaways) assert.equal(text, 'too_many_pings')
    for (const expected of [
      /^report library output: .* excess pings. Increasing ping interval to 200 ms/,
      /^report library output: .* excess pings. Increasing ping interval to 400 ms/,
      /^connect to management server failed: the server closed the connection with ENHANCE_YOUR_CALM$/,
    ])
      assert.ok(
        lines.some(line => expected.test(line)),
        `${expected} in ${lines.join('\n')}`,
      )
  })

  test('a fix is in force after a rejection, and rejections are paced', async t => {
    const server = await startGoFeedServer(t)
    server.publish('1', 'HOUR', 1)
    const service = await startRateLimit(t, {
      BACKEND_TYPE: 'memory',
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: server.address,
    })
    await service.serves()
    const shown = async () => (await fetch(`http://127.0.0.1:${service.debugPort}/rlconfig`)).text()
    const rejections = () => server.events('request').filter(({ text }) => text !== undefined)
    const beganMs = performance.now()
    server.publish('2', 'UNKNOWN', 2)
    await waitFor('the second rejection', () => rejections().length >= 2)
    server.publish('3', 'HOUR', 3)
    await waitFor('the fix', async () => (await shown()).includes('requests_per_unit=3,'))
    const tookMs = performance.now() - beganMs
    // The server answers each rejection with the same response at once.
    assert.ok(rejections().length <= 2 + tookMs / 500, `${rejections().length} rejections in ${tookMs} ms`)
    assert.match(service.program.output(), /^(time=\S+ level=\w+ msg=.+\n)+$/)
  })
})
