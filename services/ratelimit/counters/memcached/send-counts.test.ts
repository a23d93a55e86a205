import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { systemClock } from '@tollway/chassis/clock.ts'
import { startMemcached } from '../../../../test/support/memcached-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { unreadStats } from '../backend-stats.ts'
import type { Increment } from '../batching/sum-equal-keys.ts'
import { createBreakers } from '../connections/circuit-breaker.ts'
import { createCallStats } from './call-stats.ts'
import { MemcachedConnection } from './connection.ts'
import { createCountSender } from './send-counts.ts'
import { parseServerList } from './server-list.ts'

const skip = missingProgram('memcached')

test('a read that follows increments of a dropped counter is repeated with them', { skip }, async t => {
  const server = await startMemcached()
  t.after(() => server.stop())
  const [address] = parseServerList(server.address)
  assert.ok(address)
  const connection = new MemcachedConnection({
    endpoint: address.endpoint,
    connectTimeoutMs: 10_000,
    stallTimeoutMs: 10_000,
    silenceMs: 10_000,
    clock: systemClock,
    backoff: createBackoff({ initialMs: 10, maxMs: 100, factor: 2, jitter: 0.5, random: Math.random }),
    breaker: createBreakers({ stats: unreadStats, prefix: 'test', onWarning: () => {} })('memcached'),
  })
  t.after(() => connection.close())
  await waitFor('memcached to answer', () => connection.healthy)
  const send = createCountSender(connection, systemClock, createCallStats(unreadStats))
  // This process believes that memcached has the counter.
  const touched = { expirySentSeconds: 60, incrementIndex: 0 }
  const item = (by: number): Increment => ({ key: 'k', by, expirySeconds: 60, jitterSeconds: 0, touched })
  const items = [item(0), item(5), item(0), item(2), item(0)]
  const answers = await new Promise(resolve => send(items, resolve))
  assert.deepEqual(answers, [0, 5, 5, 7, 7])
})
