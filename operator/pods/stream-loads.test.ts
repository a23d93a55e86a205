import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { type GrpcError, statusName } from '@tollway/grpc/status.ts'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createLoadRelay } from '../leader/load-relay.ts'
import {
  createStreamLoads,
  loadReporterCodec,
  loadReportPath,
  type RouteLoad,
  type StreamLoadsLimits,
} from './stream-loads.ts'

const operatorName = 'operator.system.svc'
const fleet = createAuthority('fleet')
const operatorLeaf = fleet.issue(operatorName)
const podLeaf = fleet.issue('pods.system.svc')

const tlsAs = ({ cert, key }: { readonly cert: string; readonly key: string }) => ({
  serverName: operatorName,
  credentials: () => ({ ca: fleet.ca, identity: { cert, key } }),
  onChange: () => () => {},
})

async function startOperator(t: TestContext, limits: Partial<StreamLoadsLimits> = {}) {
  const loads = createStreamLoads({ operatorName, limits: { paceMs: 5, ...limits } })
  const server = createGrpcServer({
    methods: loads.methods,
    onDefect: (_, error) => assert.fail(`${error}`),
  })
  const tls = { credentials: () => operatorLeaf, requireClientCert: true, onChange: () => () => {} }
  const bound = await server.listen({ host: '127.0.0.1', port: 0, tls })
  assert.ok('port' in bound)
  const relay = createLoadRelay({
    loads,
    tls: tlsAs(operatorLeaf),
    log: silentLog,
    random: Math.random,
    paceMs: 5,
    backoff: { initialMs: 10, maxMs: 50 },
  })
  const stop = async () => {
    loads.stop()
    await Promise.all([relay.stop(), server.drain(0)])
  }
  t.after(stop)
  /** `streams/consumers` of a route, in these processes. */
  const tells = (route: string, ...uids: readonly string[]) => {
    const { activeStreams, consumers } = loads.of(route, uids)
    return `${activeStreams}/${consumers}`
  }
  return { address: `127.0.0.1:${bound.port}`, loads, relay, tells, stop }
}

/** `shop/a=2/5 shop/b=1/0` */
function parse(text: string): ReadonlyMap<string, RouteLoad> {
  const pairs = text.split(' ').filter(pair => pair !== '')
  return new Map(
    pairs.map(pair => {
      const [, route = '', streams, consumers] = /^(.*)=(\d+)\/(\d+)$/.exec(pair) ?? []
      return [route, { activeStreams: Number(streams), consumers: Number(consumers) }]
    }),
  )
}

/** A process that reports. */
function connect(t: TestContext, address: string, leaf = podLeaf) {
  const client = createGrpcClient(address, { tls: tlsAs(leaf) })
  const stopping = new AbortController()
  const stop = () => {
    stopping.abort()
    client.close()
  }
  t.after(stop)
  const call = client.bidi(loadReportPath, loadReporterCodec, { signal: stopping.signal })
  const ended = (async () => {
    for await (const _ of call.messages);
    return 'OK'
  })().catch((error: GrpcError) => `${statusName(error.code)}: ${error.message}`)
  return { stop, ended, tell: (uid: string, text: string) => call.write({ uid, routes: parse(text) }) }
}

test('the loads of processes are summed for each route, until their streams end', async t => {
  const { address, tells } = await startOperator(t)
  const [one, two] = [connect(t, address), connect(t, address)]
  one.tell('a', 'shop/r=2/5 shop/q=1/1 =9/9')
  two.tell('b', 'shop/r=1/3')
  await waitFor('both to be heard', async () => tells('shop/r', 'a', 'b') === '3/8')
  assert.equal(tells('shop/r', 'b'), '1/3', 'only the requested processes count')
  assert.equal(tells('shop/q', 'a', 'b'), '1/1')
  assert.equal(tells('shop/none', 'a', 'b'), '0/0')
  one.tell('a', 'shop/q=1/0')
  await waitFor('the newest report', async () => tells('shop/r', 'a', 'b') === '1/3')
  two.stop()
  await waitFor('the end of a stream', async () => tells('shop/r', 'a', 'b') === '0/0')
})

