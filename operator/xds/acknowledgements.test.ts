import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Acknowledgements, defaultAcknowledgementLimits, type StreamRecord } from './acknowledgements.ts'
import type { ClientState } from './client-state.ts'
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
  const streams = new Map<string, StreamRecord>()
  const open = (uid: string, claimed = '') => {
    const stream = acknowledgements.opened({ uid, pod: `pod-${uid}`, ...node }, claimed)
    streams.set(uid, stream)
    return stream
  }
  /** Returns the stream that a client opened last. */
  function last(uid: string): StreamRecord {
    const stream = streams.get(uid)
    assert.ok(stream)
    return stream
  }
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
    acknowledgements.lastGood(last(uid), name).map(({ bytes }) => Buffer.from(bytes).toString())
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { acknowledgements, open, last, ask, good, pass }
}

test('a client enforces exactly its last acknowledged version', () => {
  const { acknowledgements, open, last, ask } = start()
  open('1')
  open('2')
  assert.equal(ask('a=1', '1', '2', 'stranger'), 'pending: 1 2 stranger')
  acknowledgements.acknowledged(last('1'), parse('a=1 b=1'))
  assert.equal(ask('a=1', '1', '2'), 'ok: 1; pending: 2')
  assert.equal(ask('a=2', '1', '2'), 'pending: 1 2')
  acknowledgements.acknowledged(last('1'), parse('b=1'))
  assert.equal(ask('a=1', '1'), 'pending: 1')
})

test('a rejection counts for the contents that it names, until they are acknowledged', () => {
  const { acknowledgements, open, last, ask } = start()
  open('1')
  acknowledgements.rejected(last('1'), rejectionOf('a=1 b=1', 'bad', 'a'))
  assert.equal(ask('a=1', '1'), 'rejected: pod-1 (bad)')
  assert.equal(ask('a=2', '1'), 'pending: 1')
  assert.equal(ask('b=1', '1'), 'pending: 1')
  acknowledgements.acknowledged(last('1'), parse('b=1'))
  assert.equal(ask('a=1', '1'), 'rejected: pod-1 (bad)')
  acknowledgements.acknowledged(last('1'), parse('a=1 b=1'))
  acknowledgements.acknowledged(last('1'), parse('b=1'))
  assert.equal(ask('a=1', '1'), 'pending: 1')
})

test('the rejection of a published content stays when its replacement is rejected too', () => {
  const { acknowledgements, open, last, ask } = start()
  open('1')
  acknowledgements.retain(parse('a=2'))
  acknowledgements.rejected(last('1'), rejectionOf('a=2', 'bad', 'a'))
  acknowledgements.rejected(last('1'), rejectionOf('a=1', 'also bad', 'a'))
  assert.equal(ask('a=2', '1'), 'rejected: pod-1 (bad)')
  acknowledgements.retain(parse('a=3'))
  acknowledgements.rejected(last('1'), rejectionOf('a=3', 'worse', 'a'))
  assert.equal(ask('a=3', '1'), 'rejected: pod-1 (worse)')
})

test('a rejection that names nothing counts for the new contents of its version', () => {
  const { acknowledgements, open, last, ask } = start()
  open('1')
  acknowledgements.acknowledged(last('1'), parse('a=1 b=1'))
  acknowledgements.rejected(last('1'), rejectionOf('a=2 b=1 c=1', 'bad'))
  assert.equal(ask('a=2', '1'), 'rejected: pod-1 (bad)')
  assert.equal(ask('b=1', '1'), 'ok: 1')
  assert.equal(ask('c=1', '1'), 'rejected: pod-1 (bad)')
})

test('a reconnection changes nothing, and a process without an acknowledgement enforces nothing', () => {
  const { acknowledgements, open, ask, good } = start()
  const one = parse('a=1')
  const first = open('1')
  acknowledgements.acknowledged(first, one)
  const second = open('1', one.version)
  acknowledgements.closed(first)
  assert.equal(ask('a=1', '1'), 'ok: 1')
  acknowledgements.closed(second)
  assert.equal(ask('a=1', '1'), 'ok: 1')
  open('1', parse('a=2').version)
  assert.equal(ask('a=1', '1'), 'pending: 1', 'it names another version')
  acknowledgements.acknowledged(open('1'), one)
  open('1', '')
  assert.equal(ask('a=1', '1'), 'pending: 1')
  assert.deepEqual(good('1', 'a'), ['a=1', 'a=1'])
})

