import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { type GrpcError, statusName } from '@tollway/grpc/status.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { startOperator as startOperatorOf, tlsOf } from '../testing/start-operator.ts'
import { encodeLoad, loadReportPath, type RouteLoad } from './stream-loads.ts'

async function startOperator(
  t: TestContext,
  limits: NonNullable<Parameters<typeof startOperatorOf>[1]>['limits'] = {},
) {
  const operator = await startOperatorOf(t, { limits })
  /** Returns the load of a route at these processes as `streams/consumers`. */
  const describe = (route: string, ...uids: readonly string[]) => {
    const { activeStreams, consumers } = operator.loads.sum(route, uids)
    return `${activeStreams}/${consumers}`
  }
  return { ...operator, describe }
}

/** Parses loads by route, such as `shop/a=2/5 shop/b=1/0`: the streams and the consumers of each. */
function parse(text: string): ReadonlyMap<string, RouteLoad> {
  const pairs = text.split(' ').filter(pair => pair !== '')
  return new Map(
    pairs.map(pair => {
      const [, route = '', streams, consumers] = /^(.*)=(\d+)\/(\d+)$/.exec(pair) ?? []
      return [route, { activeStreams: Number(streams), consumers: Number(consumers) }]
    }),
  )
}

/** Connects a process that reports loads. */
function connect(t: TestContext, address: string, who: 'pod' | 'operator' = 'pod') {
  const client = createGrpcClient(address, { tls: tlsOf(who) })
  const stopping = new AbortController()
  const stop = () => {
    stopping.abort()
    client.close()
  }
  t.after(stop)
  const call = client.bidi(
    loadReportPath,
    { encode: encodeLoad, decode: () => undefined },
    { signal: stopping.signal },
  )
  const ended = (async () => {
    for await (const _ of call.messages);
    return 'OK'
  })().catch((error: GrpcError) => `${statusName(error.code)}: ${error.message}`)
  return { stop, ended, report: (uid: string, text: string) => call.write({ uid, routes: parse(text) }) }
}

test('the loads of processes are summed for each route, until their streams end', async t => {
  const { address, describe } = await startOperator(t)
  const [one, two] = [connect(t, address), connect(t, address)]
  one.report('a', 'shop/r=2/5 shop/q=1/1 =9/9')
  two.report('b', 'shop/r=1/3')
  await waitFor('both reports', async () => describe('shop/r', 'a', 'b') === '3/8')
  assert.equal(describe('shop/r', 'b'), '1/3', 'only the requested processes count')
  assert.equal(describe('shop/q', 'a', 'b'), '1/1')
  assert.equal(describe('shop/none', 'a', 'b'), '0/0')
  one.report('a', 'shop/q=1/0')
  await waitFor('the newest report', async () => describe('shop/r', 'a', 'b') === '1/3')
  two.stop()
  await waitFor('the end of a stream', async () => describe('shop/r', 'a', 'b') === '0/0')
})

test('a process that reconnects is counted once, whichever stream ends first', async t => {
  const { address, describe } = await startOperator(t)
  const [before, now] = [connect(t, address), connect(t, address)]
  before.report('a', 'r=5/5')
  await waitFor('the first', async () => describe('r', 'a') === '5/5')
  now.report('a', 'r=1/2')
  await waitFor('the second', async () => describe('r', 'a') === '1/2')
  before.stop()
  now.report('a', 'r=1/3')
  await waitFor('the second alone', async () => describe('r', 'a') === '1/3')
})

test('a follower forwards reports, and the leader does not send them back', async t => {
  const [leader, follower] = [await startOperator(t), await startOperator(t)]
  const [one, two] = [connect(t, leader.address), connect(t, follower.address)]
  one.report('a', 'r=1/1')
  two.report('b', 'r=2/2')
  follower.leader.setLeader(leader.address)
  await waitFor('the sum', async () => leader.describe('r', 'a', 'b') === '3/3')
  assert.deepEqual([...leader.loads.own().keys()], ['a'], 'forwarded loads are not forwarded again')
  two.report('b', 'r=4/4')
  await waitFor('a change', async () => leader.describe('r', 'a', 'b') === '5/5')

  // The process connects to the leader while its old stream is open, as when the follower is about to end.
  const moved = connect(t, leader.address)
  moved.report('b', 'r=7/7')
  await waitFor('its own report', async () => leader.describe('r', 'b') === '7/7')
  two.stop()
  await waitFor('the follower to forget it', async () => follower.describe('r', 'b') === '0/0')
  moved.report('b', 'r=8/8')
  await waitFor('its next report', async () => leader.describe('r', 'b') === '8/8')
})

test('forwarded loads end with the stream of their operator', async t => {
  const [leader, follower] = [await startOperator(t), await startOperator(t)]
  connect(t, follower.address).report('b', 'r=2/2')
  follower.leader.setLeader(leader.address)
  await waitFor('the load', async () => leader.describe('r', 'b') === '2/2')
  await follower.stop()
  await waitFor('its end', async () => leader.describe('r', 'b') === '0/0')
})

const rejected: readonly [string, (process: ReturnType<typeof connect>) => void, RegExp][] = [
  ['a report without a reporter', ({ report }) => report('', 'r=1/1'), /^INVALID_ARGUMENT: uid: /],
  [
    'a process that reports for another one',
    ({ report }) => {
      report('a', 'r=1/1')
      report('b', 'r=1/1')
    },
    /^INVALID_ARGUMENT: uid: a process reports only itself/,
  ],
  [
    'too many routes',
    ({ report }) => report('a', 'q=1/1 r=1/1 s=1/1'),
    /^INVALID_ARGUMENT: routes: 3; at most 2/,
  ],
]

for (const [name, act, status] of rejected) {
  test(`${name} closes the stream, and its loads do not count`, async t => {
    const { address, describe } = await startOperator(t, { maxRoutes: 2 })
    const process = connect(t, address)
    act(process)
    assert.match(await process.ended, status)
    await waitFor('nothing to count', async () => describe('r', 'a', 'b') === '0/0')
  })
}

test('an operator may not report loads as a process: one of an earlier version does', async t => {
  const { address, describe } = await startOperator(t)
  const operator = connect(t, address, 'operator')
  operator.report('a', 'r=1/1')
  assert.match(await operator.ended, /^FAILED_PRECONDITION/)
  assert.equal(describe('r', 'a'), '0/0')
})

test('a stream of loads beyond the maximum is rejected', async t => {
  const { address, describe } = await startOperator(t, { maxStreams: 1 })
  connect(t, address).report('a', 'r=1/1')
  await waitFor('the first', async () => describe('r', 'a') === '1/1')
  assert.match(await connect(t, address).ended, /^RESOURCE_EXHAUSTED/)
})

test('a listener of loads is called once for many changes', async t => {
  const { address, loads, describe } = await startOperator(t, { paceMs: 60_000 })
  let calls = 0
  loads.onChange(() => {
    calls += 1
  })
  const process = connect(t, address)
  for (let count = 1; count <= 50; count++) process.report('a', `r=${count}/0`)
  await waitFor('the last', async () => describe('r', 'a') === '50/0')
  assert.equal(calls, 1)
})
