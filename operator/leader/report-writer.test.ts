import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Acknowledgements, type OwnClientState, type StreamRecord } from '../xds/acknowledgements.ts'
import { type ClientState, clientId } from '../xds/client-state.ts'
import { createResource, createSnapshot } from '../xds/snapshot.ts'
import { PeerTable } from './peer-table.ts'
import { type AgedReport, decodeReport, reporterCodec } from './report-codec.ts'
import { ReportWriter } from './report-writer.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)
const typeUrl = 'test'
const names = Array.from({ length: 12 }, (_, index) => `shop/r${index}`)

/** A snapshot of the first `count` names, with this content. */
function snapshot(count: number, content: string) {
  return createSnapshot(
    typeUrl,
    names.slice(0, count).map(name => createResource(name, Buffer.from(`${name} ${content}`))),
  )
}

function start(limits: ConstructorParameters<typeof ReportWriter>[1] = {}) {
  let nowMs = 5
  const own = new Acknowledgements({ nowMs: () => nowMs, monotonicMs: () => nowMs })
  const known = () => new Map([[typeUrl, own.clientStates()]])
  const table = new PeerTable()
  let streams = 0
  let writer = new ReportWriter('me', limits)
  const begin = () => {
    table.ended(`${streams}`, nowMs)
    streams += 1
    writer = new ReportWriter('me', limits)
  }
  begin()
  /** Sends one report over the wire, and returns it; undefined when there is none. */
  function send(): AgedReport | undefined {
    const report = writer.next(known(), nowMs)
    if (report === undefined) return undefined
    const received = decodeReport(reporterCodec.encode(report))
    const clientStates = received.clientStates.map(state => ({
      ...state,
      openedMs: nowMs - state.openedMsAgo,
    }))
    table.receive(`${streams}`, { ...received, clientStates }, nowMs)
    return received
  }
  function sendAll(): number {
    for (let count = 0; ; count++) {
      assert.ok(count < 1000, 'reports never end')
      if (send() === undefined) return count
    }
  }
  const tick = () => {
    nowMs += 1
  }
  return { own, table, known, begin, send, sendAll, tick }
}

const uids = ['x', 'y', 'z'] as const
const client = (uid: string) => ({
  uid,
  pod: `pod-${uid}`,
  nodeId: 'n',
  namespace: 's',
  features: [],
  peer: '10.0.0.1:1',
})

function plain({ client, connected, openedMs, carriesOver, inForce, rejections }: ClientState) {
  const hashes = inForce && [...inForce.resources].map(([name, { hash }]) => [name, hash])
  return {
    client,
    connected,
    openedMs,
    carriesOver,
    version: inForce?.version,
    hashes,
    rejections: [...rejections],
  }
}

function assertSame({ table, known }: ReturnType<typeof start>): void {
  const clientStates: readonly OwnClientState[] = known().get(typeUrl) ?? []
  const there = clientStates.flatMap(state => table.clientStates(typeUrl, clientId(state.client)))
  assert.deepEqual(there.map(plain), clientStates.map(plain))
}

test('after any changes between reports the receiver has the same state', () => {
  const uid = fc.constantFrom(...uids)
  /** The index of an open stream of the client. */
  const at = fc.nat({ max: 2 })
  const content = fc.tuple(fc.nat({ max: names.length }), fc.constantFrom('1', '2'))
  const action = fc.oneof(
    fc.record({ do: fc.constant('open' as const), uid, claim: fc.constantFrom('', 'v') }),
    fc.record({ do: fc.constant('close' as const), uid, at }),
    fc.record({ do: fc.constant('acknowledge' as const), uid, at, content }),
    fc.record({ do: fc.constant('reject' as const), uid, at, content }),
    fc.record({ do: fc.constant('retain' as const), content }),
    fc.record({ do: fc.constant('send' as const) }),
    fc.record({ do: fc.constant('begin anew' as const) }),
  )
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), fc.integer({ min: 1, max: 2000 }), (all, bytes) => {
      const link = start({ maxReportBytes: bytes })
      const { own } = link
      const open: StreamRecord[] = []
      for (const step of all) {
        link.tick()
        const ofClient = open.filter(({ client: { uid } }) => 'uid' in step && uid === step.uid)
        const stream = 'at' in step ? ofClient.at(step.at) : undefined
        if (step.do === 'open') open.push(own.opened(client(step.uid), step.claim))
        else if (step.do === 'close' && stream) {
          own.closed(stream)
          open.splice(open.indexOf(stream), 1)
        } else if (step.do === 'acknowledge' && stream) {
          own.acknowledged(stream, snapshot(...step.content))
        } else if (step.do === 'reject' && stream) {
          own.rejected(stream, { snapshot: snapshot(...step.content), named: [], text: 'bäd' })
        } else if (step.do === 'retain') own.retain(snapshot(...step.content))
        else if (step.do === 'send') link.send()
        else if (step.do === 'begin anew') link.begin()
      }
      link.sendAll()
      assertSame(link)
      assert.equal(link.send(), undefined)
    }),
    { numRuns },
  )
})

test('the resources of a version are reported once for a thousand clients, in bounded reports', () => {
  const link = start({ maxReportBytes: 4096 })
  const large = createSnapshot(
    typeUrl,
    Array.from({ length: 1000 }, (_, index) => createResource(`shop/${index}`, Buffer.from(`${index}`))),
  )
  const streams = Array.from({ length: 1000 }, (_, index) => link.own.opened(client(`u${index}`), ''))
  for (const stream of streams) link.own.acknowledged(stream, large)
  const reports: AgedReport[] = []
  for (let report = link.send(); report; report = link.send()) reports.push(report)
  const last = link.table.clientStates(typeUrl, 'u999')[0]
  assert.deepEqual([last?.inForce?.version, last?.inForce?.resources.size], [large.version, 1000])
  const resources = reports.flatMap(({ contents }) => contents.flatMap(part => [...part.resources]))
  assert.equal(resources.length, 1000)
  assert.ok(reports.every(report => reporterCodec.encode(report).length < 3 * 4096))
  assert.deepEqual(
    reports.map(({ isTableComplete }) => isTableComplete).indexOf(true),
    reports.length - 1,
    'the table is complete with the last report',
  )
  const [first] = streams
  assert.ok(first)
  link.own.closed(first)
  assert.equal(link.send()?.clientStates.length, 1)
})

test('rejections beyond the maximum are pending for the receiver', () => {
  const link = start({ maxRejections: 5 })
  link.own.rejected(link.own.opened(client('x'), ''), { snapshot: snapshot(12, '1'), named: [], text: 'bad' })
  link.sendAll()
  assert.equal(link.table.clientStates(typeUrl, 'x')[0]?.rejections.size, 5)
})

test('an operator without clients reports once that its table is complete', () => {
  const link = start()
  const first = link.send()
  assert.deepEqual([first?.reporter, first?.isTableComplete], ['me', true])
  assert.equal(link.send(), undefined)
})
