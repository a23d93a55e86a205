/**
 * `node test/bench/shadow-proxy.ts` measures what `tollway compare --listen` adds to calls of the reference,
 * with a candidate that runs, takes only idle time (SCHED_IDLE) as if another machine ran it, is stopped
 * (SIGSTOP) and is killed. The yardstick is an Envoy that mirrors the calls to the candidate
 * (`request_mirror_policies`). Calls go to the reference directly, through the proxy and through Envoy in
 * turn, at 500 calls/s on 100 connections. It prints a row for each state.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { startReference } from '../differential/start-reference.ts'
import { runEnvoy } from '../support/envoy.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { rateLimitFiles } from '../support/rate-limit-files.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { root } from '../support/tollway.ts'
import { generous, userQuestions, userRule } from './configurations.ts'
import { shouldRateLimit } from './decision-load.ts'
import { mirrorConfig } from './envoy-config.ts'
import { driveAtRate } from './load/at-rate.ts'
import { grpcLoad } from './load/grpc-connection.ts'
import { grpcRequest } from './load/requests.ts'
import { latencyFigures, median } from './percentiles.ts'
import { rssMiB } from './process-usage.ts'

const callsPerSecond = 500
const connections = 100
const roundMs = 3_000
const rounds = 5

const ends: (() => Promise<unknown>)[] = []
const cleanup = { after: (end: () => Promise<unknown>) => void ends.push(end) }
const redis = await startRedis()
cleanup.after(() => redis.stop())
try {
  await measure()
} finally {
  for (const end of ends.reverse()) await end()
}

async function measure(): Promise<void> {
  const shared = { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}`, USE_STATSD: 'false' }
  const env = { ...rateLimitFiles(userRule(generous)).env, ...shared, EXPIRATION_JITTER_MAX_SECONDS: '0' }
  const reference = await startReference(cleanup, env)
  const candidate = await startRateLimit(cleanup, { ...env, CACHE_KEY_PREFIX: 'c:' })
  await candidate.serves()
  const [port = 0] = await freePorts(1)
  const command = join(root, 'operator/cli/tollway.ts')
  const peers = ['--reference', at(reference.grpcPort), '--candidate', at(candidate.grpcPort)]
  const proxy = startProgram(process.execPath, [command, 'compare', ...peers, '--listen', at(port)])
  cleanup.after(() => proxy.end('SIGINT').finally(() => console.log(proxy.output())))
  await proxy.said('listening on')
  const [mirror = 0, admin = 0] = await freePorts(2)
  const peerPorts = { reference: reference.grpcPort, candidate: candidate.grpcPort }
  const mirroring = JSON.stringify(mirrorConfig({ admin, listen: mirror, ...peerPorts }))
  await runEnvoy(cleanup, mirroring, { adminPort: admin, concurrency: 1 })
  for (const each of [reference.grpcPort, port, mirror]) await drive(each)
  const titles = ['candidate', 'direct', 'through the proxy', 'added', 'through Envoy', 'added']
  console.log(`${titles.join(' | ')} | RSS of the proxy (medians of p50 and p99 in ms; MiB)`)
  const { process: candidateProcess, pid: candidatePid } = candidate.program
  const states: readonly (readonly [string, () => unknown])[] = [
    ['runs', () => {}],
    ['idle', () => giveWay(candidatePid)],
    ['stopped', () => candidateProcess.kill('SIGSTOP')],
    ['killed', () => candidateProcess.kill('SIGKILL')],
  ]
  for (const [state, enter] of states) {
    enter()
    const taken: { readonly direct: Figures; readonly proxied: Figures; readonly mirrored: Figures }[] = []
    for (let round = 0; round < rounds; round++)
      taken.push({
        direct: await drive(reference.grpcPort),
        proxied: await drive(port),
        mirrored: await drive(mirror),
      })
    const both = (figure: (round: (typeof taken)[number], name: 'p50Ms' | 'p99Ms') => number) =>
      (['p50Ms', 'p99Ms'] as const)
        .map(name => median(taken.map(round => figure(round, name))).toFixed(2))
        .join(', ')
    const shown = (way: keyof (typeof taken)[number]) => both((round, name) => round[way][name])
    const added = (way: keyof (typeof taken)[number]) =>
      both((round, name) => round[way][name] - round.direct[name])
    const columns = [shown('proxied'), added('proxied'), shown('mirrored'), added('mirrored')]
    console.log([state, shown('direct'), ...columns, Math.round(rssMiB(proxy.pid))].join(' | '))
  }
}

/** All threads of the process run only while no other program wants the core. A program of util-linux. */
function giveWay(pid: number): void {
  execFileSync('chrt', ['--all-tasks', '--idle', '--pid', '0', `${pid}`])
}

type Figures = ReturnType<typeof latencyFigures>

function at(port: number): string {
  return `127.0.0.1:${port}`
}

/** @throws Error when a call has no answer, or another one than OK */
async function drive(port: number): Promise<Figures> {
  const bodies = userQuestions(1_000).map(grpcRequest)
  const bodyOf = (call: number) => bodies[call % bodies.length] ?? Buffer.alloc(0)
  const expects = (message: Buffer) => message[0] === 8 && message[1] === 1
  const load = { open: grpcLoad({ port, path: shouldRateLimit, expects }), connections, streams: 10, bodyOf }
  const { failed, latenciesMs } = await driveAtRate(load, callsPerSecond, roundMs)
  if (failed > 0) throw new Error(`${failed} calls failed`)
  return latencyFigures(latenciesMs)
}
