import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { BrokerStats } from '../broker-stats.ts'
import { defaultRoute, type Route } from '../routes/route.ts'
import type { EndListener, LoggedRequest } from '../stream-log/stream-log.ts'
import { Notifier } from './notifier.ts'
import { accept, answerWith, createSecret, hang, startReceiver } from './testing/receiver.ts'

const loopback = new AddressPolicy([{ address: '127.0.0.1', prefix: 32 }], true)
const openedMs = Date.parse('2026-11-23T04:00:00.000Z')

function createRequest(key: string, route = 'shop/kiosk'): LoggedRequest {
  const ids = { streamId: 'kiosk-1', requestId: key, targetObjectId: 'claire' }
  const read = () => Promise.reject(new Error('nothing is read here'))
  const known = { key, ids, route, openedMs, sourceServiceId: 'a2f', traceparent: '' }
  return { ...known, ended: false, end: undefined, read }
}

const routeTo = (
  url: string,
  secrets: readonly string[] = [createSecret(1)],
  name = 'shop/kiosk',
): Route => ({
  ...defaultRoute,
  name,
  webhook: { url, secrets },
})

/** Starts a notifier with quick retries, and what it needs. */
function start(
  t: TestContext,
  first: readonly Route[],
  options: Partial<ConstructorParameters<typeof Notifier>[0]> = {},
) {
  let routes = first
  const listeners = new Set<() => void>()
  const ends = new Set<EndListener>()
  const stats = new BrokerStats()
  const lines: string[] = []
  const { limits, ...others } = options
  const notifier = new Notifier({
    streamLog: {
      onEnd(listener) {
        ends.add(listener)
        return () => ends.delete(listener)
      },
    },
    routes: {
      routes: () => routes,
      onChange(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
    },
    stats,
    policy: loopback,
    resolve: async () => ['127.0.0.1'],
    clock: systemClock,
    random: () => 0,
    log: createLog({ level: 'debug', format: 'text', write: line => lines.push(line) }),
    limits: { retryMs: 20, maxRetryMs: 40, attemptMs: 60_000, ...limits },
    ...others,
  })
  t.after(() => notifier.stop(0))
  return {
    notifier,
    lines,
    end: (request: LoggedRequest, ...more: [Parameters<EndListener>[1], Parameters<EndListener>[2]]) => {
      for (const listener of ends) listener(request, ...more)
    },
    setRoutes(next: readonly Route[]) {
      routes = next
      for (const listener of listeners) listener()
    },
    counts(route = 'shop/kiosk') {
      const { counters } = stats.route(route)
      const { notifications_delivered: delivered, notifications_failed: failed } = counters
      return { delivered, failed, dropped: counters.notifications_dropped, queued: notifier.queued }
    },
  }
}

const completed = { how: 'completed' } as const
const interrupted = { how: 'interrupted', status: { code: 'INFO', message: 'interrupted' } } as const

test('begin and end are posted in their order, signed, with the ids of the request', async t => {
  const receiver = await startReceiver(t)
  const { notifier, end, counts } = start(t, [routeTo(`${receiver.url}/hook?a=b`)])
  notifier.enqueueBegin(createRequest('run.1'))
  end(createRequest('run.1'), interrupted, { messages: 7, bytes: 700, rules: 'not shown' })
  await waitFor('both', () => counts().delivered === 2)
  const [begin, ended] = receiver.posts.map(({ event }) => event)
  const data = {
    ...{ run: 'run.1', streamId: 'kiosk-1', requestId: 'run.1', targetObjectId: 'claire' },
    ...{ sourceServiceId: 'a2f', begun: '2026-11-23T04:00:00.000Z' },
  }
  const common = { namespace: 'shop', route: 'kiosk' }
  const created = '2026-11-23T04:00:00.000Z'
  assert.deepEqual(begin, { id: 'run.1.begun', type: 'stream.begun', created, ...common, data })
  assert.equal(ended?.data['ended'], ended?.created)
  assert.deepEqual(ended, {
    ...{ id: 'run.1.ended', type: 'stream.ended', created: ended?.created, ...common },
    data: {
      ...{ ...data, ended: ended?.created, messages: 7, bytes: 700 },
      end: { how: 'interrupted', code: 'INFO', message: 'interrupted' },
    },
  })
  for (const post of receiver.posts) {
    assert.equal(post.id, post.event.id)
    assert.equal(post.signedBy, '0')
    assert.equal(post.path, '/hook?a=b')
  }
  assert.deepEqual(counts(), { delivered: 2, failed: 0, dropped: 0, queued: 0 })
})

test('requests of routes without a webhook are not posted', async t => {
  const receiver = await startReceiver(t)
  const { notifier, end, counts } = start(t, [routeTo(receiver.url)])
  notifier.enqueueBegin(createRequest('other', ''))
  end(createRequest('other', 'shop/other'), completed, undefined)
  notifier.enqueueBegin(createRequest('mine'))
  await waitFor('the delivery', () => counts().delivered === 1)
  assert.deepEqual(
    receiver.posts.map(({ id }) => id),
    ['mine.begun'],
  )
})

test('a post that fails is repeated with the present URL and secrets; the end follows the begin', async t => {
  const secrets = [1, 2].map(createSecret)
  const receiver = await startReceiver(t, secrets)
  receiver.answer = answerWith(500)
  const { notifier, end, setRoutes, counts } = start(t, [routeTo(`${receiver.url}/old`)])
  notifier.enqueueBegin(createRequest('r1'))
  end(createRequest('r1'), completed, undefined)
  await waitFor('two attempts', () => receiver.posts.length >= 2)
  assert.deepEqual(new Set(receiver.posts.map(({ id }) => id)), new Set(['r1.begun']))
  setRoutes([routeTo(`${receiver.url}/new`, secrets.toReversed())])
  receiver.answer = accept
  await waitFor('both', () => counts().delivered === 2)
  const [begin, ended] = receiver.posts.slice(-2)
  assert.deepEqual(
    [begin, ended].map(post => [post?.id, post?.path, post?.signedBy]),
    [
      ['r1.begun', '/new', '0 1'],
      ['r1.ended', '/new', '0 1'],
    ],
  )
  assert.equal(counts().failed, receiver.posts.length - 2)
})

for (const [what, answer] of [
  ['never answers', hang],
  ['answers 503', answerWith(503)],
] as const) {
  test(`a receiver that ${what} delays no other route, and its queue is bounded`, async t => {
    const [bad, good] = [await startReceiver(t), await startReceiver(t)]
    bad.answer = answer
    const routes = [routeTo(bad.url, undefined, 'shop/bad'), routeTo(good.url, undefined, 'shop/good')]
    const limits = { routeBytes: 20_000, attempts: 8 }
    const { notifier, counts, lines } = start(t, routes, { limits })
    for (let count = 0; count < 500; count += 1) notifier.enqueueBegin(createRequest(`b${count}`, 'shop/bad'))
    const { dropped, queued } = counts('shop/bad')
    assert.ok(queued <= 30 && queued >= 15, `${queued} are queued`)
    assert.equal(dropped + queued, 500)
    for (let count = 0; count < 5; count += 1) notifier.enqueueBegin(createRequest(`g${count}`, 'shop/good'))
    await waitFor('the other route', () => counts('shop/good').delivered === 5)
    assert.equal(counts('shop/bad').delivered, 0)
    const drops = lines.filter(line => line.includes('drop notification'))
    assert.equal(drops.length, 1, 'one line for all of them')
    assert.match(
      drops[0] ?? '',
      /level=warn msg="drop notification" route=shop\/bad .*reason="the queue is full"/,
    )
    assert.ok(lines.every(line => !line.includes('whsec_')))
  })
}

test('all routes together have a limit, within which each route keeps a share', async t => {
  const receiver = await startReceiver(t)
  receiver.answer = hang
  const routes = ['a', 'b', 'c'].map(name => routeTo(receiver.url, undefined, `shop/${name}`))
  const limits = { routeBytes: 30_000, allBytes: 30_000 }
  const { notifier, counts } = start(t, routes, { limits })
  const add = (name: string) => {
    for (let count = 0; count < 100; count += 1)
      notifier.enqueueBegin(createRequest(`${name}${count}`, `shop/${name}`))
    return counts(`shop/${name}`).dropped
  }
  const queuedOf = { a: 100 - add('a'), b: 100 - add('b'), c: 100 - add('c') }
  assert.ok(queuedOf.a > 25 && queuedOf.b > 12 && queuedOf.c > 8, JSON.stringify(queuedOf))
  assert.ok(notifier.queued < 2 * queuedOf.a, JSON.stringify(queuedOf))
})

test('a receiver that recovers gets everything once', async t => {
  const receiver = await startReceiver(t)
  const { notifier, end, counts } = start(t, [routeTo(receiver.url)])
  receiver.answer = answerWith(500)
  for (let count = 0; count < 30; count += 1) notifier.enqueueBegin(createRequest(`r${count}`))
  await waitFor('attempts', () => receiver.posts.length > 3)
  receiver.answer = accept
  receiver.posts.length = 0
  for (let count = 0; count < 30; count += 1) end(createRequest(`r${count}`), completed, undefined)
  await waitFor('all', () => counts().delivered === 60)
  const ids = receiver.posts.map(({ id }) => id)
  for (let count = 0; count < 30; count += 1) {
    const both = ids.filter(id => id.startsWith(`r${count}.`))
    assert.deepEqual(both, [`r${count}.begun`, `r${count}.ended`])
  }
})

test('an answer that rejects the message is not repeated, and does not delay the next messages', async t => {
  for (const status of [400, 401, 403, 404, 413, 422]) {
    const receiver = await startReceiver(t)
    receiver.answer = (response, post) =>
      (post.id.startsWith('bad') ? answerWith(status) : accept)(response, post)
    const { notifier, end, counts, lines } = start(t, [routeTo(receiver.url)], {
      limits: { retryMs: 60_000 },
    })
    notifier.enqueueBegin(createRequest('bad'))
    end(createRequest('bad'), completed, undefined)
    notifier.enqueueBegin(createRequest('good'))
    await waitFor(`the end of ${status}`, () => notifier.queued === 0)
    assert.deepEqual(counts(), { delivered: 1, failed: 2, dropped: 2, queued: 0 })
    assert.equal(receiver.posts.length, 3)
    assert.match(lines.join(), new RegExp(`drop notification.*the answer was ${status}`))
  }
})

test('an answer that asks for a repetition, a redirect and a failure are repeated', async t => {
  for (const status of [307, 408, 425, 429, 500, 503]) {
    const receiver = await startReceiver(t)
    receiver.answer = answerWith(status)
    const { notifier, counts } = start(t, [routeTo(receiver.url)])
    notifier.enqueueBegin(createRequest('r1'))
    await waitFor(`a second attempt after ${status}`, () => receiver.posts.length > 1)
    assert.equal(counts().dropped, 0)
  }
})

test('an answer of 410, a removed webhook and old age end the attempts', async t => {
  const receiver = await startReceiver(t)
  receiver.answer = answerWith(410)
  let laterMs = 0
  const { notifier, counts, setRoutes } = start(t, [routeTo(receiver.url)], {
    clock: { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + laterMs },
    limits: { maxAgeMs: 600_000 },
  })
  notifier.enqueueBegin(createRequest('gone'))
  await waitFor('the drop', () => counts().dropped === 1)
  assert.equal(receiver.posts.length, 1)
  receiver.answer = answerWith(500)
  notifier.enqueueBegin(createRequest('old'))
  await waitFor('a second attempt', () => receiver.posts.length > 2)
  assert.equal(counts().dropped, 1)
  laterMs = 600_000
  await waitFor('the second drop', () => counts().dropped === 2)
  notifier.enqueueBegin(createRequest('removed'))
  await waitFor('an attempt', () => receiver.posts.at(-1)?.id === 'removed.begun')
  setRoutes([])
  await waitFor('the third drop', () => counts().dropped === 3)
  assert.equal(notifier.queued, 0)
})

test('private addresses and their names are not called, and redirects are not followed', async t => {
  const [target, open] = [await startReceiver(t), await startReceiver(t)]
  const strict = new AddressPolicy([], true)
  const named = target.url.replace('127.0.0.1', 'internal.example')
  for (const url of [target.url, named, target.url.replace('127.0.0.1', '[::ffff:127.0.0.1]')]) {
    const { notifier, counts, lines } = start(t, [routeTo(url)], { policy: strict })
    notifier.enqueueBegin(createRequest('r1'))
    await waitFor('the attempt', () => counts().failed > 0)
    assert.match(lines[0] ?? '', /is not a public address|which is not public/)
  }
  open.answer = answerWith(307, { location: target.url })
  const { notifier, counts } = start(t, [routeTo(open.url)])
  notifier.enqueueBegin(createRequest('r2'))
  await waitFor('two attempts', () => counts().failed > 1)
  assert.deepEqual(target.posts, [])
  const secure = start(t, [routeTo(target.url)], {
    policy: new AddressPolicy([{ address: '127.0.0.1', prefix: 32 }], false),
  })
  secure.notifier.enqueueBegin(createRequest('r3'))
  await waitFor('the attempt', () => secure.counts().failed > 0)
  assert.match(secure.lines[0] ?? '', /must begin with https/)
  assert.deepEqual(target.posts, [])
})

test('at the end of the broker waiting notifications are attempted once more, within a time', async t => {
  const [flaky, dead] = [await startReceiver(t), await startReceiver(t)]
  flaky.answer = answerWith(500)
  dead.answer = hang
  const routes = [routeTo(flaky.url), routeTo(dead.url, undefined, 'shop/dead')]
  const limits = { retryMs: 60_000, maxRetryMs: 60_000 }
  const { notifier, end, counts } = start(t, routes, { limits })
  notifier.enqueueBegin(createRequest('r1'))
  end(createRequest('r1'), completed, undefined)
  notifier.enqueueBegin(createRequest('r2', 'shop/dead'))
  await waitFor('the first attempts', () => counts().failed === 1 && dead.posts.length === 1)
  flaky.answer = accept
  const beganMs = performance.now()
  await notifier.stop(300)
  assert.ok(performance.now() - beganMs < 5_000)
  assert.deepEqual(
    flaky.posts.map(({ id }) => id),
    ['r1.begun', 'r1.begun', 'r1.ended'],
  )
  assert.deepEqual([counts().delivered, counts('shop/dead').dropped, notifier.queued], [2, 1, 0])
})
