/**
 * `node test/bench/shadow-proxy.ts` measures what `tollway compare --listen` adds to calls of the reference,
 * with a candidate that runs, takes only idle time (SCHED_IDLE) as if another machine ran it, is stopped
 * (SIGSTOP) and is killed. Calls go to the reference directly and through the proxy in turn, at 500 calls/s
 * on 100 connections. It prints a row for each state.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { startReference } from '../differential/start-reference.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { rateLimitFiles } from '../support/rate-limit-files.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { root } from '../support/tollway.ts'
import { generous, userQuestions, userRule } from './configurations.ts'
import { shouldRateLimit } from './decision-load.ts'
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
  await drive(reference.grpcPort)
  await drive(port)
  console.log('candidate  direct p50, p99  through p50, p99  added p50, p99 (medians, ms)  RSS MiB')
  const { process: candidateProcess, pid: candidatePid } = candidate.program
  const states: readonly (readonly [string, () => unknown])[] = [
    ['runs', () => {}],
    ['idle', () => giveWay(candidatePid)],
    ['stopped', () => candidateProcess.kill('SIGSTOP')],
    ['killed', () => candidateProcess.kill('SIGKILL')],
  ]
  for (const [state, enter] of states) {
    enter()
    const pairs: { readonly direct: Figures; readonly through: Figures }[] = []
    for (let round = 0; round < rounds; round++)
      pairs.push({ direct: await drive(reference.grpcPort), through: await drive(port) })
    const mid = (figure: (pair: (typeof pairs)[number]) => number) => median(pairs.map(figure)).toFixed(2)
    const columns = [
      ...[mid(({ direct }) => direct.p50Ms), mid(({ direct }) => direct.p99Ms)],
      ...[mid(({ through }) => through.p50Ms), mid(({ through }) => through.p99Ms)],
      mid(({ direct, through }) => through.p50Ms - direct.p50Ms),
      mid(({ direct, through }) => through.p99Ms - direct.p99Ms),
    ]
    console.log(state, ...columns, Math.round(rssMiB(proxy.pid)))
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