test('of the streams of a client the newest counts, and then the one that is still open', () => {
  const { acknowledgements, open, ask, good } = start()
  const before = open('1')
  acknowledgements.acknowledged(before, parse('a=1'))
  const newest = open('1')
  acknowledgements.acknowledged(before, parse('a=2'))
  acknowledgements.rejected(before, rejectionOf('b=1', 'late', 'b'))
  assert.equal(ask('a=2', '1'), 'pending: 1')
  assert.equal(ask('b=1', '1'), 'pending: 1')
  acknowledgements.acknowledged(newest, parse('a=3'))
  acknowledgements.acknowledged(before, parse('a=2'))
  assert.equal(ask('a=3', '1'), 'ok: 1')
  assert.deepEqual(good('1', 'a'), ['a=3', 'a=2', 'a=3'])
  const attempt = open('1')
  assert.equal(ask('a=3', '1'), 'pending: 1')
  acknowledgements.closed(attempt)
  assert.equal(ask('a=3', '1'), 'ok: 1')
  acknowledgements.closed(newest)
  acknowledgements.closed(before)
  assert.equal(ask('a=2', '1'), 'pending: 1', 'the last attempt, and not the first stream')
})

test('clients without a stream are forgotten by age and by number', () => {
  const { acknowledgements, open, last, ask, pass } = start()
  for (const uid of ['1', '2', '3']) {
    open(uid)
    acknowledgements.acknowledged(last(uid), parse('a=1'))
  }
  for (const uid of ['2', '3', '1']) acknowledgements.closed(last(uid))
  assert.equal(ask('a=1', '1', '2', '3'), 'ok: 1 3; pending: 2')
  pass(1001)
  open('4')
  assert.equal(ask('a=1', '1', '3'), 'pending: 1 3')
})

test('the good contents of a client are its own, else those of any client, while published', () => {
  const { acknowledgements, open, last, good } = start()
  for (const uid of ['1', '2', '3']) open(uid)
  assert.deepEqual(good('1', 'a'), [])
  acknowledgements.acknowledged(last('1'), parse('a=1'))
  acknowledgements.acknowledged(last('2'), parse('a=2'))
  assert.deepEqual(good('1', 'a'), ['a=1', 'a=2', 'a=1'])
  assert.deepEqual(good('3', 'a'), ['a=2', 'a=1'])
  acknowledgements.acknowledged(last('2'), parse('a=3'))
  assert.deepEqual(good('3', 'a'), ['a=3', 'a=2'])
  acknowledgements.retain(parse('b=1'))
  assert.deepEqual(good('3', 'a'), [])
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
  acknowledgements.acknowledged(acknowledgements.opened(second, ''), snapshot)
  assert.deepEqual(describe(), [0, 0, 1], 'the other worker is unknown')
  const stream = acknowledgements.opened(first, '')
  assert.deepEqual(describe(), [0, 0, 1])
  acknowledgements.rejected(stream, { snapshot, named: [], text: 'no' })
  assert.deepEqual(describe(), [0, 1, 0])
  acknowledgements.acknowledged(stream, snapshot)
  assert.deepEqual(describe(), [1, 0, 0])
  acknowledgements.closed(stream)
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
  acknowledgements.acknowledged(acknowledgements.opened(client, ''), parse('a=2'))
  assert.deepEqual(
    [ask('a=1'), ask('a=2'), ask('b=1')],
    ['ok', 'pending', 'bad'],
    'the stream of the other operator is newer',
  )
  nowMs = 20
  acknowledgements.opened(client, parse('a=2').version)
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
  const stream = acknowledgements.opened(client, parse('a=1').version)
  assert.equal(enforced(), 1)
  acknowledgements.acknowledged(stream, parse('a=2'))
  assert.equal(enforced(), 0)
})

test('a stream that has ended here does not count against an open one of another operator', () => {
  const client = { uid: '1', pod: 'pod-1', ...node }
  const there: ClientState = {
    ...{ client, connected: true, openedMs: 10, carriesOver: false },
    ...{ inForce: parse('a=2'), rejections: new Map() },
  }
  let nowMs = 0
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const acknowledgements = new Acknowledgements(clock, defaultAcknowledgementLimits, () => [there])
  const stream = acknowledgements.opened(client, '')
  acknowledgements.acknowledged(stream, parse('a=1'))
  nowMs = 20
  // An attempt of the time in which this operator stood still.
  const attempt = acknowledgements.opened(client, parse('a=1').version)
  acknowledgements.closed(attempt)
  acknowledgements.closed(stream)
  const [resource] = parse('a=2').resources.values()
  assert.ok(resource)
  assert.equal(acknowledgements.enforcement(['1'])(resource).acknowledged.size, 1)
})
