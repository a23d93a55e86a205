import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ClientState } from '../xds/client-state.ts'
import { defaultPeerTableLimits, type PeerReport, PeerReportError, PeerTable } from './peer-table.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 1000)
const graceMs = 100
const typeUrl = 'test'

const nothing: PeerReport = {
  ...{ reporter: '', contents: [], clientStates: [], forgottenClients: [], forgottenVersions: [] },
  isTableComplete: false,
}

function state(uid: string, version: string) {
  const client = { uid, pod: uid, nodeId: '', namespace: '', features: [], peer: '' }
  return { typeUrl, client, connected: true, openedMs: 0, carriesOver: false, version, rejections: new Map() }
}

const contents = (version: string) => ({ version, resources: new Map([['a', `hash of ${version}`]]) })
const shown = ({ inForce }: ClientState) => inForce?.resources.get('a')?.hash ?? 'nothing'

type Action =
  | {
      readonly do: 'report'
      readonly stream: number
      readonly uid: string
      readonly version: string
      readonly completes: boolean
    }
  | { readonly do: 'forget client'; readonly stream: number; readonly uid: string }
  | { readonly do: 'end'; readonly stream: number }
  | { readonly do: 'pass'; readonly ms: number }

const reporters = ['one', 'two'] as const
const uids = ['x', 'y'] as const
/** Streams with an even number are of the operator `one`, the others of `two`. */
const reporterOf = (stream: number) => reporters[stream % 2] ?? ''
const stream = fc.nat({ max: 7 })
const actions: fc.Arbitrary<readonly Action[]> = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        ...{ do: fc.constant('report' as const), stream, uid: fc.constantFrom(...uids) },
        version: fc.constantFrom('', 'v1', 'v2'),
        completes: fc.boolean(),
      }),
    },
    fc.record({ do: fc.constant('forget client' as const), stream, uid: fc.constantFrom(...uids) }),
    { weight: 2, arbitrary: fc.record({ do: fc.constant('end' as const), stream }) },
    fc.record({ do: fc.constant('pass' as const), ms: fc.nat({ max: graceMs }) }),
  ),
  { maxLength: 40 },
)

/** One stream, with all its reports and their times. */
interface ModelStream {
  readonly stream: number
  readonly beganAt: number
  readonly reports: { readonly at: number; readonly uid: string; readonly version: string | undefined }[]
  completeAt: number | undefined
  endedAt: number | undefined
}

/** A model that keeps all reports, and derives the table from them. */
function createModel() {
  const streams: ModelStream[] = []
  let at = 0
  let nowMs = 0
  const timeOf = new Map<number, number>()
  const tick = () => {
    at += 1
    timeOf.set(at, nowMs)
    return at
  }
  const last = (stream: number) => streams.findLast(one => one.stream === stream && one.endedAt === undefined)
  const isNewest = (one: ModelStream) =>
    one === streams.findLast(other => reporterOf(other.stream) === reporterOf(one.stream))
  return {
    nowMs: () => nowMs,
    pass(ms: number): void {
      nowMs += ms
    },
    /** Applies a report; returns whether the table must accept it. */
    report(stream: number, uid: string, version: string | undefined, completes: boolean): boolean {
      let one = last(stream)
      if (one === undefined) {
        one = { stream, beganAt: tick(), reports: [], completeAt: undefined, endedAt: undefined }
        streams.push(one)
      }
      if (!isNewest(one)) return false
      one.reports.push({ at: tick(), uid, version })
      if (completes) one.completeAt ??= tick()
      return true
    },
    end(stream: number): void {
      const one = last(stream)
      if (one) one.endedAt = tick()
    },
    /**
     * Returns the states of a client that count: those in the last complete table of each operator whose
     * stream is open or ended less than the grace ago.
     */
    states(uid: string): readonly string[] {
      return reporters.flatMap(reporter => {
        const own = streams.filter(one => reporterOf(one.stream) === reporter)
        const whole = own.findLast(({ completeAt }) => completeAt !== undefined)
        if (whole === undefined) return []
        const successor = own.find(({ beganAt }) => beganAt > whole.beganAt)
        const endings = [whole.endedAt, successor?.beganAt].flatMap(ending => ending ?? [])
        const endedMs = endings.length === 0 ? undefined : timeOf.get(Math.min(...endings))
        if (endedMs !== undefined && endedMs + graceMs <= nowMs) return []
        const version = whole.reports.findLast(report => report.uid === uid)?.version
        if (version === undefined) return []
        return [version === '' ? 'nothing' : `hash of ${version}`]
      })
    },
  }
}

