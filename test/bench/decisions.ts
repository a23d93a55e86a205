import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePorts } from '../support/free-ports.ts'
import { type Program, startProgram } from '../support/program.ts'
import { startRedis } from '../support/redis-server.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { drive } from './load/drive.ts'
import { rateLimitRequests } from './load/requests.ts'
import { percentile } from './percentiles.ts'

const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const roundMs = 3_000
const warmUpMs = 1_000

export interface DecisionCase {
  readonly name: string
  readonly backend: 'redis' | 'memory'
  readonly keys: number
  readonly connections: number
  readonly streams: number
}

export interface DecisionResult {
  readonly cpuMicros: number
  readonly decisionsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly rssMiB: number
}

export const decisionCases: readonly DecisionCase[] = [
  { name: '10,000 keys, Redis', backend: 'redis', keys: 10_000, connections: 1, streams: 100 },
  { name: 'one hot key, Redis', backend: 'redis', keys: 1, connections: 1, streams: 100 },
  { name: '10,000 keys, memory', backend: 'memory', keys: 10_000, connections: 1, streams: 100 },
  { name: 'one call at a time, Redis', backend: 'redis', keys: 10_000, connections: 1, streams: 1 },
]

/** Our service and the yardstick in turn, so that a change of the machine's speed meets both. */
export async function measureDecisions(
  { backend, keys, connections, streams }: DecisionCase,
  rounds: number,
): Promise<{ readonly ours: readonly DecisionResult[]; readonly yardstick: readonly DecisionResult[] }> {
  const redis = await startRedis()
  const [oursPort = 0, yardstickPort = 0] = await freePorts(2)
  const ours = await startOurs(oursPort, backend, redis.port)
  const yardstick = startPinned([join(root, 'test/bench/yardstick.ts'), `${yardstickPort}`, `${redis.port}`])
  await yardstick.said('serving')
  const bodies = rateLimitRequests('bench', keys)
  const bodyOf = (call: number) => bodies[call % keys] ?? Buffer.alloc(0)
  const results = { ours: [] as DecisionResult[], yardstick: [] as DecisionResult[] }
  try {
    for (let round = 0; round < rounds; round++) {
      for (const [name, { pid }, port] of [
        ['yardstick', yardstick, yardstickPort],
        ['ours', ours.program, oursPort],
      ] as const) {
        const load = { port, path, connections, streams, bodyOf }
        await drive({ ...load, durationMs: warmUpMs })
        const cpuBefore = cpuSeconds(pid)
        const { calls, failed, seconds, latenciesMs } = await drive({ ...load, durationMs: roundMs })
        if (failed > 0) throw new Error(`${failed} of ${calls} calls to ${name} failed`)
        results[name].push({
          cpuMicros: ((cpuSeconds(pid) - cpuBefore) * 1e6) / calls,
          decisionsPerSecond: calls / seconds,
          p50Ms: percentile(latenciesMs, 0.5),
          p99Ms: percentile(latenciesMs, 0.99),
          rssMiB: rssMiB(pid),
        })
      }
    }
    return results
  } finally {
    await Promise.all([ours.end(), yardstick.end('SIGKILL'), redis.stop()])
  }
}

/** The server has a core of its own; the load and Redis have the other. */
function startPinned(args: readonly string[], env: NodeJS.ProcessEnv = process.env): Program {
  return startProgram('taskset', ['-c', '0', process.execPath, ...args], { env })
}

async function startOurs(port: number, backend: DecisionCase['backend'], redisPort: number) {
  const place = mkdtempSync(join(tmpdir(), 'bench-'))
  mkdirSync(join(place, 'config'))
  writeFileSync(
    join(place, 'config/bench.yaml'),
    'domain: bench\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}]\n',
  )
  const [httpPort = 0, debugPort = 0] = await freePorts(2)
  const program = startPinned([join(root, 'services/ratelimit/main.ts')], {
    PATH: process.env['PATH'],
    RUNTIME_ROOT: place,
    GRPC_HOST: '127.0.0.1',
    GRPC_PORT: `${port}`,
    HOST: '127.0.0.1',
    PORT: `${httpPort}`,
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: `${debugPort}`,
    DRAIN_DELAY: '0s',
    BACKEND_TYPE: backend,
    BACKEND_DEADLINE: '5s',
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL: `127.0.0.1:${redisPort}`,
  })
  await waitFor('the service to be healthy', async () => {
    if (program.process.exitCode !== null) throw new Error(program.output())
    return (await fetch(`http://127.0.0.1:${httpPort}/healthcheck`)).ok
  })
  const end = async () => {
    await program.end('SIGTERM')
    rmSync(place, { recursive: true, force: true })
  }
  return { program, end }
}

const ticksPerSecond = 100

/** User and system time of the process and all its threads, as the kernel counts it. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

function rssMiB(pid: number): number {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kib) / 1024
}
