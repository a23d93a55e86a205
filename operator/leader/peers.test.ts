import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { Feed } from '../xds/feed.ts'
import { createResource, createSnapshot, type Snapshot } from '../xds/snapshot.ts'
import { connectPod as connectPodTo } from '../xds/testing/connect-pod.ts'
import { createPeerReporter } from './peer-reporter.ts'
import { createPeers } from './peers.ts'

const typeUrl = 'type.googleapis.com/test.Thing'
const operatorName = 'operator.system.svc'
const fleet = createAuthority('fleet')
const operatorLeaf = fleet.issue(operatorName)
const podLeaf = fleet.issue('pods.system.svc')
const graceMs = 150

const tlsAs = ({ cert, key }: { readonly cert: string; readonly key: string }, ca = fleet.ca) => ({
  serverName: operatorName,
  credentials: () => ({ ca, identity: { cert, key } }),
  onChange: () => () => {},
})

/** `a=1 b=2`: resources and their contents. */
const parse = (text: string) =>
  createSnapshot(
    typeUrl,
    text.split(' ').map(pair => createResource(pair.split('=')[0] ?? '', Buffer.from(pair))),
  )

let ids = 0
const nextId = () => {
  ids += 1
  return `s${ids}`
}

/** An operator: its feed, the reports that it receives, and those that it sends to its leader. */
async function startOperator(t: TestContext, name: string) {
  const said: string[] = []
  const note = (message: string, fields?: object) => void said.push(`${message} ${JSON.stringify(fields)}`)
  const log: Log = { ...silentLog, warn: note, info: note }
  const shared = { ids: nextId, clock: systemClock, log }
  const peers = createPeers({ ...shared, operatorName, limits: { graceMs } })
  const feed = new Feed({ ...shared, typeUrls: [typeUrl], remotePeers: peers })
  let changes = 0
  feed.onChange(() => {
    changes += 1
  })
  const methods = [...feed.methods, ...peers.methods]
  const server = createGrpcServer({ methods, onDefect: (_, error) => assert.fail(`${error}`) })
  const tls = { credentials: () => operatorLeaf, requireClientCert: true, onChange: () => () => {} }
  const bound = await server.listen({ host: '127.0.0.1', port: 0, tls })
  assert.ok('port' in bound)
  const reporter = createPeerReporter({
    ...{ feed, tls: tlsAs(operatorLeaf), reporter: name, clock: systemClock, log, random: Math.random },
    timing: { paceMs: 5, backoff: { initialMs: 10, maxMs: 50 } },
  })
  const stop = async () => {
    feed.close()
    peers.close()
    await Promise.all([reporter.stop(), server.drain(0)])
  }
  t.after(stop)
  /** `ok: x y; rejected: z (why); pending: w` */
  function tells(content: string, ...uids: readonly string[]): string {
    const [resource] = parse(content).resources.values()
    assert.ok(resource)
    const { acknowledged, rejections, pending } = feed.enforcement(typeUrl, uids)(resource)
    const rejected = rejections.map(({ pod, message }) => `${pod} (${message})`)
    return Object.entries({ ok: [...acknowledged], rejected, pending })
      .flatMap(([what, list]) => (list.length > 0 ? `${what}: ${list.join(' ')}` : []))
      .join('; ')
  }
  const connected = () => feed.clients().map(({ uid }) => uid)

  return {
    address: `127.0.0.1:${bound.port}`,
    publish: (snapshot: Snapshot) => feed.publish(snapshot),
    reporter,
    tells,
    connected,
    stop,
    said,
    changes: () => changes,
  }
}

function connectPod(t: TestContext, address: string, uid: string, { rejects = '!', claim = '' } = {}) {
  return connectPodTo(t, { address, typeUrl, uid, tls: tlsAs(podLeaf), rejects, claim })
}

async function startTwo(t: TestContext) {
  const [leader, follower] = [await startOperator(t, 'one'), await startOperator(t, 'two')]
  for (const { publish } of [leader, follower]) publish(parse('a=1 b=1'))
  follower.reporter.setLeader(leader.address)
  return { leader, follower }
}