test('the table equals the sum of all reports, whatever their order', () => {
  fc.assert(
    fc.property(actions, all => {
      const table = new PeerTable({ ...defaultPeerTableLimits, graceMs })
      const model = createModel()
      const receive = (stream: number, report: Partial<PeerReport>, isTaken: boolean) => {
        const whole = { ...nothing, reporter: reporterOf(stream), ...report }
        const act = () => table.receive(`${stream}`, whole, model.nowMs())
        if (isTaken) act()
        else assert.throws(act, PeerReportError)
      }
      for (const action of all) {
        if (action.do === 'report') {
          const { stream, uid, version, completes } = action
          const report = {
            contents: version === '' ? [] : [contents(version)],
            clientStates: [state(uid, version)],
            isTableComplete: completes,
          }
          receive(stream, report, model.report(stream, uid, version, completes))
        } else if (action.do === 'forget client') {
          const { stream, uid } = action
          const report = { forgottenClients: [{ typeUrl, clientId: uid }] }
          receive(stream, report, model.report(stream, uid, undefined, false))
        } else if (action.do === 'end') {
          model.end(action.stream)
          table.ended(`${action.stream}`, model.nowMs())
        } else model.pass(action.ms)
        table.expire(model.nowMs())
        for (const uid of uids) {
          const one = table.clientStates(typeUrl, uid).map(shown)
          assert.deepEqual(one.toSorted(), model.states(uid).toSorted())
        }
      }
    }),
    { numRuns },
  )
})

test('a report that no operator may send is rejected', () => {
  const limits = { graceMs, maxReporters: 2, maxClients: 2, maxResources: 2 }
  const table = new PeerTable(limits)
  const receive = (stream: string, report: Partial<PeerReport>) => () =>
    table.receive(stream, { ...nothing, ...report }, 0)
  assert.throws(receive('1', {}), /does not say who reports/)
  receive('1', { reporter: 'one' })()
  receive('2', { reporter: 'two', isTableComplete: true })()
  assert.throws(receive('3', { reporter: 'three' }), /there are 2 operators already/)
  table.ended('2', 0)
  receive('3', { reporter: 'three' })()
  assert.throws(receive('1', { clientStates: [state('x', 'v1')] }), /of the version v1 were not reported/)
  const tooMany = ['x', 'y', 'z'].map(uid => state(uid, ''))
  assert.throws(receive('1', { clientStates: tooMany }), /more than 2 clients/)
  const versions = ['v1', 'v2', 'v3'].map(contents)
  assert.throws(receive('3', { contents: versions }), /more than 2 resources/)
  receive('3', { forgottenVersions: ['v1', 'v2'] })()
  receive('3', { contents: [contents('v1')] })()
})

test('the clients of an operator without a stream are forgotten after the grace period', () => {
  const table = new PeerTable({ ...defaultPeerTableLimits, graceMs })
  const report = { ...nothing, reporter: 'one', clientStates: [state('x', '')], isTableComplete: true }
  table.receive('1', report, 0)
  assert.equal(table.expire(0), Number.POSITIVE_INFINITY)
  table.ended('1', 10)
  assert.equal(table.expire(50), 10 + graceMs)
  assert.equal(table.clients().length, 1)
  assert.equal(table.expire(10 + graceMs), Number.POSITIVE_INFINITY)
  assert.deepEqual(table.clients(), [])
})
