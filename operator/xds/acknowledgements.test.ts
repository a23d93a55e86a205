import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Acknowledgements, defaultAcknowledgementLimits } from './acknowledgements.ts'
import { type ClientState, clientId } from './client-state.ts'
import { createResource, createSnapshot, type Snapshot } from './snapshot.ts'
import type { ResponseRejection } from './stream.ts'

/** Parses a snapshot from resources and their contents, such as `a=1 b=2`. */
function parse(text: string): Snapshot {
  const pairs = text.split(' ').filter(pair => pair !== '')
  return createSnapshot(
    'test',
    pairs.map(pair => createResource(pair.split('=')[0] ?? '', Buffer.from(pair))),
  )
}

const node = { nodeId: 'test', namespace: 'shop', features: [], peer: '127.0.0.1:1' }

function rejectionOf(snapshot: string, text: string, ...names: readonly string[]): ResponseRejection {
  const { resources } = parse(snapshot)
  const named = names.flatMap(name => {
    const resource = resources.get(name)
    return resource ? [{ resource, text }] : []
  })
  return { snapshot: parse(snapshot), named, text }
}

function start(limits = {}) {
  let nowMs = 0
  const acknowledgements = new Acknowledgements(
    { nowMs: () => nowMs, monotonicMs: () => nowMs },
    { forgetAfterMs: 1000, maxEndedClients: 2, maxGoodContents: 2, ...limits },
  )
  const open = (uid: string, claimed = '') =>
    acknowledgements.opened({ uid, pod: `pod-${uid}`, ...node }, claimed)
  /** Returns the enforcement as text, such as `ok: 1 2; rejected: 3 (why); pending: 4`. */
  function ask(content: string, ...uids: readonly string[]): string {
    const [resource] = parse(content).resources.values()
    assert.ok(resource)
    const { acknowledged, rejections, pending } = acknowledgements.enforcement(uids)(resource)
    const rejected = rejections.map(({ pod, message }) => `${pod} (${message})`)
    const parts = { ok: [...acknowledged], rejected, pending }
    return Object.entries(parts)
      .flatMap(([name, list]) => (list.length > 0 ? `${name}: ${list.join(' ')}` : []))
      .join('; ')
  }
  const good = (uid: string, name: string) =>
    acknowledgements.lastGood(uid, name).map(({ bytes }) => Buffer.from(bytes).toString())
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { acknowledgements, open, ask, good, pass }
}

test('a client enforces exactly its last acknowledged version', () => {
  const { acknowledgements, open, ask } = start()
  open('1')
  open('2')
  assert.equal(ask('a=1', '1', '2', 'stranger'), 'pending: 1 2 stranger')
  acknowledgements.acknowledged('1', parse('a=1 b=1'))
  assert.equal(ask('a=1', '1', '2'), 'ok: 1; pending: 2')
  assert.equal(ask('a=2', '1', '2'), 'pending: 1 2')
  acknowledgements.acknowledged('1', parse('b=1'))
  assert.equal(ask('a=1', '1'), 'pending: 1')
})

test('a rejection counts for the contents that it names, until they are acknowledged', () => {
  const { acknowledgements, open, ask } = start()
  open('1')
  acknowledgements.rejected('1', rejectionOf('a=1 b=1', 'bad', 'a'))
  assert.equal(ask('a=1', '1'), 'rejected: pod-1 (bad)')
  assert.equal(ask('a=2', '1'), 'pending: 1')
  assert.equal(ask('b=1', '1'), 'pending: 1')
  acknowledgements.acknowledged('1', parse('b=1'))
  assert.equal(ask('a=1', '1'), 'rejected: pod-1 (bad)')
  acknowledgements.acknowledged('1', parse('a=1 b=1'))
  acknowledgements.acknowledged('1', parse('b=1'))
  assert.equal(ask('a=1', '1'), 'pending: 1')
})

test('a rejection that names nothing counts for the new contents of its version', () => {
  const { acknowledgements, open, ask } = start()
  open('1')
  acknowledgements.acknowledged('1', parse('a=1 b=1'))
  acknowledgements.rejected('1', rejectionOf('a=2 b=1 c=1', 'bad'))
  assert.equal(ask('a=2', '1'), 'rejected: pod-1 (bad)')
  assert.equal(ask('b=1', '1'), 'ok: 1')
  assert.equal(ask('c=1', '1'), 'rejected: pod-1 (bad)')
})

test('a reconnection changes nothing, and a process without an acknowledgement enforces nothing', () => {
  const { acknowledgements, open, ask, good } = start()
  open('1')
  acknowledgements.acknowledged('1', parse('a=1'))
  open('1', 'some-version')
  acknowledgements.closed('1')
  assert.equal(ask('a=1', '1'), 'ok: 1')
  acknowledgements.closed('1')
  assert.equal(ask('a=1', '1'), 'ok: 1')
  open('1', '')
  assert.equal(ask('a=1', '1'), 'pending: 1')
  assert.deepEqual(good('1', 'a'), ['a=1', 'a=1'])
})

