import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { driveAtRate } from '../bench/load/at-rate.ts'
import { grpcLoad } from '../bench/load/grpc-connection.ts'
import { grpcRequest } from '../bench/load/requests.ts'
import { percentile } from '../bench/percentiles.ts'
import { cpuMicros, rssMiB } from '../bench/process-usage.ts'
import { moveToOtherCore, otherCore, startOurs } from '../bench/servers.ts'
import { startProgram } from '../support/program.ts'
import { root } from '../support/tollway.ts'
import { attackerQuietMs, type FloodName, floods } from './floods.ts'

/**
 * Measures the latencies of other callers during a flood:
 *
 *     measure-floods.ts [--seconds N] [--reconnect MS] [FLOOD ...]
 *
 * The service has core 0; the load of 1,000 calls a second and the attacker share core 1. With `--reconnect`
 * the attacker reopens connections that the service has closed.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string', default: '6' }, reconnect: { type: 'string' } },
})
const seconds = Number(values.seconds)
const names = (Object.keys(floods) as FloodName[]).filter(
  name => positionals.length === 0 || positionals.includes(name),
)
const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const rules =
  'domain: d\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000000000}}]\n'

moveToOtherCore()
process.stdout.write(
  '| Flood | p99 before ms | p99 ms | p99.9 ms | RSS MiB more | CPU of the service | frames | GOAWAY |\n',
)
process.stdout.write('| --- | --- | --- | --- | --- | --- | --- | --- |\n')
for (const name of names) {
  const server = await startOurs({ rules, redisPort: 1, settings: { BACKEND_TYPE: 'memory' } })
  try {
    await load(server.port, 2)
    const calm = await load(server.port, seconds)
    const before = rssMiB(server.pid)
    const script = join(root, 'test/hostile/attacker-process.ts')
    const args = [script, name, `${server.port}`, ...(values.reconnect ? [values.reconnect] : [])]
    // The attacker runs without the priority that this process may have: its own cost is not measured.
    const ordinary = ['-o', '0', 'taskset', '-c', otherCore]
    const attacker = startProgram('chrt', [...ordinary, process.execPath, ...args])
    await new Promise(resolve => setTimeout(resolve, attackerQuietMs - 500))
    const cpuBefore = cpuMicros(server.pid)
    const flooded = await load(server.port, seconds)
    const busy = (cpuMicros(server.pid) - cpuBefore) / 1e6 / flooded.seconds
    const more = rssMiB(server.pid) - before
    await attacker.end('SIGTERM')
    const found = /attack (.*)/.exec(attacker.output())?.[1] ?? '{}'
    const { frames, goAways } = JSON.parse(found)
    const ms = (result: typeof calm, share: number) => percentile(result.latenciesMs, share).toFixed(2)
    const cells = [name, ms(calm, 0.99), ms(flooded, 0.99), ms(flooded, 0.999), more.toFixed(0)]
    cells.push(`${(100 * busy).toFixed(0)} %`, frames, goAways?.length)
    process.stdout.write(`| ${cells.join(' | ')} |\n`)
  } finally {
    await server.end()
  }
}

function load(port: number, forSeconds: number) {
  const open = grpcLoad({ port, path, expects: message => message.length > 0 })
  const body = grpcRequest({ domain: 'd', descriptors: [{ entries: [{ key: 'user', value: 'x' }] }] })
  return driveAtRate({ open, connections: 10, streams: 100, bodyOf: () => body }, 1000, forSeconds * 1000)
}
