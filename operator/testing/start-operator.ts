import assert from 'node:assert/strict'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { AnyMethod } from '@tollway/grpc/server.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import type { Cleanup } from '../../test/support/tollway.ts'
import { openSessions } from '../app.ts'
import { LeaderConnection } from '../leader/leader-connection.ts'
import { maxMessageBytes } from '../leader/leader-service.ts'
import type { PeerTableLimits } from '../leader/peer-table.ts'
import { Peers } from '../leader/peers.ts'
import { reportAcknowledgements, reportLoads } from '../leader/report-to-leader.ts'
import { StreamLoads } from '../pods/stream-loads.ts'
import { Feed } from '../xds/feed.ts'

type StreamLoadsOptions = NonNullable<ConstructorParameters<typeof StreamLoads>[0]>

const operatorName = 'operator.system.svc'
const fleet = createAuthority('fleet')
const leaves = { operator: fleet.issue(operatorName), pod: fleet.issue('pods.system.svc') }

/** The certificate of an operator, or of a pod, to call operators of `startOperator`. */
export function tlsOf(who: keyof typeof leaves | { readonly cert: string; readonly key: string }): ClientTls {
  const { cert, key } = typeof who === 'string' ? leaves[who] : who
  return {
    serverName: operatorName,
    credentials: () => ({ ca: fleet.ca, identity: { cert, key } }),
    onChange: () => () => {},
  }
}

export interface StartedOptions {
  readonly infrastructure?: Parameters<typeof openSessions>[0]['infrastructure']
  readonly typeUrls?: readonly string[]
  readonly limits?: Partial<PeerTableLimits> & NonNullable<StreamLoadsOptions['limits']>
  /** The credentials for calls to the leader; those of an operator when left out. */
  readonly leaderTls?: ClientTls
  /** Returns the methods of the operator, given those of this version. */
  readonly methods?: (present: readonly AnyMethod[]) => readonly AnyMethod[]
}

let ids = 0
const nextId = () => `s${++ids}`

/**
 * An operator of a cluster: the feed and the sessions with their gRPC server, and what it passes on to its
 * leader. Only the Kubernetes parts are missing.
 */
export async function startOperator(t: Cleanup, options: StartedOptions = {}) {
  const { infrastructure = { observe: () => [] }, typeUrls = [rateLimitTypeUrl], limits = {} } = options
  const lines: string[] = []
  const note = (message: string, fields?: object) => void lines.push(`${message} ${JSON.stringify(fields)}`)
  const log: Log = { ...silentLog, warn: note, info: note }
  const shared = { ids: nextId, clock: systemClock, log }
  const peers = new Peers({ ...shared, limits })
  const feed = new Feed({ ...shared, typeUrls, remotePeers: peers })
  const loads = new StreamLoads({ operatorName, limits: { paceMs: 5, ...limits } })
  let unreachable = 0
  const leader = new LeaderConnection({
    tls: options.leaderTls ?? tlsOf('operator'),
    log,
    random: Math.random,
    backoff: { initialMs: 10, maxMs: 50 },
    onUnreachable() {
      unreachable += 1
    },
  })
  const opened = openSessions({ feed, loads, peers, leader, operatorName, infrastructure }, log)
  const present = [feed, loads, opened.sessions].flatMap(({ methods }) => methods)
  const server = createGrpcServer({
    methods: options.methods?.(present) ?? present,
    limits: { maxReceiveBytes: maxMessageBytes },
    onDefect: (_, error) => assert.fail(`${error}`),
  })
  const tls = { credentials: () => leaves.operator, requireClientCert: true, onChange: () => () => {} }
  const bound = await server.listen({ host: '127.0.0.1', port: 0, tls })
  assert.ok('port' in bound)
  const stopReports = [
    reportAcknowledgements(leader, { ...shared, feed, reporter: nextId(), paceMs: 5 }),
    reportLoads(leader, loads, 5),
  ]
  const stop = async () => {
    opened.closeSessions()
    opened.sessions.close()
    feed.close()
    peers.close()
    loads.stop()
    leader.stop()
    await Promise.all([...stopReports.map(stopReport => stopReport()), server.drain(0)])
  }
  t.after(stop)
  return {
    ...opened,
    address: `127.0.0.1:${bound.port}`,
    feed,
    peers,
    loads,
    leader,
    lines,
    unreachable: () => unreachable,
    stop,
  }
}