test('clients without a stream are forgotten by age and by number', () => {
  const { acknowledgements, open, ask, pass } = start()
  for (const uid of ['1', '2', '3']) {
    open(uid)
    acknowledgements.acknowledged(uid, parse('a=1'))
  }
  for (const uid of ['2', '3', '1']) acknowledgements.closed(uid)
  assert.equal(ask('a=1', '1', '2', '3'), 'ok: 1 3; pending: 2')
  pass(1001)
  open('4')
  assert.equal(ask('a=1', '1', '3'), 'pending: 1 3')
})

test('the good contents of a client are its own, else those of any client, while published', () => {
  const { acknowledgements, open, good } = start()
  for (const uid of ['1', '2', '3']) open(uid)
  assert.deepEqual(good('1', 'a'), [])
  acknowledgements.acknowledged('1', parse('a=1'))
  acknowledgements.acknowledged('2', parse('a=2'))
  assert.deepEqual(good('1', 'a'), ['a=1', 'a=2', 'a=1'])
  assert.deepEqual(good('3', 'a'), ['a=2', 'a=1'])
  acknowledgements.acknowledged('2', parse('a=3'))
  assert.deepEqual(good('3', 'a'), ['a=3', 'a=2'])
  acknowledgements.retain(parse('b=1'))
  assert.deepEqual(good('3', 'a'), [])
})

test('reports about an unknown client are ignored', () => {
  const { acknowledgements, ask } = start()
  acknowledgements.acknowledged('1', parse('a=1'))
  acknowledgements.rejected('1', rejectionOf('a=1', 'bad', 'a'))
  acknowledgements.closed('1')
  assert.equal(ask('a=1', '1'), 'pending: 1')
})

test('a pod of several workers enforces what all of them acknowledged', () => {
  const acknowledgements = new Acknowledgements({ nowMs: () => 0, monotonicMs: () => 0 })
  const [first, second] = [0, 1].map(index => ({ uid: 'a', pod: 'pod-a', ...node, worker: { index, of: 2 } }))
  assert.ok(first && second)
  const snapshot = parse('x=1')
  const resource = snapshot.resources.get('x')
  assert.ok(resource)
  const describe = () => {
    const { acknowledged, rejections, pending } = acknowledgements.enforcement(['a'])(resource)
    return [acknowledged.size, rejections.length, pending.length]
  }
  acknowledgements.opened(second, '')
  acknowledgements.acknowledged(clientId(second), snapshot)
  assert.deepEqual(describe(), [0, 0, 1], 'the other worker is unknown')
  acknowledgements.opened(first, '')
  assert.deepEqual(describe(), [0, 0, 1])
  acknowledgements.rejected(clientId(first), { snapshot, named: [], text: 'no' })
  assert.deepEqual(describe(), [0, 1, 0])
  acknowledgements.acknowledged(clientId(first), snapshot)
  assert.deepEqual(describe(), [1, 0, 0])
  acknowledgements.closed(clientId(first))
  acknowledgements.opened(first, '')
  assert.deepEqual(describe(), [0, 0, 1], 'a restarted process enforces nothing yet')
})

test('reports of another operator count if its stream is newer, or carries over', () => {
  let nowMs = 0
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const client = { uid: '1', pod: 'pod-1', ...node }
  const there: ClientState = {
    ...{ client, connected: true, openedMs: 10, carriesOver: false },
    inForce: parse('a=1'),
    rejections: new Map([['b', { hash: parse('b=1').resources.get('b')?.hash ?? '', message: 'bad' }]]),
  }
  const acknowledgements = new Acknowledgements(clock, defaultAcknowledgementLimits, () => [there])
  const ask = (content: string) => {
    const [resource] = parse(content).resources.values()
    assert.ok(resource)
    const { acknowledged, rejections } = acknowledgements.enforcement(['1'])(resource)
    return acknowledged.size > 0 ? 'ok' : (rejections[0]?.message ?? 'pending')
  }
  assert.deepEqual([ask('a=1'), ask('a=2'), ask('b=1')], ['ok', 'pending', 'bad'])
  acknowledgements.opened(client, '')
  acknowledgements.acknowledged('1', parse('a=2'))
  assert.deepEqual(
    [ask('a=1'), ask('a=2'), ask('b=1')],
    ['ok', 'pending', 'bad'],
    'the stream of the other operator is newer',
  )
  nowMs = 20
  acknowledgements.opened(client, 'v1')
  assert.deepEqual([ask('a=1'), ask('a=2')], ['pending', 'ok'], 'the earlier acknowledgement here')
  acknowledgements.opened(client, '')
  assert.deepEqual([ask('a=1'), ask('a=2'), ask('b=1')], ['pending', 'pending', 'pending'])
})

test('a client that moves to this operator keeps its acknowledgements until it sends others', () => {
  const client = { uid: '1', pod: 'pod-1', ...node }
  const there: ClientState = {
    ...{ client, connected: false, openedMs: 10, carriesOver: false },
    ...{ inForce: parse('a=1'), rejections: new Map() },
  }
  const clock = { nowMs: () => 20, monotonicMs: () => 20 }
  const acknowledgements = new Acknowledgements(clock, defaultAcknowledgementLimits, () => [there])
  const [resource] = parse('a=1').resources.values()
  assert.ok(resource)
  const enforced = () => acknowledgements.enforcement(['1'])(resource).acknowledged.size
  acknowledgements.opened(client, 'v1')
  assert.equal(enforced(), 1)
  acknowledgements.acknowledged('1', parse('a=2'))
  assert.equal(enforced(), 0)
})
