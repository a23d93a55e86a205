import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { connectPod as connectPodTo } from '../testing/connect-pod.ts'
import { type StartedOptions, startOperator as startOperatorOf, tlsOf } from '../testing/start-operator.ts'
import { createResource, createSnapshot, type Snapshot } from '../xds/snapshot.ts'

const typeUrl = 'type.googleapis.com/test.Thing'
const graceMs = 150

/** Parses a snapshot from resources and their contents, such as `a=1 b=2`. */
const parse = (text: string) =>
  createSnapshot(
    typeUrl,
    text.split(' ').map(pair => createResource(pair.split('=')[0] ?? '', Buffer.from(pair))),
  )

async function startOperator(t: TestContext, options: Pick<StartedOptions, 'leaderTls' | 'limits'> = {}) {
  const operator = await startOperatorOf(t, { limits: { graceMs }, ...options, typeUrls: [typeUrl] })
  const { feed } = operator
  let changes = 0
  feed.onChange(() => {
    changes += 1
  })
  /** Returns the enforcement as text, such as `ok: x y; rejected: z (why); pending: w`. */
  function describe(content: string, ...uids: readonly string[]): string {
    const [resource] = parse(content).resources.values()
    assert.ok(resource)
    const { acknowledged, rejections, pending } = feed.enforcement(typeUrl, uids)(resource)
    const rejected = rejections.map(({ pod, message }) => `${pod} (${message})`)
    return Object.entries({ ok: [...acknowledged], rejected, pending })
      .flatMap(([what, list]) => (list.length > 0 ? `${what}: ${list.join(' ')}` : []))
      .join('; ')
  }
  const connected = () => feed.clients().map(({ uid }) => uid)
  const publish = (snapshot: Snapshot) => feed.publish(snapshot)
  return { ...operator, publish, describe, connected, changes: () => changes }
}

function connectPod(t: TestContext, address: string, uid: string, { rejects = '!', claim = '' } = {}) {
  return connectPodTo(t, { address, typeUrl, uid, tls: tlsOf('pod'), rejects, claim })
}

async function startTwo(t: TestContext, options?: Pick<StartedOptions, 'limits'>) {
  const [leader, follower] = [await startOperator(t, options), await startOperator(t, options)]
  for (const { publish } of [leader, follower]) publish(parse('a=1 b=1'))
  follower.leader.setLeader(leader.address)
  return { leader, follower }
}

test('the leader counts three clients at two operators, and each of their changes', async t => {
  const { leader, follower } = await startTwo(t)
  connectPod(t, leader.address, 'x')
  connectPod(t, follower.address, 'y')
  connectPod(t, follower.address, 'z', { rejects: 'a=2' })
  await waitFor('all three', () => leader.describe('a=1', 'x', 'y', 'z') === 'ok: x y z')
  assert.deepEqual(leader.connected().toSorted(), ['x', 'y', 'z'])
  assert.equal(follower.describe('a=1', 'x', 'y'), 'ok: y; pending: x')
  const before = leader.changes()
  for (const { publish } of [leader, follower]) publish(parse('a=2 b=2'))
  await waitFor(
    'the rejection',
    () => leader.describe('a=2', 'x', 'y', 'z') === 'ok: x y; rejected: z-pod (is bad)',
  )
  assert.ok(leader.changes() > before)
  await waitFor('the accepted resource', () => leader.describe('b=2', 'x', 'y', 'z') === 'ok: x y z')
})

test('a new leader gets the whole table', async t => {
  const { leader, follower } = await startTwo(t)
  connectPod(t, leader.address, 'x')
  connectPod(t, follower.address, 'y')
  await waitFor('both', () => leader.describe('a=1', 'x', 'y') === 'ok: x y')
  follower.leader.setLeader(undefined)
  leader.leader.setLeader(follower.address)
  await waitFor('both at the other', () => follower.describe('a=1', 'x', 'y') === 'ok: x y')
  await waitFor('the grace of the old table', () => leader.describe('a=1', 'x', 'y') === 'ok: x; pending: y')
})

test('a follower retries until the leader can be reached', async t => {
  const follower = await startOperator(t)
  follower.leader.setLeader('127.0.0.1:1')
  const failed = 'report to the leader failed'
  await waitFor('the warning', () => follower.lines.some(line => line.startsWith(failed)))
  const leader = await startOperator(t)
  follower.leader.setLeader(leader.address)
  await waitFor('the report', () => follower.lines.some(line => line.startsWith('report to the leader {')))
})

test('a follower that gets its certificate after it knows its leader reports then', async t => {
  let certified = false
  const leaderTls: ClientTls = {
    ...tlsOf('operator'),
    credentials() {
      if (!certified) throw new Error('the operator has no certificate yet')
      return tlsOf('operator').credentials()
    },
  }
  const [leader, follower] = [await startOperator(t), await startOperator(t, { leaderTls })]
  follower.leader.setLeader(leader.address)
  await waitFor('the reason', () => follower.lines.some(line => line.includes('has no certificate yet')))
  certified = true
  await waitFor('the report', () => follower.lines.some(line => line.startsWith('report to the leader {')))
})

test('a follower that ended is forgotten after its grace period, and its client can move', async t => {
  // The first look comes within the grace period.
  const { leader, follower } = await startTwo(t, { limits: { graceMs: 4_000 } })
  const moving = connectPod(t, follower.address, 'moving')
  connectPod(t, follower.address, 'lost')
  await waitFor('both', () => leader.describe('a=1', 'moving', 'lost') === 'ok: moving lost')
  await follower.stop()
  moving.stop()
  assert.equal(leader.describe('a=1', 'moving', 'lost'), 'ok: moving lost', 'they still enforce')
  connectPod(t, leader.address, 'moving', { claim: parse('a=1 b=1').version })
  await waitFor('the move', () => leader.connected().includes('moving'))
  await waitFor('the grace', () => leader.describe('a=1', 'moving', 'lost') === 'ok: moving; pending: lost')
  assert.deepEqual(leader.connected(), ['moving'])
})

test('the newest stream of a client counts, at whichever operator it is', async t => {
  const { leader, follower } = await startTwo(t)
  const first = connectPod(t, leader.address, 'x')
  await waitFor('it is here', () => leader.describe('a=1', 'x') === 'ok: x')
  connectPod(t, follower.address, 'x', { rejects: 'a=2' })
  await waitFor('it is there', () => follower.describe('a=1', 'x') === 'ok: x')
  leader.publish(parse('a=2 b=1'))
  follower.publish(parse('a=2 b=1'))
  await waitFor(
    'its report at the other operator',
    () => leader.describe('a=2', 'x') === 'rejected: x-pod (is bad)',
  )
  first.stop()
})