test('a process that reconnects is counted once, whichever stream ends first', async t => {
  const { address, tells } = await startOperator(t)
  const [before, now] = [connect(t, address), connect(t, address)]
  before.tell('a', 'r=5/5')
  await waitFor('the first', async () => tells('r', 'a') === '5/5')
  now.tell('a', 'r=1/2')
  await waitFor('the second', async () => tells('r', 'a') === '1/2')
  before.stop()
  now.tell('a', 'r=1/3')
  await waitFor('the second alone', async () => tells('r', 'a') === '1/3')
})

test('a follower forwards reports, and the leader does not send them back', async t => {
  const [leader, follower] = [await startOperator(t), await startOperator(t)]
  const [one, two] = [connect(t, leader.address), connect(t, follower.address)]
  one.tell('a', 'r=1/1')
  two.tell('b', 'r=2/2')
  follower.relay.setLeader(leader.address)
  await waitFor('the sum', async () => leader.tells('r', 'a', 'b') === '3/3')
  assert.deepEqual([...leader.loads.heardHere().keys()], ['a'], 'forwarded loads are not forwarded again')
  two.tell('b', 'r=4/4')
  await waitFor('a change', async () => leader.tells('r', 'a', 'b') === '5/5')

  // The process comes to the leader, as when the follower is about to end.
  const moved = connect(t, leader.address)
  moved.tell('b', 'r=7/7')
  await waitFor('its own report', async () => leader.tells('r', 'b') === '7/7')
  two.stop()
  await waitFor('the follower to forget it', async () => follower.tells('r', 'b') === '0/0')
  moved.tell('b', 'r=8/8')
  await waitFor('its next report', async () => leader.tells('r', 'b') === '8/8')
})

test('forwarded loads end with the stream of their operator', async t => {
  const [leader, follower] = [await startOperator(t), await startOperator(t)]
  connect(t, follower.address).tell('b', 'r=2/2')
  follower.relay.setLeader(leader.address)
  await waitFor('the load', async () => leader.tells('r', 'b') === '2/2')
  await follower.stop()
  await waitFor('its end', async () => leader.tells('r', 'b') === '0/0')
})

const rejected: readonly [string, (process: ReturnType<typeof connect>) => void, RegExp][] = [
  ['a report without a reporter', ({ tell }) => tell('', 'r=1/1'), /^INVALID_ARGUMENT: uid: /],
  [
    'a process that reports for another one',
    ({ tell }) => {
      tell('a', 'r=1/1')
      tell('b', 'r=1/1')
    },
    /^INVALID_ARGUMENT: uid: a process reports only itself/,
  ],
  [
    'too many routes',
    ({ tell }) => tell('a', 'q=1/1 r=1/1 s=1/1'),
    /^INVALID_ARGUMENT: routes: 3; at most 2/,
  ],
]

for (const [name, act, status] of rejected) {
  test(`${name} closes the stream, and its loads do not count`, async t => {
    const { address, tells } = await startOperator(t, { maxRoutes: 2 })
    const process = connect(t, address)
    act(process)
    assert.match(await process.ended, status)
    await waitFor('nothing to count', async () => tells('r', 'a', 'b') === '0/0')
  })
}

test('a stream beyond the maximum is rejected', async t => {
  const { address, tells } = await startOperator(t, { maxStreams: 1 })
  connect(t, address).tell('a', 'r=1/1')
  await waitFor('the first', async () => tells('r', 'a') === '1/1')
  assert.match(await connect(t, address).ended, /^RESOURCE_EXHAUSTED/)
})

test('many changes are reported together', async t => {
  const { address, loads, tells } = await startOperator(t, { paceMs: 60_000 })
  let told = 0
  loads.onChange(() => {
    told += 1
  })
  const process = connect(t, address)
  for (let count = 1; count <= 50; count++) process.tell('a', `r=${count}/0`)
  await waitFor('the last', async () => tells('r', 'a') === '50/0')
  assert.equal(told, 1)
})