test('the leader counts three clients at two operators, and each of their changes', async t => {
  const { leader, follower } = await startTwo(t)
  connectPod(t, leader.address, 'x')
  connectPod(t, follower.address, 'y')
  connectPod(t, follower.address, 'z', { rejects: 'a=2' })
  await waitFor('all three', () => leader.tells('a=1', 'x', 'y', 'z') === 'ok: x y z')
  assert.deepEqual(leader.connected().toSorted(), ['x', 'y', 'z'])
  assert.equal(follower.tells('a=1', 'x', 'y'), 'ok: y; pending: x')
  const before = leader.changes()
  const startedMs = performance.now()
  for (const { publish } of [leader, follower]) publish(parse('a=2 b=2'))
  await waitFor(
    'the rejection',
    () => leader.tells('a=2', 'x', 'y', 'z') === 'ok: x y; rejected: z-pod (is bad)',
  )
  assert.ok(performance.now() - startedMs < 2000)
  assert.ok(leader.changes() > before)
  await waitFor('the accepted resource', () => leader.tells('b=2', 'x', 'y', 'z') === 'ok: x y z')
})

test('a new leader gets the whole table', async t => {
  const { leader, follower } = await startTwo(t)
  connectPod(t, leader.address, 'x')
  connectPod(t, follower.address, 'y')
  await waitFor('both', () => leader.tells('a=1', 'x', 'y') === 'ok: x y')
  follower.reporter.setLeader(undefined)
  leader.reporter.setLeader(follower.address)
  await waitFor('both at the other', () => follower.tells('a=1', 'x', 'y') === 'ok: x y')
  await waitFor('the grace of the old table', () => leader.tells('a=1', 'x', 'y') === 'ok: x; pending: y')
})

test('a follower retries until the leader can be reached', async t => {
  const follower = await startOperator(t, 'two')
  follower.reporter.setLeader('127.0.0.1:1')
  const failed = 'report to the leader: failed'
  await waitFor('the warning', () => follower.said.some(line => line.startsWith(failed)))
  const leader = await startOperator(t, 'one')
  follower.reporter.setLeader(leader.address)
  await waitFor('the report', () => follower.said.some(line => line.startsWith('reporting to the leader')))
})

test('a follower that ended is forgotten after its grace period, and its client can move', async t => {
  const { leader, follower } = await startTwo(t)
  const moving = connectPod(t, follower.address, 'moving')
  connectPod(t, follower.address, 'lost')
  await waitFor('both', () => leader.tells('a=1', 'moving', 'lost') === 'ok: moving lost')
  await follower.stop()
  moving.stop()
  assert.equal(leader.tells('a=1', 'moving', 'lost'), 'ok: moving lost', 'they still enforce')
  connectPod(t, leader.address, 'moving', { claim: parse('a=1 b=1').version })
  await waitFor('the move', () => leader.connected().includes('moving'))
  await waitFor('the grace', () => leader.tells('a=1', 'moving', 'lost') === 'ok: moving; pending: lost')
  assert.deepEqual(leader.connected(), ['moving'])
})

test('the newest stream of a client counts, at whichever operator it is', async t => {
  const { leader, follower } = await startTwo(t)
  const first = connectPod(t, leader.address, 'x')
  await waitFor('it is here', () => leader.tells('a=1', 'x') === 'ok: x')
  connectPod(t, follower.address, 'x', { rejects: 'a=2' })
  await waitFor('it is there', () => follower.tells('a=1', 'x') === 'ok: x')
  leader.publish(parse('a=2 b=1'))
  follower.publish(parse('a=2 b=1'))
  await waitFor(
    'its report at the other operator',
    () => leader.tells('a=2', 'x') === 'rejected: x-pod (is bad)',
  )
  first.stop()
})

test('only an operator may report', async t => {
  const leader = await startOperator(t, 'one')
  for (const [who, leaf] of Object.entries({
    pod: podLeaf,
    stranger: createAuthority('s').issue(operatorName),
  })) {
    const said: string[] = []
    const log: Log = { ...silentLog, warn: (_, fields) => void said.push(`${fields?.['reason']}`) }
    const reporter = createPeerReporter({
      feed: { clientStates: () => new Map(), onChange: () => {} },
      ...{ tls: tlsAs(leaf), reporter: who, clock: systemClock, log, random: Math.random },
    })
    reporter.setLeader(leader.address)
    await waitFor(`the rejection of a ${who}`, () => said.length > 0)
    if (who === 'pod') assert.match(said[0] ?? '', /not for operator.system.svc, but for DNS:pods.system.svc/)
    await reporter.stop()
  }
  assert.doesNotMatch(leader.said.join('\n'), /reporting/)
})
