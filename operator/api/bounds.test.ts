import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { waitFor } from '../../test/support/wait-for.ts'
import { serveApi } from '../testing/serve-api.ts'
import * as examples from './examples.ts'
import type { ResourceList, WhatIfAnswer } from './shapes.ts'

const itemsOf = (count: number) => Array.from({ length: count }, (_, index) => index)

test('the longest value is read and reset, also if each of its characters needs an escape', async t => {
  const { ask, post } = await serveApi(t)
  for (const character of ['x', '\u0001']) {
    const value = character.repeat(65_536)
    const entries = [{ key: 'user', value }]
    assert.equal((await post('/counters/reset', { domain: 'checkout', entries })).status, 200)
    const { status, body } = await ask(
      `/counters?domain=checkout&descriptor=user=${encodeURIComponent(value)}`,
    )
    assert.deepEqual([status, body.value, body.entries[0]?.value === value], [200, 0, true])
  }
})

test('rules of a what-if beyond 10,000 are counted', async t => {
  const { post, pods } = await serveApi(t)
  const hits = { allowed: 1, refused: 0, refusedAtLeast: 0, refusedAtMost: 0 }
  const now = itemsOf(10_003).map(index => ({ rule: `r${index}`, ...hits }))
  pods.whatIf = async function* () {
    const none = { recordedCalls: 1, calls: 1, share: 1, pods: 1, missing: [], started: [] }
    const coverage = { ...none, resolutionMs: 1, clocksMs: 0 }
    yield { kind: 'result', result: { now, proposed: [], keys: [], coverage } }
  }
  const { rules, unlistedRules } = (await post('/whatif', examples.whatIfBodyExample))
    .body as unknown as WhatIfAnswer
  assert.deepEqual([rules.length, unlistedRules], [10_000, 3])
})

test('pods beyond the first 1,000 are counted, and only the first page of resources has pods', async t => {
  const { ask, pods } = await serveApi(t)
  const [pod] = (await pods.pods()).items
  assert.ok(pod)
  pods.pods = async ({ after = '0' } = {}) => {
    const from = Number(after)
    const items = itemsOf(1_000).map(index => ({ ...pod, pod: `pod-${from + index}` }))
    return from === 2_000 ? { items: items.slice(0, 5) } : { items, next: `${from + 1_000}` }
  }
  const list = async (query: string) => {
    const { body } = await ask(`/resources${query}`)
    const { pods, unlistedPods } = body as unknown as ResourceList
    return [pods.length, unlistedPods, body.next]
  }
  assert.deepEqual(await list('?limit=1'), [1_000, 1_005, 'bank/loans'])
  assert.deepEqual(await list('?limit=1&after=bank/loans'), [0, 0, undefined])
})

test('a body of more than 10 MB is rejected with 413, with or without its length', async t => {
  const { post, url } = await serveApi(t)
  const large = { ...examples.whatIfBodyExample, pad: 'x'.repeat(10 * 1024 * 1024) }
  const { status, body: answer } = await post('/whatif', large)
  assert.equal(status, 413)
  assert.match(answer.error.message, /^the body is larger than \d{8} bytes$/)
  const body = new Blob([JSON.stringify(large)]).stream()
  const headers = { 'content-type': 'application/json' }
  const sent = await fetch(`${url}/whatif`, { method: 'POST', body, headers, duplex: 'half' } as RequestInit)
  assert.equal(sent.status, 413)
})

test('invalid bytes end a stream, and are answered with 400 after a complete answer', async t => {
  const { url } = await serveApi(t)
  const { hostname, port, pathname } = new URL(url)
  const send = async (path: string, until: string) => {
    const socket = connect(Number(port), hostname).setEncoding('utf8')
    let heard = ''
    socket.on('data', piece => (heard += piece))
    socket.on('error', () => {})
    socket.write(`GET ${pathname}${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    await waitFor('the answer', () => heard.includes(until))
    const closed = once(socket, 'close')
    socket.write('garbage\r\n\r\n')
    await closed
    return heard.match(/^HTTP\/1\.1 \d+|HTTP\/1\.1 400/gm)
  }
  assert.deepEqual(await send('/tap?domain=checkout', 'text/event-stream'), ['HTTP/1.1 200'])
  assert.deepEqual(await send('/openapi.json', '"openapi"'), ['HTTP/1.1 200', 'HTTP/1.1 400'])
})
